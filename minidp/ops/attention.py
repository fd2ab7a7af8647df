"""Layout that attention needs."""

from __future__ import annotations

from typing import Any

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.comparison import full_like
from minidp.ops.layout import concat
from minidp.types import Array, Shape


def _check(x: Shape) -> None:
    if not x or x[-1] % 3:
        raise ShapeError(f"thirds({x}): the last axis is not three parts of one size")


@op("... -> ..., ..., ...", outputs="q k v", view=True, check=_check,
    x=lambda g, x_shape: concat(*(g[i] if i in g else full_like(g[min(g)], value=0.0)
                                  for i in range(3)), dim=len(x_shape) - 1))  # fmt: skip
def thirds(xp: Any, x: Array) -> tuple[Array, Array, Array]:
    """The last axis in three equal parts, as views: queries, keys and values of one product."""
    n = x.shape[-1] // 3
    return x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
