"""Devices with weights: an exact tally of copies, the noise of sum p_k z_k, and promises that stay what they are."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from dither.core.randomness import Stream
from dither.errors import ParameterError, ReportError
from dither.learn.analysis import federated_limit
from dither.learn.federated import Devices, Federation, LDPVec
from dither.learn.federated.weighting import (
    MOST_COPIES,
    checked_weights,
    effective_reports,
    weighted_estimate,
    weighted_tally,
)
from dither.learn.vector_reporter import VectorReporter

UNEQUAL = np.array([1, 2, 3, 4, 5, 6, 7, 1, 40, 11])


def crowd() -> Devices:
    """Ten devices of different sizes."""
    rng = np.random.default_rng(3)
    edges = np.concatenate([[0], np.cumsum(UNEQUAL)])
    inputs = rng.normal(size=(edges[-1], 4)).astype(np.float32)
    own = [np.arange(first, last) for first, last in pairwise(edges.tolist())]
    return Devices(inputs, (inputs[:, 0] > 0).astype(int), own)


def federation(mechanism: str | None = "UnitVector", **options) -> Federation:
    torch.manual_seed(5)
    budget = {} if mechanism is None else {"epsilon": 8.0}
    usual = {"rounds": 2, "local_steps": 2, "batch": 1, "clip": 0.5, "seed": 1}
    return Federation(torch.nn.Linear(4, 1), mechanism, **{**budget, **usual, **options})


@pytest.mark.parametrize(
    "encoder",
    [
        VectorReporter("UnitVector", d=6, epsilon=2.0),
        VectorReporter("BallGaussian", d=6, epsilon=2.0, delta=1e-5),
        VectorReporter("Piecewise", d=6, epsilon=2.0, norm="l2"),
        LDPVec(6, 4.0),
    ],
    ids=lambda encoder: encoder.name,
)
def test_a_weight_counts_a_report_so_many_times(encoder):
    reports = encoder.randomize(np.random.default_rng(1).normal(size=(10, 6)), seed=2)
    tally = weighted_tally(encoder, reports, UNEQUAL)
    copied = encoder.tally(np.repeat(reports, UNEQUAL))
    assert tally == copied
    assert tally.n == UNEQUAL.sum()
    found = weighted_estimate(encoder, tally, UNEQUAL)
    np.testing.assert_array_equal(found.value, encoder.estimate(copied).value)
    assert found.n == 10
    alike = weighted_estimate(encoder, encoder.tally(reports), np.ones(10, dtype=np.int64))
    np.testing.assert_array_equal(alike.stderr, encoder.estimate(encoder.tally(reports)).stderr)


def test_standard_errors_are_those_of_the_weighted_sum():
    """2,000 independent coordinates: a chi-square, outside of these ends once in ten million times."""
    encoder = VectorReporter("BallGaussian", d=2_000, epsilon=2.0, delta=1e-5)
    vectors = np.random.default_rng(4).normal(size=(10, 2_000))
    tally = weighted_tally(encoder, encoder.randomize(vectors, seed=7), UNEQUAL)
    found = weighted_estimate(encoder, tally, UNEQUAL)
    truth = UNEQUAL @ encoder.clipped(vectors) / UNEQUAL.sum()
    distance = float((((found.value - truth) / found.stderr) ** 2).sum())
    low, high = stats.chi2(2_000).ppf([5e-8, 1 - 5e-8])
    assert low < distance < high
    naive = distance * (found.stderr[0] / encoder.estimate(tally).stderr[0]) ** 2
    assert naive > high  # what a tally of copies says of itself is too little
    shares = UNEQUAL / UNEQUAL.sum()
    predicted = federated_limit(rate=1.0, weights=shares, noise=encoder)
    assert float((found.stderr**2).sum()) == pytest.approx(predicted, rel=1e-9)


@pytest.mark.parametrize("weights", [[0.1] * 10, [7] * 10, np.full(10, 1 / 3)])
@pytest.mark.parametrize("mechanism", ["UnitVector", None])
def test_equal_weights_change_nothing(weights, mechanism):
    plain, weighted = federation(mechanism).run(crowd()), federation(mechanism, weights=weights).run(crowd())
    assert plain.parameters.tobytes() == weighted.parameters.tobytes()
    assert weighted.weights is None
    assert weighted.explain() == plain.explain()


def test_without_noise_it_is_the_weighted_mean_of_clipped_updates():
    run, devices = federation(None, weights=UNEQUAL), crowd()
    updates = run.task.update(run.parameters, devices, np.arange(10), 0, Stream.seeded(2))
    moved = run.receive([updates[:4], updates[4:]])
    np.testing.assert_allclose(moved, np.average(updates, axis=0, weights=UNEQUAL), rtol=0, atol=1e-15)
    assert run.weights is not None
    np.testing.assert_allclose(run.weights, UNEQUAL / 80, rtol=1e-15)


def test_a_round_of_some_devices_has_their_weights():
    run, devices = federation(None, weights=UNEQUAL, participants=4, devices=10), crowd()
    who = run.chosen(devices)
    updates = run.task.update(run.parameters, devices, who, 0, Stream.seeded(2))
    np.testing.assert_allclose(
        run.receive([updates], who=who), np.average(updates, axis=0, weights=UNEQUAL[who]), rtol=0, atol=1e-15
    )


def test_real_reports_are_weighted_by_who_sent_them():
    run = federation(weights=UNEQUAL, seed=None)
    encoder = run.encoder
    assert encoder is not None
    reports = encoder.randomize(np.full((10, 5), 0.1))
    moved = run.absorb(reports)
    np.testing.assert_array_equal(moved, encoder.estimate(encoder.tally(np.repeat(reports, UNEQUAL))).value)
    assert run.history.columns["devices"] == [10]
    with pytest.raises(ReportError, match="who sent what"):
        run.absorb(encoder.tally(reports))
    with pytest.raises(ReportError, match="10 weights"):
        run.absorb(reports[:3])
    for wrong in ([0, 0], [0, 10], [-1, 2], [0.5, 1.0], [[0, 1]]):
        with pytest.raises(ParameterError):
            run.absorb(reports[:2], who=np.array(wrong))
    some = run.absorb(reports[[8, 2]], who=np.array([8, 2]))
    np.testing.assert_array_equal(some, encoder.estimate(encoder.tally(np.repeat(reports[[8, 2]], [40, 3]))).value)


def test_weights_leave_promises_as_they_are_and_say_what_noise_is_left():
    plain, weighted = federation(seed=None), federation(weights=UNEQUAL, seed=None)
    assert (plain.total, plain.set_aside, plain.central) == (weighted.total, weighted.set_aside, weighted.central)
    assert "that of 3 that count alike" in weighted.explain()
    assert effective_reports(UNEQUAL) == 80**2 / (UNEQUAL**2).sum()


def test_weights_become_whole_numbers_of_the_same_proportions():
    assert checked_weights([6, 4]).tolist() == [3, 2]
    assert checked_weights([0.5, 0.125]).tolist() == [4, 1]
    given = np.random.default_rng(1).uniform(0.5, 1.0, 100)
    copies = checked_weights(given)
    np.testing.assert_allclose(copies / copies.max(), given / given.max(), rtol=0, atol=0.5 / MOST_COPIES)
    assert checked_weights([1e-30, 1.0]).tolist() == [1, MOST_COPIES]


@pytest.mark.parametrize(
    "options",
    [
        {"weights": [1.0, 0.0]},
        {"weights": [1.0, -1.0]},
        {"weights": [1.0, np.nan]},
        {"weights": [np.inf, 1.0]},
        {"weights": []},
        {"weights": "many"},
        {"weights": [[1, 2]]},
        {"weights": [1, 2, 3], "participants": 2, "devices": 4},
        {"weights": [1, 2], "shuffled": True, "delta": 1e-6},
    ],
    ids=str,
)
def test_weights_without_meaning_are_refused(options):
    with pytest.raises(ParameterError):
        federation(**options)


def test_weights_are_for_these_devices():
    with pytest.raises(ParameterError, match="one for each"):
        federation(weights=[1, 2]).run(crowd())
    run = federation(weights=UNEQUAL)
    with pytest.raises(ParameterError, match="an update of each"):
        run.receive([np.zeros((9, 5))])
    encoder = VectorReporter("UnitVector", d=6, epsilon=2.0)
    with pytest.raises(ReportError, match="as often as it counts"):
        weighted_estimate(encoder, encoder.tally(encoder.randomize(np.zeros((10, 6)), seed=1)), UNEQUAL)
    equal = federation(weights=[2] * 10, shuffled=True, delta=1e-6, participants=10, devices=10)
    assert equal.central.delta <= 1e-6
