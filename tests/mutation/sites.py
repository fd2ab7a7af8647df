"""Where the text of a .cu file can be changed, and a text that can be changed in all these places.

All mutants of a file are compiled at once (Untch, Offutt, Harrold 1993: mutant schemata): the
text asks at each site whether its mutant is the chosen one, and notes that it was asked.

- barrier: `__syncthreads()` is left out;
- index: `x[i]` is `x[i + 1]` or `x[i - 1]`;
- bound: `i < n` and the start of a loop, likewise, where they are integers;
- assign: `a += b` is `a = b`, and so for -= *= /=; of pointers, nothing is added.
"""

import re
from dataclasses import dataclass

PRELUDE = """
extern "C" { VISIBLE int mutant_chosen = 0; VISIBLE char mutant_reached[4096]; }
static inline int mutant_nudge(int k) {
    mutant_reached[k] = 1;
    return mutant_chosen == k ? 1 : mutant_chosen == k + 1 ? -1 : 0;
}
static inline bool mutant_kept(int k) { mutant_reached[k] = 1; return mutant_chosen != k; }
template <typename T> static inline T mutant_bound(int k, T value) {
    if (T(1) / T(2) == T(0)) return value + mutant_nudge(k);
    return value;
}
template <typename T> struct MutantTarget {
    T &it; bool add;
    template <typename V> void operator+=(V v) { if (add) it = it + v; else it = v; }
    template <typename V> void operator-=(V v) { if (add) it = it - v; else it = v; }
    template <typename V> void operator*=(V v) { if (add) it = it * v; else it = v; }
    template <typename V> void operator/=(V v) { if (add) it = it / v; else it = v; }
};
template <typename T> struct MutantTarget<T *> {
    T *&it; bool add;
    template <typename V> void operator+=(V v) { if (add) it = it + v; }
};
template <typename T> static inline MutantTarget<T> mutant_target(int k, T &it) {
    return {it, mutant_kept(k)};
}
"""
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
BARRIER = re.compile(r"__syncthreads\(\)")
ASSIGN = re.compile(r"([A-Za-z_][\w.]*(?:\[(?:[^\[\]]|\[[^\]]*\])*\])*)\s*(?:\+|-|\*|/)=")
INDEX = re.compile(r"([A-Za-z_]\w*|\])\[")
COMPARE = re.compile(r"(?<=[\w)\]]) (<|<=|>|>=) ")
START = re.compile(r"for \((?:long long|int|unsigned) \w+ = ")
NAME = r"(?:long long|[A-Za-z_]\w*(?:<[^<>;]*>)?)"
TYPE = re.compile(rf"(?:^|[;{{(,<]|\bconst|__shared__)\s*({NAME})\s+(?:\w+\[[^\]]*\])?$")
NO_TYPES = {"return", "else", "case"}


@dataclass(frozen=True)
class Mutant:
    """One change: `number` chooses it in a text; `key`: a line of `file`, and the change."""

    file: str
    number: int
    key: str


def matching(text, start):
    """The index of the bracket that closes the one at text[start]."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at
    raise ValueError(f"no end of {text[start : start + 40]!r}")


def operand_end(text, start):
    """Where the right side of a comparison ends."""
    depth = 0
    for at in range(start, len(text)):
        two = text[at : at + 2]
        if depth == 0 and (text[at] in ";),?:]}\n" or two in ("&&", "||")):
            return at
        depth += (text[at] in "([{") - (text[at] in ")]}")
    return len(text)


def spans(code):
    """(kind, start, end, form) of every site; form puts the number and the old text together."""
    for match in BARRIER.finditer(code):
        yield "barrier", *match.span(), "if (mutant_kept({0})) {1}"
    for match in ASSIGN.finditer(code):
        yield "assign", *match.span(1), "mutant_target({0}, {1})"
    for match in INDEX.finditer(code):
        before = TYPE.search(code[max(0, match.start() - 80) : match.start()])
        declared = before and before.group(1) not in NO_TYPES
        end = matching(code, match.end() - 1)
        if not declared and (match.group(1) != "]" or not declares(code, match.start())):
            yield "index", match.end(), end, "({1}) + mutant_nudge({0})"
    for match in COMPARE.finditer(code):
        yield "bound", match.end(), operand_end(code, match.end()), "mutant_bound({0}, {1})"
    for match in START.finditer(code):
        yield "bound", match.end(), code.index(";", match.end()), "({1}) + mutant_nudge({0})"


def declares(code, at):
    """Whether the second bracket of `T x[m][n]` at `at` belongs to a declaration."""
    line = code[code.rfind("\n", 0, at) + 1 : at + 1]
    return re.search(r"(?:__shared__ \w+|\b[A-Z]\w*) \w+\[[^\]]*\]$", line) is not None


def blanked(text):
    """The text with comments and preprocessor lines as blanks, so that places stay."""
    text = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    lines = [" " * len(line) if re.match(r"#(?!define|pragma)", line) else line
             for line in text.split("\n")]  # fmt: skip
    return "\n".join(lines)


def mutable(text, name):
    """(text that can be any of its mutants, the mutants); numbers go by twos."""
    code, mutants, edits, places = blanked(text), [], [], located(text, name)
    for number, (kind, start, end, form) in enumerate(sorted(set(spans(code)), key=order), 1):
        file, _ = places[code.count("\n", 0, start)]
        shown = text.split("\n")[code.count("\n", 0, start)].split("//")[0].rstrip("\\ ").strip()
        signs = {"index": ("+ 1", "- 1"), "bound": ("+ 1", "- 1")}.get(kind, ("",))
        for k, sign in enumerate(signs):
            key = f"{shown} | {kind} {code[start:end].strip()} {sign}".strip()
            same = sum(other.key.split(" #")[0] == key for other in mutants)
            key += f" #{same + 1}" if same else ""
            mutants.append(Mutant(file, 2 * number + k, key))
        edits.append((start, end, form, 2 * number))
    return PRELUDE.replace("\n", " ") + "\n" + edited(text, edits), mutants


def order(span):
    """Outer sites before the inner ones that start where they do."""
    return span[1], -span[2]


def edited(text, edits):
    """The text with each edit's form around what is there, inner edits inside outer ones."""
    opens, closes = {}, {}
    for start, end, form, number in edits:
        before, after = form.format(number, "\0").split("\0")
        opens.setdefault(start, []).append(before)
        closes.setdefault(end, []).insert(0, after)
    parts = []
    for at in range(len(text) + 1):
        parts += closes.get(at, []) + opens.get(at, [])
        parts += text[at : at + 1]
    return "".join(parts)


def located(text, name):
    """(file, line) of each line of a text with #line directives."""
    found, file, number = [], f"{name}.cu", 1
    for line in text.split("\n"):
        found.append((file, number))
        match = re.match(r'#line (\d+) "([^"]+)"', line)
        number = int(match.group(1)) if match else number + 1
        file = match.group(2) if match else file
    return found
