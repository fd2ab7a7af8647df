"""PyTorch's names on Tensors: compositions of ops, and the ops that are public as they are.

Importing this package gives Tensor its methods. Each file lists in ``__all__`` what users reach as
``minidp.NAME``.
"""

from minidp.functions import elementwise, index, inplace, layout, linalg, reduce
from minidp.functions.elementwise import *
from minidp.functions.index import *
from minidp.functions.layout import *
from minidp.functions.linalg import *
from minidp.functions.reduce import *

__all__ = [
    *elementwise.__all__, *index.__all__, *layout.__all__, *linalg.__all__, *reduce.__all__,
]  # fmt: skip
