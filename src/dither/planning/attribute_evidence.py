"""Every report counts: all that reports tell about an attribute enters every estimate about it.

A plan may ask for the mean of an age, its distribution, the share above 65, and ranges of age and income. Each of these
is answered by other users, and all of them tell about the shares of ages. So the results of an attribute are put
together by generalised least squares (`estimation.linear_readings`) before anything else is done to them: every
question keeps its unbiased estimate, with an error that is at most that of its own reports, and what is said about the
attribute agrees, since all is read off one set of shares.

- **Sources** are the results of questions about one attribute (`Question.rows`), the margins of tables, and what ranges
  tell about each of their attributes (`Question.tells`).
- **Tables** are put together in the same way, with what is told about each of their axes.
- **Ranges** are no list of numbers: what others tell about their attributes goes into their marginals, as evidence
  beside their own reports (`ranges.collection`, `RangeReading.beside`).

A source never counts twice in one estimate: ranges are given what others measured themselves, not what was put together
from the ranges.

**Numbers** are in fine cells, and of a mean over the middles of cells it is known how far it may be off: that is part
of the interval (`core.confidence`, `BiasedIntervals`). Attributes with very many values are left as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.confidence import BiasedIntervals
from dither.core.covariance import Covariance
from dither.core.estimate import Estimate
from dither.estimation.linear_readings import CombinedReadings, LinearReading, combined
from dither.questions.question import Question

Floats = NDArray[np.float64]

MOST_VALUES = 1024  # of an attribute, or cells of a table: the work grows with the third power
_SEEN = 1e-3  # the least part of a number that is told: what is below is rounding


class Source(NamedTuple):
    """What a question tells about the shares of an attribute's values."""

    question: Question
    reading: LinearReading


Sources = Mapping[str, Sequence[Source]]


def sources_of(told: Iterator[tuple[Question, str, LinearReading]]) -> dict[str, list[Source]]:
    """What is told about each attribute, by its name."""
    found: dict[str, list[Source]] = {}
    for question, name, reading in told:
        if reading.reports and np.isfinite(reading.covariance).all():
            found.setdefault(name, []).append(Source(question, reading))
    return found


def put_together(found: Mapping[Question, Any], sources: Sources) -> dict[Question, Any]:
    """The estimates of questions about one attribute, or a table, each from all that is told about it."""
    together = {name: combined([source.reading for source in own]) for name, own in sources.items() if len(own) > 1}
    better: dict[Question, Any] = {}
    for question, estimate in found.items():
        rows = question.rows
        if rows is not None and estimate.n and question.name in together:
            better[question] = _better(question, estimate, rows, together[question.name], sources[question.name])
        elif len(question.names) > 1 and rows is None:
            lifted = _lifted(question, estimate, sources)
            if len(lifted) > 1:
                every = combined([source.reading for source in lifted])
                better[question] = _better(question, estimate, np.eye(question.size), every, lifted)
    return {**found, **better}


def _better(
    question: Question, estimate: Estimate, rows: Floats, every: CombinedReadings, sources: Sequence[Source]
) -> Estimate:
    """The same numbers from all sources."""
    if not every.tells(rows):
        return estimate
    told = every.of(rows)
    shape = np.shape(estimate.value)
    stderr = np.sqrt(np.maximum(np.diagonal(told.covariance), 0.0))
    used = [
        source
        for source, weights in zip(sources, told.weights, strict=True)
        if np.abs(weights @ np.abs(source.reading.rows)).max(initial=0.0) > _SEEN * np.abs(rows).max()
    ]
    if [source.question for source in used] == [question]:
        return estimate
    reports: dict[str, int] = {}
    for source in used:
        reports[str(source.question)] = reports.get(str(source.question), 0) + source.reading.reports
    listed = ", ".join(f"{count:,} about {name}" for name, count in reports.items())
    return replace(
        estimate,
        value=told.value.reshape(shape),
        stderr=stderr.reshape(shape),
        n=sum(reports.values()),
        notes=(*estimate.notes, f"From all reports that tell about it: {listed}."),
        correlation=_correlation(told.covariance, stderr),
        variance=_scaled(estimate, stderr),
        rule=_rule(estimate, told.value, stderr, told.bias),
    )


def _lifted(question: Question, estimate: Any, sources: Sources) -> list[Source]:
    """What is told about the cells of a table: by its own reports, and by others about each of its axes."""
    sizes = question.axis_values
    if not sizes or not estimate.n or prod(sizes) > MOST_VALUES:
        return []
    found = [Source(question, own_reading(question, estimate, np.eye(question.size)))]
    for axis, name in enumerate(question.names):
        before, after = prod(sizes[:axis]), prod(sizes[axis + 1 :])
        for source in sources.get(name, ()):
            if source.question != question and source.reading.rows.shape[1] == sizes[axis]:
                rows = np.stack([np.tile(np.repeat(row, after), before) for row in source.reading.rows])
                found.append(Source(source.question, source.reading._replace(rows=rows)))
    return found


def own_reading(question: Question, estimate: Estimate, rows: Floats) -> LinearReading:
    """The result of a question as a reading of the shares of its attribute's values."""
    value, stderr = np.ravel(estimate.value), np.ravel(estimate.stderr)
    known = estimate.covariance
    covariance = np.diag(stderr**2) if known is None else known.dense()
    return LinearReading(rows, value, covariance, estimate.n, question.slack)


def _correlation(covariance: Floats, stderr: Floats) -> Covariance | None:
    """How errors go together, in units of standard errors; of a single number there is nothing to tell."""
    if stderr.size == 1:
        return None
    unit = np.where(stderr > 0, 1 / np.where(stderr > 0, stderr, 1.0), 0.0)
    return Covariance(np.zeros(stderr.size), np.eye(stderr.size), covariance * np.outer(unit, unit))


def _scaled(estimate: Estimate, stderr: Floats) -> Any:
    """The variance of an item by its truth, smaller by as much as the items' own are on average."""
    before = float(np.mean(np.square(estimate.stderr)))
    known = estimate.variance is not None and before > 0
    return estimate.variance * (float(np.mean(stderr**2)) / before) if known else None  # type: ignore[operator]


def _rule(estimate: Estimate, value: Floats, stderr: Floats, bias: Floats) -> Any:
    """How intervals are found where numbers may be off by a known amount."""
    if not bias.any():
        return None
    low, high = (-np.inf, np.inf) if estimate.bounds is None else estimate.bounds[:2]
    return BiasedIntervals(value, stderr, bias, low, high)
