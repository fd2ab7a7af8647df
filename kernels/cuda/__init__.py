"""CUDA kernels: .cu text beside the Python that launches it; `emulate` runs it on the CPU."""

KERNELS = {
    "elementwise": (
        *(
            "relu",
            "relu_input",
            "add",
            "sub",
            "mul",
            "div",
            "neg",
            "exp",
            "log",
            "tanh",
            "sigmoid",
            "sqrt",
        ),
    ),
    "reduce": ("sum",),
    "softmax": ("softmax", "log_softmax", "cross_entropy", "cross_entropy_input"),
    "conv": ("conv2d", "conv2d_input", "conv2d_weight"),
    "pool": (
        *("max_pool2d", "max_pool2d_input", "max_pool2d_gather", "avg_pool2d", "avg_pool2d_input"),
    ),
    "dropout": ("dropout",),
    "fused": ("fused",),
    "normalize": ("batch_norm",),
    "optim": ("sgd", "adam", "rmsprop", "adadelta", "adamax"),
}
