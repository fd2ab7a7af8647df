"""PyTorch's names on Tensors: compositions of ops, and the ops that are public as they are.

Importing this package gives Tensor its methods. Each file lists in ``__all__`` what users reach as
``minidp.NAME``.
"""

from minidp.functions import (  # noqa: I001
    along, arrange, comparison, distance, elementwise, index, inplace, interop, join, layout,
    linalg, methods, order, padding, places, reduce, search, statistics, summation,
)  # fmt: skip
from minidp.functions.along import *
from minidp.functions.arrange import *
from minidp.functions.comparison import *
from minidp.functions.distance import *
from minidp.functions.elementwise import *
from minidp.functions.index import *
from minidp.functions.interop import *
from minidp.functions.join import *
from minidp.functions.layout import *
from minidp.functions.linalg import *
from minidp.functions.order import *
from minidp.functions.places import *
from minidp.functions.reduce import *
from minidp.functions.search import *
from minidp.functions.statistics import *
from minidp.functions.summation import *

__all__ = [*along.__all__, *arrange.__all__, *comparison.__all__, *distance.__all__,
           *elementwise.__all__, *index.__all__, *interop.__all__, *join.__all__, *layout.__all__,
           *linalg.__all__, *order.__all__, *places.__all__, *reduce.__all__, *search.__all__,
           *statistics.__all__, *summation.__all__]  # fmt: skip
