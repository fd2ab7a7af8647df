"""Layers of noise, which depends on the seed, the draw and the global row, not on the split.

``inplace`` is accepted for PyTorch's sake; nothing is done in place.
"""

from __future__ import annotations

from minidp import functional as F
from minidp.functional.dropout import check_probability
from minidp.nn.layer import Stateless

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
           "RReLU"]  # fmt: skip


class Dropping(Stateless, shows="p inplace"):
    """What drops with probability ``p``."""

    p: float

    def _check(self) -> None:
        check_probability(self.p)


# fmt: off
class AlphaDropout(Dropping, of=F.alpha_dropout): ...
class Dropout(Dropping, of=F.dropout): ...
class Dropout1d(Dropping, of=F.dropout1d): ...
class Dropout2d(Dropping, of=F.dropout2d): ...
class Dropout3d(Dropping, of=F.dropout3d): ...
class FeatureAlphaDropout(Dropping, of=F.feature_alpha_dropout): ...
class RReLU(Stateless, of=F.rrelu): ...
