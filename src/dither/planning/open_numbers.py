"""Numbers without known ends: the first phase asks for their order of magnitude, the second has a domain.

The ends of a domain are public, and must not come from the data. But they may come from *reports*: a first phase asks
some users for the sign and the power of two of their number (`questions.magnitudes`), and whatever is made of its tally
costs nobody anything (`planning.phases`).

**The rule**, public and the same for all: the upper end is the least power of two beyond which at most 1% of the users
are, as estimated, and one power more for room, since both the estimate and the users vary; the lower end likewise among
negative numbers. Where at most 1% are on one side of 0, the domain ends at 0 there. Values outside are moved to the
nearer end; the first phase tells how many these are, and results say so.

**What else it tells.** The curve of magnitudes is a picture of the distribution, fine near 0 and coarse far out. So
shares along the number are asked in the second phase by `QuantileWave` at once, with its quantiles.

The second plan is made from all that was asked (`Phases.ask`), as `dither.plan` makes any. What was asked in both
phases by the same mechanism counts as one; otherwise reports of the first phase tell about their attribute.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.cumulative_estimate import Cumulative
from dither.core.estimate import Estimate
from dither.core.tally import Tally
from dither.errors import ParameterError
from dither.mechanisms.quantile_wave import QuantileWave
from dither.planning.phases import Phases
from dither.questions.catalogue import questions
from dither.questions.magnitudes import LEAST, OCTAVES, MagnitudeOf, edges
from dither.schema import Numeric, Schema

if TYPE_CHECKING:
    from dither.planning.plan_estimates import PlanEstimates
    from dither.planning.plan_parts import Part
    from dither.planning.plan_tally import PlanTally
    from dither.planning.plans import Plan

Floats = NDArray[np.float64]

_OUTSIDE = 0.01  # of the users, at most, beyond each end before there is room


def open_numbers(schema: Any, ask: Iterable[str] | None) -> tuple[str, ...]:
    """The numbers without ends that are asked about, beside their order of magnitude."""
    if not isinstance(schema, Schema) or not any(MagnitudeOf.asks(each) for each in schema.values()):
        return ()
    texts = [text for text in _texts(schema, ask) if not _magnitude(text)]
    asked = questions(_standing(schema), texts) if texts else ()
    named = {name for question in asked for each in (question, *question.rests_on) for name in each.names}
    return tuple(name for name in schema if name in named and MagnitudeOf.asks(schema[name]))


def _texts(schema: Schema, ask: Iterable[str] | None) -> list[str]:
    if ask is None:
        return [name for name in schema if name not in schema.public]
    return [ask] if isinstance(ask, str) else list(ask)


def _magnitude(text: Any) -> bool:
    return isinstance(text, str) and text.strip().startswith(f"{MagnitudeOf.statistic}(")


def _standing(schema: Schema) -> Schema:
    """The schema with some ends where there are none: to read questions, and for nothing else."""
    return Schema({name: Numeric(-1, 1) if MagnitudeOf.asks(each) else each for name, each in schema.items()})


def plan_of_magnitudes(
    schema: Schema,
    epsilon: Any,
    users: tuple[int, ...],
    ask: Iterable[str] | None,
    unknown: Sequence[str],
    options: Mapping[str, Any],
) -> "Plan":
    """The first plan: the order of magnitude of numbers without ends, and all that can be asked already."""
    from dither.planning.planner import plan

    standing = questions(_standing(schema), _texts(schema, ask))
    names = {str(each): {name for one in (each, *each.rests_on) for name in one.names} for each in standing}
    closed = [text for text, own in names.items() if not own & set(unknown)]
    first = [*closed, *(f"{MagnitudeOf.statistic}({name})" for name in unknown)]
    shares = [count / sum(users) for count in users]
    made = plan(schema, epsilon, users=sum(users), ask=first, phases=shares, **options)
    kept = {name: value for name, value in options.items() if value is not None}
    alone = math.sqrt(sum(users) / users[0])  # magnitudes are told by the first phase only
    errors = {text: error * (alone if _magnitude(text) else 1.0) for text, error in made.prediction.errors.items()}
    predicted = made.prediction._replace(errors=errors, one_phase={})
    return replace(made, users=users[0], phases=Phases(users, tuple(names), kept), prediction=predicted)


class Ends(NamedTuple):
    """What the first phase tells about a number: its ends, and the curve that they were read off."""

    low: float
    high: float
    curve: Cumulative

    @classmethod
    def of(cls, curve: Cumulative) -> "Ends":
        """By the public rule."""
        below = np.maximum.accumulate(np.clip(curve.value, 0.0, 1.0))
        high, low = _end(1 - below[OCTAVES:]), _end(below[:OCTAVES][::-1])
        return cls(-low if low else 0.0, high, curve) if low or high else cls(0.0, 2.0 ** (LEAST + 1), curve)

    @property
    def inside(self) -> tuple[Floats, Floats]:
        """The curve within the ends, from 0 to 1: places, and the shares of users below them."""
        at, below = edges(), np.maximum.accumulate(np.clip(self.curve.value, 0.0, 1.0))
        within = (at > self.low) & (at < self.high)
        places = (at[within] - self.low) / (self.high - self.low)
        return np.concatenate([[0.0], places, [1.0]]), np.concatenate([[0.0], below[within], [1.0]])

    def outside(self, level: float = 0.95) -> tuple[float, float, float]:
        """The share of users beyond the ends, and where it is with this probability."""
        at = edges()
        upper = min(int(np.searchsorted(at, self.high)), at.size - 1)
        lower = max(int(np.searchsorted(at, self.low, side="right")) - 1, 0)
        low, high = self.curve.interval(1 - (1 - level) / 2)
        value = 1 - self.curve.value[upper] + self.curve.value[lower]
        least, most = 1 - high[upper] + low[lower], 1 - low[upper] + high[lower]
        return float(max(value, 0.0)), float(max(least, 0.0)), float(min(most, 1.0))


def _end(beyond: Floats) -> float:
    """The power of two beyond which few are, with room; 0 where few are beyond next to nothing."""
    if beyond[0] <= _OUTSIDE:
        return 0.0
    few = np.flatnonzero(beyond <= _OUTSIDE)
    exponent = LEAST + (int(few[0]) if few.size else OCTAVES - 1)
    return 2.0 ** (exponent + 1)


def ends_of(plan: "Plan", tally: "PlanTally") -> dict[str, Ends]:
    """For each number without ends what the first phase tells of it."""
    found = plan.estimate(tally)
    asked = [question for question in plan.measured if question.statistic == MagnitudeOf.statistic]
    curves = {question.name: found[str(question)] for question in asked}
    return {name: Ends.of(curve) for name, curve in curves.items() if isinstance(curve, Cumulative)}


def with_magnitudes(results: "PlanEstimates", others: Iterable[tuple["Part", Tally]], users: int) -> "PlanEstimates":
    """The results of a second phase, with the orders of magnitude of the first, and what is outside of the ends."""
    told = dict(results.parts)
    for part, tally in others:
        question = part.questions[0]
        if question.statistic != MagnitudeOf.statistic or not tally.n:
            continue
        curve = dict(part.estimates(tally, results.guarantee, users))[question]
        ends = Ends.of(curve)
        share, least, most = ends.outside()
        note = (
            f"Values outside of {ends.low:g} to {ends.high:g} count as the nearer end. By the first phase these are "
            f"{share:.1%} of the users, with 95% from {least:.1%} to {most:.1%}."
        )
        for name, result in results.parts.items():
            asked = next((each for each in results.asked if str(each) == name), None)
            if asked is not None and question.name in asked.names and isinstance(result, Estimate):
                told[name] = replace(result, notes=(*result.notes, note))
        told[str(question)] = question.decode(curve)
    return replace(results, parts=told)


def plan_with_ends(plan: "Plan", tally: "PlanTally", users: int, prior: Mapping[str, Any] | None) -> "Plan":
    """The second plan: of all that was asked for, on the domains that the first phase tells."""
    from dither.planning.planner import plan as planned

    assert plan.phases is not None
    found = ends_of(plan, tally)
    schema = Schema(
        {
            name: each.between(found[name].low, found[name].high) if name in found else each  # type: ignore[union-attr]
            for name, each in plan.schema.items()
        }
    )
    options = {**plan.phases.options, "prior": prior}
    made = planned(schema, plan.epsilon, users=users, ask=plan.phases.ask, phases=2, **options)
    before = {part.name: part.mechanism for part in plan.parts}
    parts = []
    for part in made.parts:
        mechanism = part.mechanism
        if isinstance(mechanism, QuantileWave) and part.questions[0].name in found:
            mechanism = mechanism.with_curve(*found[part.questions[0].name].inside)
        elif part.name in before and before[part.name].fingerprint == mechanism.fingerprint:
            mechanism = mechanism.after(tally.parts[part.name], users)
        asked = tuple(each.as_asked_by(mechanism) for each in part.questions)
        parts.append(part._replace(questions=asked, mechanism=mechanism))
    predicted = made.prediction._replace(one_phase={})
    return replace(made, users=users, parts=tuple(parts), phases=None, prediction=predicted)


def refuse_open(names: Sequence[str]) -> None:
    """Say what to do about numbers without ends in a plan of one phase."""
    if names:
        raise ParameterError(
            f"attribute {names[0]} has no ends: give them, as in Numeric(0, 200_000), or plan in two phases, phases=2, "
            "of which the first asks for its order of magnitude"
        )
