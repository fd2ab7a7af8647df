"""For functions whose options no layer has, a random call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from differential.common import generator, torch
from differential.compare import same_calls
from differential.drawing import Case, Draw
from differential.sequences import mask
from minidp.nn import functional as F

CALLS: dict[str, Callable[[Draw], Case]] = {}


def call(*names: str) -> Any:
    def note(make: Any) -> Any:
        for name in names:
            CALLS[name] = lambda draw, name=name: make(draw, name)
        return make

    return note


@call("conv1d", "conv2d", "conv3d")
def conv(d: Draw, name: str) -> Case:
    axes, groups = int(name[4]), d.pick(1, 1, 2)
    inner, outer = d.size(1, 3), groups * d.size(1, 3)
    x = d.image(axes, groups * inner, 1, 7)
    weight = d.normal(outer, inner, *(d.size(1, 3) for _ in range(axes)))
    bias = d.pick(None, d.normal(outer))
    options = d.options(
        stride=(d.sizes(axes, 1, 3),),
        dilation=(d.sizes(axes, 1, 2),),
        padding=(d.sizes(axes, 0, 2), "valid", "same"),
    )
    return Case((), {}, (x, weight, bias), {**options, "groups": groups})


@call("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(d: Draw, name: str) -> Case:
    axes, groups = int(name[14]), d.pick(1, 1, 2)
    inner, outer = groups * d.size(1, 3), d.size(1, 3)
    shape = (inner, *(d.size(1, 5) for _ in range(axes)))
    x = d.normal(*(shape if d.chance(0.2) else (d.size(1, 3), *shape)))
    weight = d.normal(inner, outer, *(d.size(1, 3) for _ in range(axes)))
    options = d.options(
        stride=(d.sizes(axes, 1, 3),),
        dilation=(d.sizes(axes, 1, 2),),
        padding=(d.sizes(axes, 0, 2),),
        output_padding=(d.sizes(axes, 0, 1),),
    )
    return Case(
        (), {}, (x, weight, d.pick(None, d.normal(outer * groups))), {**options, "groups": groups}
    )


@call("softmax", "log_softmax", "softmin")
def softmax(d: Draw, name: str) -> Case:
    x = d.normal(*d.shape(0, 3))
    return Case((), {}, (x,), {"dim": d.size(-max(1, x.ndim), max(0, x.ndim - 1))})


@call("normalize")
def normalize(d: Draw, name: str) -> Case:
    x = d.normal(*d.shape(1, 4))
    return Case(
        (),
        {},
        (x,),
        d.options(p=(2.0, 1.0, 3.0, float("inf"), 0.5), dim=(0, -1, x.ndim - 1), eps=(1e-12, 1.0)),
    )


@call("one_hot")
def one_hot(d: Draw, name: str) -> Case:
    return Case(
        (),
        {},
        (d.integers(d.pick(0, 0, 0, -1), 4, *d.shape(0, 3)),),
        d.options(num_classes=(-1, 3, 4, 6)),
    )


@call("pdist")
def pdist(d: Draw, name: str) -> Case:
    d.coarse = False  # of equal distances by p = inf PyTorch gives the gradient to each in full
    return Case(
        (),
        {},
        (d.normal(d.size(2, 5), d.size(1, 4)),),
        d.options(p=(2.0, 1.0, 3.0, float("inf"), 0.0)),
    )


@call("pairwise_distance", "cosine_similarity")
def pair(d: Draw, name: str) -> Case:
    shape = d.shape(1, 3)
    options = (
        d.options(eps=(1e-6, 0.1), keepdim=(True, False), p=(2.0, 1.0))
        if name[0] == "p"
        else d.options(dim=(0, -1, len(shape) - 1), eps=(1e-8, 0.3))
    )
    return Case(
        (), {}, (d.normal(*shape), d.normal(*(1 if d.chance(0.2) else s for s in shape))), options
    )


@call("scaled_dot_product_attention")
def attention(d: Draw, name: str) -> Case:
    lead, n, m, e, v = d.shape(1, 3), d.size(1, 4), d.size(1, 4), d.size(1, 4), d.size(1, 4)
    options = d.options(scale=(None, 0.5, 2.0))
    if d.chance(0.4):
        options["is_causal"] = True
    elif d.chance(0.6):
        shape = d.pick((n, m), (*lead, n, m), (1, m))
        options["attn_mask"] = d.pick(mask(d, *shape), d.random.random(shape) < 0.5)
    return Case(
        (), {}, (d.normal(*lead, n, e), d.normal(*lead, m, e), d.normal(*lead, m, v)), options
    )


@call("affine_grid")
def affine_grid(d: Draw, name: str) -> Case:
    k, n = d.pick(2, 3), d.size(1, 3)
    return Case(
        (),
        {},
        (d.normal(n, k, k + 1),),
        {"size": (n, 2, *(d.size(1, 4) for _ in range(k))), "align_corners": d.pick(True, False)},
    )


@call("grid_sample")
def grid_sample(d: Draw, name: str) -> Case:
    d.coarse = False
    k, n = d.pick(2, 2, 3), d.size(1, 3)
    x = d.normal(n, d.size(1, 3), *(d.size(1, 5) for _ in range(k)))
    grid = d.normal(n, *(d.size(1, 4) for _ in range(k)), k)
    return Case(
        (),
        {},
        (x, grid),
        {
            "align_corners": d.pick(True, False),
            **d.options(
                mode=("bilinear", "nearest", "bicubic")[: 5 - k],
                padding_mode=("zeros", "border", "reflection"),
            ),
        },
    )


@call("pad")
def pad(d: Draw, name: str) -> Case:
    x = d.normal(*(d.size(1, 5) for _ in range(d.size(1, 5))))
    mode = d.pick("constant", "constant", "reflect", "replicate", "circular")
    low = -2 if mode == "constant" else 0
    count = d.size(1, max(1, x.ndim))
    return Case(
        (),
        {},
        (x,),
        {
            "pad": tuple(d.size(low, 2) for _ in range(2 * count)),
            "mode": mode,
            **(d.options(value=(None, 0.0, 1.5)) if mode == "constant" else {}),
        },
    )


@call("layer_norm", "rms_norm")
def layer_norm(d: Draw, name: str) -> Case:
    x = d.normal(*d.shape(1, 4))
    shape = x.shape[-d.size(1, x.ndim) :]
    options = d.options(weight=(None, d.normal(*shape)), eps=(1e-5, 0.1))
    if name == "layer_norm":
        options.update(d.options(bias=(None, d.normal(*shape))))
    return Case((), {}, (x,), {"normalized_shape": shape, **options})


@call("group_norm")
def group_norm(d: Draw, name: str) -> Case:
    groups = d.size(1, 3)
    channels = groups * d.size(1, 2)
    return Case(
        (),
        {},
        (d.normal(d.size(1, 3), channels, *(d.size(1, 3) for _ in range(d.size(0, 2)))),),
        {
            "num_groups": groups,
            **d.options(
                weight=(None, d.normal(channels)), bias=(None, d.normal(channels)), eps=(1e-5, 0.1)
            ),
        },
    )


@call("batch_norm")
def batch_norm(d: Draw, name: str) -> Case:
    c = d.size(1, 4)
    x = d.normal(d.size(1, 4), c, *(d.size(1, 3) for _ in range(d.size(0, 3))))
    return Case(
        (),
        {},
        (x, d.normal(c), d.uniform(c) + d.dtype.type(0.5)),
        {
            **d.options(weight=(None, d.normal(c)), bias=(None, d.normal(c)), eps=(1e-5, 0.1)),
            "training": False,
        },
        fixed=(1, 2),
    )


@call("mse_loss", "l1_loss", "huber_loss")
def weighed(d: Draw, name: str) -> Case:
    shape = d.shape()
    options = d.options(reduction=("mean", "sum", "none"), weight=(None, d.uniform(*shape)))
    return Case((), {}, (d.normal(*shape), d.normal(*shape)), options)


@call("cross_entropy", "nll_loss")
def classes(d: Draw, name: str) -> Case:
    n, c, rest = d.size(1, 4), d.size(1, 5), d.pick((), (2,), (2, 3))
    options = d.options(
        weight=(None, d.uniform(c)), ignore_index=(0, -100), reduction=("mean", "sum", "none")
    )
    if name == "cross_entropy":
        options.update(d.options(label_smoothing=(0.0, 0.2, 1.0)))
    return Case(
        (),
        {},
        (d.normal(n, c, *rest), d.integers(0, c + d.chance(0.05), n, *rest)),
        options,
        fixed=("weight",),
    )


@call("interpolate")
def interpolate(d: Draw, name: str) -> Case:
    mode = d.pick("nearest", "linear", "bilinear", "bicubic", "trilinear", "nearest-exact", "area")
    axes = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(mode, d.size(1, 3))
    options = d.pick({"size": d.sizes(axes, 1, 7)}, {"scale_factor": d.pick(2, 0.5, 1.5, 3)})
    if mode.endswith(("linear", "cubic")):
        options.update(d.options(align_corners=(True, False)))
    return Case(
        (),
        {},
        (d.normal(d.size(1, 2), d.size(1, 2), *(d.size(2, 5) for _ in range(axes))),),
        {"mode": mode, **options},
    )


@call("fold", "unfold")
def fold(d: Draw, name: str) -> Case:
    k = (d.size(1, 3), d.size(1, 3))
    if name == "unfold":
        return Case(
            (),
            {},
            (d.normal(2, 2, d.size(3, 6), d.size(3, 6)),),
            {"kernel_size": k, **d.options(dilation=(1, 2), padding=(0, 1, (0, 2)), stride=(1, 2))},
        )
    return Case(
        (),
        {},
        (d.normal(2, 2 * k[0] * k[1], (6 - k[0]) * (5 - k[1])),),
        {"output_size": (5, 4), "kernel_size": k},
    )


@call("embedding")
def embedding(d: Draw, name: str) -> Case:
    rows = d.size(1, 5)
    return Case(
        (),
        {},
        (d.integers(0, rows + d.chance(0.1), *d.shape(0, 3)), d.normal(rows, d.size(1, 3))),
        d.options(padding_idx=(None, 0, -1), scale_grad_by_freq=(True, False)),
    )


def compare_call(name: str, seed: int, dtype: str = "float64") -> str:
    """What differs in case ``seed`` of the function; "" if nothing does."""
    d = Draw(generator("call", name, seed, dtype), dtype)
    d.special = False
    case = CALLS[name](d)
    mine, right = getattr(F, name), getattr(torch.nn.functional, name)
    second = d.chance(0.25) and not d.coarse
    return same_calls(mine, right, case, d, second, 5e-4 if dtype == "float32" else 1e-7)
