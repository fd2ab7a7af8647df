"""docs/gpu/mutations.md from the results of a run."""

from collections import Counter

from .reasons import reason

HEAD = """# Mutants of the CUDA kernels

`tests/mutation/run.py` changes the text of each kernel in one place at a time, runs the kernel's
tests in the emulator, and writes this page. A mutant is *killed* when a test fails, the process
crashes or it does not end. Each barrier is dropped, each index, integer bound and start of a loop
taken one higher and one lower, each `a += b` made `a = b`, each dimension of a launch halved and
doubled. A header's mutants are chosen in all files that include it.

*Equivalent*: the changed kernel computes the same values, for a reason that is given below.
*Survived*: no test saw it.
"""


def written(results):
    """The page."""
    lines, survivors, totals = [HEAD, "| file | mutants | killed | equivalent | survived |",
                               "|---|---|---|---|---|"], [], Counter()  # fmt: skip
    for name, outcomes in results.items():
        count = Counter()
        for key, outcome in outcomes.items():
            why = reason(f"{name} | {key}", outcome)
            kind = "killed" if outcome.startswith("killed") else "equivalent" if why else "survived"
            count[kind] += 1
            if kind != "killed":
                survivors.append((name, key, why or "**not explained: a test is missing**"))
        totals += count
        lines.append(row(f"`{name}`", count))
    lines.append(row("all", totals))
    killed, alive = totals["killed"], totals["survived"]
    lines += ["", f"Killed: {killed} of {killed + alive} that are not equivalent, "
              f"{100 * killed / max(1, killed + alive):.1f} %.", ""]  # fmt: skip
    return "\n".join(lines + explained(survivors)) + "\n"


def row(name, count):
    numbers = (count.total(), count["killed"], count["equivalent"], count["survived"])
    return f"| {name} | {' | '.join(map(str, numbers))} |"


def explained(survivors):
    """The survivors, by reason."""
    lines = []
    for why in dict.fromkeys(why for _, _, why in survivors):
        lines += [f"## {why.strip('*')[:1].upper()}{why.strip('*')[1:]}", ""]
        for name, key, each in survivors:
            if each == why:
                line, _, change = key.rpartition(" | ")
                lines.append(f"- `{name}`: `{line}`: {change}")
        lines.append("")
    return lines
