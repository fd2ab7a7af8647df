"""What is asked of a step's gradients before the update: all replicas decide alike."""

import numpy as np
import pytest
from training import adam, batches, distance, everything, flat, gradient, mlp, scheduler, sgd

import minidp as dp
from minidp import nn
from minidp.errors import ReplicaError
from minidp.parallel.inspections import Scale

LAYOUTS = [{"devices": 1}, {"devices": 3}, {"devices": 2, "replicas": 3},
           {"devices": 3, "store": "device"}]  # fmt: skip


def clipped_loop(limit, steps=5):
    """The same training without any replica."""
    model = mlp("float64", 300)
    optimizer, criterion = adam(model.parameters()), nn.CrossEntropyLoss()
    for x, y in batches(13, steps):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
    return model


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_clipping_by_the_norm(layout):
    for limit in (0.05, 100.0):
        reference = clipped_loop(limit)
        run = scheduler(mlp("float64", 300), None, adam, clip_norm=limit, **layout)
        for x, y in batches(13, 5):
            run(x, y)
        assert distance(flat(run.model), flat(reference)) < 1e-12
        assert distance(gradient(run.model), gradient(reference)) < 1e-12


def test_bytes_do_not_depend_on_the_devices():
    found = set()
    for layout in ({"devices": 1}, {"devices": 2}, *LAYOUTS[1::2]):
        run = scheduler(mlp("float32", 300), None, adam,
                        **{"replicas": 3, "clip_norm": 0.05, **layout})  # fmt: skip
        run.run(batches(13, 5, "float32"))
        found.add(flat(run.model).tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_steps_that_are_not_finite_are_skipped(layout):
    good, bad = batches(13, 4), batches(13, 1)
    bad[0][0].numpy()[5] = np.nan
    run = scheduler(mlp(), None, adam, nan="skip", **layout)
    run.run([*good[:2], *bad])
    assert run.progress.skipped == 1 and run.progress.steps == 3
    assert run.progress.rows == 26 and np.isfinite(run.progress.mean_loss)
    state = [state["step"].item() for state in run.optimizer.state.values()]
    assert state == [2.0] * 4
    run.run(good[2:])
    straight = scheduler(mlp(), None, adam, **layout)
    straight.run(good)
    assert distance(flat(run.model), flat(straight.model)) < 1e-12


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("capture", [False, True])
def test_scaled_losses(layout, capture):
    run = scheduler(mlp(), None, sgd, loss_scale="dynamic", capture=capture, **layout)
    plain = scheduler(mlp(), None, sgd, **layout)
    for x, y in batches(13, 8):
        assert float(run(x, y)) == pytest.approx(float(plain(x, y)), rel=1e-12)
    assert distance(flat(run.model), flat(plain.model)) < 1e-12
    assert distance(gradient(run.model), gradient(plain.model)) < 1e-12


def test_a_dynamic_scale_moves():
    run = scheduler(mlp("float16"), None, sgd, devices=2, loss_scale="dynamic")
    (scale,) = (each for each in run.inspections if isinstance(each, Scale))
    scale.factor, scale.patience = 2.0**24, 3
    data = batches(13, 20, "float16")
    run.run(data)
    assert scale.factor < 2.0**24 and run.progress.skipped > 0
    assert run.progress.skipped + scale.good < 20  # it grew again meanwhile
    fixed = scheduler(mlp("float16"), None, sgd, devices=2, loss_scale=2.0**24)
    before = flat(fixed.model)
    fixed.run(data[:3])
    assert fixed.progress.skipped == 3 and np.array_equal(flat(fixed.model), before)


def test_clipping_in_a_program_of_ones_own():
    reference, model = clipped_loop(0.05), mlp("float64", 300)
    optimizer, norms = adam(model.parameters()), []

    def program(world):
        net = world.replicate(model)
        for x, y in world.shard(batches(13, 5)):
            nn.CrossEntropyLoss()(net(x), y).backward()
            norms.append(float(nn.utils.clip_grad_norm_(net.parameters(), 0.05)))
            optimizer.step()

    dp.launch(program, devices=2)
    assert distance(flat(model), flat(reference)) < 1e-12
    assert len(set(norms)) == 5 and len(norms) == 10


def test_what_is_refused():
    for options, message in [({"clip_norm": -1}, "clip_norm=-1: expected a number greater than 0"),
                             ({"loss_scale": "high"}, "loss_scale='high'"),
                             ({"bucket_kib": 0}, "bucket_kib=0"),
                             ({"nan": True}, "nan=True")]:  # fmt: skip
        with pytest.raises(ReplicaError, match=message):
            scheduler(mlp(), **options)


def test_a_step_that_raises_changes_nothing():
    run = scheduler(mlp(), None, adam, devices=2, nan="raise", clip_norm=1.0)
    good, bad = batches(13, 2), batches(13, 1)
    run.run(good)
    before = everything(run)
    bad[0][0].numpy()[5] = np.inf
    with pytest.raises(ReplicaError, match="loss is nan"):
        run.run(bad)
    assert everything(run) == before
