"""CUDA kernels: .cu text beside the Python that launches it; `emulate` runs it on the CPU.

`KERNELS` says which file serves which ops. A kernel has its op's name and arguments, and returns
NotImplemented for what it does not serve. Two are no op's: `fused` computes formulas of captured
steps, `pack` fills buckets of gradients.
"""

KERNELS = {
    "elementwise": (
        *("relu", "relu_input", "add", "sub", "mul", "div", "neg"),
        *("exp", "log", "tanh", "sigmoid", "sqrt", "erf"),
    ),
    "activation": ("activation", "activation_input"),
    "reduce": ("sum", "amax", "amin", "argmax", "argmin"),
    "softmax": (
        *("softmax", "softmax_input", "log_softmax", "log_softmax_input", "logsumexp"),
        *("cross_entropy", "cross_entropy_input"),
    ),
    "conv": ("conv2d", "conv2d_input", "conv2d_weight"),
    "pool": (
        *("max_pool2d", "max_pool2d_input", "max_pool2d_gather", "avg_pool2d", "avg_pool2d_input"),
    ),
    "dropout": ("dropout", "noise"),
    "fused": ("fused",),
    "normalize": (
        *("batch_norm", "batch_norm_own", "batch_norm_own_back", "group_norm", "group_norm_back"),
    ),
    "index": ("embedding", "embedding_weight", "put", "take_along_dim", "scatter_along"),
    "linalg": ("matmul", "linear"),
    "order": ("running_place",),
    "recurrent": ("rnn", "gru", "gru_back", "lstm", "lstm_back"),
    "attention": ("attention", "attention_back"),
    "bucket": ("pack",),
    "optim": ("sgd", "adam", "rmsprop", "adadelta", "adamax"),
}
