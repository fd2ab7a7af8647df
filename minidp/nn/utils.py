"""Limits on gradients, in place."""

from __future__ import annotations

from collections.abc import Iterable

from minidp.autograd import no_grad
from minidp.create import tensor
from minidp.errors import GraphError, ReplicaError
from minidp.functions.layout import stack
from minidp.mode import mode
from minidp.tensor import Tensor

Tensors = Tensor | Iterable[Tensor]


def _gradients(name: str, parameters: Tensors) -> list[Tensor]:
    if mode.replica is not None:
        raise ReplicaError(
            f"{name} inside a replica: gradients are whole only when every replica's have arrived"
        )
    each = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in each if p.grad is not None]


def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale all gradients by min(1, max_norm / (norm + 1e-6)); returns the norm before.

    The norm is that of all gradients as one vector. A GraphError, before any change, when it is
    not finite and ``error_if_nonfinite``.
    """
    gradients = _gradients("clip_grad_norm_", parameters)
    if not gradients:
        return tensor(0.0)
    with no_grad():
        norms = [gradient.norm(norm_type) for gradient in gradients]
        total: Tensor = stack(norms).norm(norm_type)
        if error_if_nonfinite and not bool(total.isfinite()):
            raise GraphError(
                f"The total norm of order {norm_type} of the gradients is {total.item()}, so it "
                "cannot be clipped; error_if_nonfinite=False scales by it anyway"
            )
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.copy_(gradient * factor)
    return total


def clip_grad_value_(parameters: Tensors, clip_value: float) -> None:
    """Keep every element of the gradients within +-clip_value."""
    with no_grad():
        for gradient in _gradients("clip_grad_value_", parameters):
            gradient.copy_(gradient.clamp(-clip_value, clip_value))
