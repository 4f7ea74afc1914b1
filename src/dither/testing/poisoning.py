"""What liars can do, by enumeration: what a single report is worth, and what honest ones keep within bounds."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.mechanism import Mechanism
from dither.core.structure import BOXES, GRIDS, PREFIXES
from dither.core.worth import Worth, Worths
from dither.errors import ParameterError
from dither.testing.examples import LARGEST_LISTED

_SAMPLE = 100  # reports that are looked at where there are too many to list
_CLOSE = 1e-9
_MOST_LISTED, _INPUTS = 1 << 11, 33  # reports that are looked at one by one, and values of which all are asked


def check_influence(mechanism: Mechanism) -> bool:
    """No valid report is worth more than `report_worth` says, and where it says exactly so, one is worth that."""
    declared = mechanism.report_worth()
    if declared is None or mechanism.structure in (BOXES, PREFIXES):
        return False  # nothing is claimed; boxes are read by queries, words are searched for: they have their own tests
    for worth in declared:
        assert type(worth.least) is type(worth.most) is Fraction, "worths are rationals"
        assert worth.least <= worth.low < worth.high <= worth.most, "an honest report is worth the truth, on average"
    reports, all_ = _reports(mechanism)
    ends: dict[Worth, tuple[float, float]] = {}
    for report in reports:
        for worth, numbers in _numbers(mechanism, declared, report):
            low, high = ends.get(worth, (np.inf, -np.inf))
            ends[worth] = min(low, float(numbers.min())), max(high, float(numbers.max()))
    assert set(ends) == set(declared) or not all_, "each row is about numbers of the estimate"
    for worth, (low, high) in ends.items():
        near = _CLOSE * float(worth.swing)
        assert low >= worth.least - near, f"a report is worth less than declared to {worth.question}"
        assert high <= worth.most + near, f"a report is worth more than declared to {worth.question}"
        if all_ and worth.exact:
            assert low <= worth.least + near, f"no report is worth as little as declared to {worth.question}"
            assert high >= worth.most - near, f"no report is worth as much as declared to {worth.question}"
    return all_


def check_honest_sums(mechanism: Mechanism) -> bool:
    """Whatever a user holds, the sums that a report adds to are, on average, within the bounds that are declared."""
    channel = mechanism.channel()
    if channel.shape[1] > _MOST_LISTED:
        return False
    try:
        reports = mechanism.outputs()
    except ParameterError:
        return False
    declared = [mechanism.honest_sums(mechanism.tally(report)) for report in reports]
    inputs = np.unique(np.linspace(0, channel.shape[0] - 1, _INPUTS).round().astype(int))  # the ends among them
    law = np.array([channel.row(int(x)) for x in inputs], dtype=np.float64)
    for alike in zip(*declared, strict=True):
        seen, trials = np.array([sums.seen for sums in alike]), np.array([sums.trials for sums in alike])
        assert ((seen >= 0) & (seen <= trials * (1 + _CLOSE))).all(), f"terms are from 0 to 1: {alike[0].what}"
        mean, number = law @ seen, law @ trials
        assert (mean >= number * alike[0].low * (1 - _CLOSE)).all(), f"honest reports are below: {alike[0].what}"
        assert (mean <= number * alike[0].high * (1 + _CLOSE)).all(), f"honest reports are above: {alike[0].what}"
    return bool(declared and declared[0])


def _reports(mechanism: Mechanism) -> tuple[NDArray[Any], bool]:
    """All reports if they are few; else some that honest users send."""
    if mechanism.channel().shape[1] <= LARGEST_LISTED:
        try:
            return mechanism.outputs(), True
        except ParameterError:
            pass
    inputs = mechanism.inputs()
    return np.asarray(mechanism.randomize(inputs[np.arange(_SAMPLE) % len(inputs)], seed=3)), False


def _numbers(mechanism: Any, declared: Worths, report: Any) -> Iterator[tuple[Worth, NDArray[np.float64]]]:
    """The numbers that this report alone gives, each with what is declared about it."""
    if mechanism.structure == GRIDS:
        tally = mechanism.tally(report)
        for group, found in enumerate(mechanism.collected(tally)):
            if found.n:
                cells = found.value if found.value is not None else mechanism.oracle(group).estimate(found.tally).value
                yield _of_group(mechanism, declared, group), np.ravel(cells)
        return
    for name, numbers in mechanism.estimate(mechanism.tally(report)).numbers().items():
        known = numbers[~np.isnan(numbers)]  # nothing of a dimension that it is not about
        named = [worth for worth in declared if name in (worth.question, worth.question.split(",")[0].split()[-1])]
        rows = named or [worth for worth in declared if len(declared) == 1 and name.isdecimal()]
        if rows and known.size:
            yield rows[0], known


def _of_group(mechanism: Any, declared: Worths, group: int) -> Worth:
    """The row about a group: that of the same oracle and the same share of users."""
    (own,) = mechanism.oracle(group).report_worth()
    total = sum(asked.share for asked in mechanism.groups)
    asked = Fraction(mechanism.groups[group].share, total)
    found = [worth for worth in declared if (worth.most, worth.least, worth.asked) == (own.most, own.least, asked)]
    assert found, "each group is declared"
    return found[0]
