"""Modules, layers and losses; PyTorch's names and semantics."""

from minidp.nn import functional, init, utils
from minidp.nn.activation import (
    LeakyReLU,
    LogSoftmax,
    ReLU,
    Sigmoid,
    Softmax,
    Softplus,
    Tanh,
)
from minidp.nn.container import ModuleDict, ModuleList, Sequential
from minidp.nn.conv import Conv2d
from minidp.nn.dropout import Dropout
from minidp.nn.flatten import Flatten, Unflatten
from minidp.nn.linear import Identity, Linear
from minidp.nn.loss import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from minidp.nn.module import Module
from minidp.nn.normalize import BatchNorm1d, BatchNorm2d
from minidp.nn.pool import AdaptiveAvgPool2d, AvgPool2d, MaxPool2d
from minidp.nn.state import StateDictError
from minidp.nn.summary import summary
from minidp.parameter import Buffer, Parameter

__all__ = [
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Buffer",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Flatten",
    "Identity",
    "L1Loss",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "StateDictError",
    "Tanh",
    "Unflatten",
    "functional",
    "init",
    "summary",
    "utils",
]
