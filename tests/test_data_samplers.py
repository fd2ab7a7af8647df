"""Samplers, and the arguments of DataLoader and random_split that PyTorch's lessons give."""

from collections import Counter

import numpy as np
import pytest

import minidp as dp
from minidp.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)
from minidp.errors import DataError


def rows_of(count):
    return TensorDataset(np.arange(count))


def read(loader):
    return [batch[0].tolist() for batch in loader]


def test_sequential_and_batch_samplers():
    assert list(SequentialSampler(rows_of(3))) == [0, 1, 2] and len(SequentialSampler("ab")) == 2
    short, full = (BatchSampler(SequentialSampler("abcde"), 2, drop) for drop in (False, True))
    assert list(short) == [[0, 1], [2, 3], [4]] and len(short) == 3
    assert list(full) == [[0, 1], [2, 3]] and len(full) == 2


@pytest.mark.parametrize("make", [
    lambda g: RandomSampler(rows_of(50), generator=g),
    lambda g: SubsetRandomSampler(range(50), generator=g),
    lambda g: WeightedRandomSampler(np.ones(50), 50, replacement=False, generator=g),
])  # fmt: skip
def test_an_order_is_new_each_time_and_comes_again_with_the_seed(make):
    sampler, again = (make(dp.Generator(4)) for _ in range(2))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50)) == sorted(make(None))
    assert first != second and [list(again), list(again)] == [first, second]
    assert len(sampler) == 50


def test_random_sampler_of_fewer_or_more():
    assert len(set(RandomSampler(range(9), num_samples=4))) == 4
    assert sorted(Counter(RandomSampler(range(3), num_samples=7)).values()) == [2, 2, 3]
    drawn = list(RandomSampler(range(3), True, 100))
    assert len(drawn) == 100 and set(drawn) == {0, 1, 2}


def test_weights_are_shares():
    drawn = Counter(
        WeightedRandomSampler(dp.tensor([1.0, 0.0, 3.0]), 4000, generator=dp.Generator())
    )
    assert drawn[1] == 0 and abs(drawn[2] / 4000 - 0.75) < 0.03


@pytest.mark.parametrize("make", [
    lambda: WeightedRandomSampler([1.0, -1.0], 1), lambda: WeightedRandomSampler([0.0], 1),
    lambda: WeightedRandomSampler([1.0, 0.0], 2, replacement=False),
    lambda: WeightedRandomSampler([1.0], 0), lambda: WeightedRandomSampler([[1.0]], 1),
    lambda: RandomSampler([]), lambda: RandomSampler([1], num_samples=0),
    lambda: BatchSampler([1], 0, False),
])  # fmt: skip
def test_samplers_refuse(make):
    with pytest.raises(DataError):
        make()


def test_batch_sampler_of_a_loader():
    loader = DataLoader(rows_of(9), batch_sampler=[[8, 1], [5]])
    assert len(loader) == 2 and loader.batch_size is None
    assert read(loader) == [[8, 1], [5]] == read(loader)
    two = DataLoader(rows_of(5), batch_sampler=BatchSampler(RandomSampler(range(5)), 2, False))
    assert (
        sorted(row for batch in two for row in batch[0].tolist()) == [0, 1, 2, 3, 4]
        and len(two) == 3
    )


def test_a_loader_without_batches_gives_samples():
    loader = DataLoader(rows_of(3), batch_size=None)
    assert [x.shape for (x,) in loader] == [()] * 3 and len(loader) == 3
    assert read(loader) == [0, 1, 2]
    assert list(DataLoader(rows_of(2), None, collate_fn=lambda sample: int(sample[0]))) == [0, 1]


def test_the_arguments_stand_where_pytorch_has_them():
    loader = DataLoader(rows_of(5), 2, False, None, None, 0, None, False, True, 0, None, None, None,
                        prefetch_factor=2, persistent_workers=True, in_order=True)  # fmt: skip
    assert read(loader) == [[0, 1], [2, 3]]


def test_a_generator_decides_the_order():
    one, two, other = (DataLoader(rows_of(20), 20, True, generator=dp.Generator().manual_seed(seed))
                       for seed in (1, 1, 2))  # fmt: skip
    assert read(one) == read(two) != read(other) and read(one) == read(two)
    split = [random_split(range(20), [15, 5], dp.Generator().manual_seed(s)) for s in (42, 42, 43)]
    first, again, different = (part[0].indices.tolist() for part in split)
    assert first == again != different
    assert first == random_split(range(20), [15, 5], seed=42)[0].indices.tolist()


@pytest.mark.parametrize("arguments", [
    {"batch_sampler": [[0]], "batch_size": 2}, {"batch_sampler": [[0]], "shuffle": True},
    {"batch_sampler": [[0]], "sampler": [0]}, {"batch_sampler": [[0]], "drop_last": True},
    {"batch_size": None, "drop_last": True},
])  # fmt: skip
def test_arguments_that_exclude_each_other(arguments):
    with pytest.raises(DataError, match="excludes"):
        DataLoader(rows_of(3), **arguments)


def test_samples_of_many_rows_at_once():
    """PyTorch's ``__getitems__``, with and without a collate function."""
    class Tens:
        def __len__(self):
            return 4

        def __getitem__(self, row):
            return row

        def __getitems__(self, rows):
            assert all(type(row) is int for row in rows)
            return [row * 10 for row in rows]

    assert [batch.tolist() for batch in DataLoader(Tens(), 3)] == [[0, 10, 20], [30]]
    assert list(DataLoader(Tens(), 3, collate_fn=list)) == [[0, 10, 20], [30]]
    assert list(DataLoader(Tens(), batch_size=None)) == [0, 1, 2, 3]
    batches = DataLoader(Tens(), batch_sampler=[[3, 1], []], collate_fn=list)
    assert list(batches) == [[30, 10], []]


def test_what_makes_no_sampler_or_loader():
    with pytest.raises(DataError, match="drop_last"):
        BatchSampler(range(3), 2, "x")
    with pytest.raises(DataError, match="num_workers"):
        DataLoader([1, 2], num_workers=-1)

    assert isinstance(DataLoader[int], type(list[int]))

    class Endless(Dataset[int]):
        def __getitem__(self, row):
            return row

    with pytest.raises(TypeError, match="'Endless' has no len"):
        len(Endless())
