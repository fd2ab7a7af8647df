"""CPU kernels: serial Numba kernels and BLAS calls that release the GIL.

`KERNELS` says which module serves which ops; a module is imported with its first kernel. Every
kernel has its op's name and signature without `xp`; it returns NotImplemented for what it does not
serve. `fused` and `native` are no op's: they run captured steps.
"""

KERNELS = {
    "conv": ("conv2d", "conv2d_input", "conv2d_weight"),
    "dropout": ("dropout",),
    "elementwise": ("relu", "relu_input"),
    "embedding": ("embedding", "embedding_weight"),
    "machine": ("fused",),
    "native": ("native",),
    "normalize": ("batch_norm", "standardize", "standardize_input"),
    "optim": ("sgd", "adam", "rmsprop", "adadelta", "adamax"),
    "pool": (
        "max_pool2d",
        "max_pool2d_input",
        "max_pool2d_gather",
        "avg_pool2d",
        "avg_pool2d_input",
    ),
    "recurrent": ("lstm_back",),
    "reduce": ("sum",),
    "softmax": ("softmax", "log_softmax", "cross_entropy", "cross_entropy_input"),
}
