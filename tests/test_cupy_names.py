"""CuPy has every name that the CUDA backend and the launchers call; it imports without a GPU."""

import re
from pathlib import Path

import pytest

from minidp.kernels.cuda import runtime

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

CALLED = {
    "cuda": "Device Event MemoryHook MemoryPool Stream alloc_pinned_memory get_current_stream "
            "get_elapsed_time using_allocator",
    "cuda.Stream": "begin_capture end_capture is_capturing record synchronize wait_event __enter__",
    "cuda.Event": "done record synchronize", "cuda.Graph": "launch",
    "cuda.Device": "id mem_info synchronize __enter__",
    "cuda.MemoryPointer": "ptr copy_from_host_async copy_from_device_async",
    "cuda.MemoryPool": "malloc used_bytes total_bytes free_all_blocks set_limit",
    "cuda.MemoryHook": "malloc_postprocess free_postprocess __enter__",
    "cuda.nvtx": "RangePush RangePop", "cuda.runtime": "getDeviceCount getDeviceProperties",
    "ndarray": "data device flags base", "_core": "set_compute_type",
    "_core._routines_linalg": "COMPUTE_TYPE_TF32 COMPUTE_TYPE_DEFAULT",
    "RawModule": "get_function", "RawKernel": "max_dynamic_shared_size_bytes __call__",
    "": "asnumpy get_default_memory_pool get_default_pinned_memory_pool",
}  # fmt: skip


@pytest.mark.parametrize("place", CALLED)
def test_cupy_offers_what_the_backend_calls(place):
    found = cupy
    for part in place.split(".") if place else ():
        found = getattr(found, part)
    assert [name for name in CALLED[place].split() if not hasattr(found, name)] == []


def test_a_hook_is_told_what_cupy_tells():
    for name in ("malloc_postprocess", "free_postprocess"):
        told = getattr(cupy.cuda.MemoryHook, name).__doc__
        assert "device_id(int)" in told and "mem_size(int)" in told
    assert "mem_ptr(int)" in cupy.cuda.MemoryHook.malloc_postprocess.__doc__


def test_what_launchers_use_of_the_array_module_exists():
    used = set()
    for path in Path(runtime.__file__).parent.glob("*.py"):
        used |= set(re.findall(r"\b(?:gpu|self)\.xp\.(\w+)", path.read_text()))
    assert len(used) > 3 and [name for name in sorted(used) if not hasattr(cupy, name)] == []
