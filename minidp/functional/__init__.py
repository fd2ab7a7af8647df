"""Layers and losses as functions of Tensors, without state; PyTorch's names and arguments.

Users reach them as ``minidp.nn.functional``.
"""

from minidp.functional.activation import *
from minidp.functional.alignment import *
from minidp.functional.attention import *
from minidp.functional.conv import *
from minidp.functional.dropout import *
from minidp.functional.embedding import *
from minidp.functional.grid import *
from minidp.functional.likelihood import *
from minidp.functional.linear import *
from minidp.functional.loss import *
from minidp.functional.margin import *
from minidp.functional.norm import *
from minidp.functional.pool import *
from minidp.functional.resize import *

__all__ = [name for name, value in list(globals().items()) if callable(value)]
