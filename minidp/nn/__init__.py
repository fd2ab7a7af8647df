"""Modules, layers and losses; PyTorch's names and semantics."""

from minidp.nn import functional, init, utils
from minidp.nn.activation import *
from minidp.nn.attention import *
from minidp.nn.container import *
from minidp.nn.conv import *
from minidp.nn.dropout import *
from minidp.nn.embedding import *
from minidp.nn.linear import *
from minidp.nn.loss import *
from minidp.nn.module import *
from minidp.nn.normalize import *
from minidp.nn.pool import *
from minidp.nn.recurrent import *
from minidp.nn.resize import *
from minidp.nn.state import *
from minidp.nn.summary import *
from minidp.nn.transformer import *
from minidp.parameter import Buffer as Buffer
from minidp.parameter import Parameter as Parameter
