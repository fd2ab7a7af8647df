"""Random optimisers and schedules in both libraries, compared step by step."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

import minidp as dp
from differential.common import Refused, attempt, difference, generator, torch
from differential.drawing import Draw
from minidp import nn, optim

RATES = {"lr": (0.0, 1e-3, 0.1, 1.0), "weight_decay": (0, 0.01, 0.5), "maximize": (True, False)}
BETAS = {"betas": ((0.9, 0.999), (0.5, 0.9), (0.0, 0.99), (0.9, 0.0)), "eps": (1e-8, 1e-3)}
OPTIONS: dict[str, dict[str, Any]] = {
    "SGD": {**RATES, "momentum": (0, 0.9, 0.5), "dampening": (0, 0.3), "nesterov": (True, False)},
    "Adam": {**RATES, **BETAS, "amsgrad": (True, False), "decoupled_weight_decay": (True, False)},
    "AdamW": {**RATES, **BETAS, "amsgrad": (True, False)},
    "NAdam": {
        **RATES,
        **BETAS,
        "momentum_decay": (4e-3, 0.1, 0),
        "decoupled_weight_decay": (True, False),
    },
    "RAdam": {**RATES, **BETAS, "decoupled_weight_decay": (True, False)},
    "Adadelta": {**RATES, "rho": (0.9, 0.0, 1.0, 0.5), "eps": (1e-6, 1e-2)},
    "Adamax": {**RATES, **BETAS},
    "RMSprop": {
        **RATES,
        "alpha": (0.99, 0.5, 0.1),
        "eps": (1e-8, 1e-2),
        "momentum": (0, 0.9),
        "centered": (True, False),
    },
    "Adagrad": {
        **RATES,
        "lr_decay": (0, 0.1),
        "eps": (1e-10, 1e-2),
        "initial_accumulator_value": (0, 0.5),
    },
}


def numbers(state: Any, tensor: Any) -> Any:
    """A state dict with every tensor made anew by ``tensor`` from its array."""
    if isinstance(state, dict):
        return {key: numbers(value, tensor) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(numbers(each, tensor) for each in state)
    return tensor(np.array(state.detach().numpy())) if hasattr(state, "detach") else state


def described(state: Any) -> Any:
    """A state dict as plain numbers and lists, rounded to compare."""
    if isinstance(state, dict):
        return {str(key): described(value) for key, value in sorted(state.items(), key=str)}
    if isinstance(state, (list, tuple)):
        return [described(each) for each in state]
    if hasattr(state, "detach"):
        return [str(state.dtype).rpartition(".")[2], list(state.shape)]
    return state


def groups(d: Draw, name: str, params: list[Any], options: Any) -> Any:
    if len(params) < 3:
        return params
    return [{"params": params[:1], **options[0]}, {"params": params[1:], **options[1]}]


def compare_optimiser(name: str, seed: int, dtype: str = "float64") -> str:
    """Twenty steps with random options; parameters, state and their exchange half way."""
    d = Draw(generator("optimiser", name, seed, dtype), dtype)
    d.special = d.coarse = False
    values = [d.normal(*d.shape(0, 3)) for _ in range(d.size(1, 4))]
    options = d.options(**OPTIONS[name])
    own = [
        {
            k: v
            for k, v in d.options(**OPTIONS[name]).items()
            if k
            not in (
                "initial_accumulator_value",
                "decoupled_weight_decay",
                "nesterov",
                "dampening",
                "momentum",
            )
        }
        for _ in range(2)
    ]
    mine = [nn.Parameter(dp.tensor(v.copy())) for v in values]
    right = [torch.nn.Parameter(torch.tensor(v)) for v in values]
    made, errors = [], []
    for library, params in ((optim, mine), (torch.optim, right)):
        try:
            made.append(attempt(getattr(library, name), groups(d, name, params, own), **options))
            errors.append("")
        except Refused as error:
            errors.append(str(error))
    if any(errors):
        return (
            ""
            if all(errors)
            else f"constructor: ours {errors[0] or 'works'} / torch {errors[1] or 'works'}"
        )
    a, b = made
    if repr(a) != repr(b):
        return f"repr {a!r}, not {b!r}"
    absent, none = d.pick(0.0, 0.3), d.chance(0.5)
    tolerance = {"float64": 1e-9, "float32": 1e-4}[dtype]
    for step in range(20):
        for x, y in zip(mine, right):
            if d.chance(absent):
                continue
            g = d.normal(*x.shape, scale=d.pick(1.0, 1e-3, 0.0, 100.0))
            x.grad, y.grad = dp.tensor(g.copy()), torch.tensor(g)
        attempt(a.step), attempt(b.step)
        for index, (x, y) in enumerate(zip(mine, right)):
            found = difference(x.detach().numpy(), y.detach().numpy(), tolerance)
            if found:
                more = own if len(values) > 2 else ""
                return f"step {step}, parameter {index}: {found} {options} {more}"
        a.zero_grad(set_to_none=none), b.zero_grad(set_to_none=none)
        if step == 9:
            one, two = described(a.state_dict()), described(b.state_dict())
            if one != two:
                return f"state {one}, not {two}"
            if d.chance(0.5):  # exchange what they know
                first = getattr(optim, name)(groups(d, name, mine, own), **options)
                second = getattr(torch.optim, name)(groups(d, name, right, own), **options)
                first.load_state_dict(numbers(b.state_dict(), dp.tensor))
                second.load_state_dict(numbers(a.state_dict(), torch.tensor))
                a, b = first, second
    return state_difference(a, b, tolerance, dtype)


def state_difference(a: Any, b: Any, tolerance: float, dtype: str) -> str:
    one, two = a.state_dict(), b.state_dict()
    for number, entries in two["state"].items():
        for key, value in entries.items():
            x = one["state"][number][key]
            if not hasattr(value, "detach"):
                continue
            y, least = (
                value.detach().numpy(),
                1e-6 if key == "mu_product" else 1e-3 if dtype == "float32" else 0,
            )
            found = difference(x.detach().numpy().astype(y.dtype), y, max(tolerance, least))
            if found:
                return f"state {number} {key}: {found}"
    return ""


def square(step: int) -> float:
    return 1 / (1 + step * step)


SCHEDULES: dict[str, Any] = {
    "StepLR": lambda d: {"step_size": d.size(1, 7), **d.options(gamma=(0.1, 0.9, 2.0))},
    "MultiStepLR": lambda d: {
        "milestones": sorted(d.size(0, 30) for _ in range(d.size(0, 4))),
        **d.options(gamma=(0.1, 0.9)),
    },
    "ConstantLR": lambda d: d.options(factor=(0.5, 1.0, 0.3), total_iters=(0, 1, 5, 60)),
    "LinearLR": lambda d: d.options(
        start_factor=(0.1, 1.0), end_factor=(1.0, 0.0, 0.5), total_iters=(1, 5, 60)
    ),
    "ExponentialLR": lambda d: {"gamma": d.pick(0.9, 1.0, 1.1)},
    "PolynomialLR": lambda d: d.options(total_iters=(1, 5, 60), power=(1.0, 2.0, 0.5)),
    "CosineAnnealingLR": lambda d: {"T_max": d.size(1, 30), **d.options(eta_min=(0, 0.01))},
    "CosineAnnealingWarmRestarts": lambda d: {
        "T_0": d.size(1, 10),
        **d.options(T_mult=(1, 2, 3), eta_min=(0, 0.01)),
    },
    "LambdaLR": lambda d: {"lr_lambda": square},
    "MultiplicativeLR": lambda d: {"lr_lambda": lambda step: 0.95},
    "CyclicLR": lambda d: {
        "base_lr": 0.01,
        "max_lr": d.pick(0.1, 1.0),
        **d.options(
            step_size_up=(1, 4, 10),
            step_size_down=(None, 3),
            mode=("triangular", "triangular2", "exp_range"),
            gamma=(1.0, 0.9),
            scale_mode=("cycle", "iterations"),
            cycle_momentum=(True, False),
            base_momentum=(0.8, 0.5),
            max_momentum=(0.9, 0.95),
        ),
    },
    "OneCycleLR": lambda d: {
        "max_lr": d.pick(0.1, 1.0),
        "total_steps": d.pick(50, 60, 100),
        **d.options(
            pct_start=(0.3, 0.5, 0.1),
            anneal_strategy=("cos", "linear"),
            cycle_momentum=(True, False),
            base_momentum=(0.85, 0.5),
            max_momentum=(0.95,),
            div_factor=(25.0, 2.0),
            final_div_factor=(1e4, 10.0),
            three_phase=(True, False),
        ),
    },
    "ReduceLROnPlateau": lambda d: d.options(
        mode=("min", "max"),
        factor=(0.1, 0.5),
        patience=(0, 1, 3),
        threshold=(1e-4, 0.1, 0.0),
        threshold_mode=("rel", "abs"),
        cooldown=(0, 2),
        min_lr=(0, 0.01),
        eps=(1e-8, 0.01),
    ),
}


def scheduled(library: Any, optimiser: Any, plan: Any) -> Any:
    """Build what ``plan`` names: a schedule, or a combination of such plans."""
    schedules = library.lr_scheduler
    name, options = plan
    if name == "SequentialLR":
        each = [scheduled(library, optimiser, part) for part in options["parts"]]
        return schedules.SequentialLR(optimiser, each, options["milestones"])
    if name == "ChainedScheduler":
        return schedules.ChainedScheduler(
            [scheduled(library, optimiser, part) for part in options["parts"]]
        )
    return getattr(schedules, name)(optimiser, **options)


def planned(d: Draw, name: str) -> Any:
    simple = (
        "StepLR",
        "MultiStepLR",
        "ConstantLR",
        "LinearLR",
        "ExponentialLR",
        "PolynomialLR",
        "CosineAnnealingLR",
        "LambdaLR",
        "MultiplicativeLR",
        "CosineAnnealingWarmRestarts",
    )
    if name == "ChainedScheduler":
        return name, {"parts": [planned(d, d.pick(*simple[:7])) for _ in range(d.size(1, 3))]}
    if name == "SequentialLR":
        count = d.size(1, 3)
        marks = sorted(int(x) for x in d.random.choice(np.arange(1, 40), count - 1, replace=False))
        return name, {
            "parts": [planned(d, d.pick(*simple)) for _ in range(count)],
            "milestones": marks,
        }
    return name, SCHEDULES[name](d)


def compare_schedule(name: str, seed: int) -> str:
    """Fifty steps; sometimes saved and resumed, sometimes the rate is changed by hand."""
    d = Draw(generator("schedule", name, seed))
    plan = planned(d, name)
    rates, momentum, kind = (
        [d.pick(0.1, 1.0, 0.01), d.pick(0.1, 0.5)],
        d.pick(0.9, 0.5),
        d.pick("SGD", "Adam"),
    )

    def begin(library: Any) -> Any:
        nets, tensor = (nn, dp.zeros) if library is optim else (torch.nn, torch.zeros)
        params = [nets.Parameter(tensor(1)) for _ in range(2)]
        options = {"momentum": momentum} if kind == "SGD" else {}
        made = getattr(library, kind)(
            [{"params": [p], "lr": lr} for p, lr in zip(params, rates)], **options
        )
        return made, attempt(scheduled, library, made, plan)

    made, errors = [], []
    for library in (optim, torch.optim):
        try:
            made.append(begin(library))
            errors.append("")
        except Refused as error:
            errors.append(str(error))
    if any(errors):
        return (
            ""
            if all(errors)
            else f"constructor: ours {errors[0] or 'works'} / torch {errors[1] or 'works'} {plan}"
        )
    resume, by_hand = d.size(5, 40) if d.chance(0.4) else -1, d.size(5, 40) if d.chance(0.2) else -1
    epochs = name == "CosineAnnealingWarmRestarts" and d.chance(0.3)
    for step in range(50):
        metric = float(np.round(d.random.normal() + 10 / (1 + step), d.pick(1, 8)))
        if step == by_hand:
            for opt, _ in made:
                opt.param_groups[0]["lr"] = 0.05
        if step == resume:
            states = [
                (copy.deepcopy(o.state_dict()), copy.deepcopy(s.state_dict())) for o, s in made
            ]
            made = [begin(library) for library in (optim, torch.optim)]
            for (opt, schedule), (one, two) in zip(made, states):
                opt.load_state_dict(one), schedule.load_state_dict(two)
        errors = []
        for opt, schedule in made:
            opt.step()
            given = (metric,) if name == "ReduceLROnPlateau" else (step / 3,) if epochs else ()
            try:
                attempt(schedule.step, *given)
                errors.append("")
            except Refused as error:
                errors.append(str(error))
        if any(errors):
            return (
                ""
                if all(errors)
                else f"step {step}: ours {errors[0] or 1} / torch {errors[1] or 1} {plan}"
            )
        seen = [
            [
                [
                    float(v)
                    for k in ("lr", "momentum", "betas", "initial_lr")
                    if k in g
                    for v in np.ravel(g[k])
                ]
                for g in o.param_groups
            ]
            for o, _ in made
        ]
        last = [s.get_last_lr() for _, s in made]
        if not np.allclose(seen[0], seen[1], rtol=1e-9, atol=1e-9) or not np.allclose(
            *last, rtol=1e-9, atol=1e-9
        ):
            after = [
                what for what, at in (("resumed", resume), ("by hand", by_hand)) if 0 <= at <= step
            ]
            return f"step {step} {after}: {seen[0]}, not {seen[1]} {plan} {kind}"
    return ""
