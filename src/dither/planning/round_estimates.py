"""The results of a plan over time: estimates by round, of changes between rounds, and of the mean over them.

Each round is estimated by itself, as any tally of a plan. What is new are statements about several rounds, and their
standard errors depend on what rounds share. Let the error of a round have three parts: `sampling` (who was asked),
`kept` (the noise of kept responses) and `again` (noise that is drawn in every round). For weights w of rounds:

- **one round each**: rounds have different users. With n_r of N users in round r, drawn at random, and S_r^2 the
  variance of the users' own numbers, the errors of sampling have the variance sum w_r^2 S_r^2 / n_r -
  Var(sum w_r x_r) / N, for any history x. So leaving out the corrections for a finite population (the second term)
  never states too little.
- **every round, fresh noise**: independent draws, also of who is asked what: variances add up.
- **every round, from memory, no changes**: the same responses of the same users: `kept` and `sampling` add up as errors
  do, (sum w_r)^2, and cancel in a change; `again` adds up as a variance.
- **from memory, with changes**: who has changed has a response of its own. Covariances of `kept` lie between 0 and
  those without changes: rounds with weights of one sign are taken as fully shared, those of opposite sign as not shared
  at all. Those of `sampling` may have either sign: errors add up. Both state too much rather than too little.

With memory, users are taken to report in every round: who reported in the smaller of two rounds did so in the larger.
And it is of the values that responses were made for: who changes more often than the plan allows stays with an old one,
which is a bias that no standard error tells of.

Where it is not known how the noise of a result splits (sums of cells, results from the reports about several questions
or worked out from others), its covariance is bounded likewise. Where intervals follow a rule of their own
(`core.confidence`), those of a change or a mean are made of the intervals of the rounds, each at its part of the level
(Bonferroni).
"""

import csv
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.estimate import Bounds, Estimate, Estimates
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.results import Interval, Tabular, ravelled, simultaneous_level
from dither.core.schedule import FRESH, KEPT, ONE, Schedule
from dither.core.stratified import CombinedRule
from dither.display.estimate_plots import small_multiples
from dither.display.round_plots import MOST_LINES, draw_rounds
from dither.display.spreadsheet import spreadsheet_text
from dither.display.table import TextTable
from dither.errors import DitherError, ParameterError, TallyError, UnknownError
from dither.planning.plan_estimates import PlanEstimates
from dither.planning.plan_files import MOST_WHOLE
from dither.planning.plan_tally import PlanTally
from dither.planning.rounds import response_readings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dither.planning.plans import Plan

_SHOWN = 12

Floats = NDArray[np.float64]
Period = str | int


class RoundVariances(NamedTuple):
    """The variance of a result of one round, by its causes."""

    sampling: Floats  # who was asked
    kept: Floats  # kept responses
    again: Floats | None  # what is drawn in every round; None where it is not known, and is in `kept`

    @property
    def fresh(self) -> Floats:
        """What no other round shares."""
        return np.zeros_like(self.kept) if self.again is None else self.again


def combined_variance(schedule: Schedule, rounds: Sequence[RoundVariances], weights: Sequence[float]) -> Floats:
    """The variance of a weighted sum of rounds, or what it is at most."""
    signs = np.asarray(weights, dtype=np.float64)
    kept, again, sampling = (
        np.stack(causes) for causes in zip(*((each.kept, each.fresh, each.sampling) for each in rounds), strict=True)
    )
    unknown = ~(np.isfinite(kept) & np.isfinite(again))  # nobody was asked in some round
    kept, again = np.where(unknown, 0.0, kept), np.where(unknown, 0.0, again)
    if schedule.mode != KEPT:
        shared = np.tensordot(signs**2, kept + sampling, axes=1)
    elif schedule.changes:
        shared = _half_shared(signs, kept) + _either_way(signs, sampling)
    else:
        known = all(each.again is not None for each in rounds)
        shared = _shared(signs, sampling) + (_shared(signs, kept) if known else _half_shared(signs, kept))
    return np.where(unknown.any(axis=0), np.inf, np.tensordot(signs**2, again, axes=1) + shared)


def _shared(weights: Floats, variances: Floats) -> Floats:
    """Of errors that are the same in all rounds, as far as these have the same users: covariances are the smaller.

    In rising order of the variances v, sum w_r w_s min(v_r, v_s) is sum v_r (W_r^2 - W_(r+1)^2), with W_r for the sum
    of the weights from r on.
    """
    order = np.argsort(variances, axis=0)
    from_here = np.cumsum(weights[order][::-1], axis=0)[::-1]
    squares = from_here**2
    steps = squares - np.concatenate([squares[1:], np.zeros_like(squares[:1])])
    return np.maximum(np.sum(np.take_along_axis(variances, order, axis=0) * steps, axis=0), 0.0)


def _half_shared(weights: Floats, variances: Floats) -> Floats:
    """At most, where covariances lie between none and those of errors that are shared."""
    return _shared(np.maximum(weights, 0.0), variances) + _shared(np.minimum(weights, 0.0), variances)


def _either_way(weights: Floats, variances: Floats) -> Floats:
    """At most, whatever the covariances are."""
    return np.tensordot(np.abs(weights), np.sqrt(variances), axes=1) ** 2


@dataclass(frozen=True, eq=False, repr=False)
class RoundEstimates(Tabular, Mapping[Period, PlanEstimates]):
    """For each round its estimates, as in `found["2026-W47"]["job"]`; with changes between rounds, and their mean.

    >>> from dither import Categorical, Schema, plan
    >>> schema = Schema({"mood": Categorical(["good", "fair", "bad"])})
    >>> weekly = plan(schema, 2.0, users=3000, rounds=["W47", "W48", "W49"])
    >>> weeks = weekly.randomize_rounds([{"mood": ["good", "good", "bad"] * 1000}] * 3, seed=1)
    >>> found = weekly.estimate_rounds({week: weekly.tally(each) for week, each in zip(weekly.schedule.periods, weeks)})
    >>> list(found), found["W48"]["mood"].value.shape, list(found.changes("mood"))
    (['W47', 'W48', 'W49'], (3,), ['W47 to W48', 'W48 to W49'])
    """

    plan: "Plan"
    rounds: Mapping[Period, PlanEstimates]
    reports: Mapping[Period, int]
    variances: Mapping[str, Mapping[Period, RoundVariances]] = field(repr=False)  # of each question, by round

    def __getitem__(self, period: Period) -> PlanEstimates:
        if period not in self.rounds:
            raise UnknownError(f"there is no such round; there are {', '.join(map(str, list(self.rounds)[:_SHOWN]))}")
        return self.rounds[period]

    def __iter__(self) -> Iterator[Period]:
        return iter(self.rounds)

    def __len__(self) -> int:
        return len(self.rounds)

    @property
    def guarantee(self) -> Guarantee:
        """What all that a user reports promises together, in all rounds of the plan."""
        return NO_GUARANTEE if any(each.guarantee.simulated for each in self.values()) else self.plan.guarantee

    @property
    def questions(self) -> tuple[str, ...]:
        """What was asked, and what comes with it."""
        return tuple(next(iter(self.rounds.values())))

    @property
    def comparable(self) -> tuple[str, ...]:
        """Of these what has changes and a mean: lists of numbers, not answers to queries."""
        return tuple(name for name in self.questions if name in self.variances)

    # Statements about several rounds ---------------------------------------------------------------------------

    def series(self, question: str) -> Estimates[str, Estimate]:
        """The result of one question in each round."""
        return Estimates({str(period): each.single(question) for period, each in self.items()})

    def change(self, question: str, before: Period, after: Period) -> Estimate:
        """How much a result has changed from one round to another."""
        if before not in self.rounds or after not in self.rounds or before == after:
            known = ", ".join(map(str, list(self)[:_SHOWN]))
            raise ParameterError(
                f"a change is between two rounds, as in change('job', 'W47', 'W48'); there are {known}"
            )
        return self._combined(question, {before: -1.0, after: 1.0}, f"{before} to {after}", apart=True)

    def changes(self, question: str) -> Estimates[str, Estimate]:
        """How much a result has changed from each round to the next; their intervals can be for all of them at once."""
        if len(self) < 2:
            raise ParameterError("a change needs two rounds; there is one so far")
        pairs = pairwise(self)
        return Estimates({f"{before} to {after}": self.change(question, before, after) for before, after in pairs})

    def mean(self, question: str) -> Estimate:
        """The mean of a result over the rounds that there are."""
        evenly = dict.fromkeys(self, 1 / len(self))
        return self._combined(question, evenly, f"mean of {len(self):,} rounds", apart=False)

    def _combined(self, question: str, weights: Mapping[Period, float], what: str, *, apart: bool) -> Estimate:
        terms, kept = tuple(self[period].single(question) for period in weights), tuple(weights.values())
        name = terms[0].question
        if name not in self.variances:
            raise ParameterError(
                f"{name} is a list, and each round has items of its own: series({name!r}) shows them beside each other"
            )
        value = sum((w * np.asarray(each.value) for w, each in zip(kept, terms, strict=True)), np.zeros(()))
        causes = [self.variances[name][period] for period in weights]
        variance = combined_variance(self.plan.schedule, causes, kept)
        own = terms[-1]
        low, high = (-np.inf, np.inf) if own.bounds is None else own.bounds[:2]
        ruled = any(each.rule is not None for each in terms)
        return Estimate(
            np.asarray(value),
            np.sqrt(variance),
            sum(each.n for each in terms),
            own.guarantee,
            f"{name}, {what}",
            labels=own.labels,
            source=own.source,
            notes=(_of_errors(self.plan.schedule),),
            bounds=Bounds(low - high, high - low) if apart else Bounds(low, high),
            ordered=own.ordered,
            edges=None if apart else own.edges,
            rule=CombinedRule(terms, kept, np.arange(np.size(value))) if ruled else None,
        )

    # The protocol of results -----------------------------------------------------------------------------------

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> dict[str, Interval]:
        """For each question its intervals, a row a round; if `simultaneous`, all of them hold at once.

        Without lists, of which each round has items of its own.
        """
        sizes = {name: sum(np.size(each[name].value) for each in self.values()) for name in self.questions}
        total, found = sum(sizes.values()), {}
        for name in self.questions:
            if len({np.size(each[name].value) for each in self.values()}) > 1:
                continue
            ends = []
            for each in self.values():
                size = np.size(each[name].value)
                wanted = simultaneous_level(level, size, total) if simultaneous else level
                ends.append(each[name].interval(wanted, simultaneous=simultaneous))
            found[name] = Interval(*(np.stack([np.ravel(end[side]) for end in ends]) for side in (0, 1)))
        return found

    def _columns(self, level: float) -> dict[str, Any]:
        """In long form, one row a number: period, question, item, value, stderr, low, high."""
        rows = [(period, each._columns(level)) for period, each in self.items()]
        periods = [str(period) for period, columns in rows for _ in columns["question"]]
        joined = {
            name: list(chain.from_iterable(columns[name] for _, columns in rows))
            for name in ("question", "item", "value", "stderr", "low", "high")
        }
        numbers = {name: np.asarray(joined.pop(name)) for name in ("value", "stderr", "low", "high")}
        return {"period": periods, **joined, **numbers}

    def table(self, level: float = 0.95) -> TextTable:
        """One row a number, with its round and what was asked."""
        columns = self._columns(level)
        low, high = columns.pop("low"), columns.pop("high")
        return TextTable({**columns, f"low {100 * level:.6g}%": low, f"high {100 * level:.6g}%": high})

    def summary(self, question: str) -> TextTable:
        """One row an item: its result in each round, with what is known of their mean and of the last change."""
        series, mean = [each.single(question) for each in self.values()], self.mean(question)
        columns: dict[str, Any] = {"item": list(map(str, mean.item_names))} if np.ndim(mean.value) else {}
        columns |= {str(period): np.ravel(each.value) for period, each in zip(self, series, strict=True)}
        columns |= {"mean": np.ravel(mean.value), "stderr": np.ravel(mean.stderr)}
        if len(self) > 1:
            *_, before, after = self
            last = self.change(question, before, after)
            columns |= {"last change": np.ravel(last.value), "its stderr": np.ravel(last.stderr)}
        return TextTable(columns)

    def plot(self, question: str | None = None, *, level: float = 0.95) -> "Figure":
        """For each question, or one, a line along the rounds with a band: the intervals, each for its round."""
        chosen = list(self.comparable) if question is None else [next(iter(self.values())).single(question).question]
        return small_multiples({name: self._drawing(name, level) for name in chosen})

    def _drawing(self, name: str, level: float) -> Any:
        series = [each.single(name) for each in self.values()]
        value = np.stack([np.ravel(each.value) for each in series])
        ends = [each.interval(level) for each in series]
        low, high = (np.stack([np.ravel(end[side]) for end in ends]) for side in (0, 1))
        largest = np.argsort(-np.nan_to_num(value).mean(axis=0), kind="stable")[:MOST_LINES]
        names, rest = series[0].item_names, value.shape[1] - len(largest)
        lines = {str(names[item]): (value[:, item], low[:, item], high[:, item]) for item in largest}
        shown = f", the {len(largest)} largest of {value.shape[1]:,}" if rest else ""
        title = f"{name}\nby round{shown}, with {100 * level:.6g}% intervals"

        def draw(ax: "Axes") -> "Axes":
            return draw_rounds(ax, [str(period) for period in self], lines, title)

        return draw

    def explain(self) -> str:
        """In words: which rounds there are, what they share, and what was promised."""
        reports = self.reports.values()
        few = f"{min(reports):,}" if min(reports) == max(reports) else f"{min(reports):,} to {max(reports):,}"
        return "\n".join(
            [
                f"{len(self):,} of {self.plan.rounds:,} rounds, with {few} reports each.",
                f"All that a user reports in all rounds together: {self.guarantee}.",
                "Estimates of a round are from its reports alone; users who report in a round stand for all.",
                _of_errors(self.plan.schedule),
            ]
        )

    def __repr__(self) -> str:
        return f"{self.explain()}\n{self.table()}"

    def _repr_html_(self) -> str:
        told = "".join(f"<p>{html.escape(line)}</p>" for line in self.explain().splitlines())
        return f"{told}{self.table()._repr_html_()}"

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: the results of each round, and how each has changed since the one before."""
        columns = self._columns(level)
        found = [dict(zip(columns, row, strict=True)) for row in zip(*map(list, columns.values()), strict=True)]
        return {
            "plan": self.plan.fingerprint,
            "rounds": len(self),
            **self.guarantee.to_dict(),
            "level": level,
            "results": [{name: _plain(value) for name, value in row.items()} for row in found],
            "changes": [
                row for name in list(self.comparable) if len(self) > 1 for row in self._change_rows(name, level)
            ],
        }

    def to_csv(self, level: float = 0.95) -> str:
        """All rows as CSV; texts cannot be formulas of a spreadsheet, and what is not known is empty."""
        columns, file = self._columns(level), io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in zip(*map(list, columns.values()), strict=True):
            writer.writerow([spreadsheet_text(cell) if isinstance(cell, str) else _plain(cell) for cell in row])
        return file.getvalue()

    def _change_rows(self, name: str, level: float) -> Iterator[dict[str, Any]]:
        for before, after in pairwise(self):
            each = self.change(name, before, after)
            columns = (each.item_names, *ravelled(each.value, each.stderr, *each.interval(level)))
            for item, *numbers in zip(*columns, strict=True):
                told = dict(zip(("value", "stderr", "low", "high"), map(_plain, numbers), strict=True))
                yield {"from": str(before), "to": str(after), "question": name, "item": str(item), **told}


def _plain(value: Any) -> Any:
    """A number for JSON: what is not known is null."""
    if isinstance(value, str):
        return value
    return float(value) if np.isfinite(value) else None


def _of_errors(schedule: Schedule) -> str:
    """What the standard errors of changes and means know."""
    if schedule.mode == ONE:
        return "Rounds have different users: errors of changes and means are those of independent rounds."
    if schedule.mode == FRESH:
        return "Every round has noise of its own: errors of changes and means are those of independent rounds."
    if not schedule.changes:
        return (
            "Rounds share the noise of kept responses: it cancels in a change and stays in a mean. Devices stay with "
            "the first value that they were asked for, so a change is noise, or of users who came and went."
        )
    return (
        "Rounds share the noise of kept responses, as far as values did not change. How far is not known: errors of "
        "changes are stated as if nothing were shared, those of means as if everything were. Who changes more than "
        f"{schedule.changes:,} time{'s' * (schedule.changes != 1)} stays with an old value, which no error tells of."
    )


# From tallies ---------------------------------------------------------------------------------------------------------


def estimates_of_rounds(plan: "Plan", tallies: Mapping[Period, PlanTally]) -> RoundEstimates:
    """The results of each round, in their order, and the variances by their causes."""
    if not plan.schedule.repeats:
        raise ParameterError("this plan has one round: plan.estimate(tally) is for it")
    if not isinstance(tallies, Mapping) or not tallies:
        raise ParameterError(f"give the tally of each round by its period; {plan.schedule.periods_in_words()}")
    numbers = {plan.schedule.number_of(period): period for period in tallies}
    named = {plan.schedule.periods[number]: tallies[numbers[number]] for number in sorted(numbers)}
    _refuse_counted_twice(list(named.values()))
    rounds = {period: _named_round(plan, period, tally) for period, tally in named.items()}
    parts: dict[str, dict[Period, RoundVariances]] = {}
    for period, tally in named.items():
        for name, causes in _causes(plan, tally, rounds[period]):
            parts.setdefault(name, {})[period] = causes
    return RoundEstimates(plan, rounds, {period: tally.reports for period, tally in named.items()}, parts)


def _named_round(plan: "Plan", period: Period, tally: PlanTally) -> PlanEstimates:
    try:
        return plan.estimate(tally)
    except DitherError as error:
        wrong = type(error)(f"round {period}: {error}")
    raise wrong


def _refuse_counted_twice(tallies: Sequence[PlanTally]) -> None:
    """Refuse rounds that count the same file: each report is of one round."""
    listed = [digest for tally in tallies for digest in tally.files]
    if len(set(listed)) < len(listed):
        raise TallyError(
            "two of these tallies count the same file of reports, and a report is of one round: tally again"
        )


def _causes(plan: "Plan", tally: PlanTally, found: PlanEstimates) -> Iterator[tuple[str, RoundVariances]]:
    """For each result that is a list of numbers, its variance by causes.

    With S^2 for the variance of the users' own numbers, n reports of N users have the variance noise + S^2 (1/n - 1/N).
    So the same with N beyond all numbers tells S^2, and what of the variance is due to sampling.
    """
    everybody = plan.estimate(tally, users=MOST_WHOLE)
    users = plan.users_behind([part.n for part in tally.parts.values()])
    apart = {str(each) for each in (*plan.measured, *plan.derived) if each.answers_conditions or each.found}
    derived = {str(question) for question in plan.derived}
    again = dict(_drawn_again(plan, tally, found))
    for name in found:
        if name in apart:
            continue  # ranges: each query has an error of its own; and of lists, each has items of its own
        estimate = found.single(name)
        total, beyond = (np.asarray(each.single(name).stderr) ** 2 for each in (found, everybody))
        if plan.schedule.mode == ONE:
            rounds = plan.rounds  # of what is worked out from results, sampling is at most all of its variance
            yield name, _fresh(total * rounds / (rounds - 1) if name in derived else beyond)
        elif plan.schedule.mode == FRESH:
            yield name, _fresh(total)
        else:
            known = np.isfinite(total) & np.isfinite(beyond)
            asked = max(users / max(estimate.n, 1) - 1, 0.0)
            wider = np.where(known, beyond, 0.0) - np.where(known, total, 0.0)
            sampling = np.zeros_like(total) if name in derived else np.clip(wider * asked, 0.0, total)
            yield name, _split(np.where(known, total, np.inf) - sampling, sampling, again.get(name))


def _fresh(variance: Floats) -> RoundVariances:
    """All of it is of one round."""
    return RoundVariances(np.zeros_like(variance), np.zeros_like(variance), variance)


def _split(noise: Floats, sampling: Floats, again: Floats | None) -> RoundVariances:
    """Noise by whether another round has it too."""
    if again is None or not np.isfinite(noise).all():
        return RoundVariances(sampling, noise, None)
    drawn = np.clip(again, 0.0, noise)
    return RoundVariances(sampling, noise - drawn, drawn)


def _drawn_again(plan: "Plan", tally: PlanTally, found: PlanEstimates) -> Iterator[tuple[str, Floats]]:
    """For results from the reports of one part alone, the variance that is drawn in every round, where it is known."""
    users = plan.users_behind([part.n for part in tally.parts.values()])
    for part in plan.parts:
        own = tally.parts[part.name]
        alone = dict(part.estimates(own, plan.guarantee, users)) if own.n else {}
        for place, question in enumerate(part.questions):
            name = str(question)
            if question not in alone or name not in found or question.answers_conditions or question.found:
                continue
            decoded = question.decode(alone[question])
            if not np.allclose(decoded.stderr, found.single(name).stderr, rtol=1e-9, atol=0.0):
                continue  # other reports tell about it, too
            readings = response_readings(part, question, place)
            if readings is not None:
                shares = alone[question].value
                yield name, (readings.sent.variance(shares) - readings.kept.variance(shares)) / own.n
            elif not part.mechanism.remembers:
                yield name, np.zeros_like(np.asarray(decoded.stderr))
