"""Examples, each run as ``python -m minidp.examples.NAME``."""
