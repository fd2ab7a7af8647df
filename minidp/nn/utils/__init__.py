"""Tools for gradients, parameters and sequences."""

from minidp.nn.utils import parametrizations as parametrizations
from minidp.nn.utils import rnn as rnn
from minidp.nn.utils.parameters import *
from minidp.nn.utils.weight_norm import *
