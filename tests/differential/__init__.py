"""minidp beside PyTorch 2.13.0: the same random calls in both, and every difference is a failure.

    python -m pytest -m slow tests/differential         # where torch 2.13.0 is installed
    cd tests; python -m differential 0 200 [NAME ...]     # more seeds, of some functions only

What differs on purpose is listed in ``deviations.py`` and nowhere else.
"""
