"""minidp against the ONNX project's own node tests.

Each operator of ONNX is one small function of minidp's public names, in a table per kind. Its
arguments are the node's inputs, in order, None where one is left out; its keywords the node's
attributes with ONNX's defaults. ``outputs``, where a function takes it, is how many the node has.
What is not run stands in ``listed.py``, with the reason.
"""
