"""Test vectors that Python and the client in JavaScript both run: tapes of words to reports, to the byte.

    python tests/javascript/vectors.py            writes clients/js/vectors/vectors.json.gz
    python tests/javascript/vectors.py --plans    makes plans anew, too: only to add one, since a plan keeps its hash

**Tapes.** A word is a public function of a number (the seed of the vector) and of its address: the labels of the tape,
lane, row, attempt and place. Both languages compute it, so that a vector need not list words. What it lists are the
words that were put in the place of some: these make the cases that chance never meets.

**Edges.** A report is a step function of each word. Between two words with different outcomes (another report, or a
word rejected) there are two neighbours with different outcomes, which 64 halvings find, whatever a mechanism does with
its words. So every threshold that a vector comes near is tested on both sides, and words are rejected once and again.

**What is stored** is the input and the outcome; `recomputed` runs the inputs again, so a test can tell what is stale
without looking for edges anew.
"""

import gzip
import hashlib
import json
import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import dither
from dither.collect.sealed_reports import HEAD_BYTES, Head, SealedReportFormat, key_id, sealing_info
from dither.core.domains import CATEGORIES, NUMBERS, RECORDS, SPARSE, WORDS
from dither.core.lattice import split
from dither.core.mechanism import Mechanism
from dither.core.sparse_domain import Sparse
from dither.errors import DitherError
from dither.kernels.hashing import buckets, public_seeds
from dither.mechanisms import load
from dither.planning import device_plan
from dither.planning.plan_files import digest
from dither.privacy.ledger.prompt import canonical
from dither.schema import Categorical, KeyValue, Numeric, Ordinal, Public, Schema, Text
from dither.testing.short_tapes import _words_that_matter, lanes, short_sparse, with_short_weights
from dither.wire import BatchFormat

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "clients" / "js" / "vectors"
FILE = FOLDER / "vectors.json.gz"
STORED = ROOT / "tests" / "stored"
ALL = (1 << 64) - 1

Override = list[Any]  # labels of the tape, lane, row, attempt, place, and the word in hexadecimal digits


# Words --------------------------------------------------------------------------------------------------------------


def word_at(address: str) -> int:
    """FNV-1a of the address, mixed by the finalizer of MurmurHash3."""
    x = 14695981039346656037
    for code in address.encode():
        x = (x ^ code) * 1099511628211 & ALL
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD & ALL
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53 & ALL
    return x ^ x >> 33


@dataclass
class KnownTape:
    """A tape whose words everybody can compute, but for those that were put in their place."""

    seed: int
    overrides: dict[str, int] = field(default_factory=dict)
    path: str = ""
    read: dict[str, int] = field(default_factory=dict)  # the addresses that were read, in order, and their words

    bits = 64
    simulated = False

    def words(self, lane: int, rows: Any, width: int = 1, attempt: int = 0, out: Any = None) -> Any:
        del out
        if attempt > 10_000:
            raise AssertionError("these words are rejected for ever")
        numbers = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        found = [[self._word(f"{self.path}|{lane}|{row}|{attempt}|{j}") for j in range(width)] for row in numbers]
        return np.array(found, dtype=np.uint64).reshape(len(found), width)

    def _word(self, address: str) -> int:
        word = self.overrides.get(address)
        self.read[address] = word_at(f"{self.seed}{address}") if word is None else word
        return self.read[address]

    def _inner(self, label: str) -> "KnownTape":
        return KnownTape(self.seed, self.overrides, f"{self.path}/{label}", self.read)

    def slots(self, label: str, number: int) -> "KnownTape":
        return self._inner(f"{label}*{number}")

    def spawn(self, *labels: str) -> "KnownTape":
        return self._inner(".".join(labels))


def listed(overrides: dict[str, int]) -> list[list[str]]:
    return [[address, f"{word:x}"] for address, word in overrides.items()]


def unlisted(stored: list[list[str]]) -> dict[str, int]:
    return {address: int(word, 16) for address, word in stored}


# Mechanisms ---------------------------------------------------------------------------------------------------------


def mechanisms() -> list[dict[str, Any]]:
    """Each kind that a plan may choose, in every shape that its code tells apart."""
    made: list[Mechanism] = [
        *(dither.GRR(k=k, epsilon=e) for k, e in ((2, 1.0), (5, 0.1), (1000, 4.0), (1 << 20, 9.0), (3, 20.0))),
        dither.GRR(k=7, epsilon=1e-6),  # weights of several words
        dither.GRR(k=4, epsilon=1.0, delta=1e-6),
        dither.Unary(k=3, epsilon=1.0),
        dither.Unary(k=64, epsilon=0.5, kind="symmetric"),
        dither.Unary(k=65, epsilon=3.0),
        dither.Unary(k=500, epsilon=1.0),
        dither.Unary(k=9, epsilon=2.0, delta=1e-3),
        dither.LocalHash(k=6, epsilon=1.0),
        dither.LocalHash(k=1_000_000, epsilon=2.0),
        dither.LocalHash(k=1 << 32, epsilon=6.0),
        dither.LocalHash(k=300, epsilon=1.0, cohorts=1000),
        dither.LocalHash(k=30, epsilon=0.5, g=2, cohorts=7),
        dither.SubsetSelection(k=5, epsilon=1.0),
        dither.SubsetSelection(k=4, epsilon=0.2),
        dither.SubsetSelection(k=3, epsilon=2.0),
        dither.SubsetSelection(k=500, epsilon=0.5),
        dither.SubsetSelection(k=1000, epsilon=3.0),
        dither.SubsetSelection(k=10, epsilon=0.1, size=8),
        dither.Hadamard(k=3, epsilon=1.0),
        dither.Hadamard(k=1000, epsilon=0.5),
        dither.Hadamard(k=(1 << 20) + 1, epsilon=5.0),
        *(dither.ProjectiveGeometry(k=k, epsilon=1.0, q=q) for k, q in ((7, 2), (9, 3), (100, 4), (40, 5), (700, 8))),
        *(dither.ProjectiveGeometry(k=k, epsilon=3.0, q=q) for k, q in ((90, 9), (5000, 16), (800, 25), (999, 256))),
        dither.ProjectiveGeometry(k=5000, epsilon=4.0, q=101),
        dither.ProjectiveGeometry(k=100_000, epsilon=1.0),
        dither.OneHotGaussian(k=3, epsilon=1.0, delta=1e-3),
        dither.OneHotGaussian(k=5, epsilon=0.3, delta=1e-6),
        dither.OneHotGaussian(k=12, epsilon=2.0, delta=1e-9),
        *(dither.Duchi(epsilon=e) for e in (0.1, 1.0, 8.0)),
        dither.Duchi(epsilon=1.0, delta=1e-4),
        *(dither.Piecewise(epsilon=e) for e in (0.5, 2.0, 6.0)),
        *(dither.SquareWave(epsilon=e) for e in (0.5, 2.0, 5.0)),
        dither.QuantileWave(epsilon=1.0),
        dither.QuantileWave(epsilon=2.0, quantiles=(0, 1000, 50_000, 50_001, 700_000, 1 << 20)),
        *(dither.Hybrid(epsilon=e) for e in (0.3, 1.0, 4.0)),
        *(dither.Hypercube(d=d, epsilon=e) for d, e in ((1, 1.0), (2, 1.0), (3, 0.5), (4, 2.0), (70, 1.0), (129, 3.0))),
        dither.Hypercube(d=2, epsilon=1.0, delta=1e-6),
        dither.Hypercube(d=5, epsilon=6.0, parts=3),
        dither.Collision(d=3, s=2, epsilon=1.0),
        dither.Collision(d=500, s=8, epsilon=2.0),
        dither.Collision(d=2000, s=3, epsilon=1.0, cohorts=64),
        dither.Collision(d=40, s=20, epsilon=4.0),
        dither.CoCo(d=4, s=1, epsilon=1.0),
        dither.CoCo(d=500, s=8, epsilon=1.0),
        dither.CoCo(d=20, s=6, epsilon=0.2, goal="presence"),
        dither.CoCo(d=2000, s=3, epsilon=3.0, cohorts=64),
        *(dither.SignSum(d=20, s=s, epsilon=1.0, goal=g) for s, g in ((2, "frequency"), (3, "mean"), (4, "presence"))),
        dither.PCKV_UE(d=3, s=1, epsilon=1.0),
        dither.PCKV_UE(d=130, s=5, epsilon=0.5),
        dither.PCKV_GRR(d=8, s=3, epsilon=1.0),
        dither.PCKV_AGRR(d=8, s=3, epsilon=1.0),
        dither.PCKV_AGRR(d=100, s=30, epsilon=4.0),
        dither.PrivKV(d=8, s=3, epsilon=1.0),
        dither.PrivKV(d=300, s=1, epsilon=2.0),
        dither.HeavyHitters(symbols=26, longest=6, epsilon=2.0, lengths=(4, 6), functions=(2, 3)),
        dither.HeavyHitters(symbols=255, longest=20, epsilon=4.0),
        dither.LGRR(k=4, epsilon=2.0, first=1.0),
        dither.LGRR(k=50, epsilon=5.0, first=0.5),
        dither.LUnary(k=5, epsilon=2.0, first=1.0),
        dither.LUnary(k=70, epsilon=1.0, first=0.2, kind="symmetric"),
        dither.LHash(k=100, epsilon=2.0, first=1.0),
        dither.LHash(k=30, epsilon=3.0, first=2.9, cohorts=9),
        dither.ranges.Copula(shape=(64, 10, 4), epsilon=1.0, n=100_000, nominal=(2,)),
        dither.ranges.Copula(shape=(1024, 1024), epsilon=4.0, n=10_000),
        dither.ranges.Copula(shape=(100,), epsilon=1.0, n=10_000),
        dither.ranges.HDG(shape=(64, 64, 16), epsilon=1.0, n=50_000),
        dither.ranges.TDG(shape=(64, 64), epsilon=2.0, n=50_000),
        dither.ranges.CALM(shape=(16, 16, 4), epsilon=1.0, n=50_000),
        dither.ranges.LHIO(shape=(16, 16), epsilon=1.0, n=50_000),
        dither.ranges.MSW(shape=(50, 20), epsilon=1.0, n=50_000),
        dither.ranges.Uniform(shape=(8, 9), epsilon=1.0, n=1000),
    ]
    return [mechanism.to_dict() for mechanism in made]


@cache
def _loaded(text: str) -> Mechanism:
    return load(json.loads(text))


def loaded(stored: dict[str, Any]) -> Mechanism:
    return _loaded(json.dumps(stored))


def taken(mechanism: Mechanism, value: Any) -> np.ndarray:
    """A value of a vector as the mechanism takes it."""
    domain: Any = mechanism.reading.domain
    if domain.kind == CATEGORIES:
        return np.array([value], dtype=np.int64)
    if domain.kind == NUMBERS:
        return np.array([value], dtype=np.float64)
    if domain.kind == SPARSE:
        return np.array([Sparse(domain.d, domain.s).row({int(key): x for key, x in value})])
    if domain.kind == WORDS:
        return np.array([bytes(value)], dtype=f"S{domain.longest}")
    return np.array([value], dtype=np.float64 if domain.kind == RECORDS else np.int64)


def some_values(mechanism: Mechanism, chance: random.Random) -> Iterator[Any]:
    """Ends first, then anything, without end."""
    domain: Any = mechanism.reading.domain

    def number() -> float:
        return chance.choice([-1.0, 1.0, 0.0, chance.uniform(-1, 1), chance.uniform(-1, 1), 0.5, -1e-17, 1 - 2**-53])

    if domain.kind == CATEGORIES:
        yield from (0, domain.k - 1)
        while True:
            yield chance.randrange(domain.k)
    elif domain.kind == NUMBERS:
        yield from (-1.0, 1.0, 0.0)
        while True:
            yield number()
    elif domain.kind == SPARSE:
        yield []
        while True:
            count = min(chance.choice([0, 1, domain.s, domain.s, domain.s + 1, 2 * domain.s + 1]), domain.d)
            yield [[key, number()] for key in chance.sample(range(domain.d), count)]
    elif domain.kind == WORDS:
        yield []
        while True:
            yield [chance.randint(1, domain.symbols) for _ in range(chance.randint(0, domain.longest))]
    elif domain.kind == RECORDS:
        while True:
            yield [number() for _ in range(domain.d)]
    else:
        yield [0] * domain.d
        yield [size - 1 for size in domain.shape]
        while True:
            yield [chance.randrange(size) for size in domain.shape]


def drawn(stored: dict[str, Any], value: Any, seed: int, overrides: list[list[str]]) -> tuple[str, KnownTape]:
    """The report of a vector, and the tape that it was drawn with."""
    mechanism, tape = loaded(stored), KnownTape(seed, unlisted(overrides))
    return mechanism.drawn(taken(mechanism, value), tape).astype(_little(mechanism)).tobytes().hex(), tape


def _little(mechanism: Mechanism) -> np.dtype:
    return mechanism.dtype.newbyteorder("<")


def draws(stored: dict[str, Any], number: int) -> Iterator[list[Any]]:
    """The vectors of one mechanism: plain ones, rejected words, and both sides of thresholds."""
    mechanism, chance = loaded(stored), random.Random(number)
    values = some_values(mechanism, chance)
    for seed in range(14):
        value = next(values)
        yield [number, value, seed, [], drawn(stored, value, seed, [])[0]]
    for seed in range(100, 106):
        value = next(values)
        _, tape = drawn(stored, value, seed, [])
        first = [address for address in tape.read if address.split("|")[3] == "0"]
        if len(first) > 8:
            first = first[:3] + chance.sample(first[3:], 5)
        yield from _refused(stored, number, value, seed, first)
        for address in chance.sample(first, min(len(first), 4)):
            yield from _edges(stored, number, value, seed, address, chance)


def _refused(stored: dict[str, Any], number: int, value: Any, seed: int, addresses: list[str]) -> Iterator[list[Any]]:
    """With the largest words: once, and again at the next attempt."""
    for times in (1, 3):
        forced = [
            [_at_attempt(address, attempt), f"{ALL:x}"]
            for address in addresses
            for attempt in range(times)
            if not _decides_nothing_else(address, stored)
        ]
        report, tape = drawn(stored, value, seed, forced)
        if any(address.split("|")[3] != "0" for address in tape.read):
            yield [number, value, seed, forced, report]


def _at_attempt(address: str, attempt: int) -> str:
    path, lane, row, _, place = address.split("|")
    return f"{path}|{lane}|{row}|{attempt}|{place}"


def _decides_nothing_else(address: str, stored: dict[str, Any]) -> bool:
    """Whether these words are bits: those of an even cube are drawn again until they fit, and the largest never do."""
    return stored["mechanism"] == "Hypercube" and address.split("|")[1] == "2"


def _edges(
    stored: dict[str, Any], number: int, value: Any, seed: int, address: str, chance: random.Random
) -> Iterator[list[Any]]:
    """Two neighbouring words at this address with different outcomes."""

    def outcome(word: int) -> tuple[str, int]:
        report, tape = drawn(stored, value, seed, [[address, f"{word:x}"]])
        return report, len(tape.read)

    low, high = sorted((chance.choice([0, chance.getrandbits(64)]), chance.choice([ALL, chance.getrandbits(64)])))
    one, other = outcome(low), outcome(high)
    if one == other:
        return
    while high - low > 1:
        middle = (low + high) // 2
        between = outcome(middle)
        if between != one:
            high, other = middle, between
        else:
            low = middle
    for word, (report, _) in ((low, one), (high, other)):
        yield [number, value, seed, [[address, f"{word:x}"]], report]


def responses(stored: dict[str, Any], number: int) -> Iterator[list[Any]]:
    """What a device keeps, and what it says of it in a round: of mechanisms that remember."""
    mechanism, chance = loaded(stored), random.Random(number)
    values = some_values(mechanism, chance)
    for seed in range(12 if mechanism.remembers else 0):
        value = next(values)
        yield [number, value, seed, *kept_and_said(stored, value, seed)]


def kept_and_said(stored: dict[str, Any], value: Any, seed: int) -> list[str]:
    mechanism = loaded(stored)
    kept = mechanism.response(taken(mechanism, value), KnownTape(seed))
    said = mechanism.said(kept, KnownTape(seed + 1000))
    return [rows.astype(_little(mechanism)).tobytes().hex() for rows in (kept, said)]


# The exact channel --------------------------------------------------------------------------------------------------

SHORT = 8  # bits of a word, where all tapes of such words are few enough
MOST_TAPES = 16  # bits of a tape


def channels() -> list[dict[str, Any]]:
    """Small mechanisms with short weights, and the exact probability of each report, as the certificate states it.

    The client's sampler runs over all tapes of short words, and must give these fractions. Where words do not matter
    (signs that have nothing to round), `varied` says which do, as in the contract suite; all others are zero then.
    """
    return [row for stored in small_mechanisms() for row in _laws(stored)]


def small_mechanisms() -> list[dict[str, Any]]:
    names = {each["mechanism"] for each in mechanisms()} - {"HDG", "TDG", "CALM", "LHIO", "MSW", "Uniform"}
    kinds = [(name, example) for name in sorted(names) for example in dither.registry[name].examples]
    return [dither.registry[name](**example).to_dict() for name, example in kinds]


def _laws(stored: dict[str, Any]) -> Iterator[dict[str, Any]]:
    mechanism = loaded(stored)
    if "SquareWave" in str(stored.get("asked")):  # its row is stated for 64-bit words, whose rounding is finer
        return
    if mechanism.takes == SPARSE:
        yield from _sparse_laws(mechanism)
        return
    short, bits = mechanism.shortened(1 << SHORT), SHORT
    if short is None or sum(lanes(short, bits).values()) * bits > MOST_TAPES:
        short, bits = with_short_weights(mechanism)
    if short is None:
        return
    words = sum(lanes(short, bits).values()) * bits
    inputs = short.inputs()
    channel: Any = short.channel()
    domain: Any = short.reading.domain
    chosen = sorted({0, 1, len(inputs) - 1}) if words <= 12 else [len(inputs) - 1]
    for x in chosen:
        yield _channel(
            short,
            bits,
            inputs[x],
            None,
            _law(short, bits, lambda tag, x=x: channel.given(x, tag), lambda x=x: channel.row(x)),
        )
    window: Any = getattr(short, "window", None)
    if (
        domain.kind == NUMBERS and window is not None
    ):  # between two lattice points, where the coin of the rounding falls
        value = 0.3
        lower, rest, digits = (int(np.ravel(each)[0]) for each in split(np.array([value]), window.steps, bits))
        share = Fraction(rest, 1 << digits)
        rows = window.law.row(lower), window.law.row(lower + 1)
        law = {
            f"{y:0{2 * short.dtype.itemsize}x}": (1 - share) * a + share * b
            for y, (a, b) in enumerate(zip(*rows, strict=True))
        }
        yield _channel(short, bits, value, None, law)


def _sparse_laws(mechanism: Any) -> Iterator[dict[str, Any]]:
    domain = mechanism.domain
    for number in (0, domain.size - 1):
        vector = {key: float(sign) for key, sign in domain.vector(number).items()}
        short, bits, varied = _few_tapes(mechanism, vector)
        if number == 0 and bits * sum(map(len, varied.values())) > 12:
            continue
        channel = short.channel()
        law = _law(short, bits, lambda tag: channel.given(number, tag), lambda: channel.row(number))  # noqa: B023
        yield _channel(short, bits, [[key, sign] for key, sign in vector.items()], varied, law)


def _few_tapes(mechanism: Any, vector: dict[int, float]) -> tuple[Any, int, dict[Any, tuple[int, ...]]]:
    """As `short_sparse`, with shorter words: each tape takes the client longer than NumPy, which runs all at once."""
    for rejecting in (True, False):
        for bits in range(SHORT, 1, -1):
            small = mechanism.shortened(1 << bits, rejecting)
            if small is not None:
                varied = _words_that_matter(small, bits, vector)
                if sum(map(len, varied.values())) * bits <= MOST_TAPES:
                    return small, bits, varied
    return short_sparse(mechanism, vector)


def _law(
    mechanism: Any, bits: int, given: Callable[[int], list[Any]], row: Callable[[], list[Any]]
) -> dict[str, Fraction]:
    """The probability of each report, by its bytes."""
    if "seed" not in (mechanism.dtype.names or ()):
        reports = mechanism.outputs().astype(_little(mechanism))
        return {report.tobytes().hex(): Fraction(odds) for report, odds in zip(reports, row(), strict=True)}
    size = mechanism.dtype.itemsize - 8
    return {
        (seed.to_bytes(8, "little") + value.to_bytes(size, "little")).hex(): Fraction(odds) / (1 << bits)
        for seed in range(1 << bits)
        for value, odds in enumerate(given(seed))
    }


def _channel(mechanism: Mechanism, bits: int, value: Any, varied: Any, law: dict[str, Fraction]) -> dict[str, Any]:
    kept = {report: odds for report, odds in law.items() if odds}
    assert sum(kept.values()) == 1
    whole = math.lcm(*(odds.denominator for odds in kept.values()))
    return {
        "mechanism": mechanism.to_dict(),
        "bits": bits,
        "tapes": bits * sum(map(len, varied.values()) if varied is not None else lanes(mechanism, bits).values()),
        "value": np.asarray(value).tolist() if not isinstance(value, list | bytes) else list(value),
        "varied": None if varied is None else {str(lane): list(columns) for lane, columns in varied.items()},
        "law": {report: str(odds * whole) for report, odds in kept.items()},
        "whole": str(whole),
    }


# Plans --------------------------------------------------------------------------------------------------------------

ODD = "größe \U0001f4a1"


def new_plans() -> dict[str, dither.Plan]:
    """Plans with every question, every kind of attribute, many parts, groups, budgets, rounds and phases."""
    people = Schema(
        {
            "age": Ordinal(18, 99, missing=40),
            "income": Numeric(0, 200_000, missing=30_000),
            "job": Categorical(["nurse", "driver", "other", "unknown"], missing="unknown"),
            "sex": Categorical(["f", "m"]),
            ODD: Ordinal(-3, 500),
            "films": KeyValue(["Alien", "Heat", "Totoro", "é"], size=2, low=1, high=5),
            "tags": KeyValue(200, size=4),
            "word": Text(longest=8, alphabet="abcdefghijklmnopqrstuvwxyz"),
            "any": Text(longest=12, fold=False),
        }
    )
    asked = [
        *("mean(age)", "mean(income)", "histogram(job)", f"distribution({ODD})", "distribution(income)"),
        *("cumulative(age)", "cumulative(income)", f"cumulative({ODD})", "std(income)", "correlation(age, income)"),
        *("mean(income by job)", "table(job, sex)", "films", "tags", "top(word, 5)", "top(any, 5)"),
        "share(age >= 31 and job = 'nurse')",
        "share(income > 12345.6 and income <= 50000 or income >= 100000)",
        "ranges(age, income, job)",
    ]
    spaced = Schema(
        {
            "pay": Numeric(0, 100_000, scale="log"),
            "rent": Numeric(1, 10_000, scale="log"),
            "cut": Numeric(0, 100, cuts=[10, 20.5, 40]),
            "step": Numeric(0, 10, lattice=0.25),
            "five": Ordinal(18, 99, lattice=5),
        }
    )
    grouped = Schema(
        {"job": people["job"], "income": people["income"], "country": Public(["DE", "FR", "other"], "other")}
    )
    plan = dither.plan
    return {
        "people-1": plan(people, 1.0, users=200_000, ask=asked),
        "people-4": plan(people, 4.0, users=200_000, ask=asked),
        "delta": plan(Schema({n: people[n] for n in ("age", "job", "sex")}), 0.5, users=100_000, delta=1e-6),
        "several": plan(
            Schema({f"q{i}": Categorical([f"{i}{j}" for j in range(2 + i % 5)]) for i in range(40)}),
            12.0,
            users=100_000,
        ),
        "some": plan(Schema({f"n{i}": Numeric(0, 1 + i) for i in range(12)}), 10.0, users=100_000),
        "most": plan(Schema({f"n{i}": Numeric(-1 - i, 1) for i in range(6)}), 14.0, users=100_000),
        "spaced": plan(
            spaced, 1.0, users=100_000, ask=[f"ranges({', '.join(spaced)})", *(f"mean({n})" for n in spaced)]
        ),
        "groups": plan(grouped, 1.0, users={"DE": 5000, "FR": 3000, "other": 2000}),
        "budgets": plan(
            Schema({"job": people["job"], "income": people["income"]}),
            {"careful": 0.5, "open": dither.Budget(3.0, {"income": (0, 50_000)})},
            users={"careful": 5000, "open": 8000},
            ask=["mean(income)", "histogram(job)"],
        ),
        "kept": plan(
            Schema({"job": people["job"], "age": people["age"]}), 4.0, users=50_000, rounds=10, changes=1, first=1.0
        ),
        "rounds": plan(Schema({"job": people["job"]}), 1.0, users=50_000, rounds=["W1", "W2", "W3"]),
        "phases": plan(Schema({"income": people["income"], "free": Numeric()}), 1.0, users=50_000, phases=2),
        "crowd": plan(Schema({"job": people["job"], "sex": people["sex"]}), users=20_000, central=1.0, delta=1e-8),
    }


@cache
def plan_text(name: str) -> str:
    return (FOLDER / "plans" / f"{name}.json").read_text(encoding="utf-8")


def plan_names() -> list[str]:
    return sorted(path.stem for path in (FOLDER / "plans").glob("*.json"))


@cache
def plan_of(name: str) -> dither.Plan:
    return dither.Plan.from_json(plan_text(name))


def record_of(stored: Any) -> Any:
    """A record of a vector, with what JSON has no word for: {"$": "NaN"}."""
    if isinstance(stored, dict):
        if set(stored) == {"$"}:
            return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}[stored["$"]]
        return {name: record_of(value) for name, value in stored.items()}
    if isinstance(stored, list):
        return [record_of(value) for value in stored]
    return stored


_NOTHING = [
    None,
    {"$": "NaN"},
    {"$": "Infinity"},
    {"$": "-Infinity"},
    True,
    False,
    "",
    "x",
    -1,
    10**15,
    0.5,
    [],
    {},
    [1],
]


def odd_values(attribute: Any, chance: random.Random) -> list[Any]:
    """Values of one attribute, right and wrong."""
    kind = attribute.kind
    if kind == "numeric":
        low, high = (-1e9, 1e9) if attribute.open else attribute.span
        inside = [chance.uniform(low, high) for _ in range(6)]
        near = [
            math.nextafter(12345.6, 1e9),
            12345.6,
            50_000.0,
            100_000,
            math.nextafter(1e5, 0),
            10.0,
            20.5,
            0.125,
            5e-324,
        ]
        return [low, high, low - 1, high + 1, *inside, *near, *_NOTHING]
    if kind == "ordinal":
        low, high = attribute.low, attribute.high
        return [
            low,
            high,
            low - 1,
            high + 1,
            high + 0.5,
            *(chance.randint(low, high) for _ in range(6)),
            31,
            30,
            *_NOTHING,
        ]
    if kind in ("categorical", "public"):
        return [*attribute.labels[:6], *_NOTHING, "nurse ", "Nurse"]
    if kind == "keyvalue":
        names = attribute.labels
        keys = list(names) if names else list(range(attribute.d))
        some = [
            [[key, chance.uniform(attribute.low, attribute.high)] for key in chance.sample(keys, min(len(keys), count))]
            for count in (0, 1, 2, 3, attribute.size, attribute.size + 1, attribute.size + 3)
        ]
        odd = [[keys[0], {"$": "NaN"}], [keys[1], 99], [keys[0], 2], ["none", 1], [None, 1], [1.5, 1], [10**9, 1]]
        dense = [0 if place % 50 else 1 for place in range(len(keys))]
        return [*some, odd, dense, *_NOTHING, {str(keys[0]): 2} if names else None]
    words = [
        "Straße",
        " STRASSE\n",
        "ΟΔΟΣ",
        "e\u0301",
        "coffee",
        "COFFEE ",
        "a" * 9,
        "\u0131",
        "\uab70",
        "\u1e9e",
        "\u0130",
    ]
    return [*words, "zo\u00eb", "\u3000tea\x1f", "n\u0000l", "\U0001f4a1", "ab", "x" * 70_000, *_NOTHING]


def records(name: str, chance: random.Random) -> Iterator[Any]:
    """Records of a plan, from what fits to what no record is."""
    plan = plan_of(name)
    columns = {each: odd_values(attribute, chance) for each, attribute in plan.attributes.items()}
    size = max(map(len, columns.values()))
    for row in range(size):
        yield {each: values[row % len(values)] for each, values in columns.items()}
    for _ in range(30):
        yield {each: chance.choice(values) for each, values in columns.items()}
    if not plan.public:
        yield from ({}, None, 7, "text", [1, 2])


def reported(name: str, record: Any, seed: int, overrides: list[list[str]]) -> list[Any]:
    """What `fresh_report` makes of a record, by the number of the part; and the batch that is sent."""
    plan, tape = plan_of(name), KnownTape(seed, unlisted(overrides))
    with mock.patch.object(device_plan.Stream, "secure", return_value=tape):
        reports = plan.fresh_report(record_of(record))
    period = plan.schedule.periods[-1] if plan.schedule.repeats else None
    found = {
        str(place): reports[part.name].astype(_little(part.mechanism)).tobytes().hex()
        for place, part in enumerate(plan.parts)
        if len(reports[part.name])
    }
    return [found, BatchFormat(plan).pack(reports, period=period).hex()]


def subjects(name: str, record: Any) -> str:
    """A digest of what the mechanisms of all parts take from a record, as a ledger compares it."""
    found = plan_of(name).encoded(record_of(record))
    whole = b"".join(len(raw).to_bytes(8, "little") + raw for raw in map(canonical, found.values()))
    return hashlib.sha256(whole).hexdigest()[:32]


def plan_vectors(name: str) -> Iterator[list[Any]]:
    plan, chance = plan_of(name), random.Random(name)
    for seed, record in enumerate(records(name, chance)):
        try:
            yield [name, record, seed, [], *reported(name, record, seed, []), subjects(name, record)]
        except DitherError:  # of its public values
            yield [name, record, seed, [], None, None, None]
    if len(plan.parts) > 1 and not plan.groups:  # the words that say which parts are answered, at their edges
        record = next(records(name, chance))
        for seed in range(200, 206):
            for word in (0, ALL, chance.getrandbits(64)):
                for lane in (0, 1):
                    forced = [[f"|{lane}|0|0|0", f"{word:x}"]]
                    yield [name, record, seed, forced, *reported(name, record, seed, forced), subjects(name, record)]


# Hashes, sealed reports, and what is refused ------------------------------------------------------------------------

HASHED = [
    '{"b":1.0,"a":[1e-07,1e16,0.0001,200000.0,0.1,-0.0,0,123456789012345678901234567890]}',
    '{"\\ud83d\\udca1":1,"\\uff01":2,"z":"\\u007f\\t\\"\\\\/\\u00e9"}',
    '[true,false,null,1E5,1e5,1.5e300,5e-324,2.2250738585072014e-308,-1e-5,1e22,123456.789e3,"\\b\\f\\n\\r"]',
    '{"":{"":[]},"a":{},"A":"\\ud800\\udc00"}',
    "[9007199254740993,-9007199254740993,0,-0,-0.0,1e15,1e16,1e17,0.00001,0.0001,9999999999999998.0]",
]


def hashes() -> list[list[str]]:
    texts = [*HASHED, *map(plan_text, plan_names())]
    rng = random.Random(5)
    texts += [json.dumps([rng.uniform(-1, 1) * 10.0 ** rng.randint(-320, 308) for _ in range(20)]) for _ in range(40)]
    return [[text, digest(json.loads(text))] for text in texts]


def buckets_of() -> list[list[Any]]:
    rng = random.Random(9)
    rows = []
    for _ in range(200):
        seed, category, g = (
            rng.getrandbits(64),
            rng.choice([0, 1, (1 << 32) - 1, rng.getrandbits(32)]),
            rng.randint(2, 65536),
        )
        rows.append([f"{seed:x}", category, g, int(buckets(np.array([seed], np.uint64), np.array([category]), g)[0])])
    return rows


def seeds_of() -> list[str]:
    return [f"{seed:x}" for seed in public_seeds(64).tolist()]


def sealed() -> list[list[str]]:
    """Messages to a fixed key with fixed ephemeral keys, by a second writer of HPKE."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    from collect.hpke_by_hand import sealed_by_hand

    public = X25519PrivateKey.from_private_bytes(bytes(range(100, 132))).public_key().public_bytes_raw()
    found = []
    for name in ("crowd", "groups", "rounds", "several"):
        plan, chance = plan_of(name), random.Random(name)
        form, fits = SealedReportFormat(plan), (each for each in records(name, chance))
        for seed in range(6):
            record = next(fits)
            try:
                reports, batch = reported(name, record, seed, [])
            except DitherError:
                continue
            ephemeral = hashlib.sha256(f"{name} {seed}".encode()).digest()
            raw = bytes.fromhex(batch)
            number = int.from_bytes(raw[40:44], "little")
            crowd = next(place for place, each in enumerate(form.crowds) if int(next(iter(reports))) in each.parts)
            if set(map(int, reports)) - form.crowds[crowd].parts:
                continue  # every question is a message of its own
            head = Head(key_id(public), number, crowd).to_bytes()
            padded = (len(raw).to_bytes(4, "little") + raw).ljust(form.padded, b"\0")
            message = head + sealed_by_hand(ephemeral, public, sealing_info(head, form.plan_hash), padded)
            assert len(message) == form.size > HEAD_BYTES
            found.append([name, record, seed, public.hex(), ephemeral.hex(), message.hex()])
    return found


def refused() -> list[list[str]]:
    """Texts that are no plan to answer, and why: a word that the error must have."""
    text = plan_text("several")
    stored = json.loads(text)

    def forged(change: Callable[[dict[str, Any]], None]) -> str:
        plan = json.loads(text)
        change(plan)
        own = {
            name: value for name, value in plan.items() if name not in ("hash", "version", "certificate", "prediction")
        }
        return json.dumps({**plan, "hash": digest(own)})

    def part(**fields: Any) -> Callable[[dict[str, Any]], None]:
        return lambda plan: plan["parts"][0]["mechanism"].update(fields)

    a, b = map(int, stored["parts"][0]["mechanism"]["weights"])
    laplace = dither.Laplace(epsilon=1.0).to_dict()
    return [
        [text.replace('"weight": 1', '"weight": 2', 1), "changed"],
        [text.replace(stored["hash"], stored["hash"][::-1]), "changed"],
        [forged(lambda plan: plan.update(format=2)), "newer"],
        [forged(part(weights=[str(a + a // 10**6), str(b)])), "do not keep"],
        [forged(part(weights=[str(b), str(a)])), "weights"],
        [forged(part(weights=[str(a)])), "weights"],
        [forged(part(epsilon=stored["parts"][0]["mechanism"]["epsilon"] / 2)), "do not keep"],
        [forged(part(mechanism="Unheard")), "Unheard"],
        [forged(part(surprise=1)), "field"],
        [forged(lambda plan: plan["parts"][0].update(mechanism=laplace)), "Laplace"],
        [forged(lambda plan: plan.update(epsilon=plan["epsilon"] / 2)), "epsilon"],
        [forged(lambda plan: plan.update(later={})), "field"],
        [forged(lambda plan: plan["parts"][0].update(questions=["riddle(q0)"])), "riddle"],
        [text[:-3], "plan"],
        [text.replace('"users"', '"users": 1, "users"', 1), "twice"],
        ["[]", "plan"],
        ["NaN", "plan"],
        ['{"format": 1, "x": 1e999}', "plan"],
        ["", "plan"],
        ["[" * 100_000, "plan"],
    ]


# The file -----------------------------------------------------------------------------------------------------------


def vectors() -> dict[str, Any]:
    kinds = mechanisms()
    return {
        "mechanisms": kinds,
        "draws": [vector for number, stored in enumerate(kinds) for vector in draws(stored, number)],
        "responses": [vector for number, stored in enumerate(kinds) for vector in responses(stored, number)],
        "channels": channels(),
        "plans": {name: plan_text(name) for name in plan_names()},
        "reports": [vector for name in plan_names() for vector in plan_vectors(name)],
        "hashes": hashes(),
        "buckets": buckets_of(),
        "seeds": seeds_of(),
        "sealed": sealed(),
        "refused": refused(),
    }


def stored_vectors() -> dict[str, Any]:
    return json.loads(gzip.decompress(FILE.read_bytes()))


def count(file: dict[str, Any]) -> int:
    return sum(len(rows) for name, rows in file.items() if name not in ("mechanisms", "plans"))


def write() -> None:
    file = vectors()
    FILE.write_bytes(gzip.compress(json.dumps(file, separators=(",", ":")).encode(), 9, mtime=0))
    print(f"{FILE.relative_to(ROOT)}: {count(file):,} vectors, {FILE.stat().st_size:,} bytes")
    for name, rows in file.items():
        print(f"  {name}: {len(rows):,}")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    if "--plans" in sys.argv:
        for name, plan in new_plans().items():
            (FOLDER / "plans" / f"{name}.json").write_text(plan.to_json(), encoding="utf-8")
    write()
