"""All parameters at once: limits on their gradients, in place; as one vector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minidp.autograd import no_grad
from minidp.create import tensor
from minidp.errors import GraphError, ReplicaError, ShapeError
from minidp.functions import cat, stack
from minidp.mode import mode
from minidp.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm",
           "parameters_to_vector", "vector_to_parameters"]  # fmt: skip

Tensors = Tensor | Iterable[Tensor]


def _gradients(name: str, parameters: Tensors) -> list[Tensor]:
    if mode.replica is not None:
        raise ReplicaError(f"{name} inside a replica: gradients are whole only when those "
                           "of all replicas are there; clip_grad_norm_ waits for them")  # fmt: skip
    return [p.grad for p in listed(name, parameters) if p.grad is not None]


def listed(name: str, parameters: Any) -> list[Tensor]:
    """One parameter or many as a list."""
    if hasattr(parameters, "parameters"):
        raise TypeError(f"{name}({type(parameters).__name__}): give it model.parameters()")
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The norm of all tensors as one vector; a GraphError for one that is not finite, if asked."""
    each, norm_type = listed("get_total_norm", tensors), float(norm_type)
    if not each:
        return tensor(0.0)
    with no_grad():
        norms = [x.norm(norm_type) for x in each]
        total = stack([norm.to(norms[0].device) for norm in norms]).norm(norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise GraphError(f"The total norm of order {norm_type} of the gradients is {total.item()}, "
                         "not to be clipped; error_if_nonfinite=False scales anyway")  # fmt: skip
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients by min(1, max_norm / (total_norm + 1e-6))."""
    with no_grad():
        factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        for gradient in _gradients("clip_grads_with_norm_", parameters):
            gradient.copy_(gradient * factor.to(gradient.device))


def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale all gradients by min(1, max_norm / (norm + 1e-6)); returns the norm before.

    The norm is that of all gradients as one vector. A GraphError, before any change, when it is
    not finite and ``error_if_nonfinite``. In a replica this waits for the gradients of all
    replicas, and ``parameters`` must be all that are trained.
    """
    each = listed("clip_grad_norm_", parameters)
    if mode.replica is not None:
        return tensor(mode.replica.clip_norm(max_norm, norm_type, each, error_if_nonfinite))
    gradients = _gradients("clip_grad_norm_", each)
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(each, max_norm, total)
    return total


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Keep every element of the gradients within +-clip_value."""
    with no_grad():
        for gradient in _gradients("clip_grad_value_", parameters):
            gradient.copy_(gradient.clamp(-clip_value, clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The parameters end to end; the gradient passes."""
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the pieces of a vector into the parameters."""
    each = list(parameters)
    sizes = [parameter.numel() for parameter in each]
    if vec.shape != (sum(sizes),):
        raise ShapeError(f"vector_to_parameters: {vec.shape} for {sum(sizes)} parameters")
    with no_grad():
        for parameter, piece in zip(each, vec.split(sizes), strict=True):
            parameter.copy_(piece.reshape(parameter.shape))
