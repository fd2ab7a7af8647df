"""``python -m differential FIRST LAST [NAME ...]``: seeds of all (or some) functions, and
the differences, grouped."""

from __future__ import annotations

import sys
import zlib
from collections import Counter

from differential.deviations import reason
from differential.functions import CALLS
from differential.random_values import Draw
from differential.twins import MISSING, available, compare


def case(name: str, seed: int) -> tuple[str, str | None]:
    """One call as text, and in what it differs."""
    call = CALLS[name](Draw(zlib.crc32(name.encode()), seed))
    return f"{call}", compare(call, seed, second=seed % 3 == 0)


def main(first: int, last: int, names: list[str]) -> None:
    if MISSING:
        raise SystemExit(MISSING)
    ran = Counter()
    for name in names or list(CALLS):
        if not available(name):
            print(f"-- {name} is missing")
            continue
        seen: Counter[str] = Counter()
        for seed in range(first, last):
            call, difference = case(name, seed)
            ran["cases"] += 1
            if difference is None:
                continue
            why = reason(call, difference)
            if why:
                ran[f"skipped: {why}"] += 1
                continue
            kind = " ".join(
                "#" if any(c.isdigit() for c in w) else w for w in difference.split()[:12]
            )
            seen[kind] += 1
            if seen[kind] == 1 and len(seen) <= 6:
                print(f"{name} seed {seed}: {difference}\n    {call}")
        ran["differences"] += sum(seen.values())
        ran["functions"] += 1
        if seen:
            print(f"   = {name}: {dict(seen)}")
    print(dict(ran))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
