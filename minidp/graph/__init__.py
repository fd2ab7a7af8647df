"""A step as a graph: recorded line by line, printed and measured, simplified, fused, bound to
memory, and run again without what an eager step does around its ops."""
