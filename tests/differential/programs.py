"""Random programs: chains of calls over a pool of tensors, views and changes in place among them.

``Program(seed)`` makes every step in both libraries and compares at once; ``difference()`` gives
the first difference as text, with the program up to there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import minidp as dp
from differential.random_values import Draw
from differential.twins import (
    array,
    errors_unlike,
    flattened,
    is_tensor,
    least_exact,
    name_of,
    ours,
    theirs,
    torch,
    unlike,
)

UNARY = ("sin", "cos", "tanh", "sigmoid", "exp", "abs", "relu", "square", "neg", "sqrt", "clone",
         "contiguous", "detach", "log1p", "erf", "sign", "reciprocal", "floor")  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "where", "pow", "atan2")
IN_PLACE = ("add_", "sub_", "mul_", "div_", "sin_", "exp_", "zero_", "fill_", "copy_", "setitem",
            "masked_fill_", "sigmoid_", "tanh_", "clamp_", "neg_", "iadd", "imul", "relu_",
            "sqrt_", "square_", "abs_", "pow_", "addcmul_", "lerp_")  # fmt: skip
REDUCE = ("sum", "mean", "prod", "amax", "std", "var", "logsumexp", "max", "min", "cumsum",
          "softmax", "sort", "norm", "median", "cumprod", "log_softmax")  # fmt: skip
VIEWS = ("transpose", "reshape", "slice", "select", "unsqueeze", "squeeze", "expand", "flatten",
         "diagonal", "narrow", "chunk", "unbind", "T", "permute", "split", "view_as")  # fmt: skip
COPIES = ("take", "mask", "cat", "stack", "flip", "roll", "tril", "gather", "index_select",
          "repeat", "pad", "matmul", "einsum", "outer")  # fmt: skip


class Program:
    """Pairs of tensors, ours and PyTorch's, and the steps so far as text."""

    def __init__(self, seed: int) -> None:
        self.draw = Draw(777, seed)
        self.pool: list[tuple[Any, Any]] = []
        self.text: list[str] = []
        self.leaves: list[tuple[Any, Any]] = []
        self.over = False
        self.dtype = self.draw.pick("float32", "float64", "float64")
        for _ in range(self.draw.number(1, 3)):
            self.leaf()

    def leaf(self) -> None:
        shape = self.draw.shape(0, 3, empty=False)
        dtype = self.dtype if self.draw.chance(0.9) else self.draw.dtype("fi")
        values = self.draw.values(shape, dtype, self.draw.pick("smooth", "positive", "ties"))
        wants = values.dtype.kind == "f" and self.draw.chance(0.75)
        pair = dp.tensor(values), torch.tensor(values)
        if wants:
            pair = tuple(x.requires_grad_() for x in pair)
            self.leaves.append(pair)
        self.text.append(f"t{len(self.pool)} = tensor({np.array2string(values, separator=',')}, "
                         f"{dtype}{list(shape)}, {wants})".replace("\n", ""))  # fmt: skip
        self.pool.append(pair)

    def difference(self) -> str | None:
        for _ in range(self.draw.number(3, 12)):
            found = self.step()
            if found or self.over:
                return found and "\n    ".join([found, *self.text])
        found = self.finish()
        return found and "\n    ".join([found, *self.text])

    def step(self) -> str | None:
        i = self.draw.number(max(0, len(self.pool) - 4), len(self.pool) - 1)
        kind = self.draw.pick("unary", "binary", "binary", "inplace", "inplace", "reduce", "view",
                              "view", "copy")  # fmt: skip
        text, call = getattr(self, kind)(i)
        # views under no_grad(), and of several at once, are among the deviations
        silent = kind not in ("view", "copy") and self.draw.chance(0.1)
        self.text.append(("no_grad: " if silent else "") + f"t{len(self.pool)} = {text}")
        both = []
        for side, (lib, run) in enumerate(((dp, ours), (torch, theirs))):
            pool = [pair[side] for pair in self.pool]

            def made(lib: Any = lib, pool: Any = pool) -> Any:
                if silent:
                    with lib.no_grad():
                        return call(lib, pool)
                return call(lib, pool)

            both.append(run(made))
        (mine, error), (other, wrong) = both
        if error is not None or wrong is not None:
            self.text[-1] += "   # raises"
            self.over = (error is None) != (wrong is None)  # from here on the values differ
            return errors_unlike(error, wrong)
        a, b = flattened(mine), flattened(other)
        if len(a) != len(b):
            return f"{len(a)} results instead of {len(b)}"
        for x, y in zip(a, b, strict=True):
            found = unlike(x, y, least=self.least())
            if found:
                return found
            if is_tensor(y) and y.is_leaf != x.is_leaf:
                return f"is_leaf {x.is_leaf}"
        pick = self.draw.number(0, len(a) - 1)
        if len(a) > 1:
            self.text[-1] += f"[{pick}]"
        if is_tensor(b[pick]) and b[pick].numel():  # views of nothing are among the deviations
            self.pool.append((a[pick], b[pick]))
        return self.whole()

    def least(self) -> str | None:
        return least_exact([y for _, y in self.pool])

    def whole(self) -> str | None:
        """Whether all tensors are still alike: a change in place shows in views and bases."""
        for i, (x, y) in enumerate(self.pool):
            found = unlike(x, y, least=self.least())
            if found:
                return f"t{i} afterwards: {found}"
        return None

    def finish(self) -> str | None:
        """backward() of a weighted sum of some of the pool; ``.grad`` of the leaves."""
        ends = [i for i, (_, y) in enumerate(self.pool) if y.requires_grad and not y.is_leaf]
        if not ends or not self.leaves:
            return None
        chosen = sorted({ends[-1], *(i for i in ends if self.draw.chance(0.3))})
        weights = {i: self.draw.rng.standard_normal(tuple(self.pool[i][1].shape)) for i in chosen}
        self.text.append(f"backward from {', '.join(f't{i}' for i in chosen)}")

        def back(lib: Any, side: int) -> None:
            total = 0
            for i in chosen:
                x = self.pool[i][side]
                w = lib.tensor(np.asarray(weights[i]).astype(name_of(x.dtype)))
                total = total + (x * w).sum().to(lib.float64)
            total.backward()

        (_, error), (_, wrong) = ours(lambda: back(dp, 0)), theirs(lambda: back(torch, 1))
        if error is not None or wrong is not None:
            found = errors_unlike(error, wrong)
            return found and f"backward {found}"
        for i, (x, y) in enumerate(self.leaves):
            if (x.grad is None) != (y.grad is None):
                grad = y.grad if x.grad is None else x.grad
                if array(grad).any():
                    return f"leaf {i}: grad {x.grad} instead of {y.grad}"
            elif y.grad is not None:
                found = unlike(x.grad, y.grad, False, self.least())
                if found:
                    return f"leaf {i}: gradient {found}"
        return None

    # The kinds of steps: text, and a function of the library and the pool

    def shape(self, i: int) -> tuple[int, ...]:
        return tuple(self.pool[i][1].shape)

    def unary(self, i: int) -> Any:
        name = self.draw.pick(*UNARY)
        return f"t{i}.{name}()", lambda lib, p: getattr(p[i], name)()

    def other(self, i: int) -> int:
        """A tensor that broadcasts with t_i, mostly; i itself if there is no other."""
        fits = []
        for j in range(len(self.pool)):
            try:
                if np.broadcast_shapes(self.shape(i), self.shape(j)) == self.shape(i):
                    fits.append(j)
            except ValueError:
                pass
        return (
            self.draw.pick(*fits)
            if self.draw.chance(0.95)
            else self.draw.number(0, len(self.pool) - 1)
        )

    def binary(self, i: int) -> Any:
        name, j = self.draw.pick(*BINARY), self.other(i)
        if name == "where":
            return f"where(t{i} > 0, t{i}, t{j})", lambda lib, p: lib.where(p[i] > 0, p[i], p[j])
        if name in ("add", "sub", "mul", "div", "pow") and self.draw.chance(0.4):
            c = self.draw.pick(2, 0.5, -1, 3.0)
            if name == "pow" and self.draw.chance():
                return f"{c} ** t{i}", lambda lib, p: c ** p[i]
            return f"{name}(t{i}, {c})", lambda lib, p: getattr(lib, name)(p[i], c)
        return f"{name}(t{i}, t{j})", lambda lib, p: getattr(lib, name)(p[i], p[j])

    def inplace(self, i: int) -> Any:
        name, j, c = self.draw.pick(*IN_PLACE), self.other(i), self.draw.pick(2.0, 0.5, -1, 3)
        use = self.draw.chance(0.6)
        storage = [self.pool[k][1].untyped_storage().data_ptr() for k in (i, j)]
        if storage[0] == storage[1]:
            j = i  # what PyTorch reads while it writes there is not said
        if name == "setitem":
            return self.assign(i, j, c, use)
        if name in ("iadd", "imul"):

            def change(lib: Any, p: Any) -> Any:
                x = p[i]
                if name == "iadd":
                    x += p[j] if use else c
                else:
                    x *= p[j] if use else c
                return x

            return f"t{i} {name} {f't{j}' if use else c}", change
        if name == "masked_fill_":
            return f"t{i}.masked_fill_(t{i} > 0.5, {c})", lambda lib, p: p[i].masked_fill_(
                p[i] > 0.5, c
            )
        if name == "clamp_":
            return f"t{i}.clamp_(-0.5, 0.8)", lambda lib, p: p[i].clamp_(-0.5, 0.8)
        if name == "addcmul_":
            return f"t{i}.addcmul_(t{j}, t{j}, value=0.5)", lambda lib, p: p[i].addcmul_(
                p[j], p[j], value=0.5
            )
        if name == "lerp_":
            return f"t{i}.lerp_(t{j}, 0.25)", lambda lib, p: p[i].lerp_(p[j], 0.25)
        if name in ("add_", "sub_", "mul_", "div_", "copy_"):
            b = use or name == "copy_"
            return (f"t{i}.{name}({f't{j}' if b else c})",
                    lambda lib, p: getattr(p[i], name)(p[j] if b else c))  # fmt: skip
        if name in ("fill_", "pow_"):
            return f"t{i}.{name}({c})", lambda lib, p: getattr(p[i], name)(c)
        return f"t{i}.{name}()", lambda lib, p: getattr(p[i], name)()

    def assign(self, i: int, j: int, c: Any, use: bool) -> Any:
        from differential.functions import key
        from differential.twins import build

        where = key(self.draw, self.shape(i), distinct=True)

        def change(lib: Any, p: Any) -> Any:
            p[i][build(lib, where, [])] = p[j] if use and j != i else c
            return p[i]

        return f"t{i}[{where!r}] = {f't{j}' if use and j != i else c}", change

    def reduce(self, i: int) -> Any:
        name, rank = self.draw.pick(*REDUCE), len(self.shape(i))
        dim, keep = self.draw.dim(rank), self.draw.chance(0.4)
        if name in ("cumsum", "softmax", "sort", "cumprod", "log_softmax"):
            return f"t{i}.{name}({dim})", lambda lib, p: getattr(p[i], name)(dim)
        if name == "norm":
            return f"t{i}.norm(2, {dim}, {keep})", lambda lib, p: p[i].norm(2, dim, keep)
        if name == "logsumexp" or self.draw.chance(0.7):
            return (f"t{i}.{name}(dim={dim}, keepdim={keep})",
                    lambda lib, p: getattr(p[i], name)(dim=dim, keepdim=keep))  # fmt: skip
        return f"t{i}.{name}()", lambda lib, p: getattr(p[i], name)()

    def view(self, i: int) -> Any:
        draw, shape, rank = self.draw, self.shape(i), len(self.shape(i))
        name, a, b = draw.pick(*VIEWS), draw.dim(rank), draw.dim(rank)
        n = shape[a] if rank and -rank <= a < rank else 1
        if name == "transpose":
            return f"t{i}.transpose({a}, {b})", lambda lib, p: p[i].transpose(a, b)
        if name == "reshape":
            return self.flat(i, "reshape", -1)
        if name == "view_as":
            return f"t{i}.view_as(t{i})", lambda lib, p: p[i].view_as(p[i])
        if name == "slice":
            from differential.functions import key

            parts = key(draw, shape)
            parts = parts if isinstance(parts, tuple) else (parts,)
            where = tuple(x for x in parts if x is None or x is ... or isinstance(x, slice))
            return f"t{i}[{where}]", lambda lib, p: p[i][where]
        if name == "select":
            at = draw.number(-n, n - 1) if n else 0
            return f"t{i}.select({a}, {at})", lambda lib, p: p[i].select(a, at)
        if name == "unsqueeze":
            return f"t{i}.unsqueeze({a})", lambda lib, p: p[i].unsqueeze(a)
        if name == "squeeze":
            return f"t{i}.squeeze({a})", lambda lib, p: p[i].squeeze(a)
        if name == "expand":
            return f"t{i}.expand(2, *shape)", lambda lib, p: p[i].expand(2, *p[i].shape)
        if name == "flatten":
            return self.flat(i, "flatten")
        if name == "diagonal":
            return f"t{i}.diagonal()", lambda lib, p: p[i].diagonal()
        if name == "narrow":
            start = draw.number(0, n)
            length = draw.number(0, n - start)
            return f"t{i}.narrow({a}, {start}, {length})", lambda lib, p: p[i].narrow(
                a, start, length
            )
        if name == "chunk":
            return f"t{i}.chunk(2, {a})", lambda lib, p: _cloned(p[i].chunk(2, a))
        if name == "split":
            return f"t{i}.split(2, {a})", lambda lib, p: _cloned(p[i].split(2, a))
        if name == "unbind":
            return (f"t{i}.unbind({a})", lambda lib, p: _cloned(p[i].unbind(a))) if n else (
                f"t{i}.clone()", lambda lib, p: p[i].clone())  # fmt: skip
        if name == "T":
            return f"t{i}.T", lambda lib, p: p[i].T
        order = [int(x) for x in draw.rng.permutation(rank)]
        return f"t{i}.permute({order})", lambda lib, p: p[i].permute(order)

    def flat(self, i: int, name: str, *args: Any) -> Any:
        """A view only of what lies in C order in both: how results lie in memory may differ."""
        if all(x.is_contiguous() for x in self.pool[i]):
            return f"t{i}.{name}{args}", lambda lib, p: getattr(p[i], name)(*args)
        return f"t{i}.{name}{args}.clone()", lambda lib, p: getattr(p[i], name)(*args).clone()

    def copy(self, i: int) -> Any:
        draw, shape, rank = self.draw, self.shape(i), len(self.shape(i))
        name, a = draw.pick(*COPIES), draw.dim(rank)
        n = shape[a] if rank and -rank <= a < rank else 1
        if name == "take":
            from differential.functions import key
            from differential.twins import build

            where = key(draw, shape)
            return f"t{i}[{where!r}]", lambda lib, p: p[i][build(lib, where, [])]
        if name == "mask":
            return f"t{i}[t{i} > 0]", lambda lib, p: p[i][p[i] > 0]
        if name in ("cat", "stack"):
            j = self.other(i)
            return f"{name}([t{i}, t{j}], {a})", lambda lib, p: getattr(lib, name)([p[i], p[j]], a)
        if name == "flip":
            return f"t{i}.flip({a})", lambda lib, p: p[i].flip(a)
        if name == "roll":
            return f"t{i}.roll(1, {a})", lambda lib, p: p[i].roll(1, a)
        if name == "tril":
            return f"t{i}.tril()", lambda lib, p: p[i].tril()
        if name in ("gather", "index_select"):
            index = draw.rng.integers(0, max(n, 1), 2 if n else 0)
            return (f"t{i}.index_select({a}, {index})",
                    lambda lib, p: p[i].index_select(a, lib.tensor(index)))  # fmt: skip
        if name == "repeat":
            return f"t{i}.repeat(2, *1s)", lambda lib, p: p[i].repeat(2, *[1] * p[i].ndim)
        if name == "pad":
            return f"pad(t{i}, (1, 2))", lambda lib, p: lib.nn.functional.pad(p[i], (1, 2))
        if name == "matmul":
            return f"t{i} @ t{i}.mT", lambda lib, p: p[i] @ p[i].mT
        if name == "einsum":
            return (f"einsum('...i,...i->...', t{i}, t{i})",
                    lambda lib, p: lib.einsum("...i,...i->...", p[i], p[i]))  # fmt: skip
        return f"outer(t{i}, t{i})", lambda lib, p: lib.outer(p[i].reshape(-1), p[i].reshape(-1))


def _cloned(parts: Any) -> Any:
    return tuple(part.clone() for part in parts)


def main(first: int, last: int) -> None:
    from differential.deviations import reason

    seen: dict[str, int] = {}
    for seed in range(first, last):
        found = Program(seed).difference()
        if found and not reason(found, found):
            kind = found.splitlines()[0]
            kind = " ".join("#" if any(c.isdigit() for c in w) else w for w in kind.split()[:9])
            seen[kind] = seen.get(kind, 0) + 1
            if seen[kind] <= 2:
                print(f"seed {seed}: {found}", flush=True)
    print(seen, sum(seen.values()), "of", last - first)


if __name__ == "__main__":
    import sys

    main(int(sys.argv[1]), int(sys.argv[2]))
