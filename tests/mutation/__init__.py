"""Mutants of the CUDA kernels: do the tests notice? `python -m mutation` in tests/ says so."""
