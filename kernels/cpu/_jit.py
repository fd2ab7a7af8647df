"""The one way CPU kernels are compiled: serial, without the GIL, cached on disk if possible."""

import numba


def compiled(function):
    """Compile `function` with Numba when it is first called with new argument types.

    Machine code is kept in `__pycache__` beside the source, else in the user's cache folder; where
    neither can be written, each process compiles anew. `function` must be a plain module-level
    function: Numba never finds closures again in its cache. Functions that call each other belong
    in one file, because a cached caller is not renewed when a callee in another file changes.
    """
    try:
        return numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder for the cache
        return numba.njit(nogil=True, error_model="numpy")(function)
