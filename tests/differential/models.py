"""Random models in both libraries, trained for a few steps by random optimisers."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.common import difference, generator, ours, theirs, torch
from differential.compare import loaded
from differential.drawing import Draw
from differential.training import OPTIONS
from minidp import nn, optim

Plan = tuple[str, tuple[Any, ...], dict[str, Any]]
ACTIVATIONS = (
    "ReLU",
    "ELU",
    "GELU",
    "SiLU",
    "Tanh",
    "Sigmoid",
    "LeakyReLU",
    "Softplus",
    "Mish",
    "Hardswish",
    "Softsign",
)


def rows(d: Draw, width: int) -> tuple[list[Plan], int]:
    """Layers of rows (n, width), and the width that comes out."""
    plans: list[Plan] = []
    for _ in range(d.size(2, 5)):
        kind = d.size(0, 5)
        if kind < 3:
            out = d.size(2, 6)
            plans.append(("Linear", (width, out), d.options(bias=(True, False))))
            width = out
        elif kind == 3:
            plans.append(
                ("BatchNorm1d", (width,), d.options(momentum=(0.1, None), affine=(True, False)))
            )
        elif kind == 4:
            plans.append(("LayerNorm", (width,), d.options(bias=(True, False))))
        plans.append((d.pick(*ACTIVATIONS), (), {}))
        if d.chance(0.3):
            plans.append(("Residual", (width,), {}))
    return plans, width


def images(d: Draw, channels: int) -> tuple[list[Plan], int]:
    """Layers of images (n, channels, 8, 8), ending in rows of the width that is given."""
    plans: list[Plan] = []
    for _ in range(d.size(1, 3)):
        out, k = d.size(2, 4), d.pick(1, 3)
        plans.append(
            (
                "Conv2d",
                (channels, out, k),
                {"padding": k // 2, **d.options(bias=(True, False), stride=(1, 2))},
            )
        )
        channels = out
        plans.append(
            d.pick(
                ("BatchNorm2d", (channels,), {}),
                ("GroupNorm", (1, channels), {}),
                ("InstanceNorm2d", (channels,), {"affine": True}),
                ("Identity", (), {}),
            )
        )
        plans.append((d.pick(*ACTIVATIONS), (), {}))
    plans.append(d.pick(("AdaptiveAvgPool2d", (1,), {}), ("AdaptiveMaxPool2d", (1,), {})))
    plans.append(("Flatten", (), {}))
    more, width = rows(d, channels)
    return plans + more, width


def built(library: Any, plans: list[Plan]) -> Any:
    class Residual(library.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.inner = library.Linear(width, width)

        def forward(self, x: Any) -> Any:
            return x + self.inner(x)

    own = {"Residual": Residual}
    return library.Sequential(
        *[
            (own.get(name) or getattr(library, name))(*args, **kwargs)
            for name, args, kwargs in plans
        ]
    )


class Sequences:
    """A recurrent net, an encoder or attention over sequences, made in either library."""

    def __init__(self, d: Draw, width: int) -> None:
        self.kind = d.pick(
            "LSTM", "GRU", "RNN", "TransformerEncoder", "TransformerDecoder", "Packed"
        )
        self.recurrent = d.pick("LSTM", "GRU", "RNN") if self.kind == "Packed" else self.kind
        self.hidden, self.layers, self.both = d.size(1, 4), d.size(1, 2), d.chance(0.5)
        self.sorted, self.norm_first, self.batch_first = d.chance(0.5), d.chance(0.5), d.chance(0.5)
        self.lengths = [d.size(1, 5) for _ in range(3)]
        self.lengths[0] = 5
        if self.sorted:
            self.lengths.sort(reverse=True)

    def made(self, library: Any, width: int) -> Any:
        if self.kind.startswith("Transformer"):
            layer = getattr(library, f"{self.kind}Layer")(
                width, 2, 5, 0.0, norm_first=self.norm_first, batch_first=self.batch_first
            )
            options = {"enable_nested_tensor": False} if self.kind.endswith("Encoder") else {}
            return getattr(library, self.kind)(
                layer, self.layers, library.LayerNorm(width), **options
            )
        return getattr(library, self.recurrent)(
            width, self.hidden, self.layers, bidirectional=self.both, batch_first=self.batch_first
        )

    def run(self, library: Any, net: Any, x: Any, mask: Any) -> Any:
        if self.kind == "Packed":
            packed = library.utils.rnn.pack_padded_sequence(
                x, self.lengths, self.batch_first, self.sorted
            )
            y, _ = net(packed)
            return library.utils.rnn.pad_packed_sequence(y, self.batch_first)[0]
        if self.kind == "TransformerEncoder":
            return net(x, mask=mask)
        if self.kind == "TransformerDecoder":
            return net(x, x * 0.5, tgt_mask=mask)
        return net(x)[0]


def losses(d: Draw, width: int, n: int) -> tuple[str, Any]:
    name = d.pick(
        "CrossEntropyLoss",
        "MSELoss",
        "SmoothL1Loss",
        "BCEWithLogitsLoss",
        "HuberLoss",
        "MultiMarginLoss",
    )
    if name in ("CrossEntropyLoss", "MultiMarginLoss"):
        return name, d.integers(0, width, n)
    return name, d.uniform(n, width) if name.startswith("B") else d.normal(n, width)


def compare_model(seed: int, dtype: str = "float64") -> str:
    """Build, load, train three steps; parameters and buffers after each."""
    d = Draw(generator("model", seed, dtype), dtype)
    d.special = d.coarse = False
    n, kind = d.size(3, 6), d.pick("rows", "images", "sequences")
    net: Any = None
    if kind == "rows":
        x = d.normal(n, d.size(2, 5))
        plans, width = rows(d, x.shape[1])
    elif kind == "images":
        x = d.normal(n, d.size(1, 3), 8, 8)
        plans, width = images(d, x.shape[1])
    else:
        width, plans = 4, []
        net = Sequences(d, width)
        x = d.normal(*((3, 5) if net.batch_first else (5, 3)), width)
    if net is None:
        made = [built(library, plans) for library in (nn, torch.nn)]
    else:
        made = [net.made(library, width) for library in (nn, torch.nn)]
    for each in made:
        each.double() if dtype == "float64" else each.float()
    found = loaded(*made, d)
    if found:
        return found
    if not list(made[0].parameters()):
        return ""
    loss, target = losses(d, width, n)
    seeds: Any = None
    mask = np.triu(np.full((5, 5), -np.inf), 1).astype(dtype) if d.chance(0.5) else None
    name = d.pick(*OPTIONS)
    options = {
        k: v for k, v in d.options(**OPTIONS[name]).items() if k not in ("nesterov", "dampening")
    }
    options.pop("centered", None)
    options.update(lr=d.pick(0.01, 0.1))
    if "betas" in OPTIONS[name] or "eps" in OPTIONS[name]:  # gradients of 0 are not to be blown up
        options.update({"eps": 1e-2} | ({"betas": (0.9, 0.99)} if "betas" in OPTIONS[name] else {}))
    optimisers = [
        getattr(o, name)(m.parameters(), **options) for o, m in zip((optim, torch.optim), made)
    ]
    clip, tolerance = d.pick(None, 1.0, 0.1), 1e-6 if dtype == "float64" else 2e-2
    for step in range(3):
        ends = []
        for each, opt, library, convert in zip(made, optimisers, (nn, torch.nn), (ours, theirs)):
            opt.zero_grad()
            if net is None:
                value = getattr(library, loss)()(each(convert(x)), convert(target))
            else:
                y = net.run(library, each, convert(x), convert(mask))
                if seeds is None:
                    seeds = d.normal(*y.shape)
                value = (y * convert(seeds)).sum()
            value.backward()
            norm = library.utils.clip_grad_norm_(each.parameters(), clip) if clip else value
            ends.append((value, norm))
            opt.step()
        for mine, right in zip(*ends):
            found = difference(np.asarray(mine.detach().numpy()), right.detach().numpy(), tolerance)
            if found:
                return f"step {step}, loss or norm: {found} {plans} {loss} {net and vars(net)}"
        for key, right in made[1].state_dict().items():
            found = difference(
                np.asarray(made[0].state_dict()[key].numpy()), right.numpy(), tolerance
            )
            if found:
                more = f"{plans} {loss} {name} {options} {net and vars(net)}"
                return f"step {step}, {key}: {found} {more}"
    return ""
