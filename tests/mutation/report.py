"""docs/gpu/mutations.md from the results of a run."""

from collections import Counter

from .reasons import equivalent

HEAD = """# Mutants of the CUDA kernels

`tests/mutation/run.py` changes the text of each kernel in one place at a time, runs the kernel's
tests in the emulator, and writes this page. A mutant is *killed* when a test fails, the process
crashes or it does not end. Each barrier is dropped, each index, integer bound and start of a loop
taken one higher and one lower, each `a += b` made `a = b`, each dimension of a launch halved and
doubled. A header's mutants are chosen in all files that include it.

*Equivalent*: the changed kernel computes the same values, for a reason that is given below.
*Survived*: no test saw it.
"""
UNKNOWN = "not explained: a test is missing"


def written(results):
    """The page."""
    lines, others, totals = [HEAD, "| file | mutants | killed | equivalent | survived |",
                            "|---|---|---|---|---|"], [], Counter()  # fmt: skip
    for file, outcomes in sorted(results.items()):
        count = Counter()
        for key, outcome in outcomes.items():
            kind, why = judged(file, key, outcome)
            count[kind] += 1
            if why:
                others.append((why, file, key))
        totals += count
        lines.append(row(f"`kernels/cuda/{file}`", count))
    lines += [row("all", totals), "", summary(totals), ""]
    return "\n".join(lines + explained(others))


def judged(file, key, outcome):
    """("killed", None), or "equivalent" or "survived" and why."""
    if outcome.startswith("killed"):
        return "killed", None
    why = equivalent(file, key, outcome)
    return ("equivalent", why) if why else ("survived", UNKNOWN)


def row(name, count):
    numbers = (count.total(), count["killed"], count["equivalent"], count["survived"])
    return f"| {name} | {' | '.join(map(str, numbers))} |"


def share(totals):
    """Killed mutants among those that are not equivalent, in percent."""
    return 100 * totals["killed"] / max(1, totals["killed"] + totals["survived"])


def summary(totals):
    all_of_them = 100 * totals["killed"] / max(1, totals.total())
    return (f"Killed: {share(totals):.1f} % of the mutants that are not equivalent, "
            f"{all_of_them:.1f} % of all.")  # fmt: skip


def explained(others):
    """The mutants that were not killed, by reason."""
    lines = []
    for why in dict.fromkeys(why for why, _, _ in others):
        lines += [f"## {why[:1].upper()}{why[1:]}", ""]
        for each, file, key in others:
            line, _, change = key.rpartition(" | ")
            lines += [f"- {file}: `{line}`: {change}"] if each == why else []
        lines.append("")
    return lines
