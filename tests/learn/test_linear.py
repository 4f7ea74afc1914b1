"""Linear models from one report a user. What is statistical here has a fixed seed and wide margins."""

import json
import pickle
import struct
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import EstimatorCheckFailedWarning
from sklearn.utils.estimator_checks import check_estimator

from dither import Categorical, Numeric, Schema
from dither.core.guarantee import Guarantee
from dither.errors import DomainError, ParameterError, ReportError, RowError
from dither.learn.encoding import Encoder
from dither.learn.linear import LinearRegression, LinearSVC, LogisticRegression, load_model
from dither.learn.vector_reporter import VectorReporter
from dither.mechanisms import Hypercube
from marks import wide

CLASSIFIERS = (LogisticRegression, LinearSVC)
MODELS = (*CLASSIFIERS, LinearRegression)
_DATA = "partial_fit takes reports, never data: the check calls it with records"
EXPECTED = {
    "check_fit_score_takes_y": _DATA,
    "check_n_features_in_after_fitting": _DATA,
    "check_estimators_partial_fit_n_features": _DATA,
}


def people(count: int, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Records whose first feature decides the label, nine times out of ten."""
    rng = np.random.default_rng(7)
    features = rng.uniform(-1, 1, (count, d))
    flipped = rng.random(count) < 0.1
    return features, ((features[:, 0] > 0) ^ flipped).astype(np.int64)


@pytest.mark.parametrize("model", [MODELS[0], *map(wide, MODELS[1:])])
def test_scikit_learn_takes_it_for_one_of_its_own(model):
    made = model(8.0, seed=1, mechanism="SampledDuchi", invalid="substitute")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimatorCheckFailedWarning)
        found = check_estimator(made, expected_failed_checks=EXPECTED, on_skip=None, on_fail=None)
    assert {each["check_name"] for each in found if each["status"] == "xfail"} == set(EXPECTED)
    assert not [each["check_name"] for each in found if each["status"] == "failed"]
    assert len([each for each in found if each["status"] == "passed"]) > 40


@pytest.mark.parametrize("mechanism", ["auto", "Hypercube", "SampledDuchi", "Piecewise", "Hybrid", "UnitVector"])
def test_it_learns_with_every_mechanism(mechanism):
    features, labels = people(6000)
    model = LogisticRegression(4.0, mechanism=mechanism, seed=3).fit(features, labels)
    assert model.score(features, labels) > 0.8
    assert model.coef_.shape == (1, 3)
    assert model.intercept_.shape == (1,)


@pytest.mark.parametrize("mechanism", ["Gaussian", "CoCo(s=2)", "Collision(s=2)"])
def test_it_learns_with_a_delta_and_with_signs(mechanism):
    features, labels = people(20_000)
    model = LogisticRegression(4.0, 1e-6, mechanism=mechanism, seed=3).fit(features, labels)
    assert model.score(features, labels) > 0.75


def test_support_vectors_and_regression_learn_too():
    features, labels = people(10_000)
    assert LinearSVC(4.0, mechanism="SampledDuchi", seed=2).fit(features, labels).score(features, labels) > 0.8
    target = 3 + 2 * features[:, 0]
    model = LinearRegression(4.0, bounds=(0, 6), mechanism="SampledDuchi", seed=2).fit(features, target)
    assert model.score(features, target) > 0.8
    assert model.intercept_ == pytest.approx(3, abs=0.4)


def test_a_seed_repeats_and_promises_nothing():
    features, labels = people(500)
    one, two = (LogisticRegression(1.0, mechanism="Hypercube", seed=5).fit(features, labels) for _ in range(2))
    assert (one.coef_ == two.coef_).all()
    assert one.guarantee.simulated
    secure = [LogisticRegression(1.0, mechanism="Hypercube").fit(features, labels) for _ in range(2)]
    assert (secure[0].coef_ != secure[1].coef_).any()
    assert str(secure[0].guarantee) == "epsilon 1 (exact)"


def test_batches_do_not_share_their_noise(monkeypatch):
    """Words of a simulation depend on seed, mechanism and row: with one seed for all, every batch would err alike."""
    seeds, own = [], VectorReporter.randomize

    def noted(self: VectorReporter, vectors: Any, *, seed: int | None = None) -> Any:
        seeds.append(seed)
        return own(self, vectors, seed=seed)

    monkeypatch.setattr(VectorReporter, "randomize", noted)
    features, labels = people(400)
    model = LogisticRegression(1.0, mechanism="Hypercube", seed=5, steps=8).fit(features, labels)
    assert len(set(seeds)) == len(seeds) == model.schedule_.turns == 9
    seeds.clear()
    LogisticRegression(1.0, mechanism="Hypercube", seed=6, steps=8).fit(features, labels)
    assert len(set(seeds)) == 9


def test_coefficients_are_the_mean_of_the_second_half():
    features, labels = people(400)
    model = LogisticRegression(4.0, mechanism="Hypercube", steps=6).start(3, users=400)
    iterates = []
    for turn in range(7):
        model.partial_fit(model.randomize(features, labels, seed=turn))
        iterates.append(model.iterate_)
        if turn == 3:
            assert (model.coef_[0] == model.iterate_[:-1]).all()
    assert np.allclose(np.append(model.coef_, model.intercept_), np.mean(iterates[4:], axis=0), rtol=1e-12)


def test_devices_and_server_apart():
    features, labels = people(2000)
    server = LogisticRegression(4.0, mechanism="SampledDuchi").start(3, users=2000, classes=[0, 1])
    ends = np.cumsum([0, *server.schedule_.sizes()])
    assert ends[-1] == 2000  # each user in one batch
    for turn in range(server.schedule_.turns):
        device = pickle.loads(pickle.dumps(server))  # what is public is all that a device gets
        here = slice(ends[turn], ends[turn + 1])
        server.partial_fit(device.randomize(features[here], labels[here]))
    assert server.score(features, labels) > 0.75
    assert str(server.guarantee) == "epsilon 4 (exact)"


def test_the_first_batch_is_about_the_intercept_alone():
    features, _labels = people(2000)
    model = LogisticRegression(8.0, mechanism="Hypercube").start(3, users=2000)
    assert model.schedule_.reporter(0).d == 1
    assert model.schedule_.reporter(1).d == 4
    model.partial_fit(model.randomize(features[:60], np.zeros(60)))
    assert not model.coef_.any()
    assert model.intercept_[0] < -1


@pytest.mark.parametrize("clip", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("share", [0.1, 0.24, 0.5, 0.7])
def test_the_first_intercept_balances_clipped_residuals(clip, share):
    model = LogisticRegression(1.0)
    size = min(clip, 0.5)
    start = model._intercept(size * (1 - 2 * share), clip)  # the mean of the clipped residuals at score 0
    residuals = [np.clip(model._residual(np.array(start), np.array(each)), -clip, clip) for each in (0.0, 1.0)]
    assert (1 - share) * residuals[0] + share * residuals[1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (LogisticRegression(), lambda t, y: np.log1p(np.exp(t)) - y * t),
        (LinearSVC(), lambda t, y: np.maximum(0, 1 - (2 * y - 1) * t) ** 2 / 2),
        (LinearRegression(), lambda t, y: (t - y) ** 2 / 2),
    ],
)
def test_residuals_are_derivatives_of_losses(model, loss):
    score, target = np.linspace(-2, 2, 9) + 0.01, np.arange(9) % 2 * 1.0
    slope = (loss(score + 1e-6, target) - loss(score - 1e-6, target)) / 2e-6
    assert np.allclose(model._residual(score, target), slope, atol=1e-8)


def test_gradients_are_within_the_clip():
    model = LogisticRegression(1.0, mechanism="Hypercube", clip=0.3).start(2, users=100)
    model.step_, model.iterate_ = 1, np.array([50.0, -50.0, 0.0])
    found = model._gradients(np.array([[9.0, -9.0], [0.5, 0.5], [-1.0, 1.0]]), np.array([0.0, 1.0, 1.0]))
    assert np.abs(found).max() == 0.3
    assert found.tolist() == [[0.3, -0.3, 0.3], [-0.15, -0.15, -0.3], [0.3, -0.3, -0.3]]


def test_what_is_wrong_is_drawn_as_zero():
    """A NaN in a record, and a label outside of the domain: the reports are those of a zero gradient, to the bit."""
    model: Any = LogisticRegression(1.0, mechanism="Hypercube", invalid="substitute").start(2, users=1000)
    model.partial_fit(model.randomize(np.zeros((30, 2)), np.ones(30), seed=1))
    features, labels = people(20, d=2)
    bad = features.copy()
    bad[3, 0], bad[7, 1] = np.nan, np.inf
    zero = model._gradients(features, labels.astype(float))
    zero[3] = 0.0
    expected = model.schedule_.main.randomize(zero, seed=2)
    got = model.randomize(bad, np.where(np.arange(20) == 3, 1, labels), seed=2)
    assert got[3] == expected[3]
    assert (got[8:] == expected[8:]).all()
    strange = model.randomize(features, [*labels[:3], "7310473secret", *labels[4:]], seed=2)
    assert strange[3] == expected[3]


@pytest.mark.parametrize("model", MODELS)
def test_a_label_outside_of_the_domain_is_refused_without_quoting_it(model):
    features, labels = people(50)
    wrong = labels.astype(object)
    wrong[11] = 7310473
    options: dict[str, Any] = {} if model is LinearRegression else {"classes": (0, 1)}
    made = model(1.0, mechanism="Hypercube", **options)
    with pytest.raises(RowError, match="row 11: the label is not") as refusal:
        made.start(3, users=50).randomize(features, wrong)
    assert "7310473" not in str(refusal.value)
    with pytest.raises(RowError, match="the label is not") as refusal:
        made.fit(features, wrong.astype(np.int64))
    assert "7310473" not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"batch": 101}, "a batch of 101 is larger than the population of 100 users"),
        ({"steps": 101}, "101 steps need 101 users"),
        ({"steps": 10, "batch": 20}, "10 steps need 200 users"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"clip": 0.0}, "clip must be"),
        ({"clip": float("inf")}, "clip must be"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"mechanism": "Gaussian"}, "needs a delta"),
        ({"mechanism": "Nobody"}, "no mechanism has this name"),
        ({"mechanism": Hypercube(9, 1.0)}, "made already"),
        ({"invalid": "ignore"}, "invalid must be one of"),
        ({"classes": (1,)}, "two labels or more"),
        ({"classes": (1, 1)}, "two labels or more"),
        ({"classes": (1, 2, 1)}, "two labels or more"),
    ],
)
def test_refusals(options, reason):
    features, labels = people(100)
    with pytest.raises(ParameterError, match=reason):
        LogisticRegression(**options).fit(features, labels)


def test_more_refusals():
    features, labels = people(100)
    with pytest.raises(ParameterError, match="call start"):
        LogisticRegression().randomize(features, labels)
    with pytest.raises(ParameterError, match="needs the number of features"):
        LogisticRegression().start(users=10)
    with pytest.raises(ParameterError, match="start takes no colour"):
        LinearRegression().start(2, users=10, colour=1)
    with pytest.raises(ParameterError, match="two finite numbers"):
        LinearRegression(bounds=(1, 1)).start(2, users=10)
    with pytest.raises(ParameterError, match="one class only"):
        LogisticRegression().fit(features, np.zeros(100))
    model = LogisticRegression(mechanism="Hypercube").start(3, users=100)
    with pytest.raises(ParameterError, match="reports, never data"):
        model.partial_fit(features)  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="one label for each record"):
        model.randomize(features, labels[:-1])
    with pytest.raises(DomainError, match="3 columns"):
        model.randomize(features[:, :2], labels)
    other = LogisticRegression(2.0, mechanism="Hypercube").start(3, users=100)
    with pytest.raises(ReportError):
        model.partial_fit(other.randomize(features, labels))


def test_a_made_mechanism_is_used_as_it_is():
    features, labels = people(3000)
    model = LogisticRegression(mechanism=Hypercube(4, 4.0), seed=1).fit(features, labels)
    assert model.schedule_.first is None
    assert model.reporter.mechanism == Hypercube(4, 4.0)
    assert model.score(features, labels) > 0.75


def test_settings_follow_from_public_facts():
    """The steps grow with the crowd and the budget; data plays no part."""
    steps = [
        LogisticRegression(e, mechanism="Hypercube").start(20, users=n).schedule_
        for e, n in ((1.0, 10_000), (4.0, 10_000), (4.0, 1_000_000))
    ]
    lengths = [schedule.steps * schedule.rate for schedule in steps]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1] <= 100
    noise = np.sqrt(steps[0].main.noise() / 21 / 10_000)
    assert lengths[0] == pytest.approx(0.4 / noise)


def test_a_pickle_holds_no_data():
    features, labels = people(300)
    features[:, 1] = 0.1234567890123
    model = LogisticRegression(1.0, mechanism="Hypercube").fit(features, labels)
    stored = pickle.dumps(model)
    assert struct.pack("<d", 0.1234567890123) not in stored
    assert struct.pack(">d", 0.1234567890123) not in stored
    assert len(stored) < 20_000
    assert (pickle.loads(stored).predict(features) == model.predict(features)).all()


SCHEMA = Schema({"age": Numeric(0, 100), "job": Categorical(["nurse", "driver", "other"])})


def table(count: int) -> tuple[dict[str, Any], np.ndarray]:
    """People of whom the older have an income."""
    ages = np.arange(count) * 37 % 101
    return {"age": ages, "job": np.array(["nurse", "driver", "other"])[np.arange(count) % 3]}, np.where(
        ages > 50, "high", "low"
    )


def test_tables_in_their_own_units_and_files(tmp_path):
    records, labels = table(6000)
    model = LogisticRegression(4.0, classes=("low", "high"), mechanism="UnitVector", encoder=Encoder(SCHEMA), seed=1)
    model.fit(records, labels)
    assert model.score(records, labels) > 0.8
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model.to_dict()), encoding="utf-8")
    again = load_model(path)
    assert isinstance(again, LogisticRegression)
    assert (again.predict(records) == model.predict(records)).all()
    assert np.allclose(again.predict_proba(records), model.predict_proba(records))
    assert again.guarantee.simulated
    assert again.guarantee == model.guarantee
    assert load_model(LinearRegression(bounds=(0, 4)).start(2, users=9).to_dict()).predict([[0, 0]]).tolist() == [2.0]


def test_a_model_from_a_file_that_trains_again_promises_anew():
    model = load_model(LinearRegression(0.5, mechanism="Hypercube").start(2, users=100).to_dict())
    assert model.guarantee.epsilon == pytest.approx(0.5)
    model.set_params(epsilon=3.0, mechanism="Hypercube").start(2, users=100)
    assert model.guarantee.epsilon == pytest.approx(3.0)


def test_a_stored_guarantee_says_whom_it_protects_against():
    stored = LogisticRegression(1.0, mechanism="Hypercube").start(2, users=100).to_dict()
    assert set(stored["guarantee"]) == {"epsilon", "delta", "established"}  # local: as it always was
    assert load_model(stored).guarantee.model == "local"
    central = Guarantee(2.0, 1e-5, "bound", model="central", neighbours="add-remove")
    assert load_model({**stored, "guarantee": central.to_dict()}).guarantee == central
    with pytest.raises(ParameterError):
        load_model({**stored, "guarantee": {**central.to_dict(), "model": "nobody"}})


@pytest.mark.parametrize("change", [{"format": "x"}, {"model": "x"}, {"coefficients": ["a"]}, {"guarantee": {}}])
def test_damaged_models_are_refused(change):
    stored = LogisticRegression(1.0, mechanism="Hypercube").start(2, users=100).to_dict()
    with pytest.raises(ParameterError):
        load_model({**stored, **change})


def test_files_that_are_none(tmp_path):
    with pytest.raises(ParameterError, match="cannot be read"):
        load_model(tmp_path / "nothing.json")
