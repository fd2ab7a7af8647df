"""What collectives and parameters are called in messages: after the modules whose forward runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minidp.anomaly import whereabouts
from minidp.backend import backend_of
from minidp.errors import ReplicaError
from minidp.mode import mode
from minidp.parameter import Parameter, Shared
from minidp.tensor import Tensor
from minidp.types import Array


class Names:
    """Remembers the paths of modules, which are found once."""

    def __init__(self) -> None:
        self._paths: dict[Any, str] = {}
        self._shared: dict[Any, list[Tensor]] = {}

    def of_collective(self, name: str) -> str:
        """The name of a collective, after the module that calls it."""
        if not mode.modules:
            return name
        outer, inner = mode.modules[0], mode.modules[-1]
        if inner not in self._paths:
            self._paths |= {module: path for path, module in outer.named_modules()}
        return f"{self._paths.get(inner) or type(inner).__name__}: {name}"

    def check_change(self, tensor: Any, copies: Mapping[Tensor, Tensor]) -> None:
        """A ReplicaError for a tensor of a module, or one in its memory or in that of this
        replica's copy, which forward is about to change."""
        shared = tensor if isinstance(tensor, Shared) else self._owner_of(tensor.array, copies)
        if shared is None:
            return
        kind = "parameter" if isinstance(shared, Parameter) else "buffer"
        raise ReplicaError(
            f"{whereabouts()}: forward changes the {kind} {_path_of(shared)}, which all replicas "
            "share: each of them would change it, in no order. Change it between steps (on_step=), "
            f"or keep what is of one forward alone in a tensor that is no {kind}"
        )

    def _owner_of(self, array: Array, copies: Mapping[Tensor, Tensor]) -> Tensor | None:
        """The model's parameter or buffer in whose memory an array lies."""
        model = mode.modules[0]
        if model not in self._shared:
            self._shared = {model: [*model.parameters(), *model.buffers()]}
        memory, backend = _memory(array), backend_of(array)
        for shared in self._shared[model]:
            for held in (shared.array, copies.get(shared, shared).array):
                if _memory(held) is memory and backend.xp.may_share_memory(held, array):
                    return shared
        return None

    def forget(self) -> None:
        """A step begins: a commit may have put others in the places of some buffers."""
        self._shared = {}


def _memory(array: Any) -> Any:
    """What holds the memory of an array."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def _path_of(shared: Tensor) -> str:
    """The name of a parameter or buffer in the module whose forward runs, or in the model."""
    for module in (mode.modules[-1], mode.modules[0]):
        for name, each in (*module.named_buffers(), *module.named_parameters()):
            if each is shared:
                return str(name)
    return f"of shape {shared.shape}"


def name_of(parameter: Tensor) -> str:
    """The name of a parameter in the model whose forward runs; else its shape."""
    for model in mode.modules[:1]:
        for name, each in model.named_parameters():
            if each is parameter:
                return repr(name)
    return f"of shape {parameter.shape}"
