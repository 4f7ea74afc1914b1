"""A few hundred of the inputs of `report_inputs`, and that its checks see engines that are wrong."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.core.mechanism import Mechanism
from dither.engines import local, report_rows
from dither.planning import PlanTally
from fuzz.report_inputs import case, check, run


def test_a_few_hundred_cases() -> None:
    run(150)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.integers(1 << 20, 1 << 40))
def test_cases_of_any_seed(seed: int) -> None:
    check(case(seed))


@pytest.mark.parametrize("seed", [1000713])  # a type of numbers that Arrow does not know
def test_cases_that_were_found(seed: int) -> None:
    check(case(seed))


def test_a_case_is_the_same_for_the_same_seed() -> None:
    assert [case(seed) for seed in range(20)] == [case(seed) for seed in range(20)]
    kinds = {(found.kind, found.form) for found in map(case, range(400))}
    assert len(kinds) == 10 + 3 + 1


def _all_valid(self: Mechanism, reports: Any) -> Any:
    return np.ones(len(reports), dtype=bool)


def _not_apart(tallies: Any) -> Any:
    """Sums that do not keep what is simulated apart."""
    first, *others = tallies
    for tally in others:
        first = first.plus(tally, allow_simulated=True)
    return (first,)


def _silent(plan: Any, batch: Any) -> Any:
    """Rows that are left out, and not counted."""
    return _sifted(plan, batch)[0], {}


def _too_many(plan: Any, batch: Any) -> Any:
    """One row more is left out than should be."""
    kept, dropped = _sifted(plan, batch)
    return kept.slice(1), dropped


def _forgotten(*dropped: Any) -> dict[str, int]:
    """What was left out of one tally is lost when it is added to another."""
    return dict(dropped[0])


_sifted = report_rows._sifted
MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "out of range": lambda patch: patch.setattr(Mechanism, "_valid", _all_valid),
    "simulated": lambda patch: patch.setattr(local, "sums_apart", _not_apart),
    "not counted": lambda patch: patch.setattr(report_rows, "_sifted", _silent),
    "too many": lambda patch: patch.setattr(report_rows, "_sifted", _too_many),
    "not added": lambda patch: patch.setattr("dither.planning.plan_tally._by_reason", _forgotten),
    "another sum": lambda patch: patch.setattr(PlanTally, "plus", lambda self, other, **_: replace(other)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises((AssertionError, IndexError, ValueError)) as caught:
        run(100)
    assert caught.value.__notes__[0].startswith("case ")
