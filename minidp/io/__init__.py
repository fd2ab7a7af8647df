"""Files: checkpoints that any device and any number of replicas can read."""

from minidp.io.checkpoint import load, save
from minidp.io.checkpoints import Checkpoints

__all__ = ["Checkpoints", "load", "save"]
