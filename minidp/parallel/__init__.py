"""Data parallelism: the scheduler, and ``launch`` beneath it."""

from minidp.parallel.batch import Batch, Whole
from minidp.parallel.launch import launch
from minidp.parallel.replica import World
from minidp.parallel.scheduler import Scheduler

__all__ = ["Batch", "Scheduler", "Whole", "World", "launch"]
