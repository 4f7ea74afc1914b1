"""Sums of tallies in which what is simulated stays apart, until it is known whether all of it is.

A report that came from a seed protects nobody, so the tally that counts it has no guarantee. Reports say by themselves
whether they are simulated, and a stranger may send one that does: among the reports of a real collection it would void
the guarantee of all the others. So the two kinds are summed apart, whatever the order in which files, threads and
machines bring them, and `merged_tallies` joins them at the end:

- none is simulated: the sum;
- all of them are, as in a trial: the sum, which is simulated, and promises nothing;
- some are, and others are not: an error; with `invalid_reports="drop"` the simulated ones are left out, and it is
  counted how many; with `allow_simulated=True` all are counted, and nothing is promised.
"""

from collections.abc import Iterable

from dither.core.reports import SIMULATED, drops
from dither.errors import EmptyError
from dither.planning.plan_tally import PlanTally, mixed_kinds


def sums_apart(tallies: Iterable[PlanTally]) -> tuple[PlanTally, ...]:
    """At most two tallies: the sum of those that are not simulated, and of those that are."""
    sums: dict[bool, PlanTally] = {}
    for tally in tallies:
        for other in sums.values():
            other.refuse_unlike(tally)
        sums[tally.simulated] = sums[tally.simulated] + tally if tally.simulated in sums else tally
    return tuple(sums[simulated] for simulated in sorted(sums))


def merged_tallies(
    tallies: Iterable[PlanTally], *, invalid_reports: str = "error", allow_simulated: bool = False
) -> PlanTally:
    """The sum of the tallies of one plan. Simulated ones are not mixed with others, unless that is allowed.

    >>> import dither
    >>> plan = dither.plan(dither.Schema({"age": dither.Ordinal(0, 3)}), epsilon=2.0, users=10_000)
    >>> real = plan.tally(plan.randomize({"age": [0, 1, 1, 2, 3]}))
    >>> strange = plan.tally(plan.randomize({"age": [3]}, seed=1))
    >>> merged_tallies([real, real]).reports
    10
    >>> found = merged_tallies([strange, real], invalid_reports="drop")
    >>> found.reports, found.simulated, found.dropped
    (5, False, {'simulated': 1})
    """
    drop, sums = drops(invalid_reports), sums_apart(tallies)
    if not sums:
        raise EmptyError("there are no tallies to merge: give at least one")
    real, simulated = sums[0], sums[-1]
    if real is simulated:
        return real
    if allow_simulated or not real.reports:
        return real.plus(simulated, allow_simulated=True)
    if drop:
        return real + simulated.left_out(SIMULATED)
    raise mixed_kinds(real.reports, simulated.reports)
