"""``Parameter`` and ``Buffer`` by PyTorch's path."""

from minidp.parameter import Buffer as Buffer
from minidp.parameter import Parameter as Parameter
