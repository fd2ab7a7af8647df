"""Every element-wise op under one roof."""

from minidp.ops.arithmetic import *  # noqa: F403
from minidp.ops.arithmetic import add as add
from minidp.ops.arithmetic import clamp as clamp
from minidp.ops.arithmetic import div as div
from minidp.ops.arithmetic import relu_input as relu_input
from minidp.ops.arithmetic import round as round
from minidp.ops.arithmetic import sub as sub
from minidp.ops.comparison import *  # noqa: F403
from minidp.ops.comparison import cast as cast
from minidp.ops.comparison import full_like as full_like
from minidp.ops.comparison import where as where
from minidp.ops.error_function import *  # noqa: F403
from minidp.ops.exponential import *  # noqa: F403
from minidp.ops.exponential import log1pexp as log1pexp
from minidp.ops.trigonometric import *  # noqa: F403
