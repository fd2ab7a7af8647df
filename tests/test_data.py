"""Data sets, collating, and the loader: order, epochs, resuming."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minidp.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    Subset,
    TensorDataset,
    default_collate,
    random_split,
)
from minidp.errors import DataError
from minidp.tensor import Tensor


def rows_of(count: int) -> TensorDataset:
    """Row i is (i, 10 * i)."""
    return TensorDataset(np.arange(count), np.arange(count) * 10)


def read(loader) -> list[int]:
    """The first field of every row, in the order read."""
    return [int(value) for batch in loader for value in batch[0].array.ravel()]


class Squares(Dataset):
    """A data set of the plain PyTorch kind."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        return np.full(2, index * index, np.float32), index


# --- data sets


def test_tensor_dataset_indexes_rows_slices_lists_and_masks():
    data = TensorDataset(np.arange(12.0).reshape(6, 2), Tensor(np.arange(6)))
    x, y = data[4]
    assert isinstance(x, Tensor) and x.array.tolist() == [8, 9] and y.shape == () and y.array == 4
    assert data[-1][1].array == 5
    assert data[1:3][1].array.tolist() == [1, 2]
    assert data[[5, 0]][1].array.tolist() == [5, 0]
    assert data[np.array([3, 3])][0].array.tolist() == [[6, 7], [6, 7]]
    assert data[np.arange(6) % 2 == 0][1].array.tolist() == [0, 2, 4]
    assert len(list(data)) == 6 == len(data)
    with pytest.raises(IndexError):
        data[6]
    assert [each.shape for each in data.tensors] == [(6, 2), (6,)]


def test_tensor_dataset_shares_memory_and_takes_once_per_field(monkeypatch):
    array = np.arange(10.0)
    data = TensorDataset(array, array)
    assert np.shares_memory(data.arrays[0], array)
    takes = []
    monkeypatch.setattr(np, "take", lambda a, rows, axis: takes.append(len(rows)) or a[rows])
    DataLoader(data, 5).load(np.arange(5))
    assert takes == [5, 5]


@pytest.mark.parametrize("fields", [(), (np.zeros(3), np.zeros(4)), (np.float64(1),),
                                    (np.array(["a"]),)])  # fmt: skip
def test_tensor_dataset_refuses(fields):
    with pytest.raises(DataError):
        TensorDataset(*fields)


def test_subset_and_concat():
    both = ConcatDataset([rows_of(3), Subset(rows_of(10), [7, -1])])
    assert [int(x.array) for x, _ in (both[i] for i in range(5))] == [0, 1, 2, 7, 9]
    assert int(both[-1][0].array) == 9
    assert read(DataLoader(both, 2)) == [0, 1, 2, 7, 9]
    assert read(DataLoader(rows_of(2) + rows_of(3), 4)) == [0, 1, 0, 1, 2]
    assert read(DataLoader(Subset(Squares(4), [3, 1]), 2)) == [9, 9, 1, 1]
    with pytest.raises(IndexError):
        both[5]
    with pytest.raises(DataError, match="rows of 3"):
        Subset(rows_of(3), [3])
    with pytest.raises(DataError):
        ConcatDataset([])
    with pytest.raises(DataError, match="fit"):
        DataLoader(rows_of(2) + TensorDataset(np.zeros(2)), 4).load(np.arange(4))


def test_concat_of_arrays_keeps_a_shuffled_order():
    both, rows = ConcatDataset([rows_of(5), rows_of(7)]), np.array([11, 0, 6, 4, 5, 2])
    expected = [both[int(row)] for row in rows]
    x, y = both.batch(rows)
    assert x.tolist() == [int(a.array) for a, _ in expected]
    assert y.tolist() == [int(b.array) for _, b in expected]


SPLITS = [([7, 3], [7, 3]), ([0.5, 0.5], [5, 5]), ([1], [10]),
          ([0.33, 0.33, 0.34], [4, 3, 3]), ([10, 0], [10, 0])]  # fmt: skip


@pytest.mark.parametrize("lengths, sizes", SPLITS)
def test_random_split(lengths, sizes):
    parts = random_split(rows_of(10), lengths, seed=4)
    assert [len(part) for part in parts] == sizes
    assert sorted(int(i) for part in parts for i in part.indices) == list(range(10))
    again, other = random_split(rows_of(10), lengths, 4), random_split(rows_of(10), lengths, 5)
    assert all((a.indices == b.indices).all() for a, b in zip(parts, again))
    assert any((a.indices != b.indices).any() for a, b in zip(parts, other))


@pytest.mark.parametrize("lengths", [[5, 4], [0.5, 0.4], [11, -1], [5.5, 4.5], [1.5, -0.5]])
def test_random_split_refuses(lengths):
    with pytest.raises(DataError, match="add up"):
        random_split(rows_of(10), lengths)


# --- collating


def test_default_collate_follows_pytorch():
    pair = namedtuple("pair", "x y")
    batch = default_collate([pair({"a": 1, "b": "s"}, (2.0, True)),
                             pair({"a": 3, "b": "t"}, (4.0, False))])  # fmt: skip
    assert type(batch) is pair and batch.x["b"] == ["s", "t"]
    assert batch.x["a"].dtype == np.int64 and batch.x["a"].array.tolist() == [1, 3]
    assert batch.y[0].dtype == np.float64 and batch.y[1].dtype == bool
    tensors = default_collate([Tensor(np.ones(2, np.float32)), Tensor(np.zeros(2, np.float32))])
    assert tensors.shape == (2, 2) and tensors.dtype == np.float32


NO_BATCH = [([np.zeros(2), np.zeros(3)], "shapes"), ([(1, 2), (1,)], "fields"),
            ([None], "NoneType")]  # fmt: skip


@pytest.mark.parametrize("samples, text", NO_BATCH)
def test_default_collate_refuses(samples, text):
    with pytest.raises(DataError, match=text):
        default_collate(samples)


def test_plain_datasets_are_read_row_by_row():
    x, y = next(iter(DataLoader(Squares(4), 3)))
    assert x.shape == (3, 2) and x.dtype == np.float32 and y.array.tolist() == [0, 1, 2]
    assert len(list(DataLoader([1.0, 2.0, 3.0], 2))) == 2


def test_collate_fn_gets_samples_and_is_not_touched():
    loader = DataLoader(rows_of(3), 2, collate_fn=lambda rows: [int(x.array) for x, _ in rows])
    assert list(loader) == [[0, 1], [2]]


# --- order and epochs


@settings(max_examples=40, deadline=None)
@given(count=st.integers(0, 40), size=st.integers(1, 50), shuffle=st.booleans(),
       drop=st.booleans(), prefetch=st.integers(0, 3))  # fmt: skip
def test_every_row_once(count, size, shuffle, drop, prefetch):
    loader = DataLoader(rows_of(count), size, shuffle, drop_last=drop, prefetch=prefetch)
    sizes = [batch[0].shape[0] for batch in loader]
    assert len(sizes) == len(loader)
    rows = read(loader)
    assert len(set(rows)) == len(rows) == (count // size * size if drop else count)
    assert drop or sorted(rows) == list(range(count))
    assert all(each == size for each in (sizes if drop else sizes[:-1]))


def test_order_depends_on_seed_and_epoch_only():
    loader = DataLoader(rows_of(50), 8, shuffle=True, seed=3)
    first, second = read(loader), read(loader)
    assert first != second and sorted(first) == sorted(second) and loader.epoch == 2
    other = DataLoader(rows_of(50), 50, True, seed=3, prefetch=0)
    assert read(other) == first and read(other) == second
    other.epoch = 0
    assert read(other) == first and other.order(1).tolist() == second
    assert read(DataLoader(rows_of(50), 8, True, seed=4)) != first


def test_order_is_fixed_for_good():
    # if this fails, runs no longer repeat: say so in the changelog, or find out what changed
    assert DataLoader(rows_of(8), 8, True, seed=1).order(2).tolist() == [7, 0, 5, 4, 6, 2, 3, 1]


def test_epoch_advances_after_an_abandoned_iteration():
    loader = DataLoader(rows_of(20), 4, shuffle=True)
    next(iter(loader))
    assert loader.epoch == 0
    rows = read(loader)
    assert loader.epoch == 2
    assert rows == loader.order(1).tolist()
    iter(loader)  # never read: counts too
    assert read(loader) == loader.order(3).tolist()


def test_iterations_side_by_side():
    loader = DataLoader(rows_of(12), 4, shuffle=True)
    left, right = zip(*((x.array, z.array) for (x, _), (z, _) in zip(loader, loader)))
    assert (np.concatenate(left) == loader.order(0)).all()
    assert (np.concatenate(right) == loader.order(1)).all()


def test_an_old_iteration_does_not_move_the_position():
    loader = DataLoader(rows_of(12), 4, shuffle=True)
    old, new = iter(loader), iter(loader)
    next(old)
    next(new)
    assert len(list(old)) == 2
    assert loader.epoch == 1 and loader.state_dict()["batch"] == 1
    assert len(list(new)) == 2 and loader.epoch == 2


def test_sampler():
    loader = DataLoader(rows_of(9), 2, sampler=[8, 8, 1])
    assert len(loader) == 2 and read(loader) == [8, 8, 1]


@pytest.mark.parametrize("arguments, text", [
    ({"batch_size": 0}, "batch_size"), ({"batch_size": 2.0}, "batch_size"),
    ({"shuffle": True, "sampler": [0]}, "exclude"),
])  # fmt: skip
def test_loader_refuses(arguments, text):
    with pytest.raises(DataError, match=text):
        DataLoader(rows_of(3), **arguments)
    with pytest.raises(DataError, match="len"):
        DataLoader(iter([1]))


# --- resuming


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("stop", [0, 1, 2, 3])
def test_resume_goes_on_where_it_stopped(stop, prefetch):
    def loader():
        return DataLoader(rows_of(10), 4, shuffle=True, seed=7, prefetch=prefetch)

    whole, resumed = loader(), loader()
    expected = [read(whole), read(whole)]
    seen, broken, state = [], loader(), loader().state_dict()
    for number, batch in enumerate(broken):
        if number == stop:
            break
        seen += batch[0].array.tolist()
        state = broken.state_dict()  # as after a step: what was handed out has been used
    resumed.seed = 99
    resumed.load_state_dict(state)
    assert resumed.epoch == (1 if stop == 3 else 0)
    if stop < 3:
        assert seen + read(resumed) == expected[0]
    assert read(resumed) == expected[1]


def test_resume_refuses_another_cut():
    loader = DataLoader(rows_of(10), 4)
    next(iter(loader))
    for other in (DataLoader(rows_of(10), 5), DataLoader(rows_of(9), 4)):
        with pytest.raises(DataError, match="middle of an epoch"):
            other.load_state_dict(loader.state_dict())
    DataLoader(rows_of(10), 5).load_state_dict(DataLoader(rows_of(10), 4).state_dict())
