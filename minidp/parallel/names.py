"""What collectives and parameters are called in messages: after the modules whose forward runs."""

from __future__ import annotations

from typing import Any

from minidp.anomaly import whereabouts
from minidp.errors import ReplicaError
from minidp.mode import mode
from minidp.parameter import Shared
from minidp.tensor import Tensor


class Names:
    """Remembers the paths of modules, which are found once."""

    def __init__(self) -> None:
        self._paths: dict[Any, str] = {}

    def of_collective(self, name: str) -> str:
        """The name of a collective, after the module that calls it."""
        if not mode.modules:
            return name
        outer, inner = mode.modules[0], mode.modules[-1]
        if inner not in self._paths:
            self._paths |= {module: path for path, module in outer.named_modules()}
        return f"{self._paths.get(inner) or type(inner).__name__}: {name}"

    def check_change(self, tensor: Any) -> None:
        """A ReplicaError for a tensor of a module, which forward is about to change."""
        if not isinstance(tensor, Shared):
            return
        own = mode.modules[-1].named_buffers(recurse=False)
        name = next((n for n, each in own if each is tensor), f"of shape {tensor.shape}")
        raise ReplicaError(
            f"{whereabouts()}: forward changes the buffer {name}, which all replicas share: each "
            "of them would change it, in no order. Change it between steps (on_step=), or keep "
            "what is of one forward alone in a tensor that is no buffer"
        )


def name_of(parameter: Tensor) -> str:
    """The name of a parameter in the model whose forward runs; else its shape."""
    for model in mode.modules[:1]:
        for name, each in model.named_parameters():
            if each is parameter:
                return repr(name)
    return f"of shape {parameter.shape}"
