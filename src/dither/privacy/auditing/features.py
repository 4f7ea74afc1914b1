"""What an adversary looks at in a report, without being told how it was made.

A *letter* is one fact about a report, as a small whole number: the report itself, one of its bits, one of its entries,
whether it fell on the bucket of an item. A *view* is some letters, which are counted under both inputs and weighed as
if they were independent: the score of a report is the sum of log(count here / count there). Counts that do not differ
by more than three standard errors are left out, or else the noise of a hundred idle bits would drown two; a second
score keeps them, for hundreds of bits that each tell a little.

- **whole**: reports as they are, if there are not too many different ones.
- **letters**: bits of packed bytes and wide numbers, entries of lists (with the dimension that they are about).
  The seed of a hash is among them: a tag that depends on the input would show.
- **order**: the number itself, or the sum of the numbers. Tails are events that no count of single values sees.
- **difference**: of reports with a number for each entry of the input, the inner product with the difference of the two
  inputs. For Gaussian noise, the same in all directions, this is the log-likelihood ratio.
- **hashes**: the hash functions are public, so the adversary evaluates them on the items of both inputs: whether the
  report fell on their buckets (or on the opposite ones), or the sums of the signs that they give.
- **fineness**: of floating-point numbers, the place of the last binary digit. Sums of floats do not reach all floats,
  and which ones they reach depends on the input (Mironov 2012).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import BALL
from dither.core.mechanism import Domain
from dither.core.sparse_columns import EMPTY
from dither.kernels.hashing import buckets, public_seeds

MOST_REPORTS = 1 << 13  # different ones that are counted one by one
_CLEAR = 9.0  # a difference of counts, squared, in units of its variance
_FEW_VALUES = 16
_POINT, _DIGITS = 1100, 2200  # floats have digits from 1024 before the point to 1074 behind it
_TAGS = ("seed", "cohort")
BITS_AND_ENTRIES = "its bits and entries"


class Feature(NamedTuple):
    """A fact about each report: `read` gives numbers below `size`."""

    size: int
    read: Callable[[NDArray], NDArray[Any]]


class FeatureSet(NamedTuple):
    """Letters that are weighed together, or a single one that has a `level` for each number: the score as it is."""

    words: str
    letters: tuple[Feature, ...]
    levels: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Score:
    """A number for each report: the larger, the more it speaks for the first input."""

    words: str
    parts: tuple[tuple[Feature, NDArray[np.float64]], ...]

    def __call__(self, reports: NDArray) -> NDArray[np.float64]:
        total = np.zeros(len(reports))
        for letter, weights in self.parts:
            total += weights[letter.read(reports)]
        return total


def learned(view: FeatureSet, ours: NDArray, theirs: NDArray) -> Iterator[Score]:
    """The scores of a view, from reports of both inputs, as many of each."""
    if view.levels is not None:
        yield Score(view.words, ((view.letters[0], view.levels),))
        return
    found = []
    for letter in view.letters:
        one, other = (np.bincount(letter.read(reports), minlength=letter.size) for reports in (ours, theirs))
        clear = (one - other) ** 2.0 > _CLEAR * (one + other)
        found.append((letter, np.log((one + 0.5) / (other + 0.5)), clear))
    words = f"log-odds of {view.words}"
    yield Score(words, tuple((letter, np.where(clear, odds, 0.0)) for letter, odds, clear in found if clear.any()))
    if len(found) > 1:  # a little in each of many letters, none of them clear
        yield Score(words, tuple((letter, odds) for letter, odds, _ in found))


def feature_sets(
    sample: NDArray, pair: tuple[Any, Any], domain: Domain | None = None, g: int = 2
) -> Iterator[FeatureSet]:
    """All views of reports like these, for an adversary who wants to tell apart the inputs of the pair.

    Where they are hashed there are at least g buckets: that is public, and a sample may not have seen the last one.
    """
    if sample.dtype.itemsize <= 8:
        letter = whole_report(numbered(sample))
        if letter is not None:
            yield FeatureSet("the whole report", (letter,))
    yield FeatureSet(BITS_AND_ENTRIES, tuple(_letters(sample)))
    for name in sample.dtype.names or ():
        yield from _ordered(sample, name)
        yield from _differing(sample, name, pair)
    tag = next((name for name in _TAGS if name in (sample.dtype.names or ())), None)
    items = domain is None or domain.kind != BALL  # a vector has none
    if tag is not None and "value" in (sample.dtype.names or ()) and items:
        yield from _hashed(sample, Hash(tag, max(g, int(sample["value"].max()) + 1)), pair, domain)
    if tag is not None and "bits" in (sample.dtype.names or ()) and items:
        yield _hashed_bits(Hash(tag, g.bit_length() - 1), pair)  # of g bits there are 2^g reports


# The report as it is -------------------------------------------------------------------------------------------------


def numbered(reports: NDArray) -> NDArray[np.uint64]:
    """The bytes of each report as one number; reports of at most eight bytes."""
    size = reports.dtype.itemsize
    padded = np.zeros((len(reports), 8), dtype=np.uint8)
    padded[:, :size] = np.ascontiguousarray(reports).view(np.uint8).reshape(len(reports), size)
    return padded.view("<u8")[:, 0]


def whole_report(numbers: NDArray[np.uint64]) -> Feature | None:
    """The report itself, if there are few different ones; those that were not in the sample count as one."""
    known = np.unique(numbers)
    if len(known) > MOST_REPORTS:
        return None

    def read(reports: NDArray) -> NDArray[np.intp]:
        number = numbered(reports)
        place = np.minimum(np.searchsorted(known, number), len(known) - 1)
        return np.where(known[place] == number, place, len(known))

    return Feature(len(known) + 1, read)


# Bits and entries -----------------------------------------------------------------------------------------------------


def _letters(sample: NDArray) -> Iterator[Feature]:
    names = sample.dtype.names or ()
    for name in names:
        base, shape = sample.dtype[name].base, sample.dtype[name].shape
        about = "dimension" if "dimension" in names and name != "dimension" else None
        small = base.kind in "ui" and base.itemsize <= 2
        for entry in range(int(np.prod(shape, dtype=int))):
            if small:
                yield _entry(sample, name, entry, about)
            else:
                for place in range(8 * base.itemsize):
                    yield _bit(sample, name, entry, place, about)


def _entry(sample: NDArray, name: str, entry: int, about: str | None) -> Feature:
    size = int(_column(sample, name, entry).max()) + 1
    return _about(sample, entry, about, size, lambda reports: np.minimum(_column(reports, name, entry), size - 1))


def _bit(sample: NDArray, name: str, entry: int, place: int, about: str | None) -> Feature:
    """One bit of packed bytes, or of a wide number."""
    size = sample.dtype[name].base.itemsize

    def read(reports: NDArray) -> NDArray[Any]:
        column = np.ascontiguousarray(_column(reports, name, entry)).view(np.uint8).reshape(len(reports), size)
        return column[:, place // 8] >> (place % 8) & 1

    return _about(sample, entry, about, 2, read)


def _about(
    sample: NDArray, entry: int, about: str | None, size: int, read: Callable[[NDArray], NDArray[Any]]
) -> Feature:
    """The letter together with the dimension that it is about, where reports say so."""
    if about is None:
        return Feature(size, read)
    most = int(sample[about].max()) + 1

    def both(reports: NDArray) -> NDArray[np.int64]:
        return np.minimum(_column(reports, about, entry), most - 1).astype(np.int64) * size + read(reports)

    return Feature(most * size, both)


def _column(reports: NDArray, name: str, entry: int) -> NDArray:
    column = reports[name]
    return column if column.ndim == 1 else column.reshape(len(reports), -1)[:, entry]


# Order and fineness --------------------------------------------------------------------------------------------------


def _ordered(sample: NDArray, name: str) -> Iterator[FeatureSet]:
    kind = sample.dtype[name].base.kind
    if kind not in "uif" or name in (*_TAGS, "dimension"):
        return

    def total(reports: NDArray) -> NDArray[np.float64]:
        return reports[name].reshape(len(reports), -1).sum(axis=1, dtype=np.float64)

    letter, levels = _binned(total, total(sample), 1 << 12)
    yield FeatureSet(f"the sum of its {name}s" if sample.dtype[name].shape else f"its {name}", (letter,), levels)
    if kind == "f" and not sample.dtype[name].shape:
        digits = Feature(_DIGITS, lambda reports: fineness(reports[name]))
        places = np.arange(_DIGITS, dtype=np.float64) - _POINT
        yield FeatureSet(f"the place of the last binary digit of its {name}", (digits,), places)


def _differing(sample: NDArray, name: str, pair: tuple[Any, Any]) -> Iterator[FeatureSet]:
    """The inner product of numbers with the difference of two inputs that are as many numbers."""
    one, other = (np.asarray(each) for each in pair)
    kind, shape = sample.dtype[name].base.kind, sample.dtype[name].shape
    if kind not in "uif" or one.dtype.kind not in "uif" or not shape == one.shape == other.shape or name in _TAGS:
        return
    difference = one.astype(np.float64) - other.astype(np.float64)

    def along(reports: NDArray) -> NDArray[np.float64]:
        return np.einsum("ij,j->i", reports[name].astype(np.float64), difference)

    if len(shape) == 1 and difference.any():
        letter, levels = _binned(along, along(sample), 1 << 12)
        yield FeatureSet(f"its {name}s along the difference of the inputs", (letter,), levels)


def _binned(read: Callable[[NDArray], NDArray], seen: NDArray, most: int) -> tuple[Feature, NDArray[np.float64]]:
    """A number as a letter, and where it begins: all if they are few, or else bins that are fine at both ends."""
    edges = np.unique(seen)
    if len(edges) > most:
        ranked, half = np.sort(seen), most // 4
        near = np.unique(np.geomspace(1, len(ranked) // 2, half).astype(np.int64)) - 1
        middle = np.linspace(0, len(ranked) - 1, half).astype(np.int64)
        edges = np.unique(ranked[np.unique(np.concatenate([near, len(ranked) - 1 - near, middle]))])
    levels = np.concatenate([[edges[0] - 1.0], edges])
    return Feature(len(levels), lambda reports: np.searchsorted(edges, read(reports), side="right")), levels


def fineness(numbers: NDArray[np.floating]) -> NDArray[np.int64]:
    """For each float the place of its last binary digit behind the point, counted from 1100 before it; 0 for zero.

    >>> (fineness(np.array([1.0, 0.75, 12.0, 2.0**-60])) - 1100).tolist()
    [0, 2, -2, 60]
    """
    mantissa, exponent = np.frexp(np.nan_to_num(numbers.astype(np.float64)))
    digits = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    return np.where(digits == 0, 0, np.clip(_POINT + 53 - exponent - lowest, 1, _DIGITS - 1))


# Hashes --------------------------------------------------------------------------------------------------------------


class Hash(NamedTuple):
    """The field that names a report's hash function, and how many buckets there are."""

    tag: str
    g: int

    def places(self, reports: NDArray, categories: NDArray, g: int | None = None, entry: int = 0) -> NDArray[np.uint64]:
        """The buckets of the categories (columns) under the hash function of each report (rows)."""
        named = _column(reports, self.tag, entry)
        seeds = named if self.tag == "seed" else public_seeds(int(named.max(initial=0)) + 1)[named]
        return buckets(seeds[:, None], categories, g or self.g)


class HashedItems(NamedTuple):
    """What an input gives to a hash function: keys, and whether their signs are plus."""

    keys: NDArray[np.int64]
    plus: NDArray[np.bool_]

    @classmethod
    def of(cls, x: Any, domain: Any, pad: int) -> "HashedItems":
        """Of a category, itself; of a sparse vector its keys, with dummies d, d + 1, ... up to s (`Sparse`)."""
        row = np.asarray(x)
        if not row.dtype.names:
            return cls(row.reshape(1).astype(np.int64), np.ones(1, dtype=bool))
        there = row["key"].reshape(-1) != EMPTY
        keys, values = row["key"].reshape(-1)[there].astype(np.int64), row["value"].reshape(-1)[there]
        dummies = domain.d + np.arange(len(keys), domain.s + pad)
        return cls(np.concatenate([keys, dummies]), np.concatenate([values >= 0, np.ones(len(dummies), dtype=bool)]))

    @property
    def items(self) -> NDArray[np.int64]:
        """Key and sign as one number."""
        return 2 * self.keys + self.plus


def _hashed(sample: NDArray, hashing: Hash, pair: tuple[Any, Any], domain: Any) -> Iterator[FeatureSet]:
    if np.asarray(pair[0]).dtype.names is None:
        two = tuple(HashedItems.of(x, domain, 0) for x in pair)
        rounds = int(np.prod(sample.dtype["value"].shape, dtype=int))
        yield _hits("the buckets of both inputs", hashing, [each.keys for each in two], rounds=rounds)
        if hashing.g % 2 == 0 and hashing.g > 2 and rounds == 1:
            yield _hashed_signs(Hash(hashing.tag, hashing.g // 2), pair)
        return
    two = [HashedItems.of(x, domain, 0) for x in pair]
    yield _hits("the buckets of the items", hashing, [each.items for each in two])
    yield _hits("the buckets of the keys", hashing, [each.keys for each in two], [each.plus for each in two])
    odd = [HashedItems.of(x, domain, 1 - domain.s % 2) for x in pair]
    plus = [each.plus for each in odd]
    yield from _sums("the hashed signs of the items", sample, hashing, [each.items for each in odd])
    yield from _sums("the hashed signs of the keys", sample, hashing, [each.keys for each in odd])
    yield from _sums("hashed signs times signs", sample, hashing, [each.keys for each in odd], plus)


def _hashed_bits(hashing: Hash, pair: tuple[Any, Any]) -> FeatureSet:
    """Whether the bits of both inputs' buckets are set (a sketch of bits)."""
    categories = np.array(pair, dtype=np.int64)

    def read(reports: NDArray) -> NDArray[np.int64]:
        size, places = reports.dtype["bits"].itemsize, hashing.places(reports, categories).astype(np.int64)
        column = np.ascontiguousarray(reports["bits"]).view(np.uint8).reshape(len(reports), size)
        bits = np.take_along_axis(column, places // 8, axis=1) >> (places % 8).astype(np.uint8) & 1
        return 2 * bits[:, 0].astype(np.int64) + bits[:, 1]

    return FeatureSet("the bits of both inputs' buckets", (Feature(4, read),))


def _hashed_signs(hashing: Hash, pair: tuple[Any, Any]) -> FeatureSet:
    """Whether the sign is that of both inputs' buckets, of a row of the Hadamard matrix and a sign (a sketch)."""
    categories = np.array(pair, dtype=np.int64)

    def read(reports: NDArray) -> NDArray[np.int64]:
        rows = 2 * hashing.places(reports, categories) + np.uint64(1)
        other = np.bitwise_count(rows & reports["value"].astype(np.uint64)[:, None]).astype(np.int64) & 1
        return 2 * other[:, 0] + other[:, 1]

    return FeatureSet("the signs of both inputs' buckets", (Feature(4, read),))


def _hits(
    words: str, hashing: Hash, categories: list[Any], plus: list[Any] | None = None, rounds: int = 1
) -> FeatureSet:
    """Whether the report is in a bucket of each input, or opposite to one, and how many buckets the input has."""
    half, most = hashing.g // 2, max(map(len, categories))

    def place(reports: NDArray, number: int, entry: int) -> NDArray[np.int64]:
        places = hashing.places(reports, categories[number], entry=entry).astype(np.int64)
        value = _column(reports, "value", entry).astype(np.int64)[:, None]
        if plus is None:
            hit = (places == value).any(axis=1).astype(np.int64)
        else:
            places = np.where(plus[number], places, (places + half) % hashing.g)
            hit = (places == value).any(axis=1) + 2 * (places == (value + half) % hashing.g).any(axis=1)
            places %= max(half, 1)
        distinct = (np.diff(np.sort(places, axis=1), axis=1) != 0).sum(axis=1)
        return hit * most + distinct

    kinds = most * (2 if plus is None else 4)

    def letter(entry: int) -> Feature:
        return Feature(kinds**2, lambda reports: place(reports, 0, entry) * kinds + place(reports, 1, entry))

    return FeatureSet(words, tuple(letter(entry) for entry in range(rounds)))


def _sums(
    words: str, sample: NDArray, hashing: Hash, categories: list[Any], plus: list[Any] | None = None
) -> Iterator[FeatureSet]:
    """The sums of the signs of each input's items, and the value.

    A value of many is noise around the sum. Then only those hash functions count that give the two inputs sums of
    different sign, any or the largest, and the score is the value, seen from the second input's side.
    """
    most = max(map(len, categories))

    def totals(reports: NDArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ups = [hashing.places(reports, each, 2).astype(bool) for each in categories]
        turned = ups if plus is None else [up ^ ~sign for up, sign in zip(ups, plus, strict=True)]
        one, other = (2 * up.sum(axis=1, dtype=np.int64) - most for up in turned)
        return one, other

    if hashing.g <= _FEW_VALUES:

        def read(reports: NDArray) -> NDArray[np.int64]:
            one, other = totals(reports)
            return ((one + most) * (2 * most + 1) + other + most) * hashing.g + reports["value"]

        yield FeatureSet(words, (Feature((2 * most + 1) ** 2 * hashing.g, read),))
        return
    for least in {1, most}:

        def noise(reports: NDArray, least: int = least) -> NDArray[np.float64]:
            one, other = totals(reports)
            apart = (one * other < 0) & (np.minimum(abs(one), abs(other)) >= least)
            return np.where(apart, np.sign(one) * (2.0 * reports["value"] - (hashing.g - 1)), 0.0)

        letter, levels = _binned(noise, noise(sample), 1 << 12)
        yield FeatureSet(f"the value on the side of {words} (sums of at least {least})", (letter,), levels)
