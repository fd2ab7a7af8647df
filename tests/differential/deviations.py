"""What differs from PyTorch on purpose: the suite skips these, and docs/pytorch.md explains them.

Each row: the calls it is about (a regular expression), what the difference says (a regular
expression), and the reason.
"""

from __future__ import annotations

import re

EDGE = r"inf|nan"
TABLE: list[tuple[str, str, str]] = [
    (
        r"",
        r"does not raise TypeError: \w+\(\): argument '(other|values|end)' \(position \d\) must be"
        " Tensor",
        "numbers are taken where PyTorch's function wants a tensor",
    ),
    (
        r"",
        "does not raise TypeError: .*(missing|invalid combination of arguments)",
        "a few arguments may be left out that PyTorch's overloads want",
    ),
    (r"view_as|kron", "view size is not compatible", "view() is reshape() and may copy"),
    (
        r"^(Tensor\.)?(scatter\w*)|scatter",
        "backward does not raise RuntimeError: Function Scatter",
        "src may be larger than index, backward too; PyTorch refuses then",
    ),
    (
        r"assigned|copy_|\] = t",
        "Index put requires the source and destination dtypes match",
        "assigned values are cast",
    ),
    (r"assigned", r"indexing result of shape \((0|.* 0[,)])", "what goes nowhere is checked too"),
    (
        r"prod",
        r"gradient .*(instead of (nan|-?inf)|nan instead of)",
        "prod and cumprod of infinite values: derivatives are those of the products",
    ),
    (
        r"(std|var)\w*\(.*(\[\]|\(\))",
        "gradient",
        "std and var over dim=() : PyTorch's gradient is that of no reduction",
    ),
    (
        r"(std|var)_mean",
        "result 1: values: .* -?inf instead of nan",
        "the mean beside a variance is inf where a value is infinite; PyTorch's is NaN",
    ),
    (r"heaviside", "requires_grad|heaviside is not yet implemented", "heaviside has no gradient"),
    (r"^inplace\.(eq|lt|logical_\w+)_", "requires_grad", "comparisons in place leave the graph"),
    (r"det\(", "gradient|raises LinAlgError", "det of a singular matrix has its true gradient"),
    (r"empty\(|empty_strided", "missing 1 required", "empty() is a number"),
    (
        r"",
        r"second (gradient|second).*instead of (nan|-?inf)|second gradient.*nan instead of",
        "second derivatives where PyTorch's or ours is not finite",
    ),
    (
        r"",
        "INTERNAL ASSERT|must be int, not bool|element of type bool|positive and integral",
        "PyTorch's own trouble with bools",
    ),
    (
        r"clamp|clip",
        "backward does not raise RuntimeError: output with shape",
        "PyTorch's clamp has no gradient where its bounds are wider",
    ),
    (
        r"__r(truediv|pow)__",
        "values|gradient|dtype",
        "PyTorch's reflected forms, called by hand, round once more",
    ),
    (r"norm", "dim must be a 2-tuple", "norm over three axes"),
    (r"logsumexp", "does not raise RuntimeError: output with shape", "logsumexp over no axes"),
    (r"logcumsumexp", "gradient .*instead of nan", "logcumsumexp beside infinite values"),
    (r"nanmean", "gradient .* 0.0 instead of nan", "nanmean of nothing but NaN has gradient 0"),
    (r"logit", "gradient", "logit at and beyond its ends"),
    (
        r"(std|var)",
        "gradient .*nan instead of|gradient .*instead of nan",
        "std and var of infinite values",
    ),
    (
        r"norm",
        "gradient .*instead of (nan|-0.0|0.0)|nan instead",
        "norm of NaN and infinite values",
    ),
    (
        r"(cat|stack|concat\w*)\(",
        "requires_grad|raises (Axis|Shape)Error: cat: dim",
        "what an empty vector adds to cat",
    ),
    (
        r"addmm|addmv|addr|baddbmm|addbmm",
        "values: .*nan instead",
        "alpha=0 times infinite products is NaN",
    ),
    (
        r"int\d*[\[, ].*requires|assigned\(<.*int|(fill|masked_fill)_\(<.*(int|bool)",
        "requires_grad",
        "an integer tensor requires no gradient, whatever is written to it",
    ),
    (
        r"take_along_dim",
        "view size is not compatible",
        "PyTorch's take_along_dim of what is not contiguous",
    ),
    (r"pow_*\(.*(True|False)", "gradient", "pow by a bool"),
    (r"eig", "second", "eigenvalues: the second derivative's other triangle"),
    (r"linalg.(norm|matrix_norm|cond)", "raises (Index|Axis|Shape)Error", "norms of no values"),
    (r"linalg.cond", "requires_grad|values", "cond of singular matrices, and of none"),
    (r"linalg.(svd|qr|lstsq|matrix_norm)", "values|raises LinAlgError", "singular matrices"),
    (r"linalg.solve_triangular|cholesky_solve", "raises LinAlgError", "a zero on the diagonal"),
    (r"(un)?squeeze_|\bt_|transpose_|swap(axes|dims)_", "raises GraphError",
     "shapes of views and of recorded tensors do not change in place"),
    (r"linalg.(solve|lstsq)", "does not raise", "systems whose batches broadcast are taken"),
    (r"scatter_reduce", "backward does not raise", "scatter_reduce of nothing"),
    (r"index_put", "out of range", "index_put of nothing is checked"),
    (r"cummax|cummin", "is not an axis", "dims are checked of empty tensors too"),
    (r"Tensor.unfold", "memory|shape", "unfold is a copy"),
    (r"Tensor.stride", "", "strides of axes of length one are NumPy's"),
    (r"^(Tensor.)?tensor\(", "cannot be interpreted", "NumPy numbers are taken"),
    (r"__ipow__", "does not fit into bool", "pow_ of bool"),
    (r"^transpose|Tensor.mT|getattr_mT", "dim -2", "mT of a vector"),
    (r"promotion", "Subtraction", "bools are subtracted from numbers"),
    (r"numpy", "np.(max|min)", "np.max(x, axis) gives values and places, as PyTorch's does"),
    (
        r"pow",
        "Integers to negative integer powers",
        "of nothing, and of uint8, no power is refused",
    ),
    (r"masked_fill_", "without overflow", "a tensor's infinity is cast to integers"),
    (r"pow\(", "second gradient 1", "d(b a^(b-1))/db at b = 0 is a^-1; PyTorch's is 0"),
    (r"^(Tensor.)?std", "gradient .* 0.0 instead of", "std of equal values has gradient 0 exactly"),
    (r"std|var", "inf instead of nan|nan instead of", "std and var of too few values"),
    (r"median", "values", "PyTorch's median of expanded tensors reads beyond them"),
    (r"scatter_reduce", "gradient 1", "scatter_reduce: values that were replaced are no ties"),
    (r"bmm|matmul|mm\(", "arguments of (float|int)", "products of nothing are checked too"),
    (r"b?addb?mm|addmv|addr", "requires_grad", "with beta=0 the input has no part in the result"),
    (r"linspace", "values", "linspace in unsigned integers does not wrap"),
    (r"roll", "is not an axis", "dims are checked of empty tensors too"),
    (r"take_along_dim", "out of range", "PyTorch's take_along_dim lets some indices pass"),
    (r"index_(add|copy)", "source is scalar|Dimension specified as 0", "no index writes nothing"),
    (r"cartesian_prod", "memory", "cartesian_prod of one vector is a copy"),
    (r"^(Tensor.)?(as_)?tensor\(", "overflow|cannot be interpreted", "too large values are inf"),
    (r"full\(", "overflow", "too large values are inf"),
    (
        r"pinv|eig|pairwise_distance|cosine_similarity",
        "gradient|values",
        "ill conditioned in float32",
    ),
    (r"sinc", "second gradient", "second derivatives of sinc near 0 lose digits in float32"),
    (r"xlogy\(.*nan\)", "gradient", "xlogy by the number NaN"),
    (r"index_(add|fill|copy|select)\w*\(<\[\]", "out of range", "indices into nothing are checked"),
    (r"scatter_reduce", "gradient", "scatter_reduce: values that were replaced are no ties"),
    (
        r"",
        "does not raise RuntimeError: one of the variables needed",
        "methods in place keep copies: backward works where PyTorch refuses",
    ),
    (
        r"",
        "assignment destination is read-only|an expanded tensor or a read-only array",
        "expanded tensors cannot be written to",
    ),
    (r"addc(mul|div)", "gradient", "addcmul and addcdiv of infinite values"),
    (r"addcmul_", "does not fit into", "addcmul of integers with a real value"),
    (r"lerp", "expected dtype", "lerp promotes"),
    (r"index_add\(", "Dimension specified as 0", "index_add of numbers"),
    (r"float\d\d\[.*\b0\b.*\]", "view of a leaf Variable", "changes of nothing are not noticed"),
    (
        r"lstsq",
        "requires_grad|values",
        "lstsq: residuals are not recorded; of a singular matrix the least solution",
    ),
]


def reason(call: str, difference: str) -> str | None:
    """Why a difference is one on purpose, if it is."""
    for path, text, why in TABLE:
        if re.search(path, call) and re.search(text, difference):
            return why
    return None
