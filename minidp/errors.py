"""Every error the engine raises on purpose, so that user code can tell them apart.

Each is also the built-in error that a NumPy or PyTorch user would have caught.
"""

from __future__ import annotations


class MinidpError(Exception):
    """The base of all errors raised by minidp itself."""


class ShapeError(MinidpError, ValueError):
    """Shapes that do not fit each other, or a dimension that does not exist."""


class DTypeError(MinidpError, TypeError):
    """A dtype that an operation is not defined for."""


class DeviceError(MinidpError, RuntimeError):
    """An unknown or absent device, or arrays of two devices in one operation."""


class LinAlgError(MinidpError, RuntimeError):
    """A matrix that is singular, or not what a factorisation needs."""


class GraphError(MinidpError, RuntimeError):
    """A graph that cannot be differentiated: freed, changed in place, or not recorded."""


class DataError(MinidpError, ValueError):
    """A data file that is damaged or missing."""


class KernelError(MinidpError, RuntimeError):
    """A kernel that could not be built or launched."""


class CheckpointError(MinidpError, ValueError):
    """A checkpoint that is missing, damaged, or of another model."""


class ReplicaError(MinidpError, RuntimeError):
    """A replica that failed, is missing, or called something other than its peers did."""
