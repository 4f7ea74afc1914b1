"""`check_mechanism` finds the mistakes that people make who write a mechanism of their own."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import dither
from dither.core.contributions import Bounded
from dither.core.draw import positions
from dither.errors import ParameterError, TallyError
from dither.mechanisms.frequency import Frequencies
from dither.mechanisms.grr import GRR
from dither.testing import CHECKS, check_mechanism


@dataclass(frozen=True)
class Honest(GRR):
    """As it should be."""


@dataclass(frozen=True)
class Overlooked(GRR):
    """Its sampler adds one too many now and then."""

    def _fill(self, reports: Any, values: Any, tape: Any, rows: Any) -> None:
        y = values.astype(np.uint64) + np.minimum(positions(self.law, tape, rows), np.uint64(self.k - 2))
        reports["value"] = y % np.uint64(self.k)


@dataclass(frozen=True)
class Biased(GRR):
    """Its estimator has a q that is one per cent too small."""

    @cached_property
    def reading(self) -> Frequencies:
        right = super().reading
        return Frequencies(self.k, right.p, right.q * Fraction(99, 100))


@dataclass(frozen=True)
class Careless(GRR):
    """It believes any report."""

    def _valid(self, reports: Any) -> Any:
        return np.ones(len(reports), dtype=bool)


@dataclass(frozen=True)
class Trusting(GRR):
    """It says that a report may add two to a count, which lets a liar through."""

    @cached_property
    def contributions(self) -> Bounded:
        return Bounded((self.k,), 0, 2)


@dataclass(frozen=True)
class Suspicious(GRR):
    """It says that a report never counts for the last category."""

    @cached_property
    def contributions(self) -> Bounded:
        return Bounded((self.k,), 0, np.array([1] * (self.k - 1) + [0]))


@dataclass(frozen=True)
class Silent(GRR):
    """It counts in a way of its own, and does not say what a report adds."""

    def _count(self, reports: Any) -> Any:
        return np.bincount(reports["value"], minlength=self.k)


@dataclass(frozen=True)
class Wasteful(GRR):
    """It promises more than is asked for, so its noise is too large."""

    def _fit(self) -> tuple[int, ...]:
        high, low = super()._fit()
        return high - high // 100, low


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """What is registered is so for one test."""
    with dither.registry.restored():
        yield


@pytest.mark.parametrize(
    ("mutant", "check"),
    [
        (Overlooked, "sampler"),
        (Biased, "estimator"),
        (Careless, "reports"),
        (Trusting, "tallies"),
        (Suspicious, "tallies"),
        (Wasteful, "certificate"),
    ],
)
def test_mistakes_are_found(mutant: Any, check: str):
    dither.registry.register(mutant)
    with pytest.raises(AssertionError, match=rf"{mutant.__name__}\(k=4, .* does not keep the contract, {check}"):
        check_mechanism(mutant, only=[check])


def test_what_declares_nothing_is_read_as_before():
    dither.registry.register(Silent)
    kept = check_mechanism(Silent, only=["tallies", "reports", "secure"])
    assert {outcome for _, check, outcome in kept.rows if check == "tallies"} == {"not carried out"}
    assert {outcome for _, check, outcome in kept.rows if check != "tallies"} == {"kept"}
    both = dither.Sampled(("Silent(k=3)", "Duchi"), d=2, m=1, epsilon=1.0)  # as a part of another one, too
    tally = both.tally(both.randomize({"a": [0, 1, 2, 2], "b": [0.5, 0, 0, 0]}, seed=1))
    both.check_tally(tally)
    with pytest.raises(TallyError, match="number of reports about group 0"):
        both.check_tally(replace(tally, counts=tally.counts + 5))


@pytest.mark.wide
def test_the_honest_one_passes():
    dither.registry.register(Honest)
    kept = check_mechanism(Honest)
    assert {check for _, check, _ in kept.rows} == set(CHECKS)
    assert {outcome for *_, outcome in kept.rows} == {"kept"}
    assert len(kept.table()) == len(CHECKS)


def test_what_cannot_be_checked():
    with pytest.raises(ParameterError, match="Honest is not in the registry"):
        check_mechanism(Honest)
    dither.registry.register(Honest)
    with pytest.raises(ParameterError, match="there is no such check; there are certificate, "):
        check_mechanism(Honest, only=["everything"])
    few = check_mechanism(Honest, examples=[{"k": 2, "epsilon": 1.0}], only=["certificate", "sampler"])
    assert [row[1:] for row in few.rows] == [("certificate", "kept"), ("sampler", "kept")]


def test_no_names_of_mechanisms_in_the_suite():
    from pathlib import Path

    folder = Path(dither.__file__).parent / "testing"
    lines = [line for path in folder.glob("*.py") for line in path.read_text().splitlines() if ">>>" not in line]
    text = "\n".join(lines)
    spoken = {name for name in dither.registry if f"dither.{name}" in text or f'"{name}"' in text}
    assert spoken == set()
