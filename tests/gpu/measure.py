"""Times on a GPU, of minidp and of PyTorch in turn: the least of several short bursts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import work

import minidp as dp
from minidp.backend import get_backend

BURST, ROUNDS = 0.05, 5
"""Seconds that a burst lasts about, and how many there are."""


def seconds(calls: dict[str, Callable[[], Any]], wait: Callable[[], None]) -> dict[str, float]:
    """The time of one call of each, the least of ROUNDS bursts, which take turns."""
    counts = {}
    for name, call in calls.items():
        for _ in range(3):  # compile, warm caches and pools
            call()
        wait()
        began = time.perf_counter()
        call()
        wait()
        counts[name] = int(min(200, max(1, BURST / (time.perf_counter() - began))))
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(counts[name]):
                call()
            wait()
            best[name] = min(best[name], (time.perf_counter() - began) / counts[name])
    return best


def peaks(device: str, scale: float) -> dict[str, float]:
    """Bytes a second of a copy, operations a second of a matrix product without and with TF32."""
    n = max(64, int(8192 * scale))
    x, y = (dp.ones(n, n, device=device).array for _ in range(2))
    backend: Any = get_backend("cuda")
    multiply = lambda: backend.xp.matmul(x, x, out=y)  # noqa: E731
    copy = lambda: backend.xp.add(x, 1.0, out=y)  # noqa: E731
    found = {"bytes a second": 8.0 * n * n / seconds({"": copy}, dp.cuda.synchronize)[""]}
    for name, allowed in (("flops a second", False), ("flops a second with TF32", True)):
        dp.backends.cuda.matmul.allow_tf32 = allowed
        found[name] = 2.0 * n**3 / seconds({"": multiply}, dp.cuda.synchronize)[""]
    dp.backends.cuda.matmul.allow_tf32 = False
    return found


def ops(device: str, scale: float) -> dict[str, Any]:
    """A line an op: its time, what it reaches of the peak, and PyTorch's time over ours."""
    torch, most = work.torch_or_none(), peaks(device, scale)
    print({name: f"{value:.3g}" for name, value in most.items()})
    ours = work.cases(dp, device, scale)
    theirs = work.cases(torch, device, scale) if torch else {}
    found: dict[str, Any] = {"peaks": most, "torch": bool(torch), "ops": {}}
    with dp.no_grad():
        for name, case in ours.items():
            calls = {"minidp": case.call}
            if name in theirs:
                calls["torch"] = theirs[name].call
            try:
                times = seconds(calls, dp.cuda.synchronize)
            except Exception as problem:  # the next op is still to be measured
                found["ops"][name] = {"error": f"{type(problem).__name__}: {problem}"}
                continue
            found["ops"][name] = line = reached(case, times, most)
            print(f"{name:18} {line}", flush=True)
    return found


def reached(case: work.Case, times: dict[str, float], most: dict[str, float]) -> dict[str, Any]:
    """What an op reaches of the bytes, or else the operations, that the card can do a second."""
    taken = times["minidp"]
    amount, peak = (case.flops, "flops a second") if case.flops else (case.bytes, "bytes a second")
    line = {"us": round(taken * 1e6, 1), "share of peak": round(amount / taken / most[peak], 3)}
    if "torch" in times:
        line["times as fast as PyTorch"] = round(times["torch"] / taken, 2)
    return line


def models(device: str, batches: tuple[int, ...]) -> dict[str, Any]:
    """Milliseconds a training step: eager, replayed, as one CUDA graph; without and with TF32."""
    torch, found = work.torch_or_none(), {}
    for tf32 in (False, True):
        dp.backends.cuda.matmul.allow_tf32 = tf32
        if torch:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        for name in work.MODELS:
            for batch in batches:
                key = f"{name} batch {batch}{' TF32' if tf32 else ''}"
                try:
                    found[key] = compare(torch, name, batch, device)
                except Exception as problem:  # the next model is still to be measured
                    found[key] = {"error": f"{type(problem).__name__}: {problem}"}
                print(f"{key:22} {found[key]}", flush=True)
    dp.backends.cuda.matmul.allow_tf32 = False
    return found


def compare(torch: Any, name: str, batch: int, device: str) -> dict[str, Any]:
    """One model: both frameworks from the same weights, in turn."""
    ours = work.training(dp, name, batch, device)
    calls, line = {"minidp": ours.step}, {}
    if torch:
        theirs = work.training(torch, name, batch, device)
        work.same_weights(ours, theirs)
        line["losses"] = [[float(t.step().item()) for _ in range(3)] for t in (ours, theirs)]
        off = np.abs(np.subtract(*line["losses"])).max()
        line["losses agree"] = bool(off < 1e-2)
        calls["torch"] = theirs.step
    graphs = {"minidp replay": lambda: replayed(ours), "minidp graph": lambda: captured(ours)}
    if torch:
        graphs["torch graph"] = lambda: captured_by_torch(torch, theirs)
    times = seconds(calls, dp.cuda.synchronize)
    for which, make in graphs.items():
        try:
            times |= seconds({which: make()}, dp.cuda.synchronize)
        except Exception as problem:
            line[which] = f"{type(problem).__name__}: {problem}"
    return line | {f"{which}, ms": round(taken * 1e3, 3) for which, taken in times.items()} | {
        "memory, MB": round(dp.cuda.max_memory_allocated(device) / 1e6)}  # fmt: skip


def captured(ours: work.Training) -> Callable[[], None]:
    """A training step as a CUDA graph."""
    for _ in range(3):
        ours.step()
    dp.cuda.synchronize()
    graph = dp.cuda.CUDAGraph()
    with dp.cuda.graph(graph):
        ours.step()
    return graph.replay


def replayed(ours: work.Training) -> Callable[[], Any]:
    """A training step as ``capture`` replays it: stretches as CUDA graphs, the update between."""
    step = dp.capture(ours.step)
    for _ in range(5):
        loss = step(ours.x, ours.y).item()
    eager = ours.step().item()  # of the next step: a little less
    reasons = [graph.reason for graph in step.last.program.graphs]
    if not reasons or any(reasons) or not np.isfinite(loss) or abs(loss - eager) > 0.5:
        raise AssertionError(f"no CUDA graphs: {reasons or step}; loss {loss}, eager {eager}")
    return lambda: step(ours.x, ours.y)


def captured_by_torch(torch: Any, theirs: work.Training) -> Callable[[], None]:
    """The same in PyTorch's words."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            theirs.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        theirs.step()
    return graph.replay


def overlap(device: str, size: int) -> dict[str, Any]:
    """Copies from the host and products of matrices, alone and together."""
    backend: Any = get_backend("cuda")
    host, side = np.ones(size, "f4"), max(64, int(size**0.5) // 2)
    x = dp.ones(side, side, device=device).array

    def copy() -> None:
        for _ in range(4):
            backend.put(host, 0)

    def compute() -> None:
        for _ in range(8):
            backend.xp.matmul(x, x)

    def both() -> None:
        compute()
        copy()

    times = seconds({"copy": copy, "compute": compute, "both": both}, dp.cuda.synchronize)
    saved = times["copy"] + times["compute"] - times["both"]
    hidden = saved / min(times["copy"], times["compute"])
    line: dict[str, Any] = {f"{name}, ms": round(t * 1e3, 3) for name, t in times.items()}
    line["bytes a second"] = round(4 * host.nbytes / times["copy"])
    line["part of the shorter that is hidden"] = round(hidden, 2)
    return line
