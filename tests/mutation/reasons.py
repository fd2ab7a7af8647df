"""Why some mutants compute the same: (file, start of the line, change, a sentence)."""

import re

UNREACHED = "numbers that are compared are no integers: not a bound"
EQUIVALENT = (
    ("float16.cuh", r"if \(size > 0x7f", r"\+ 1", "no NaN has 1 as its payload"),
    ("window.cuh", r"return h >= 0", r"0 - 1",
     "the place of a pixel above the image is negative, and so is that of the padding"),
    ("window.cuh", r"if \(o < 0", r"0 - 1",
     "the place of an output above the first is negative with stride 1, and none with others"),
    ("tile.cuh", r"for \(int i = t / DEEP", r"SIDE \+ 1",
     "the number that keeps banks apart is written, and not read"),
    ("tile.cuh", r"for \(long long k = start", r"end \+ 1", "a slice of zeros is added"),
    ("pool.cu", r"for \(int a = 0; .*kernel_h", r"(0 - 1|kernel_h \+ 1)",
     "an offset outside the window is chosen by no output; the first one inside replaces it"),
    ("pool.cu", r"index\[i\] = chosen < 0", r"0 [+-] 1",
     "each window has a place inside the image, which is chosen"),
    ("pool.cu", r"__device__ bool empty", r"end \+ 1", "no window lies outside the image"),
    ("order.cu", r"for \(int back = 1", r"last [+-] 1",
     "powers of two that are less than a larger one are no larger than that less 1 or 2"),
    ("order.cu", r"for \(long long start", r"length \+ 1", "a tile behind the end keeps no place"),
    ("order.cu", r"if \(start > 0", r"0 \+ 1", "a tile begins at a multiple of 32"),
    ("attention.cu", r"for \(int i = 0; i < length", r"length \+ 1",
     "behind the last column of a row there is a zero"),
    ("attention.cu", r"for \(int d = 0; d < COLUMNS", r"COLUMNS \+ 1",
     "that column is behind the last, and not stored"),
    ("attention.cu", r"for \(int start = ", r"(end|queries) \+ 1",
     "a tile in which nothing is seen adds nothing"),
    ("attention.cu", r"sum\[r\] > 0", r"0 \+ 1",
     "the largest score adds 1: a sum that is not 0 is at least 1, and 1 is its own inverse"),
    ("warp.cuh", r"for \(int step = 16", r"16 \+ 1", "17, 8, 4, 2 and 1 places reach all too"),
    ("fused.cu", r"return gap > 0", r"bound 0 [+-] 1", "both forms of the sum hold for small gaps"),
)  # fmt: skip


def equivalent(file, key, outcome):
    """Why a mutant that was not killed computes the same; None: nothing says so."""
    if outcome == "unreached" and "| bound " in key:
        return UNREACHED
    return found(EQUIVALENT, file, key)


def found(table, file, key):
    line, _, change = key.rpartition(" | ")
    for name, start, end, why in table:
        if name == file and re.match(start, line) and re.search(f"{end}( #\\d+)?$", change):
            return why
    return None
