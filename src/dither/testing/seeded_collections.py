"""Collections with a seed: reports merge to the bit, follow the channel, and intervals cover.

The first is exact. The other two are statistical, check plumbing (that production uses the sampler, words and tallies
which the exact checks have looked at) and state their false-alarm probability.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.domains import CATEGORIES, GROUPS, NUMBERS, SPARSE, WHOLE_NUMBERS, WORDS
from dither.core.estimate import Estimate
from dither.core.mechanism import Mechanism
from dither.core.randomness import Stream
from dither.core.tally import Tally
from dither.testing.examples import LARGEST_LISTED, as_bytes, composed, many, sampled_inputs
from dither.testing.rounding import mixed, rounded_value


def check_merging(mechanism: Mechanism, seed: int = 5) -> None:
    """Any split of the reports merges to the same bytes, and reports do not depend on how rows were cut."""
    inputs = mechanism.inputs()
    values = inputs[np.arange(3001) % len(inputs)]
    reports = mechanism.randomize(values, seed=seed)
    whole = mechanism.tally(reports)
    stream = Stream.seeded(seed, "orders in which reports are merged")
    for lane in range(5):
        words = stream.words(lane, slice(0, len(reports)))[:, 0]
        parts = np.split(np.argsort(words), np.sort((words[:4] % np.uint64(len(reports))).astype(np.intp)))
        assert sum(mechanism.tally(reports[part]) for part in parts).to_bytes() == whole.to_bytes()
    assert Tally.from_bytes(whole.to_bytes()) == whole
    assert (mechanism.randomize(values[:1000], seed=seed) == reports[:1000]).all()


def check_plumbing(mechanism: Mechanism, alarm: float = 1e-8) -> None:
    """Seeded production reports follow the channel: chi-square for each input, false alarm `alarm` each."""
    from scipy.stats import chi2

    channel = mechanism.channel()
    if max(channel.shape) > LARGEST_LISTED:
        return
    outputs = {report: i for i, report in enumerate(as_bytes(mechanism.outputs()))}
    for x, value in enumerate(sampled_inputs(mechanism)):
        reports = mechanism.randomize(many(value, 40_000), seed=1000 + x)
        expected = np.array(mixed(channel, rounded_value(mechanism, value), float)) * len(reports)
        found = Counter(outputs[report] for report in as_bytes(np.asarray(reports)))
        counts = np.array([found[i] for i in range(len(expected))])
        keep = expected >= 5
        pooled = np.append(expected[keep], expected[~keep].sum()), np.append(counts[keep], counts[~keep].sum())
        statistic = sum((c - e) ** 2 / e for e, c in zip(*pooled, strict=True) if e > 0)
        cells = sum(e > 0 for e in pooled[0])
        assert statistic < chi2.isf(alarm, cells - 1)


def check_coverage(mechanism: Mechanism, values: NDArray, *, collections: int, seed: int) -> None:
    """95% intervals cover 94% to 96% (the normal approximation is allowed a point), false alarm 2e-8.

    One number of every simulated collection is looked at, so that the collections are independent. Answers to queries
    have a part that no noise explains, and lists of words hold what was found: they have tests of their own.
    """
    if mechanism.takes in (WHOLE_NUMBERS, WORDS):
        return
    from scipy.stats import binom

    truth = _truth(mechanism, values)
    reports = mechanism.randomize(np.tile(values, (collections,) + (1,) * (values.ndim - 1)), seed=seed)
    covered = 0
    for i, part in enumerate(np.split(reports, collections)):
        low, high = _ends(mechanism.estimate(mechanism.tally(part)))
        v = i % len(truth)
        covered += bool(low[v] <= truth[v] <= high[v])
    assert binom.ppf(1e-8, collections, 0.94) <= covered <= binom.isf(1e-8, collections, 0.96)


def _truth(mechanism: Mechanism, values: NDArray) -> NDArray:
    reading: Any = mechanism.reading
    if composed(mechanism):
        parts = [reading.part(j) for j in range(reading.d)]
        columns = [values[:, j] for j in range(len(parts))]
        own = [
            column if part.reading.domain.kind == NUMBERS else column.astype(int)
            for part, column in zip(parts, columns, strict=True)
        ]
        return np.concatenate([_truth(part, column) for part, column in zip(parts, own, strict=True)])
    if reading.domain.kind == GROUPS:
        return np.atleast_1d(values["value"].mean())
    if reading.domain.kind == SPARSE:
        mean = replace(reading, about="mean").truth(values).mean(axis=0)
        presence = np.array([(values["key"] == key).any(axis=1).mean() for key in range(reading.d)])
        if len(reading.law.reads) == 1:
            return presence if reading.about == "presence" else mean
        return np.concatenate([presence, mean, np.column_stack([presence - mean, presence + mean]).ravel() / 2])
    if reading.domain.kind != CATEGORIES:
        return np.atleast_1d(values.mean(axis=0))
    return np.bincount(values, minlength=len(mechanism.inputs())) / len(values)


def _ends(estimate: Any) -> tuple[NDArray, NDArray]:
    """The ends of all intervals, one after the other: as wide as standard errors say, whatever the domain allows."""
    if isinstance(estimate, Estimate):
        parts = [estimate]
    elif "conditional_mean" in estimate:  # a ratio: it is known only where presence is
        parts = [estimate[name] for name in ("presence", "mean", "frequency")]
    else:
        parts = [estimate["all"]] if "all" in estimate else list(estimate.values())
    low, high = zip(*(replace(part, bounds=None).interval(0.95) for part in parts), strict=True)
    return tuple(np.concatenate([np.ravel(end) for end in ends]) for ends in (low, high))  # type: ignore


def reports_are_distinct(mechanism: Mechanism) -> bool:
    """Whether `outputs` lists every report once."""
    listed = as_bytes(mechanism.outputs())
    return len(set(listed)) == len(listed) == mechanism.channel().shape[1]
