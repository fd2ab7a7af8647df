"""How fast minidp is on this machine, beside PyTorch where it is installed: a command.

    python -m minidp.bench --help

The parts can be used by themselves: ``works`` and ``operations`` are what is measured, ``rounds``
measures whatever can be run a number of times, in turn.
"""
