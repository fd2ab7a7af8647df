"""The pages of the reference: which files' public names stand on which page.

A new function in a file that is named here gets its entry by itself. A new file needs a place:
``file`` for names of ``minidp`` itself, ``space:file`` or ``space:*`` for names of another module,
``=name`` for one name.
"""

SPACES = [
    "minidp", "minidp.linalg", "minidp.cuda", "minidp.nn", "minidp.nn.functional",
    "minidp.nn.init", "minidp.nn.utils", "minidp.nn.utils.rnn", "minidp.optim",
    "minidp.optim.lr_scheduler", "minidp.optim.swa_utils", "minidp.data", "minidp.io",
    "minidp.distributions", "minidp.parallel", "minidp.testing", "minidp.errors",
]  # fmt: skip
"""The modules that users reach names in."""

TORCH = {
    "minidp": "torch", "minidp.linalg": "torch.linalg", "minidp.cuda": "torch.cuda",
    "minidp.nn": "torch.nn", "minidp.nn.functional": "torch.nn.functional",
    "minidp.nn.init": "torch.nn.init", "minidp.nn.utils": "torch.nn.utils",
    "minidp.nn.utils.rnn": "torch.nn.utils.rnn", "minidp.optim": "torch.optim",
    "minidp.optim.lr_scheduler": "torch.optim.lr_scheduler",
    "minidp.optim.swa_utils": "torch.optim.swa_utils", "minidp.data": "torch.utils.data",
    "minidp.distributions": "torch.distributions",
}  # fmt: skip
"""PyTorch's name of each."""

AUTOGRAD = ("hessian", "hvp", "jacobian", "jvp", "vhp", "vjp")
VISION = ("Compose", "Lambda", "Normalize", "Pad", "RandomCrop", "RandomHorizontalFlip")
ELSEWHERE = {
    "minidp.grad": "torch.autograd.grad",
    "minidp.checkpoint": "torch.utils.checkpoint.checkpoint",
    "minidp.Parameter": "torch.nn.Parameter", "minidp.Buffer": "torch.nn.Buffer",
    "minidp.Device": "torch.device",
    "minidp.testing.gradcheck": "torch.autograd.gradcheck",
    "minidp.testing.gradgradcheck": "torch.autograd.gradgradcheck",
    **{f"minidp.{name}": f"torch.autograd.functional.{name}" for name in AUTOGRAD},
    **{f"minidp.data.{name}": f"torchvision.transforms.{name}" for name in VISION},
}  # fmt: skip
"""What PyTorch has under another module."""

OWN = {
    "minidp.Batch", "minidp.Scheduler", "minidp.Whole", "minidp.World", "minidp.capture",
    "minidp.device_list", "minidp.launch", "minidp.op",
    "minidp.data.ImageDataset", "minidp.data.Transform", "minidp.data.fashion_mnist",
    "minidp.data.Position", "minidp.data.mnist", "minidp.data.read_idx", "minidp.data.write_idx",
    "minidp.io.Checkpoints",
    "minidp.nn.SinusoidalPositions", "minidp.nn.StateDictError", "minidp.nn.summary",
    "minidp.nn.functional.same_padding", "minidp.nn.init.fans",
    "minidp.optim.lr_scheduler.WarmupLR",
}  # fmt: skip
"""What PyTorch does not have under this name."""

PAGES = {
    "tensor": ("Tensor", "An array, and the node that remembers how it was made.", {
        "": "=Tensor", "What modules hold": "parameter", "Printing": "printing"}),
    "creation": ("Making tensors", "All take ``dtype`` (by default float32, or what the values "
        "are), ``device`` (that of the running replica) and ``requires_grad``. Sizes may be given "
        "one by one, as a sequence, or as ``size``.", {
        "": "create functions.interop", "Random numbers": "draw random", "Dtypes": "types mode"}),
    "elementwise": ("Element by element", "Arguments broadcast; results have the promoted "
        "dtype. dy/dx is what a cotangent is multiplied by.", {
        "Arithmetic": "ops.arithmetic functions.elementwise",
        "Powers, exponentials, logarithms": "ops.exponential",
        "Angles and hyperbolic functions": "ops.trigonometric",
        "Error function and gamma function": "ops.error_function",
        "Comparisons, rounding, choices": "ops.comparison functions.comparison"}),
    "reductions": ("Reductions", "Many values become one, along some axes.", {
        "": "ops.reduce functions.reduce functions.statistics functions.summation "
            "ops.collective",
        "Order": "functions.order"}),
    "layout": ("Layout", "The same values in another shape, place or number.", {
        "Shape": "ops.layout functions.layout", "Places and numbers": "functions.arrange",
        "Together and apart": "functions.join"}),
    "indexing": ("Indexing", "Values chosen by number, by mask, by place.", {
        "": "ops.index functions.index functions.places functions.along functions.search"}),
    "linalg": ("Linear algebra", "Products, factorisations, systems of equations.", {
        "Products": "ops.linalg functions.linalg functions.distance",
        "minidp.linalg": "linalg:*"}),
    "autograd": ("Gradients", "Recording, going back, derivatives of functions.", {
        "": "autograd anomaly recompute", "Derivatives of functions": "derivatives",
        "Ops of one's own": "op", "Captured steps": "graph.captured", "Checking": "testing:*"}),
    "nn-modules": ("Modules", "What holds parameters, and what holds modules.", {
        "": "nn:nn.module nn:nn.container nn:nn.state nn:nn.summary nn:nn.layer nn:nn.hooks "
            "nn:parameter",
        "Initial values": "nn.init:*"}),
    "nn-layers": ("Layers", "Modules by kind; each calls a function of nn.functional.", {
        "Linear": "nn:nn.linear", "Convolution": "nn:nn.conv", "Pooling": "nn:nn.pool",
        "Activations": "nn:nn.activation", "Normalisation": "nn:nn.normalize",
        "Dropout": "nn:nn.dropout", "Recurrent": "nn:nn.recurrent",
        "Embeddings and attention": "nn:nn.embedding nn:nn.attention nn:nn.transformer",
        "Shape and size": "nn:nn.resize"}),
    "nn-losses": ("Losses", "Modules that give one number for a batch.", {"": "nn:nn.loss"}),
    "nn-functional": ("nn.functional", "Layers and losses as functions.", {
        "Linear": "nn.functional:functional.linear",
        "Convolution": "nn.functional:functional.conv",
        "Pooling": "nn.functional:functional.pool nn.functional:ops.pool",
        "Activations": "nn.functional:functional.activation",
        "Normalisation": "nn.functional:functional.norm",
        "Dropout": "nn.functional:functional.dropout",
        "Embeddings and attention": "nn.functional:functional.embedding "
                                    "nn.functional:functional.attention",
        "Size": "nn.functional:functional.resize nn.functional:functional.grid "
                "nn.functional:functions.padding",
        "Losses": "nn.functional:functional.loss nn.functional:functional.likelihood "
                  "nn.functional:functional.margin nn.functional:functional.alignment"}),
    "nn-utils": ("nn.utils", "Tools for gradients, parameters and sequences.", {
        "": "nn.utils:*", "Sequences": "nn.utils.rnn:*"}),
    "optim": ("Optimisers", "Rules that change parameters by their gradients.", {
        "": "optim:*", "Averages of weights": "optim.swa_utils:*"}),
    "lr_scheduler": ("Learning-rate schedules", "The rate as a function of the step.", {
        "": "optim.lr_scheduler:*"}),
    "data": ("Data", "Data sets, loaders, transforms, digits.", {"": "data:*"}),
    "distributions": ("Distributions", "Samples, log-probabilities, divergences.", {
        "": "distributions:*"}),
    "parallel": ("Data parallelism", "One program on several devices.", {
        "": "parallel.scheduler parallel.batch parallel.launch parallel.replica",
        "Devices": "device =get_num_threads =set_num_threads cuda:*"}),
    "files": ("Files", "What is saved and loaded: values, and runs that go on.", {
        "": "io.checkpoint io:io.checkpoints"}),
    "errors": ("Errors", "What is raised on purpose.", {"": "errors:*"}),
}  # fmt: skip
"""Page: title, first sentence, sections with the places that they are filled from."""
