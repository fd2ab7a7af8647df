"""Tables of vectors by number, and the positions of a sequence as vectors."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from minidp import functional as F
from minidp.create import as_tensor, empty
from minidp.errors import ShapeError
from minidp.functional.embedding import checked_padding
from minidp.mode import get_default_dtype
from minidp.nn import init
from minidp.nn.layer import Layer, Stateless
from minidp.parameter import Buffer, Parameter
from minidp.tensor import Tensor

__all__ = ["Embedding", "EmbeddingBag", "SinusoidalPositions"]


class Table(Stateless, shows="{num_embeddings}, {embedding_dim}"):
    """What Embedding and EmbeddingBag share: ``weight`` (num_embeddings, embedding_dim), normal at
    first, with 0 in row ``padding_idx``. The other options are those of their functions."""

    hides: ClassVar = {"padding_idx": None, "max_norm": None, "norm_type": 2.0,
                       "scale_grad_by_freq": False, "sparse": False}  # fmt: skip
    padding_idx: int | None

    def _check(  # type: ignore[override]
        self, num_embeddings: int, embedding_dim: int, _weight: Tensor | None = None,
        _freeze: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        self.num_embeddings, self.embedding_dim = shape = num_embeddings, embedding_dim
        self.padding_idx = checked_padding(self.padding_idx, num_embeddings)
        made = empty(shape, device=device, dtype=dtype) if _weight is None else _weight
        self.weight = Parameter(made, not _freeze)
        if self.weight.shape != shape:
            raise ShapeError(f"Shape of weight {self.weight.shape} does not match num_embeddings "
                             f"and embedding_dim {shape}")  # fmt: skip
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.detach()[self.padding_idx] = 0

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **options: Any) -> Self:
        """The table ``embeddings``, not trained unless ``freeze`` is False."""
        if embeddings.ndim != 2:
            raise ShapeError(f"Embeddings parameter is expected to be 2-dimensional, got "
                             f"{embeddings.shape}")  # fmt: skip
        table = cls(*embeddings.shape, _weight=embeddings.detach(), **options)
        table.weight.requires_grad_(not freeze)
        return table


class Embedding(
    Table, of=F.embedding, takes="num_embeddings embedding_dim padding_idx max_norm norm_type "
    "scale_grad_by_freq sparse _weight _freeze device dtype",
):  # fmt: skip
    """A table of vectors: numbers (...) -> (..., embedding_dim). See ``functional.embedding``.

    >>> nn.Embedding(10, 3)(dp.tensor([[1, 2], [4, 9]])).shape
    (2, 2, 3)
    """

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input, self.weight)


class EmbeddingBag(
    Table, of=F.embedding_bag, takes="num_embeddings embedding_dim max_norm norm_type "
    "scale_grad_by_freq mode sparse _weight include_last_offset padding_idx device dtype",
    hides={"max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "mode!r": "",
           "padding_idx": None},
):  # fmt: skip
    """The sum, mean or max of bags of vectors of a table. See ``functional.embedding_bag``."""

    def forward(
        self, input: Tensor, offsets: Any = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return super().forward(input, self.weight, offsets, per_sample_weights=per_sample_weights)


class SinusoidalPositions(Layer):
    """x + p with p_t,2i = sin(t / base^(2i / d)) and p_t,2i+1 the cosine, for step t of x
    (steps, batch, d), (batch, steps, d) with ``batch_first``, or (steps, d).

    Source: Vaswani et al. 2017, arXiv 1706.03762. PyTorch has no such layer.
    """

    shows = "{embedding_dim}, max_len={max_len}, batch_first={batch_first}"
    positions: Buffer

    def __init__(
        self, embedding_dim: int, max_len: int = 5000, batch_first: bool = False, *,
        base: float = 10000.0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.embedding_dim, self.max_len, self.batch_first = embedding_dim, max_len, batch_first
        rates = base ** -(np.arange(0, embedding_dim, 2) / embedding_dim)
        angles = np.arange(max_len)[:, None] * rates
        pairs = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(max_len, -1)
        table = as_tensor(pairs[:, :embedding_dim], dtype or get_default_dtype(), device)
        self.register_buffer("positions", table, persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        axis = 1 if self.batch_first and input.ndim == 3 else 0
        steps = input.shape[axis]
        if steps > self.max_len or input.shape[-1] != self.embedding_dim:
            raise ShapeError(f"SinusoidalPositions({input.shape}): expected at most {self.max_len} "
                             f"steps of {self.embedding_dim} values")  # fmt: skip
        table = self.positions[:steps]
        return input + (table.unsqueeze(1) if input.ndim == 3 and axis == 0 else table)
