"""What the lessons learn from: arrays and text, the same whichever library learns."""

from functools import cache

import numpy as np

from minidp.data import mnist

bundled = cache(mnist)


def digits(count, split="train", normalize=True):
    """`count` of the bundled digits: float32 (count, 1, 28, 28) and int64 labels (count,)."""
    images, labels = bundled(split, "bundled", normalize=normalize).arrays
    return images[:count], labels[:count]


def small_digits(count, split="train"):
    """(count, 1, 14, 14) from 0 to 1: means of 2 × 2 pixels; and the labels."""
    images, labels = digits(count, split, normalize=False)
    return images.reshape(count, 1, 14, 2, 14, 2).mean((3, 5)), labels


PARTS = [
    "the horse and the hound and the horn that belonged to",
    "the farmer sowing his corn that kept",
    "the rooster that crowed in the morn that woke",
    "the priest all shaven and shorn that married",
    "the man all tattered and torn that kissed",
    "the maiden all forlorn that milked",
    "the cow with the crumpled horn that tossed",
    "the dog that worried",
    "the cat that killed",
    "the rat that ate",
    "the malt that lay in",
]


def rhyme():
    """The House That Jack Built (English nursery rhyme, printed 1755), about 3,000 letters."""
    verses = []
    for first in range(len(PARTS), -1, -1):
        lines = ["this is", *PARTS[first:], "the house that jack built"]
        verses.append("\n".join(lines) + ".\n\n")
    return "".join(verses)


def sentences(count, seed=0):
    """Lists of tokens 1 to 8 of lengths 3 to 12, and whether 1 comes more often than 2."""
    rng = np.random.default_rng(seed)
    lists = [rng.integers(1, 9, rng.integers(3, 13)) for _ in range(count)]
    lists = [np.where(rng.random(len(each)) < 0.5, each, rng.integers(1, 3)) for each in lists]
    return lists, np.array([(each == 1).sum() > (each == 2).sum() for each in lists])
