"""The loader's position: it moves at commit, survives, and brings back the same bytes."""

import numpy as np
import pytest

import minidp as dp
from minidp.data import (
    BatchSampler,
    ChainDataset,
    Compose,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomCrop,
    RandomHorizontalFlip,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)
from minidp.errors import DataError

COUNT, SIZE = 22, 4  # six batches, the last of two rows


def pictures():
    images = np.arange(COUNT * 36, dtype=np.float32).reshape(COUNT, 1, 6, 6)
    chance = Compose([RandomCrop(5, padding=1), RandomHorizontalFlip()])
    return TensorDataset(images, np.arange(COUNT), transform=chance)


class Noisy(Dataset):
    """Draws for each row, as lessons do."""

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return dp.rand(3) + dp.randn(1), index


class Stream(IterableDataset):
    def __init__(self, count=COUNT):
        self.count = count

    def __iter__(self):
        for i in range(self.count):
            yield dp.rand(2), i


def sampled(kind, dataset):
    """A loader with a sampler that draws; "own": from its own generator."""
    own = dp.Generator(5) if kind.startswith("own") else None
    if kind.endswith("batch sampler"):
        batches = BatchSampler(RandomSampler(dataset, generator=own), SIZE, False)
        return DataLoader(dataset, batch_sampler=batches)
    sampler = (WeightedRandomSampler(np.arange(1, 23), COUNT, generator=own)
               if "weights" in kind else SubsetRandomSampler(range(COUNT), own))  # fmt: skip
    return DataLoader(dataset, SIZE, sampler=sampler)


LOADERS = {
    "in order": lambda prefetch: DataLoader(pictures(), SIZE, prefetch=prefetch),
    "shuffled": lambda prefetch: DataLoader(pictures(), SIZE, True, seed=3, prefetch=prefetch),
    "row by row": lambda prefetch: DataLoader(Noisy(), SIZE, True, prefetch=prefetch),
    "collated": lambda prefetch: DataLoader(
        Noisy(), SIZE, True, prefetch=prefetch,
        collate_fn=lambda rows: (dp.stack([x for x, _ in rows]) + dp.rand(3),)),
    "stream": lambda prefetch: DataLoader(Stream(), SIZE, prefetch=prefetch),
    "single": lambda prefetch: DataLoader(Noisy(), None, prefetch=prefetch),
    **{kind: lambda prefetch, kind=kind: sampled(kind, pictures()) for kind in (
        "sampler", "own sampler", "own weights", "batch sampler", "own batch sampler")},
}  # fmt: skip


def content(batch):
    return b"".join(np.asarray(part).tobytes() for part in batch)


def all_epochs(loader, count=2):
    return [[content(batch) for batch in loader] for _ in range(count)]


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("kind", LOADERS)
def test_what_is_committed_is_not_read_again_and_nothing_else_is_lost(kind, prefetch):
    dp.manual_seed(1)
    first, second = all_epochs(LOADERS[kind](prefetch))
    assert first != second
    for stop in (0, 1, 3, len(first) - 1, len(first)):
        dp.manual_seed(1)
        loader = LOADERS[kind](prefetch)
        reading = loader.read()
        for _ in range(stop):
            loader.commit(next(reading)[1])
        next(reading, None)  # handed out, and prefetched further: not committed
        state, counters = loader.state_dict(), dp.get_rng_state()
        dp.manual_seed(2)
        other = LOADERS[kind](prefetch)
        other.load_state_dict(state)
        dp.set_rng_state(counters)
        rest, following = all_epochs(other)
        if stop == len(first):
            assert rest == second
        else:
            assert rest == first[stop:] and following == second
        assert not (set(rest) & set(first[:stop]))


@pytest.mark.parametrize("kind", LOADERS)
def test_a_step_that_failed_is_read_again(kind):
    dp.manual_seed(1)
    expected = all_epochs(LOADERS[kind](2))
    dp.manual_seed(1)
    loader, seen = LOADERS[kind](2), []
    while loader.epoch < 2:
        for number, (batch, behind) in enumerate(loader.read()):
            if number == 2:
                break  # this step fails
            seen.append(content(batch))
            loader.commit(behind)
    assert seen == [*expected[0], *expected[1]]


def test_a_loop_moves_the_position_when_it_hands_out():
    loader = DataLoader(pictures(), SIZE, prefetch=3)
    for number, _ in enumerate(loader, 1):
        assert loader.state_dict()["batch"] == number % 6 and loader.epoch == 0
    assert loader.state_dict()["epoch"] == 1 == loader.epoch


def test_reading_to_the_end_without_a_commit_moves_nothing():
    loader = DataLoader(pictures(), SIZE, True)
    before = loader.state_dict()
    assert len(list(loader.read())) == 6 and loader.state_dict() == before
    places = [behind for _, behind in loader.read()]
    assert [p.batch for p in places] == [1, 2, 3, 4, 5, 6] and places[-1].ended
    with pytest.raises(TypeError, match=r"commit\(3\): expected a position that read"):
        loader.commit(3)
    loader.commit(places[-1])
    assert loader.epoch == 1 and len(list(loader.read())) == 6


def test_a_sampler_that_gives_other_rows_is_noticed():
    rows = [list(range(8)), list(range(8))[::-1]]

    class Fickle:
        def __iter__(self):
            return iter(rows.pop(0))

    data = TensorDataset(np.arange(8))
    loader = DataLoader(data, 3, sampler=Fickle())
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(DataError, match=r"epoch 0 was left after 1 batch\(es\).*another order"):
        loader.load_state_dict(state)
        next(iter(loader))
    with pytest.raises(DataError, match="batch missing from the state"):
        loader.load_state_dict({"epoch": 1, "seed": 1, **loader._layout()})


def test_draws_of_a_row_do_not_depend_on_order_cut_or_other_draws():
    def drawn(size, shuffle, prefetch):
        loader = DataLoader(Noisy(), size, shuffle, seed=4, prefetch=prefetch)
        found = {}
        for x, rows in loader:
            dp.rand(1)  # the program's own draws are apart
            found.update(zip(rows.tolist(), x.tolist(), strict=True))
        return found, next(iter(loader))

    (one, after), (other, _) = drawn(4, True, 2), drawn(22, False, 0)
    assert one == other and len({tuple(x) for x in one.values()}) == COUNT
    assert all(one[int(row)] != x for row, x in zip(after[1].tolist(), after[0].tolist()))


def test_streams():
    loader = DataLoader(Stream(), SIZE)
    assert [batch[1].tolist() for batch in loader][-1] == [20, 21]
    assert len(list(DataLoader(Stream(), SIZE, drop_last=True))) == 5
    assert [x.shape for x, _ in DataLoader(Stream(2), None)] == [(2,), (2,)]
    assert list(DataLoader(Stream(0), 3)) == []
    with pytest.raises(TypeError, match="len"):
        len(loader)
    both = Stream(2) + Stream(3)
    assert isinstance(both, ChainDataset) and [i for _, i in both] == [0, 1, 0, 1, 2]
    assert list(DataLoader(Stream(3), 2, collate_fn=len)) == [2, 1]
    for wrong in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(DataError, match="its own order"):
            DataLoader(Stream(), **wrong)
    assert get_worker_info() is None


def test_a_stream_ends_with_its_last_batch_at_commit():
    loader = DataLoader(Stream(8), SIZE, prefetch=0)
    reading = loader.read()
    loader.commit(next(reading)[1])
    loader.commit(next(reading)[1])
    assert loader.epoch == 1 and loader.state_dict()["batch"] == 0


def test_the_paths_of_lessons():
    from minidp.utils.data import (  # noqa: F401
        ConcatDataset,
        DataLoader,
        Dataset,
        IterableDataset,
        Sampler,
        Subset,
        TensorDataset,
        default_collate,
        random_split,
    )

    assert dp.utils.data.DataLoader is DataLoader
    assert repr(DataLoader(pictures(), SIZE, True, seed=3)) == (
        "DataLoader(TensorDataset, batch_size=4, shuffle=True, seed=3, epoch=0)")  # fmt: skip
