"""The loops of a product of matrices, from blocks down to register tiles: see `_product`.

From the outside in: blocks of columns and of terms of b, which take a quarter of the second cache;
tiles of rows of a; chunks of terms; panels of b as wide as a tile. So a is read once for each block
of columns, b once; a tile's part of a stays in the first cache for all panels of the block.

What is read next but lies far away, and not in an order that a CPU foresees, is fetched ahead by
the tiles before: a few bytes further in each of their steps, so that all of it is there in time.
"""

from collections import namedtuple

from ._machine_code import call, move
from ._memory import LINE
from ._microkernel import loops
from ._nests import nest
from ._transpose import turn

LENGTH = loops((1, 1, 1)).nbytes  # of what a tile wants to know
ALWAYS, UNALIGNED = 1, 2  # when b is packed: always, or if its rows do not begin with lines
COPIED, FRAMED = 1, 2  # ways to pack a: columns that are contiguous, rows that are
OF_A, OF_B, OF_Y = 1, 2, 3  # what is fetched ahead: the next tile's rows, or the next block of b

NAMES = """groups rows sums columns a_row a_sum a_group b_sum b_column b_group y_row y_group
bias_row chunk deep wide width most tall some pack_a pack_b ahead turned strip transpose copying"""
ProductSizes = namedtuple("ProductSizes", NAMES)


@nest
def multiply(plan, loops, a, b, bias, y, scratch):
    """y of all groups, block by block of b."""
    s = ProductSizes(plan[0], plan[1], plan[2], plan[3], plan[4], plan[5], plan[6], plan[7],
                     plan[8], plan[9], plan[10], plan[11], plan[12], plan[13], plan[14], plan[15],
                     plan[16], plan[17], plan[18], plan[19], plan[20], plan[21], plan[22],
                     plan[23], plan[24], plan[25], plan[26])  # fmt: skip
    item, tiles = y.itemsize, plan[27:]
    panels = scratch.ctypes.data + -scratch.ctypes.data % LINE
    lines = (b.ctypes.data | s.b_sum * item) % LINE
    is_packed = s.pack_b == ALWAYS or (s.pack_b == UNALIGNED and lines != 0)
    frame = panels + (s.deep * s.wide * item if s.pack_b else 0)
    for group in range(s.groups):
        for left in range(0, s.columns, s.wide):
            for begin in range(0, s.sums, s.deep):
                exist, count = min(s.wide, s.columns - left), min(s.deep, s.sums - begin)
                source = b.ctypes.data + (
                    group * s.b_group + begin * s.b_sum + left * s.b_column) * item  # fmt: skip
                if is_packed:
                    pack(source, panels, exist, count, item, s)
                place = a.ctypes.data + (group * s.a_group + begin * s.a_sum) * item
                starts = bias.ctypes.data + group * (s.rows if s.turned else s.columns) * item
                out = y.ctypes.data + (group * s.y_group + left * (
                    s.y_row if s.turned else 1)) * item  # fmt: skip
                given = (place, panels if is_packed else source, out,
                         starts + (0 if s.turned else left * item))  # fmt: skip
                numbers = loops[1 if is_packed else 0].ctypes.data
                following = b.ctypes.data + (group * s.b_group + (begin + count) * s.b_sum) * item
                area = exist, begin, count, is_packed, following
                sweep(tiles, numbers, given, frame, area, item, s)


def pack(source, panels, exist, count, item, s):
    """Panels of b, each a row of `width` values for each term; what does not exist stays as is."""
    if s.b_column == 1:
        whole, rest = exist // s.width, exist % s.width
        call(s.copying, (source, panels, whole, s.width, s.width * count, count, s.width, s.b_sum,
                         s.width))  # fmt: skip
        further = source + whole * s.width * item, panels + whole * s.width * count * item
        call(s.copying, (*further, 1, 0, 0, count, rest, s.b_sum, s.width))
    else:
        for left in range(0, exist, s.width):
            place, panel = source + left * s.b_column * item, panels + left * count * item
            turn(s.transpose, s.width // 2, item, place, panel, min(s.width, exist - left), count,
                 s.b_column, s.width)  # fmt: skip


def sweep(tiles, numbers, given, frame, area, item, s):
    """A block's tiles of nearly equal height, one below the other: first those that are higher."""
    parts = (s.rows + s.most - 1) // s.most
    small, larger = s.rows // parts, s.rows % parts
    for kind in range(2):
        end, height = (parts if kind else larger), small + 1 - kind
        for part in range(kind * larger, end, s.some):
            rows = part * small + min(part, larger), min(s.some, end - part), height
            if s.turned:
                descend_turned(tiles, numbers, given, frame, area, rows, item, s)
            else:
                descend(tiles, numbers, given, frame, area, rows, s.y_row * item, item, s)


def descend_turned(tiles, numbers, given, frame, area, rows, item, s):
    """Some tiles of one height whose results are turned, so many that they fill lines of y."""
    (a, b, y, bias), (exist, begin, _, _, _), (row, count, height) = given, area, rows
    strip, target = frame + s.strip * item, y + row * item
    if begin:
        turn(s.transpose, s.width // 2, item, target, strip, exist, count * height, s.y_row, s.wide)
    for k in range(count):
        mine = a, b, strip + k * height * s.wide * item, bias
        place = row + k * height, 1, height
        descend(tiles, numbers, mine, frame, area, place, s.wide * item, item, s)
    turn(s.transpose, s.width // 2, item, strip, target, count * height, exist, s.wide, s.y_row)


def descend(tiles, numbers, given, frame, area, rows, down, item, s):
    """Some tiles of one height: chunk by chunk of their terms; `down` is a row of results."""
    (a, b, y, bias), (row, count, height) = given, rows
    exist, begin, depth, is_packed, following = area
    panels = (exist + s.width - 1) // s.width
    target = y + (0 if s.turned else row * down)
    for first in range(0, depth, s.chunk):
        terms = min(s.chunk, depth - first)
        source = a + (row * s.a_row + first * s.a_sum) * item
        gather(source, frame, terms, height, count, item, s)
        kind = 0 if begin + first == 0 else 1
        if s.sums > s.chunk and begin + first + terms == s.sums:
            kind = 2
        kind = 2 * kind * (s.most + 1) + height
        counts = numbers + (LENGTH if terms < s.chunk else 0)
        place = b + first * (s.width if is_packed else s.b_sum) * item
        step = (depth if is_packed else s.b_column) * s.width * item
        for k in range(count):
            mine = frame + k * terms * s.tall * item if s.pack_a else source
            c = target + k * height * down
            starts = bias + (row + k * height) * s.bias_row * item
            far, size = c, 0
            if s.ahead == OF_A:
                far, size = source + height * s.a_row * item, height * s.a_row * item
            if s.ahead == OF_Y:
                far, size = c + height * down, height * down
            if s.ahead == OF_B:
                size = depth * s.b_sum * item
                far, size = following + size * (row + k * height) // s.rows, size * height // s.rows
            further = (size + panels * depth - 1) // (panels * depth)
            far += first * panels * further
            across(tiles, kind, (mine, place, c, starts, counts), (far, further, terms), exist,
                   step, item, s)  # fmt: skip


def gather(source, frame, terms, height, count, item, s):
    """What some tiles read of a, brought together if that is wanted."""
    if s.pack_a == COPIED:
        call(s.copying, (source, frame, count, height, terms * s.tall, terms, height, s.a_sum,
                         s.tall))  # fmt: skip
    if s.pack_a == FRAMED:
        for i in range(height):
            move(source + i * s.a_row * item, frame + i * (s.chunk + s.width) * item, terms * item)


def across(tiles, kind, given, ahead, exist, step, item, s):
    """The tiles of a block beside each other."""
    a, b, c, bias, numbers = given
    far, further, terms = ahead
    for left in range(0, exist, s.width):
        wide = min(s.width, exist - left)
        place = tiles[kind + (s.most + 1 if 2 * wide > s.width else 0)]
        starts = bias + (0 if s.turned else left * item)
        call(place, (a, b, c + left * item, starts, wide, numbers, far, further))
        b += step
        far += terms * further
