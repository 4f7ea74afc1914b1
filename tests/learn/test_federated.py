"""Federated averaging: whole updates, clipped, through one certified report a device and round, within a budget."""

import copy
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dither.core.exact import share_below
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.randomness import Stream
from dither.errors import DitherError, DomainError, ParameterError, ReportError
from dither.learn.federated import Device, Devices, Federation, LDPVec, by_class, clipped
from dither.learn.federated import local_training as training
from dither.learn.federated import round_accounting as account
from dither.learn.federated.local_training import LocalTraining, loss
from dither.learn.federated.round_accounting import Accounts, Rota, gaussian_total, per_round, shuffled_total, together
from dither.learn.vector_reporter import VectorReporter
from dither.mechanisms import GRR
from dither.mechanisms.ballgaussian import BallGaussian
from dither.privacy import ShuffledRound, amplify, compose, subsampled_gaussian
from dither.privacy.ledger import BudgetError, Ledger, store


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """One thread, and no waiting for the disk."""
    torch.set_num_threads(1)
    monkeypatch.setattr(store, "_SETTINGS", ("synchronous=OFF", *store._SETTINGS[1:]))
    monkeypatch.setattr(store, "_sync_directory", lambda _: None)


def linear(features: int = 6, outputs: int = 1) -> nn.Linear:
    torch.manual_seed(5)
    return nn.Linear(features, outputs)


def crowd(devices: int = 40, each: int = 5, features: int = 6, classes: int = 2, seed: int = 0) -> Devices:
    """Devices whose classes are far apart."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, devices * each)
    centres = 2 * np.eye(classes, features)
    inputs = (centres[labels] + 0.3 * rng.normal(size=(len(labels), features))).astype(np.float32)
    return Devices(inputs, labels, np.arange(len(labels)).reshape(devices, each))


class Spy:
    """A reporter that keeps what it is given and reports it as it is."""

    def __init__(self, d: int) -> None:
        self.d, self.seen = d, []
        self.inner = VectorReporter("Hypercube", d=d, epsilon=1.0)
        self.guarantee, self.mechanism = self.inner.guarantee, self.inner.mechanism
        self.name, self.fingerprint, self.error = "Spy", self.inner.fingerprint, self.inner.error

    def randomize(self, vectors, *, seed=None):
        self.seen.append(np.array(vectors))
        return self.inner.randomize(vectors, seed=seed)

    def tally(self, reports):
        return self.inner.tally(reports)

    def estimate(self, tally):
        return self.inner.estimate(tally)

    def inside(self, vectors):
        return self.inner.inside(vectors)


def arrived(model: nn.Module, start: np.ndarray, inputs, labels, batches, rate: float) -> np.ndarray:
    """Where one device arrives, step by step, with nothing but autograd."""
    own = copy.deepcopy(model).double()
    nn.utils.vector_to_parameters(torch.from_numpy(start.copy()), own.parameters())
    for rows in batches:
        own.zero_grad()
        loss(own(inputs[rows].double()), labels[rows]).backward()
        with torch.no_grad():
            for each in own.parameters():
                assert each.grad is not None
                each -= rate * each.grad
    return nn.utils.parameters_to_vector(own.parameters()).detach().numpy() - start


# Local training ----------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize(
    ("model", "features", "classes"),
    [
        (linear(6, 1), 6, 2),
        (nn.Sequential(nn.Flatten(), linear(6, 3)), 6, 3),
        (nn.Linear(6, 3, bias=False), 6, 3),
        (linear(2, 1), 2, 2),  # more records than features: not by coefficients
        (nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)), 6, 3),
    ],
    ids=["one output", "three outputs", "no bias", "many records", "two layers"],
)
def test_an_update_is_where_a_device_arrives_less_where_it_starts(model, features, classes):
    devices = crowd(7, 5, features, classes)
    local = LocalTraining(model, steps=6, batch=3, rate=0.3)
    start, who, stream = local.start(), np.arange(7), Stream.seeded(3)
    found = local.updates(start, devices, who, 0, stream)
    batches = local._batches(devices.sizes, who, stream)
    for k in range(7):
        rows = np.arange(5 * k, 5 * k + 5)
        expected = arrived(model, start, devices.inputs[rows], devices.labels[rows], batches[k], 0.3)
        np.testing.assert_allclose(found[k], expected, atol=2e-6)


def test_devices_of_different_sizes_use_their_own_records_alone():
    whole = crowd(3, 8)
    members = [np.array([3, 9, 1]), np.arange(10, 20), np.array([0, 2, 4, 6])]
    devices = Devices(whole.inputs, whole.labels, members)
    local = LocalTraining(linear(), steps=5, batch=3, rate=0.5)
    together_ = local.updates(local.start(), devices, np.arange(3), 0, Stream.seeded(1))
    batches = local._batches(devices.sizes, np.arange(3), Stream.seeded(1))
    for k, rows in enumerate(members):
        assert batches[k].max() < len(rows)
        assert len(np.unique(batches[k][0])) == 3  # without putting back
        own = arrived(local.model, local.start(), whole.inputs[rows], whole.labels[rows], batches[k], 0.5)
        np.testing.assert_allclose(together_[k], own, atol=2e-6)
    side_by_side = devices.sorted()
    moved = local.updates(local.start(), side_by_side, np.arange(3), 0, Stream.seeded(1))
    np.testing.assert_allclose(moved, together_, atol=2e-6)


def test_chunks_change_nothing(monkeypatch):
    devices, runs = crowd(), []
    for size in (training._CHUNK, 64):
        monkeypatch.setattr(training, "_CHUNK", size)
        federation = Federation(linear(), None, rounds=2, local_steps=3, batch=4, clip=0.05, seed=1)
        runs.append(federation.run(devices).parameters)
    np.testing.assert_allclose(*runs, atol=1e-7)


def test_the_rate_falls_over_all_rounds():
    local = LocalTraining(linear(), steps=4, batch=2, rate=0.8, decay=0.5)
    assert [local._rate(turn, step) for turn, step in ((0, 0), (0, 2), (1, 0))] == [0.8, 0.4, 0.8 / 3]


def test_by_class_deals_all_devices_as_many_records_of_two_classes():
    labels = np.random.default_rng(0).integers(0, 10, 6000)
    members = by_class(labels, 50, 2, seed=4)
    assert {len(np.unique(labels[rows])) for rows in members} == {2}
    assert len({len(rows) for rows in members}) == 1
    everyone = np.concatenate(members)
    assert len(np.unique(everyone)) == len(everyone) > 5500
    assert len({tuple(np.unique(labels[rows])) for rows in members}) > 20  # not always the same pairs
    again = by_class(labels, 50, 2, seed=4)
    assert all((one == other).all() for one, other in zip(members, again, strict=True))
    assert {len(np.unique(labels[rows])) for rows in by_class(labels, 12, 5)} == {5}
    with pytest.raises(ParameterError):
        by_class(labels, 10, 11)
    with pytest.raises(ParameterError):
        by_class([0, 1, 1], 3, 2)


# A round -----------------------------------------------------------------------------------------------------------


def test_the_whole_update_is_clipped_and_reported_and_nothing_else():
    devices, model = crowd(30, 6), linear()
    spy, long = Spy(7), 0
    federation = Federation(model, spy, rounds=3, local_steps=8, batch=6, rate=0.5, clip=0.2, server_rate=1.7, seed=2)
    for turn in range(3):
        before = federation.parameters.copy()
        moved = federation.step(devices)
        rows = np.concatenate(spy.seen[turn:])
        assert rows.shape == (30, 7)
        # A batch of all records has one gradient, whatever the order: the update is known without the stream.
        for k in range(30):
            own = np.arange(6 * k, 6 * k + 6)
            whole = arrived(model, before, devices.inputs[own], devices.labels[own], [np.arange(6)] * 8, 0.5)
            long += np.linalg.norm(whole) > 0.2
            np.testing.assert_allclose(rows[k], whole * min(1.0, 0.2 / np.linalg.norm(whole)), atol=1e-6)
        np.testing.assert_array_equal(federation.parameters, before + 1.7 * moved)
    assert (np.linalg.norm(np.concatenate(spy.seen), axis=1) <= 0.2 + 1e-12).all()
    assert long > 30  # so that clipping shows


def test_without_noise_it_is_federated_averaging_of_clipped_updates():
    devices = crowd(10, 5)
    federation = Federation(linear(), None, rounds=1, local_steps=5, batch=5, rate=0.4, clip=0.3, server_rate=2.0)
    start = federation.parameters.copy()
    updates = federation.local.updates(start, devices, np.arange(10), 0, Stream.seeded(9))
    federation.step(devices)
    expected = start + 2.0 * clipped(updates, 0.3).mean(axis=0)
    np.testing.assert_allclose(federation.parameters, expected, atol=1e-6)
    assert federation.total.epsilon == math.inf
    assert "no privacy" in federation.explain()


def test_momentum_and_averages():
    steps = np.random.default_rng(0).normal(size=(4, 7)) * 0.01
    federation = Federation(linear(), None, rounds=4, clip=1.0, momentum=0.5, server_rate=2.0, average=True)
    place, speed, seen = federation.parameters.copy(), np.zeros(7), []
    for step in steps:
        federation.receive([step[None]])
        speed = 0.5 * speed + step
        place = place + 2.0 * speed
        seen.append(place)
    np.testing.assert_allclose(federation.parameters, place)
    flat = nn.utils.parameters_to_vector(federation.model.parameters()).detach().numpy()
    np.testing.assert_allclose(flat, np.mean(seen[2:], axis=0), rtol=1e-5)


def test_updates_that_are_not_finite_count_as_zero():
    rows = np.array([[np.nan, 1.0, 2.0], [np.inf, 0.0, 0.0], [0.3, 0.0, -0.4], [1e300, 1e300, 0.0]])
    found = clipped(rows, 0.25)
    assert not found[:2].any()
    np.testing.assert_allclose(found[2:], [[0.15, 0.0, -0.2], [0.25 / 2**0.5, 0.25 / 2**0.5, 0.0]])
    devices = Devices(np.full((20, 6), 1e30, dtype=np.float32), np.arange(20) % 2, np.arange(20).reshape(4, 5))
    spy = Spy(7)
    Federation(linear(), spy, rounds=1, local_steps=3, batch=5, rate=1e20, seed=1).run(devices)
    assert not spy.seen[0].any()


def test_a_seed_is_a_simulation_and_none_is_not():
    devices = crowd()

    def ran(seed):
        federation = Federation(linear(), "Hypercube", rounds=2, epsilon=4.0, local_steps=2, batch=4, seed=seed)
        return federation.run(devices)

    one, same, other, secure = ran(1), ran(1), ran(2), ran(None)
    np.testing.assert_array_equal(one.parameters, same.parameters)
    assert (one.parameters != other.parameters).any()
    assert one.guarantee == NO_GUARANTEE
    assert (secure.guarantee.epsilon, secure.total.epsilon) == (4.0, 4.0)
    assert "protect nobody" in one.explain()
    assert "protect nobody" not in secure.explain()


@pytest.mark.parametrize("name", ["UnitVector", "BallGaussian"])
def test_a_crowd_learns_what_a_device_does_not_tell(name):
    """The noise of the mean update is a tenth of its length, so that its direction is right at any seed."""
    devices = crowd(1200, 4, seed=1)
    federation = Federation(
        linear(), name, rounds=3, epsilon=9.0, delta=1e-5, local_steps=4, batch=4, rate=1.0, clip=0.5, server_rate=8.0,
        seed=3,
    )  # fmt: skip
    federation.run(devices)
    assert federation.score(devices.inputs, devices.labels) > 0.97
    assert federation.predict(devices.inputs[:3]).shape == (3,)


# The budget --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["UnitVector", "Hypercube", "BallGaussian", "LDPVec", "Gaussian"])
@pytest.mark.parametrize("rounds", [1, 7, 60])
def test_all_rounds_together_keep_the_total(name, rounds):
    federation = Federation(linear(), name, rounds=rounds, epsilon=6.0, delta=1e-5)
    total = federation.total
    assert total.epsilon <= 6.0
    assert total.delta <= 1e-5
    assert total.epsilon > 5.9  # and nothing is left over
    assert federation.round_guarantee.epsilon < (6.0 if rounds > 1 else 6.1)
    spent = federation.set_aside
    assert spent.epsilon >= rounds * federation.round_guarantee.epsilon
    assert compose([(federation.round_guarantee, rounds)]).epsilon == pytest.approx(spent.epsilon)


def test_without_a_delta_a_round_has_its_share():
    federation = Federation(linear(), "UnitVector", rounds=7, epsilon=3.0)
    assert federation.encoder is not None
    assert federation.encoder.mechanism.epsilon == share_below(3.0, 7)
    assert 7 * Fraction(federation.round_guarantee.epsilon) <= 3
    assert federation.total.epsilon <= 3.0


def test_the_price_of_a_round_gives_the_total():
    federation = Federation(linear(), "UnitVector", rounds=7, epsilon=0.5, budget="round")
    assert federation.total.epsilon == 3.5
    gaussian = Federation(linear(), "BallGaussian", rounds=7, epsilon=0.5, delta=1e-6, budget="round")
    assert gaussian.round_guarantee.epsilon == 0.5
    assert gaussian.total.epsilon < 3.5
    assert gaussian.total.delta == pytest.approx(7e-6)
    made = Federation(linear(), VectorReporter("UnitVector", d=7, epsilon=0.5), rounds=4)
    assert made.total.epsilon == 2.0


@pytest.mark.wide
def test_what_is_best_depends_on_what_a_round_may_cost():
    names = [
        type(Federation(linear(60), rounds=rounds, epsilon=epsilon, delta=delta).encoder.mechanism).__name__  # type: ignore[union-attr]
        for rounds, epsilon, delta in ((50, 2.0, 1e-5), (2, 10.0, 1e-5), (50, 2.0, 0.0))
    ]
    assert names == ["BallGaussian", "UnitVector", "UnitVector"]


@pytest.mark.wide
def test_gaussian_noise_adds_up_as_one_gaussian():
    mechanism = BallGaussian(50, 1.0, 1e-6)
    law = mechanism.law
    ideal = subsampled_gaussian(float(law.scale / (2 * law.radius)), 1.0, 20, 1e-5).epsilon
    found = gaussian_total(mechanism, 20, 1e-5)
    assert found is not None
    assert ideal <= found.epsilon <= ideal * 1.0001
    assert found.epsilon < compose([(mechanism, 20)], 1e-4).epsilon / 1.5
    assert gaussian_total(GRR(k=4, epsilon=1.0), 20, 1e-5) is None
    assert gaussian_total(Guarantee(1.0), 20, 1e-5) is None
    # Far beyond what an absolute difference of tables would allow, e^130 times 1e-30.
    strong = BallGaussian(50, 14.0, 1e-7)
    total = gaussian_total(strong, 30, 1e-5)
    assert total is not None
    assert 100 < total.epsilon < 0.4 * compose([(strong, 30)], 1e-5).epsilon


@pytest.mark.wide
def test_a_gaussian_total_counts_what_the_table_misses(monkeypatch):
    mechanism = BallGaussian(50, 1.0, 1e-6)
    monkeypatch.setattr(account, "_NEAR", Fraction(4))  # noise beyond 4 standard deviations is no rarity
    assert gaussian_total(mechanism, 20, 1e-5) is None
    monkeypatch.setattr(account, "_NEAR", Fraction(13))  # the table does not reach so far
    assert gaussian_total(mechanism, 20, 1e-5) is None
    monkeypatch.setattr(account, "_NEAR", Fraction(23, 2))  # nor to what the other input would have to explain
    assert gaussian_total(BallGaussian(50, 14.0, 1e-7), 30, 1e-5) is None


def test_per_round_is_the_inverse_of_together():
    for epsilon, delta, times in ((1.0, 1e-6, 30), (8.0, 1e-5, 12), (0.3, 0.0, 5)):
        of_one, own = per_round(epsilon, delta, times)
        assert own == 0
        assert together(Guarantee(of_one), times, delta).epsilon <= epsilon
        assert together(Guarantee(of_one * 1.001), times, delta).epsilon > epsilon
    assert per_round(2.0, 1e-5, 1, "gaussian") == (2.0, 1e-5)
    of_one, own = per_round(4.0, 1e-5, 10, "delta")
    assert together(Guarantee(of_one, own, "bound"), 10, 1e-5).epsilon <= 4.0
    with pytest.raises(ParameterError):
        per_round(1.0, 0.0, 3, "gaussian")


def test_a_spent_budget_refuses_the_next_round():
    devices = crowd(10, 4)
    federation = Federation(linear(), "Hypercube", rounds=2, epsilon=1.0, local_steps=1, batch=4, seed=1).run(devices)
    before = federation.parameters.copy()
    reports = federation.encoder.randomize(np.zeros((3, 7)))  # type: ignore[union-attr]
    for again in (
        lambda: federation.step(devices),
        lambda: federation.run(devices),
        lambda: federation.absorb(reports),
    ):
        with pytest.raises(BudgetError, match="new federation"):
            again()
    np.testing.assert_array_equal(federation.parameters, before)


def test_accounts_have_the_arithmetic_of_the_ledger(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(12):
        mechanism = GRR(k=3, epsilon=float(rng.uniform(0.05, 2)))
        budget, periods = float(rng.uniform(0.1, 4)), int(rng.integers(1, 6))
        accounts = Accounts(2, budget)
        with Ledger(tmp_path / f"{number}.db", epsilon=budget) as ledger:
            try:
                promised = ledger.reserve(mechanism, periods=periods)
            except BudgetError:
                with pytest.raises(BudgetError, match="fewer rounds"):
                    accounts.reserve(mechanism.guarantee, periods=periods)
                continue
            assert accounts.reserve(mechanism.guarantee, periods=periods) == promised
            for period in range(periods):
                ledger.report(mechanism, 1, period=period)
                accounts.charge([1])
                assert accounts.spent(1).epsilon == ledger.spent.epsilon
            with pytest.raises(BudgetError, match="spent"):
                accounts.charge([0, 1])
            assert accounts.spent(0).epsilon == 0  # refused for all of them
    with pytest.raises(ParameterError):
        Accounts(2, 1.0).charge([0])


def test_a_rota_is_even_and_public():
    for devices, participants, rounds in ((10, 4, 5), (7, 3, 11), (5, 5, 3), (9, 2, 2)):
        rota = Rota(devices, participants, rounds, Stream.seeded(1))
        chosen = [rota.round(turn) for turn in range(rounds)]
        assert all(len(np.unique(who)) == participants for who in chosen)
        counts = np.bincount(np.concatenate(chosen), minlength=devices)
        assert counts.max() == rota.most
        assert counts.max() - counts.min() <= 1


def test_who_reports_less_often_has_more_for_each_report():
    devices = crowd(40, 4)
    federation = Federation(
        linear(), "UnitVector", rounds=8, epsilon=4.0, participants=10, devices=40, local_steps=1, batch=4, seed=1
    )
    assert federation.most == 2
    assert federation.round_guarantee.epsilon == pytest.approx(2.0)
    federation.run(devices)
    assert federation.history.columns["devices"] == [10] * 8
    assert federation.history.columns["epsilon"][-1] == pytest.approx(4.0)
    assert federation.history.columns["epsilon"][3] == pytest.approx(2.0)
    with pytest.raises(ParameterError):
        Federation(linear(), rounds=2, epsilon=1.0, participants=5)
    with pytest.raises(ParameterError):
        Federation(linear(), rounds=2, epsilon=1.0, participants=5, devices=4)


def test_a_shuffled_crowd_is_promised_more():
    federation = Federation(
        linear(), "UnitVector", rounds=4, epsilon=4.0, delta=1e-6, participants=20_000, devices=20_000, shuffled=True
    )
    mechanism = federation.encoder.mechanism  # type: ignore[union-attr]
    share = share_below(1e-6, 8)
    added = compose([(amplify(mechanism, 20_000, share), 4)], 1e-6)  # guarantees; losses of rounds are far less
    expected = compose([(ShuffledRound(mechanism, 20_000), 4)], 1e-6)
    assert federation.central.epsilon == pytest.approx(expected.epsilon)
    assert federation.central.epsilon < 0.6 * added.epsilon
    assert federation.central.epsilon < federation.total.epsilon / 5
    assert "no order" in federation.explain()
    few = shuffled_total(mechanism, 1, 4, 1e-6)
    assert few == together(mechanism, 4, 1e-6)
    with pytest.raises(ParameterError):
        shuffled_total(mechanism, 100, 4, 0.0)
    alone = Federation(linear(), "UnitVector", rounds=4, epsilon=4.0, delta=1e-6, shuffled=True)
    with pytest.raises(ParameterError, match="not known"):
        _ = alone.central


# A real device -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["UnitVector", "BallGaussian", "LDPVec", "Piecewise", "CoCo"])
def test_a_device_reports_once_a_round_and_repeats_itself(tmp_path, name):
    options = {"s": 3} if name == "CoCo" else {}
    delta = 1e-5 if name == "BallGaussian" else 0.0
    federation = Federation(
        linear(), name, rounds=2, epsilon=6.0, delta=delta, local_steps=3, batch=4, clip=0.5, options=options
    )
    records = crowd(1, 4)
    with Ledger(tmp_path / "ledger.db", federation.set_aside.epsilon, federation.set_aside.delta) as ledger:
        device = Device(records.inputs, records.labels, ledger)
        task, start = federation.task, federation.parameters
        first = device.report(task, start, turn=1)
        assert device.report(task, start + 1, turn=1).tobytes() == first.tobytes()
        assert ledger.spent.epsilon == federation.round_guarantee.epsilon
        federation.absorb(first)
        last = device.report(task, federation.parameters, turn=2)
        assert ledger.spent.epsilon == federation.set_aside.epsilon
        with pytest.raises(BudgetError, match="agreed"):
            device.report(task, start, turn=3)
        with pytest.raises(BudgetError, match="spent"):
            device.report(task, start, turn=1)
        again = Device(records.inputs, records.labels, ledger)  # as after a restart
        with pytest.raises(BudgetError):
            again.report(task, start, turn=1)
        assert again.report(task, start, turn=2).tobytes() == last.tobytes()


class Refusing(torch.nn.Linear):
    """A model that ends everything as soon as it sees a record with a large number."""

    def __init__(self, raised: type[BaseException]) -> None:
        super().__init__(6, 1)
        self.raised = raised

    def forward(self, input):  # noqa: A002
        raise self.raised("the patient in row 17")


@pytest.mark.parametrize("raised", [RuntimeError, SystemExit, KeyboardInterrupt, GeneratorExit, "batch", "labels"])
def test_whatever_goes_wrong_in_training_a_device_reports(tmp_path, raised, caplog, monkeypatch):
    """Exceptions, too few records for a batch, a label that the model does not know: each is a fact about the data."""
    model = linear() if isinstance(raised, str) else Refusing(raised)
    federation = Federation(model, "UnitVector", rounds=1, epsilon=6.0, batch=9 if raised == "batch" else 4)
    records, updates = crowd(1, 4), []
    labels = torch.full_like(records.labels, 7) if raised == "labels" else records.labels
    kind: Any = type(federation.task.encoder)
    inside = kind.inside
    monkeypatch.setattr(kind, "inside", lambda self, vectors: updates.append(vectors) or inside(self, vectors))
    with Ledger(tmp_path / "ledger.db", federation.set_aside.epsilon) as ledger:
        device = Device(records.inputs, labels, ledger)
        assert len(device.report(federation.task, federation.parameters, turn=1)) == 1
        assert not updates[0].any()
        with pytest.raises(ParameterError, match="parameters"):
            device.report(federation.task, federation.parameters[:-1], turn=1)
    assert "training failed" in caplog.text
    assert "row 17" not in caplog.text


def test_a_device_whose_ledger_is_too_small_takes_no_part(tmp_path):
    federation = Federation(linear(), "UnitVector", rounds=4, epsilon=6.0, local_steps=3, batch=4)
    records = crowd(1, 4)
    with Ledger(tmp_path / "ledger.db", epsilon=5.0) as ledger:
        device = Device(records.inputs, records.labels, ledger)
        with pytest.raises(BudgetError):
            device.report(federation.task, federation.parameters, turn=1)
        assert ledger.spent.epsilon == 0
        with pytest.raises(ReportError):
            device.report(Federation(linear(), None, rounds=1, batch=4).task, federation.parameters, turn=1)
    with pytest.raises(ParameterError):
        Device(records.inputs, records.labels, None)  # type: ignore[arg-type]


def test_reports_of_devices_move_the_model_as_the_simulation_does():
    devices = crowd(30, 4)
    federation = Federation(linear(), "UnitVector", rounds=2, epsilon=8.0, local_steps=2, batch=4, clip=0.5)
    task, start = federation.task, federation.parameters.copy()
    updates = task.update(start, devices, np.arange(30), 0, Stream.secure())
    encoder = federation.encoder
    assert encoder is not None
    reports = encoder.randomize(updates)
    moved = federation.absorb(reports)
    np.testing.assert_array_equal(moved, encoder.estimate(encoder.tally(reports)).value)
    np.testing.assert_array_equal(federation.parameters, start + moved)
    halves = encoder.tally(reports[:10]) + encoder.tally(reports[10:])
    np.testing.assert_array_equal(federation.absorb(halves), moved)
    assert federation.guarantee.epsilon == federation.total.epsilon


# What is shown, and what is refused --------------------------------------------------------------------------------


def test_history_plot_and_explanation(tmp_path):
    devices = crowd()
    federation = Federation(linear(), "UnitVector", rounds=3, epsilon=6.0, local_steps=1, batch=4, seed=1)
    assert len(federation.history) == 0
    with pytest.raises(ParameterError, match="public data"):
        federation.plot()
    federation.run(devices, test=(devices.inputs, devices.labels))
    columns = federation.history.columns
    assert list(columns) == ["round", "devices", "accuracy", "loss", "epsilon", "delta"]
    assert columns["epsilon"] == pytest.approx([2.0, 4.0, 6.0])
    assert columns["accuracy"][-1] == federation.score(devices.inputs, devices.labels)
    federation.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000
    words = federation.explain()
    assert all(word in words for word in ("UnitVector", "epsilon 2", "epsilon 6", "ledger"))
    assert "round 3 of 3" in repr(federation)


@pytest.mark.parametrize(
    ("wrong", "options"),
    [
        (ParameterError, {"rounds": 0}),
        (ParameterError, {"epsilon": None}),
        (ParameterError, {"clip": 0.0}),
        (ParameterError, {"clip": math.nan}),
        (ParameterError, {"server_rate": -1.0}),
        (ParameterError, {"momentum": 1.0}),
        (ParameterError, {"budget": "all"}),
        (ParameterError, {"rate": 0.0}),
        (ParameterError, {"decay": -1.0}),
        (ParameterError, {"batch": 0}),
        (ParameterError, {"local_steps": 0}),
        (ParameterError, {"options": {"beta": 0.1}}),
        (ParameterError, {"mechanism": "BallGaussian"}),
        (ParameterError, {"mechanism": LDPVec(9, 1.0), "epsilon": None}),
        (ParameterError, {"mechanism": LDPVec(7, 1.0)}),
    ],
    ids=str,
)
def test_federations_without_meaning_are_refused(wrong, options):
    given = {"mechanism": "best", "rounds": 2, "epsilon": 1.0, **options}
    with pytest.raises(wrong):
        Federation(linear(), given.pop("mechanism"), **given)


def test_models_and_records_that_cannot_be_trained_are_refused():
    good = crowd(4, 5)
    with pytest.raises(ParameterError, match="batch normalisation"):
        Federation(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), rounds=1, epsilon=1.0)
    with pytest.raises(ParameterError):
        Federation(object(), rounds=1, epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="smaller batch"):
        Federation(linear(), "UnitVector", rounds=1, epsilon=1.0, batch=6).run(good)
    bad = Devices(good.inputs, good.labels + 1, good.members)
    with pytest.raises(DomainError, match="from 0 to 1"):
        Federation(linear(), "UnitVector", rounds=1, epsilon=1.0, batch=5).run(bad)
    with pytest.raises(DomainError):
        Federation(linear(), "UnitVector", rounds=1, epsilon=1.0, batch=5).run([1, 2])  # type: ignore[arg-type]
    federation = Federation(linear(), "UnitVector", rounds=3, epsilon=1.0, batch=5)
    federation.step(good)
    with pytest.raises(ParameterError, match="rounds before"):
        federation.step(crowd(5, 5))
    for members in ([], [[0], []], [[0, 99]], [[-1]]):
        with pytest.raises(DitherError):
            Devices(good.inputs, good.labels, members)
    with pytest.raises(DomainError):
        Devices(good.inputs, np.ones(20) / 2, good.members)
    with pytest.raises(DomainError):
        Devices(good.inputs[:3], good.labels, good.members)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["UnitVector", "BallGaussian"])
def test_a_round_of_the_perceptron_of_the_paper(name):
    """001 section 6.3: 3,072 inputs, 200 hidden units, 10 classes, with a budget of a round as there."""
    model = nn.Sequential(nn.Linear(3072, 200), nn.ReLU(), nn.Linear(200, 10))
    inputs = np.random.default_rng(1).normal(size=(6, 3072)).astype(np.float32)
    devices = Devices(inputs, np.arange(6), np.arange(6).reshape(3, 2))
    options: dict[str, Any] = {"delta": 1e-5} if name == "BallGaussian" else {}
    federation = Federation(
        model,
        name,
        rounds=1,
        epsilon=48.5,
        budget="round",
        local_steps=1,
        batch=2,
        seed=1,
        weights=[1, 2, 3],
        **options,
    )
    moved = federation.step(devices)
    assert moved.shape == (616_610,)
    assert np.isfinite(moved).all()
    assert federation.total.epsilon <= 48.5
