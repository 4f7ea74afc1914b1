"""Estimators by enumeration: every report is decoded on its own, and weighed with its probability.

Means must be the truth, second and third moments the stated ones, and at the expected counts of a population the
standard error must be that of the moments. Readings differ in what an estimate looks like, and each has its check:
shares and means, dimensions of a record, groups with budgets of their own, directions, grids.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dither.core.domains import CATEGORIES, GROUPS, SPARSE
from dither.core.mechanism import Mechanism
from dither.core.randomness import Stream
from dither.core.structure import BOXES, CODEBOOK, GRIDS, POINTS, PREFIXES
from dither.core.tally import Tally
from dither.mechanisms.codebooks import seeds_of_parts, whole_vectors
from dither.testing.examples import LARGEST_LISTED, component_of, composed, many, read_expected
from dither.testing.sparse_estimators import check_hits, check_outcomes


def check_estimator(mechanism: Mechanism) -> None:
    """By enumeration of all reports: unbiased, moments as `moments` says, and standard errors that follow from them."""
    own: Any = mechanism
    if mechanism.structure in (POINTS, BOXES, PREFIXES):
        return  # too many reports to list, or functions that are shared: these have tests of their own
    if composed(mechanism):
        check_records(mechanism)
        return
    if mechanism.structure == GRIDS:
        check_collected(mechanism)
        return
    if component_of(mechanism) is not None:
        # What shared functions do to estimates is tested with their reading; hits are those of any function.
        check_hits(replace(own, cohorts=None))
        return
    domain = mechanism.reading.domain.kind
    if domain == SPARSE:
        check_outcomes(mechanism)
        return
    if domain == CATEGORIES and mechanism.channel().tagged:
        return  # unbiased over hash functions, not for each: shared and private ones have their own exact tests
    if mechanism.structure == CODEBOOK:
        check_directions(mechanism)
        return
    if domain == GROUPS:
        check_groups(mechanism)
        return
    if mechanism.channel().shape[1] > LARGEST_LISTED:
        assert mechanism.components, "an example must have few enough reports to list them"
        return
    outputs, inputs = mechanism.outputs(), mechanism.inputs()
    decoded = np.array([np.atleast_1d(mechanism.estimate(mechanism.tally(report)).value) for report in outputs])
    law = mechanism.channel().matrix().astype(float)
    categorical = domain == CATEGORIES
    truth = np.eye(len(inputs)) if categorical else inputs.reshape(len(inputs), -1)
    np.testing.assert_allclose(law @ decoded, truth, atol=1e-9)
    centred = np.abs(decoded[None, :, :] - truth[:, None, :])
    moments = mechanism.moments(inputs)
    variance, third = (moment.reshape(len(inputs), -1) for moment in (moments.variance, moments.third))
    np.testing.assert_allclose(moments.bias, 0.0, atol=1e-9)
    np.testing.assert_allclose(np.einsum("xy,xyv->xv", law, centred**2), variance, rtol=1e-9)
    np.testing.assert_allclose(np.einsum("xy,xyv->xv", law, centred**3), third, rtol=1e-9)
    # At the expected counts of a population, estimate and standard error are what enumeration gives.
    shares = np.arange(1, len(inputs) + 1) / np.arange(1, len(inputs) + 1).sum()
    weights = np.round(shares @ law * 10**13).astype(np.int64)
    counts = weights
    if mechanism.tally(outputs[:1]).counts.size != counts.size:  # the tally is not a histogram of reports
        counts = np.sum([w * mechanism.tally(y).counts for w, y in zip(weights, outputs, strict=True)], axis=0)
    estimate = read_expected(mechanism, Tally(mechanism.fingerprint, int(weights.sum()), counts))
    np.testing.assert_allclose(np.atleast_1d(estimate.value), shares @ truth, atol=1e-8)
    stated, true = np.atleast_1d(estimate.stderr) ** 2 * estimate.n, shares @ variance
    # Two input points in a dimension carry no magnitude: the error bar may be too wide, never too narrow.
    signs_only = len(inputs) == 1 << len(truth[0])
    assert (stated >= true * (1 - 1e-6)).all() if signs_only else np.allclose(stated, true, rtol=1e-6)


def check_axes(mechanism: Mechanism) -> bool:
    """Along the axes of a table of its categories, by enumeration: unbiased, with the stated variances and worths."""
    domain: Any = mechanism.reading.domain
    channel = mechanism.channel()
    if domain.kind != CATEGORIES or channel.tagged or channel.shape[1] > LARGEST_LISTED:
        return False
    first = next(divisor for divisor in range(2, domain.k + 1) if domain.k % divisor == 0)
    shape = (first, domain.k // first) if first < domain.k else (first,)
    readings = [mechanism.along(shape, (axis,)) for axis in range(len(shape))]
    if None in readings:
        return False
    cells, law = np.indices(shape).reshape(len(shape), -1), channel.matrix().astype(float)
    tallies = [mechanism.tally(report) for report in mechanism.outputs()]
    for axis, (own, reading) in enumerate(zip(cells, readings, strict=True)):
        assert reading is not None
        worth = np.array([mechanism.estimate(tally, reading).value for tally in tallies])
        truth = np.eye(shape[axis])[own]
        np.testing.assert_allclose(law @ worth, truth, atol=1e-9)
        variance = np.einsum("xy,xyv->xv", law, (worth[None] - truth[:, None]) ** 2)
        np.testing.assert_allclose(reading.moments(own).variance, variance, rtol=1e-9)
        np.testing.assert_allclose(reading.worst_variance(), variance.mean(axis=1).max(), rtol=1e-9)
        for stated in reading.worths():
            near = 1e-9 * float(stated.swing)
            assert worth.min() >= stated.least - near, "a report is worth less than declared to a share along an axis"
            assert worth.max() <= stated.most + near, "a report is worth more than declared to a share along an axis"
    return True


def check_directions(mechanism: Any, seeds: int = 400, alarm: float = 1e-8) -> None:
    """A report decodes to its codeword over kappa; over many seeds, the exact means given each are right.

    Given a seed the mean of a report follows from the sum of its favoured codewords, and the mean square of its entries
    from the squares: both are averaged over seeds, and compared with the reading within their own standard errors.
    """
    from scipy.stats import norm

    book, law, reading, d = mechanism.book, mechanism.law, mechanism.reading, mechanism.d
    reports = mechanism.randomize(many(mechanism.inputs()[0], 3), seed=1)
    for report in reports:
        own = zip(seeds_of_parts(report["seed"].reshape(1), mechanism.number), np.ravel(report["value"]), strict=True)
        rows = [book.row(seed, codeword) for seed, codeword in own]
        score = np.mean(rows, axis=0) / (book.length * reading.products.kappa)
        np.testing.assert_allclose(mechanism.estimate(mechanism.tally(report)).value, score, rtol=1e-12)
    public = Stream.seeded(8, "seeds of codebooks").words(0, slice(0, 3 * seeds))[:, 0].reshape(3, seeds)
    for vector, own in zip(
        (np.eye(d)[0], np.ones(d) / d**0.5, mechanism.reading.domain.points(2 * d + 1)[-1]), public, strict=True
    ):
        direction, _ = whole_vectors(vector[None])
        rest = np.cos(np.arange(1, d + 1) ** 2)  # any direction, always the same
        rest -= rest @ vector * vector
        across = rest / np.linalg.norm(rest)
        first, second = [], []
        for seed in own:
            places = np.arange(law.favoured, dtype=np.uint64)
            one = np.repeat(direction, law.favoured, axis=0), np.full(law.favoured, seed)
            best = book.sums(one[1], book.choose(*one, places, law.favoured))
            every = book.sums(np.full(book.size, seed), np.arange(book.size))[1] * 2.0
            more, low = (law.high - law.low) / law.total, law.low / law.total
            first.append(more * best[0] * reading.scale)
            second.append((more * best[1] + low * every) * reading.scale**2 * 2.0**book.shift)
        mean = np.array(first)
        checked = [mean @ vector - 1, mean @ across]
        stated = mechanism.moments(vector).variance[0] * mechanism.number + vector**2
        checked += [np.array(second)[:, j] - stated[j] for j in (0, d - 1)]
        for found in checked:
            error = max(float(found.std()) / seeds**0.5, 2e-4)
            assert abs(found.mean()) < norm.isf(alarm) * error
    # At the expected counts of one vector for all, the stated error is that of the moments.
    vector, n = mechanism.inputs()[0], 10**6
    stated = mechanism.moments(vector)
    square = (stated.variance[0] * mechanism.number + vector**2) / reading.scale**2 / 2.0**book.shift
    counts = np.rint(n * mechanism.number * np.array([vector / reading.scale, square])).astype(np.int64)
    estimate = read_expected(mechanism, Tally(mechanism.fingerprint, n, counts))
    np.testing.assert_allclose(estimate.value, vector, atol=1e-6)
    np.testing.assert_allclose(estimate.stderr**2 * n, stated.variance[0], rtol=1e-3)


def check_groups(mechanism: Mechanism) -> None:
    """Each group by enumeration of its reports: unbiased on the scale of its region, with the stated moments."""
    reading: Any = mechanism.reading
    inputs, outputs = mechanism.inputs(), mechanism.outputs()
    for number, group in enumerate(reading.groups):
        own, law = inputs[inputs["group"] == number], reading.parts[number].channel().matrix().astype(float)
        about = outputs[outputs["group"] == number]
        estimates: list[Any] = [mechanism.estimate(mechanism.tally(report)) for report in about]
        scores = np.array([float(estimate[group.name].value) for estimate in estimates])
        assert all(e["all"].value == e["weighted"].value == s for e, s in zip(estimates, scores, strict=True))
        stated = mechanism.moments(own)
        np.testing.assert_allclose(law @ scores, own["value"] + stated.bias, atol=1e-9)
        centred = np.abs(scores[None] - own["value"][:, None])
        np.testing.assert_allclose((law * centred**2).sum(axis=1), stated.variance, rtol=1e-9)
        np.testing.assert_allclose((law * centred**3).sum(axis=1), stated.third, rtol=1e-9)


def check_records(mechanism: Mechanism) -> None:
    """Dimension by dimension, by enumeration of all reports about it: unbiased, with the stated moments.

    And at the expected counts of a population, the standard error covers the noise and which users were asked.
    """
    dimensions: Any = mechanism.reading
    channel = mechanism.channel()
    if max(channel.shape) > 1024:
        return
    outputs, inputs, law = mechanism.outputs(), mechanism.inputs(), channel.matrix()
    asked = Fraction(dimensions.m, dimensions.d)

    def dimension(estimate: Any, j: int) -> tuple[Any, Any]:
        if dimensions.domain.numeric:  # one estimate with a mean for each
            return estimate.value[j], estimate.stderr[j]
        return estimate[j].value, estimate[j].stderr

    decoded = [mechanism.estimate(mechanism.tally(report)) for report in outputs]
    shares = np.arange(1, len(inputs) + 1) / np.arange(1, len(inputs) + 1).sum()
    counts = sum(
        np.rint(weight * 10**13).astype(np.int64) * mechanism.tally(report).counts
        for weight, report in zip(shares @ law.astype(float), outputs, strict=True)
    )
    population = read_expected(mechanism, Tally(mechanism.fingerprint, 10**13, np.asarray(counts)))
    for j in range(dimensions.d):
        part = dimensions.part(j)
        scores = np.array([np.atleast_1d(dimension(estimate, j)[0]) for estimate in decoded])
        about = ~np.isnan(scores[:, 0])
        given = law[:, about] / asked
        assert all(sum(row) == 1 for row in given)
        if part.channel().tagged:
            continue  # shared hash functions: unbiased over cohorts, not for each report
        given, scores = given.astype(float), scores[about]
        truth = np.eye(len(part.inputs()))[inputs[:, j].astype(int)] if scores.shape[1] > 1 else inputs[:, [j]]
        np.testing.assert_allclose(given @ scores, truth, atol=1e-9)
        own = part.moments(inputs[:, j] if scores.shape[1] == 1 else inputs[:, j].astype(int))
        centred = np.abs(scores[None] - truth[:, None])
        variance = np.einsum("xy,xyv->xv", given, centred**2)
        np.testing.assert_allclose(variance, own.variance.reshape(variance.shape), rtol=1e-9)
        np.testing.assert_allclose(np.einsum("xy,xyv->xv", given, centred**3), own.third.reshape(variance.shape))
        if dimensions.domain.numeric:
            np.testing.assert_allclose(mechanism.moments(inputs).variance[:, j], variance[:, 0], rtol=1e-9)
        spread = shares @ truth**2 - (shares @ truth) ** 2
        true = (shares @ variance + (1 - float(asked)) * spread) / float(asked)
        value, stderr = map(np.atleast_1d, dimension(population, j))
        np.testing.assert_allclose(value, shares @ truth, atol=1e-8)
        stated = stderr**2 * 10**13
        assert (stated >= true * (1 - 1e-6)).all()
        assert np.allclose(stated, true, rtol=1e-6) or part.channel().shape[0] == 2  # signs have no magnitude


def check_collected(mechanism: Any) -> None:
    """Grid by grid, by enumeration of all reports about it: unbiased frequencies, with the stated variance of a cell.

    What is made of the grids afterwards is not linear, and has tests of its own.
    """
    channel = mechanism.channel()
    if max(channel.shape) > 1024:
        return
    outputs, inputs, law = mechanism.outputs(), mechanism.inputs(), channel.matrix()
    total = sum(asked.share for asked in mechanism.groups)
    collected = [mechanism.collected(mechanism.tally(report)) for report in outputs]
    for group, asked in enumerate(mechanism.groups):
        about = np.array([each[group].n == 1 for each in collected])
        assert all(sum(row) == Fraction(asked.share, total) for row in law[:, about])
        found = [each[group] for each in collected if each[group].n]
        if found[0].value is None:
            continue
        given = (law[:, about] / Fraction(asked.share, total)).astype(float)
        scores = np.array([np.asarray(each.value).ravel() for each in found])
        own = asked.grid.cells(inputs)[:, None] == np.arange(asked.grid.size)
        np.testing.assert_allclose(given @ scores, own, atol=1e-9)
        variance = given @ scores**2 - (given @ scores) ** 2
        np.testing.assert_allclose(variance[~own], found[0].variance, rtol=1e-9)
