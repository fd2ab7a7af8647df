"""Data sets, loaders and transforms; PyTorch's names."""

from minidp.data.collate import default_collate
from minidp.data.dataset import ConcatDataset, Dataset, Subset, TensorDataset, random_split
from minidp.data.idx import read_idx, write_idx
from minidp.data.loader import DataLoader
from minidp.data.mnist import ImageDataset, fashion_mnist, mnist
from minidp.data.position import Position
from minidp.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from minidp.data.stream import ChainDataset, IterableDataset, get_worker_info
from minidp.data.transforms import (
    Compose,
    Lambda,
    Normalize,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    Transform,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "Compose",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "ImageDataset",
    "IterableDataset",
    "Lambda",
    "Normalize",
    "Pad",
    "Position",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "Transform",
    "WeightedRandomSampler",
    "default_collate",
    "fashion_mnist",
    "get_worker_info",
    "mnist",
    "random_split",
    "read_idx",
    "write_idx",
]
