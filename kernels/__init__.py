"""Faster ways to say ops: a table per backend, found by name.

Kernels import NumPy, Numba and CuPy and nothing of the engine, which is whole without them.
"""
