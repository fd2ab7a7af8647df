"""``minidp.data`` by PyTorch's path, and by those of its parts."""

import sys

from minidp.data import *  # noqa: F403

dataset = sampler = dataloader = sys.modules[__name__]
for _part in ("dataset", "sampler", "dataloader"):
    sys.modules[f"{__name__}.{_part}"] = dataset
