"""CPU kernels: serial Numba kernels and BLAS calls that release the GIL.

`KERNELS` says which module serves which ops; a module is imported with its first kernel. Every
kernel has its op's name and signature without `xp`; it returns NotImplemented for what it does not
serve. `fused` and `native` are no ops': they run captured steps. `switches.winograd` says whether
convolutions may use Winograd's transforms, which round a little more.
"""

from types import SimpleNamespace

switches = SimpleNamespace(winograd=True)

KERNELS = {
    "activation": ("activation", "activation_input"),
    "attention": ("attention", "attention_back"),
    "average_pool": ("avg_pool2d", "avg_pool2d_input"),
    "batch_norm": ("batch_norm", "batch_norm_own", "batch_norm_own_back", "batch_norm_own_relu",
                   "batch_norm_own_relu_back"),
    "conv": ("conv2d", "conv2d_input", "conv2d_relu", "conv2d_weight"),
    "cross_entropy": ("cross_entropy", "cross_entropy_input", "cross_entropy_mean",
                      "cross_entropy_mean_input"),
    "dropout": ("dropout",),
    "elementwise": ("relu", "relu_input", "sigmoid", "erf", "log1pexp", "clamp", "where"),
    "embedding": ("embedding", "embedding_weight"),
    "gru": ("gru", "gru_back"),
    "index": ("in_range", "put", "take_along_dim", "scatter_along"),
    "linalg": ("linear", "linear_relu", "matmul", "matmul_relu_input"),
    "lstm": ("lstm", "lstm_back"),
    "machine": ("fused",),
    "native": ("native",),
    "norm_conv": ("conv2d_norm_back", "serves_norm_back"),
    "normalize": ("group_norm", "group_norm_back", "layer_norm"),
    "optim": ("sgd", "adam", "rmsprop", "adadelta", "adamax"),
    "order": ("argsort",),
    "pool": ("max_pool2d", "max_pool2d_input", "max_pool2d_gather", "max_pool2d_relu"),
    "pooled_norm": ("batch_norm_pool", "batch_norm_own_pool_back", "batch_norm_pool_sums",
                    "batch_norm_pool_back"),
    "reduce": ("sum", "amax", "amin"),
    "resize": ("resample", "resample_input"),
    "rnn": ("rnn",),
    "scan": ("cumsum", "cumprod", "cumprod_input", "running_place"),
    "shared_norm": ("batch_moments", "batch_norm_shared", "batch_norm_sums", "batch_norm_back"),
    "softmax": ("softmax", "softmax_input", "log_softmax", "log_softmax_input",
                "logsumexp"),
}
