"""The cases that are not run, each with its reason."""

CONTROL = "control flow is Python's own: no function takes a graph"
RANDOM = "the values come from another random generator"
COMPLEX = "minidp has no complex numbers"
DETECTION = "belongs to torchvision, not to torch"
PILLOW = "files of pictures are not read by minidp"

OPERATORS = {
    "If": CONTROL, "Loop": CONTROL, "Scan": CONTROL,
    "OptionalGetElement": "Python has None", "OptionalHasElement": "Python has None",
    "Bernoulli": RANDOM, "DFT": COMPLEX, "STFT": COMPLEX,
    "DeformConv": DETECTION, "NonMaxSuppression": DETECTION, "RoiAlign": DETECTION,
    "ImageDecoder": PILLOW,
    "TfIdfVectorizer": "text is not in minidp", "TreeEnsemble": "trees are not in minidp",
    "MelWeightMatrix": "belongs to torchaudio",
    "BlackmanWindow": "PyTorch's signal windows are not in minidp",
    "HammingWindow": "PyTorch's signal windows are not in minidp",
    "HannWindow": "PyTorch's signal windows are not in minidp",
}  # fmt: skip
"""Operators of which no case is run."""

GRAPH = "takes a graph that changes the scores; in minidp that is Python, by hand"
EMPTY = "amax and amin of nothing raise, as PyTorch's do"
EDGES = "PyTorch's antialiasing leaves out what lies outside; ONNX repeats the edge"
COORDINATES = "PyTorch has no such coordinates"
SCALE = "PyTorch aligns corners by sizes, ONNX by the scale before rounding"

CASES = {
    "training_dropout_default": RANDOM, "training_dropout_default_mask": RANDOM,
    "training_dropout": RANDOM, "training_dropout_mask": RANDOM,
    "flexattention_score_mod": GRAPH, "flexattention_prob_mod": GRAPH,
    "flexattention_causal_mask": GRAPH, "flexattention_soft_cap": GRAPH,
    "flexattention_relative_positional": GRAPH,
    "reduce_max_empty_set": EMPTY, "reduce_max_empty_set_bool": EMPTY,
    "reduce_min_empty_set": EMPTY,
    "col2im_5d": "fold takes pictures of two axes, as PyTorch's does",
    "resize_downsample_scales_linear_align_corners": SCALE,
    "resize_downsample_scales_cubic_align_corners": SCALE,
    "resize_upsample_scales_cubic_A_n0p5_exclude_outside": "PyTorch's cubic has a = -0.75 only",
    "resize_downsample_scales_cubic_A_n0p5_exclude_outside": "PyTorch's cubic has a = -0.75 only",
    "resize_upsample_scales_cubic_asymmetric": COORDINATES,
    "resize_tf_crop_and_resize_extrapolation_value": "grid_sample has no other value than 0",
    "resize_downsample_sizes_linear_pytorch_half_pixel":
        "one pixel is the middle one in PyTorch, the first one in ONNX",
    "resize_upsample_sizes_nearest_floor_align_corners": COORDINATES,
    "resize_upsample_sizes_nearest_round_prefer_ceil_asymmetric": COORDINATES,
    "resize_upsample_sizes_nearest_ceil_half_pixel": COORDINATES,
    "resize_downsample_scales_linear_half_pixel_symmetric": COORDINATES,
    "resize_upsample_scales_linear_half_pixel_symmetric": COORDINATES,
    "resize_downsample_scales_linear_antialias": EDGES,
    "resize_downsample_sizes_linear_antialias": EDGES,
    "resize_downsample_scales_cubic_antialias": EDGES,
    "resize_downsample_sizes_cubic_antialias": EDGES,
}  # fmt: skip
"""Single cases of operators that are run."""
