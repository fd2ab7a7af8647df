"""``python -m minidp.examples``: what there is to run."""

from __future__ import annotations

from minidp.examples import command_line as cl
from minidp.examples import mnist, pitfalls, scaling


def main(arguments: list[str] | None = None) -> None:
    """Print each example's command, and what it does."""
    cl.Parser(prog="python -m minidp.examples", description=__doc__).parse_args(arguments)
    for name, example in {"mnist": mnist, "scaling": scaling, "pitfalls": pitfalls}.items():
        print(f"python -m minidp.examples.{name}\n    {(example.__doc__ or '').splitlines()[0]}")


if __name__ == "__main__":
    cl.run(main)
