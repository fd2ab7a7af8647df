"""Recurrent layers over sequences, and the cells that are one step of them."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from minidp.arguments import expect_counts
from minidp.errors import ArgumentError, ShapeError
from minidp.functional.dropout import check_probability
from minidp.functional.recurrent import GATES, direction, initial, recurrent
from minidp.nn import init
from minidp.nn.layer import Layer
from minidp.parameter import Parameter
from minidp.tensor import Tensor

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

KINDS = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]


class RNNBase(Layer):
    """What RNN, LSTM and GRU share: layers of cells over a sequence, each fed by the one below.

    Input (steps, batch, input_size), or (batch, steps, input_size) with ``batch_first``, or
    (steps, input_size), or a PackedSequence. With ``bidirectional`` every layer has a second half
    that reads backwards; both halves' states lie beside each other. ``dropout`` acts between
    layers. Weights of layer k: ``weight_ih_lk``, ``weight_hh_lk``, ``bias_ih_lk``, ``bias_hh_lk``,
    with a projection ``weight_hr_lk``; ``..._reverse`` those that read backwards.
    """

    shows = "{input_size}, {hidden_size}"
    hides: ClassVar = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False,
                       "dropout": 0.0, "bidirectional": False}  # fmt: skip

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        check_probability(dropout)
        super().__init__()
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        self._check_sizes()
        width, output = GATES[mode] * hidden_size, proj_size or hidden_size
        for layer, names in enumerate(self._names()):
            below = input_size if layer <= bidirectional else output * (1 + bidirectional)
            shapes: list[Any] = [(width, below), (width, output), *[(width,)] * (2 * bias)]
            shapes += [(proj_size, hidden_size)] * bool(proj_size)
            self._make(device, dtype, **dict(zip(names, shapes, strict=True)))
        self.reset_parameters()

    def _check_sizes(self) -> None:
        name, limit = type(self).__name__, self.hidden_size if self.mode == "LSTM" else 1
        expect_counts(name, 1, input_size=self.input_size, hidden_size=self.hidden_size,
                      num_layers=self.num_layers)  # fmt: skip
        expect_counts(name, proj_size=self.proj_size)
        if self.proj_size >= limit:
            raise ArgumentError(f"{name}: proj_size={self.proj_size}; only LSTM has projections, "
                                f"to fewer than hidden_size={self.hidden_size}")  # fmt: skip
        if self.dropout and self.num_layers == 1:
            warnings.warn("dropout acts between recurrent layers, so non-zero dropout expects "
                          f"num_layers greater than 1, but got dropout={self.dropout} and "
                          f"num_layers={self.num_layers}", stacklevel=4)  # fmt: skip

    def _names(self) -> list[list[str]]:
        """The names of the weights of each direction of each layer."""
        kinds = KINDS[: 2 + 2 * self.bias] + ["weight_hr"] * bool(self.proj_size)
        ends = ["", "_reverse"][: 1 + self.bidirectional]
        return [[f"{kind}_l{layer}{end}" for kind in kinds]
                for layer in range(self.num_layers) for end in ends]  # fmt: skip

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each direction of each layer."""
        return [[getattr(self, name) for name in names] for names in self._names()]

    def reset_parameters(self) -> None:
        """All weights uniform in +-1 / sqrt(hidden_size)."""
        for weight in self.parameters():
            init.uniform_(weight, -(self.hidden_size**-0.5), self.hidden_size**-0.5)

    def flatten_parameters(self) -> None:
        """For PyTorch's sake: there is nothing to do."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """(every state of the last layer, the last state of every layer); for LSTM the second is
        (h, c). ``hx``: the initial states, zeros when left out, in the second's form."""
        weights = [w if self.bias else [*w[:2], None, None, *w[2:]] for w in self.all_weights]
        return recurrent(type(self).__name__, self.mode, input, hx, weights, self.batch_first,
                         self.bidirectional, self.dropout if self.training else 0.0)  # fmt: skip


def _mode(nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f"Unknown nonlinearity {nonlinearity!r}. Select from 'tanh' or 'relu'.")
    return f"RNN_{nonlinearity.upper()}"


class RNN(RNNBase):
    """h = tanh(W x + b + U h + c), or relu; ``nonlinearity`` "tanh" or "relu"."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        mode = _mode(nonlinearity)
        super().__init__(mode, input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory: gates i, f, g, o in this order in the weights; c = f c + i g,
    h = o tanh c; h is projected to ``proj_size`` values unless that is 0.

    Source: Hochreiter and Schmidhuber 1997, "Long short-term memory".
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent unit: gates r, z, n in this order in the weights; h = (1 - z) n + z h with
    n = tanh(W x + b + r (U h + c)).

    Source: Cho et al. 2014, arXiv 1406.1078.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(RNNBase):
    """A layer of one step: (batch, input_size) or (input_size), and the state, to the new state."""

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(mode, input_size, hidden_size, bias=bias, device=device, dtype=dtype)
        if not bias:
            self.bias_ih = self.bias_hh = None

    def _names(self) -> list[list[str]]:
        return [KINDS[: 2 + 2 * self.bias]]

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The new state, for LSTMCell (h, c); the old one is zeros if left out."""
        name, lead = type(self).__name__, input.shape[:-1]
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ShapeError(f"{name}({input.shape}): Expected input to be 1D or 2D, got "
                             f"{input.ndim}D instead, of input_size {self.input_size}")  # fmt: skip
        w: Any = [getattr(self, kind) for kind in KINDS]
        rows = input, *initial(name, self.mode, hx, w[1], lead, input)
        data, *states = rows if lead else [each.unsqueeze(0) for each in rows]
        ends = direction(self.mode, data, states, w, (len(data),), False)[1]
        ends = ends if lead else tuple([each.squeeze(0) for each in ends])
        return ends if self.mode == "LSTM" else ends[0]


class RNNCell(RNNCellBase, hides={"bias": True, "nonlinearity": "tanh"}):
    """One step of an RNN: h = tanh(W x + b + U h + c), or relu."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_mode(nonlinearity), input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (input, (h, c)) -> (h, c)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRUCell(RNNCellBase):
    """One step of a GRU: (input, h) -> h."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)
