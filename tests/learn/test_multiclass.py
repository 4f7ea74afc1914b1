"""Linear models of more than two classes: one report a user, of the gradient by all scores at once."""

import json
import math
from typing import Any

import numpy as np
import pytest

from dither.errors import ParameterError, RowError
from dither.learn import LinearSVC, LogisticRegression, load_model

CLASSIFIERS = (LogisticRegression, LinearSVC)
NAMES = np.array(["east", "north", "south", "west"])
CENTRES = np.array([[0.6, 0.0], [0.0, 0.6], [0.0, -0.6], [-0.6, 0.0]])


def people(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Four clusters of records, by the points of the compass, of which the nearest centre tells the class."""
    rng = np.random.default_rng(3)
    which = rng.integers(0, 4, count)
    return np.clip(CENTRES[which] + rng.uniform(-0.25, 0.25, (count, 2)), -1, 1), NAMES[which]


@pytest.mark.parametrize("model", CLASSIFIERS)
@pytest.mark.parametrize("mechanism", ["auto", "Hypercube", "SampledDuchi"])
def test_it_learns_four_classes(model, mechanism):
    features, labels = people(20_000)
    made = model(4.0, mechanism=mechanism, seed=1).fit(features, labels)
    assert made.score(features, labels) > 0.95
    assert made.coef_.shape == (4, 2)
    assert made.intercept_.shape == (4,)
    assert made.classes_.tolist() == NAMES.tolist()
    assert made.decision_function(features[:7]).shape == (7, 4)
    assert made.predict(features[:3]).tolist() == NAMES[made.decision_function(features[:3]).argmax(axis=1)].tolist()


def test_probabilities_are_those_of_the_softmax():
    features, labels = people(5_000)
    model = LogisticRegression(8.0, seed=2).fit(features, labels)
    chances = model.predict_proba(features[:50])
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    scores = model.decision_function(features[:50])
    np.testing.assert_allclose(np.log(chances[:, 0] / chances[:, 3]), scores[:, 0] - scores[:, 3], atol=1e-9)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(features[:50])), chances, rtol=1e-12)


def test_a_report_has_the_whole_budget():
    model = LogisticRegression(2.0, classes=NAMES.tolist()).start(2, users=1000)
    features, labels = people(1000)
    assert len(model.randomize(features[:30], labels[:30])) == 30
    assert model.guarantee.epsilon <= 2.0
    assert model.schedule_.main.d == 12
    assert model.schedule_.first is not None
    assert model.schedule_.first.d == 4


@pytest.mark.parametrize("k", [3, 10])
def test_all_classes_at_once_have_less_noise_than_each_against_the_rest(k):
    """For each of k models there are n/k users: k times the variance of a coordinate, of residuals within 1/2."""
    joint = LogisticRegression(2.0, classes=range(k)).start(20, users=10_000).schedule_.main
    alone = LogisticRegression(2.0, mechanism="UnitVector").start(20, users=10_000).schedule_.main
    ratio = (joint.noise() / joint.d) / (k * alone.noise() / alone.d)
    assert ratio == pytest.approx((1 - 1 / k) / (k / 4), rel=0.05)


def _log_loss(scores: np.ndarray, own: int) -> float:
    return float(np.log(np.exp(scores).sum()) - scores[own])


def _smoothed_hinge(scores: np.ndarray, own: int) -> float:
    margins = 1 + np.delete(scores, own) - scores[own]
    return float(np.where(margins <= 1, np.maximum(margins, 0) ** 2 / 2, margins - 0.5).mean())


@pytest.mark.parametrize(("model", "loss"), [(LogisticRegression, _log_loss), (LinearSVC, _smoothed_hinge)])
def test_residuals_are_derivatives_of_losses(model, loss):
    made, rng = model(classes=NAMES.tolist()).start(2, users=10), np.random.default_rng(1)
    scores, step = rng.uniform(-1.5, 1.5, (20, 4)), 1e-6
    found = made._residuals(scores, np.arange(20) % 4.0)
    for row, own in enumerate(np.arange(20) % 4):
        ways = step * np.eye(4)
        slopes = [(loss(scores[row] + way, own) - loss(scores[row] - way, own)) / (2 * step) for way in ways]
        np.testing.assert_allclose(found[row], slopes, atol=1e-6)


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_gradients_are_within_the_clip_and_whole_before_the_first_step(model):
    features, labels = people(200)
    made = model(1.0, classes=NAMES.tolist()).start(2, users=200)
    made.step_ = 1
    targets = made._targets(labels, "error")
    residuals = made._residuals(np.zeros((200, 4)), targets)
    np.testing.assert_allclose(np.linalg.norm(residuals, axis=1), made._clip(), rtol=1e-12)
    made.iterate_ = np.random.default_rng(1).normal(scale=5.0, size=(4, 3))
    gradients = made._gradients(features, targets)
    assert gradients.shape == (200, 12)
    assert np.linalg.norm(gradients, axis=1).max() <= made._clip() * math.sqrt(3) * (1 + 1e-12)
    assert np.abs(gradients).max() <= made._clip() * (1 + 1e-12)
    made.step_ = 0
    assert made._gradients(features, targets).shape == (200, 4)


@pytest.mark.parametrize("clip", [None, 0.4])
def test_the_first_intercepts_are_those_of_the_shares(clip):
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    targets = np.repeat(np.arange(4.0), (1000 * shares).astype(int))
    logistic = LogisticRegression(classes=NAMES.tolist(), clip=clip).start(1, users=1000)
    means = logistic._gradients(np.zeros((1000, 1)), targets).mean(axis=0)
    intercepts = logistic._intercepts(means)
    np.testing.assert_allclose(np.exp(intercepts) / np.exp(intercepts).sum(), shares, rtol=1e-9)
    machine = LinearSVC(classes=NAMES.tolist(), clip=clip).start(1, users=1000)
    means = machine._gradients(np.zeros((1000, 1)), targets).mean(axis=0)
    np.testing.assert_allclose(machine._intercepts(means), shares - 0.25, rtol=1e-9)


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_a_label_of_no_class_is_refused_or_drawn_as_zero(model):
    features, labels = people(20)
    wrong = labels.astype(object)
    wrong[11] = "7310473"
    made: Any = model(1.0, classes=NAMES.tolist(), mechanism="Hypercube").start(2, users=20)
    with pytest.raises(RowError, match="row 11: the label is not one of the 4 classes") as refusal:
        made.randomize(features, wrong)
    assert "7310473" not in str(refusal.value)
    made.set_params(invalid="substitute")
    whole = made.schedule_.reporter(0).clipped(made._gradients(features, made._targets(wrong, "substitute")))
    assert not whole[11].any()
    assert whole[10].any()


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_files_keep_all_classes(model, tmp_path):
    features, labels = people(2_000)
    made = model(4.0, seed=1).fit(features, labels)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(made.to_dict()))
    read = load_model(path)
    assert read.predict(features).tolist() == made.predict(features).tolist()
    assert read.coef_.shape == (4, 2)
    stored = made.to_dict()
    for change in ({"intercept": 0.0}, {"intercept": [0.0] * 3}, {"coefficients": [1.0] * 7}, {"labels": ["a", "b"]}):
        with pytest.raises(ParameterError, match="damaged"):
            load_model({**stored, **change})


def test_intercepts_that_may_be_noise_are_drawn_towards_equal_classes():
    features, labels = people(3_000)
    for seed in range(5):
        model = LogisticRegression(1.0, classes=NAMES.tolist()).start(2, users=3_000)
        reports = model.randomize(features, labels, seed=seed)
        first = model.schedule_.reporter(0)
        found = first.estimate(first.tally(reports))
        kept = max(0.0, 1 - float((found.stderr**2).sum() / (found.value**2).sum()))
        model.partial_fit(reports)
        np.testing.assert_allclose(model.iterate_[:, -1], model._intercepts(kept * found.value), atol=1e-12)
        plain = model._intercepts(found.value)
        assert np.abs(model.iterate_[:, -1]).max() < np.abs(plain).max()
        assert not model.iterate_[:, :-1].any()
