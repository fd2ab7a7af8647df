"""Every error the engine raises on purpose, so that user code can tell them apart.

Each is also the built-in error that a NumPy user would have caught, and the one that a PyTorch user
would have.
"""

from __future__ import annotations


class MinidpError(Exception):
    """The base of all errors raised by minidp itself."""


class ShapeError(MinidpError, ValueError, RuntimeError):
    """Shapes that do not fit each other, or that an operation is not defined for."""


class AxisError(ShapeError, IndexError):
    """A dimension that does not exist."""


class DTypeError(MinidpError, TypeError, RuntimeError):
    """A dtype that an operation is not defined for."""


class ArgumentError(MinidpError, ValueError, RuntimeError):
    """A value that an operation is not defined for."""


class PlaceError(ArgumentError, IndexError):
    """An index, or the number of a class, beyond what it counts."""


class DivisionError(MinidpError, ZeroDivisionError, RuntimeError):
    """An integer divided by 0."""


class DeviceError(MinidpError, RuntimeError):
    """An unknown or absent device, or arrays of two devices in one operation."""


class LinAlgError(MinidpError, RuntimeError):
    """A matrix that is singular, or not what a factorisation needs."""


class GraphError(MinidpError, RuntimeError):
    """A graph that cannot be differentiated: freed, changed in place, or not recorded."""


class DataError(MinidpError, ValueError, RuntimeError):
    """A data file that is damaged or missing."""


class KernelError(MinidpError, RuntimeError):
    """A kernel that could not be built or launched."""


class CheckpointError(MinidpError, ValueError):
    """A checkpoint that is missing, damaged, or of another model."""


class MissingError(CheckpointError, FileNotFoundError):
    """A checkpoint that is not there."""


class ReplicaError(MinidpError, RuntimeError):
    """A replica that failed, is missing, or called something other than its peers did."""
