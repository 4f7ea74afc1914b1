"""The contract as one call: what every mechanism must keep, checked on the examples that it declares."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dither.core.domains import BALL
from dither.core.mechanism import Mechanism
from dither.display.table import TextTable
from dither.errors import ParameterError
from dither.mechanisms.lookup import registry
from dither.testing.behaviour import (
    check_budgets,
    check_lanes,
    check_outputs,
    check_reports,
    check_secure,
    check_stored,
    check_values,
    population,
)
from dither.testing.certificates import check_certificate, check_channel
from dither.testing.estimators import check_axes, check_estimator
from dither.testing.poisoning import check_honest_sums, check_influence
from dither.testing.samplers import check_sampler
from dither.testing.seeded_collections import check_coverage, check_merging, check_plumbing
from dither.testing.tallies import check_tallies

_COLLECTIONS = 500


def _coverage(mechanism: Mechanism) -> None:
    users = 200 if mechanism.takes == BALL else 1000  # many numbers make for enough reports
    check_coverage(mechanism, population(mechanism, users), collections=_COLLECTIONS, seed=11)


CHECKS: dict[str, Callable[[Mechanism], Any]] = {
    "certificate": check_certificate,
    "channel": check_channel,
    "sampler": check_sampler,
    "estimator": check_estimator,
    "axes": check_axes,
    "influence": check_influence,
    "honest sums": check_honest_sums,
    "outputs": check_outputs,
    "lanes": check_lanes,
    "stored": check_stored,
    "budgets": check_budgets,
    "values": check_values,
    "reports": check_reports,
    "tallies": check_tallies,
    "secure": check_secure,
    "merging": check_merging,
    "plumbing": check_plumbing,
    "coverage": _coverage,
}


@dataclass(frozen=True)
class Contract:
    """What was checked: for each example what each check said, and which of them could not be carried out."""

    mechanism: str
    rows: tuple[tuple[str, str, str], ...]  # example, check, outcome

    def table(self) -> TextTable:
        """A line for each check: what it is about, and on how many of the examples it was carried out."""
        names = list(dict.fromkeys(check for _, check, _ in self.rows))
        kept = {name: [outcome for _, check, outcome in self.rows if check == name] for name in names}
        return TextTable(
            {
                "check": names,
                "what is kept": [(CHECKS[name].__doc__ or _COVERED).split("\n")[0] for name in names],
                "examples": [f"{kept[name].count('kept')} of {len(kept[name])}" for name in names],
            }
        )

    def __str__(self) -> str:
        return str(self.table())


_COVERED = "Intervals of 95% cover the truth in 94% to 96% of collections; a false alarm has probability 2e-8."


def check_mechanism(
    mechanism: type[Mechanism[Any]], *, examples: Iterable[Any] | None = None, only: Iterable[str] | None = None
) -> Contract:
    """Check the contract on every example of a mechanism; AssertionError at the first thing that is not kept.

    `examples` are parameters to use instead of the declared ones, `only` some of the names in `CHECKS`. The class must
    be registered. Exact things are compared exactly: the sampler runs over every tape of short words. Statistical
    checks use fixed seeds; each states its false-alarm probability, of 1e-7 or less. Needs SciPy (`dither[fast]`).

    >>> import dither
    >>> kept = check_mechanism(dither.GRR, only=["certificate", "sampler"])
    >>> len(kept.rows), {outcome for example, check, outcome in kept.rows}
    (6, {'kept'})
    """
    if not __debug__:
        raise ParameterError("the checks are assertions: run Python without -O")
    if registry.get(mechanism.__name__) is not mechanism:
        raise ParameterError(
            f"{mechanism.__name__} is not in the registry: put @dither.registry.register above its class first"
        )
    names = list(CHECKS) if only is None else list(only)
    if not set(names) <= set(CHECKS):
        raise ParameterError(f"there is no such check; there are {', '.join(CHECKS)}")
    rows = []
    for parameters in mechanism.examples if examples is None else examples:
        made = mechanism(**parameters)
        for name in names:
            try:
                skipped = CHECKS[name](made) is False
            except AssertionError as error:
                said = str(error).strip().split("\n")[0]
                raise AssertionError(f"{made!r} does not keep the contract, {name}: {said or _WHY}") from error
            rows.append((repr(made), name, "not carried out" if skipped else "kept"))
    return Contract(mechanism.__name__, tuple(rows))


_WHY = "the line above says what was compared"
