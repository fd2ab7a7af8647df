"""Files: checkpoints that any device and any number of replicas can read."""
