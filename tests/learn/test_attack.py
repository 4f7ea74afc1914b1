"""Membership inference: exact numbers, a bound that keeps its level, and attacks that find what there is to find.

Nearly everything here is exact or runs from a fixed seed. Statistical thresholds are binomial quantiles for a false
alarm of 1e-7 each, and there are three of them.
"""

import math
import pickle
import struct
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.stats import binom

from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.parallel import small_matrices
from dither.core.randomness import Stream
from dither.errors import DomainError, ParameterError
from dither.learn import attack
from dither.learn.attack import SoftmaxTrainer, chance, likelihood_ratio, log_odds, loss_threshold, losses, softmax
from dither.learn.attack.membership_bound import _begin, _largest
from dither.learn.attack.shadows import shadow_halves

ALARM = 1e-7


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """The models are small: threads would only wait for each other."""
    with small_matrices():
        yield


def uniform(seed: int, *shape: int) -> np.ndarray:
    """Numbers in [-1, 1)."""
    words = Stream.seeded(seed, "attack tests").words(lane=0, rows=slice(0, shape[0]), width=math.prod(shape[1:]))
    return (words / 2.0**63 - 1).reshape(shape)


def by_heart(seed: int, n: int, width: int):
    """Records whose labels mean nothing: whatever a model knows about them it has learned by heart."""
    table = uniform(seed, 2 * n, width + 1)
    inputs, labels = table[:, 1:], (table[:, 0] > 0).astype(int)
    return (inputs[:n], labels[:n]), (inputs[n:], labels[n:])


# Exact numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_the_area_is_that_of_mann_and_whitney_with_ties_counted_half(levels):
    ours, theirs = (np.floor(levels * uniform(seed, n, 1)[:, 0]) for seed, n in ((1, 83), (2, 57)))
    wins = (ours[:, None] < theirs).mean() + 0.5 * (ours[:, None] == theirs).mean()
    found = loss_threshold(ours, theirs, seed=1)
    assert found.area.value == pytest.approx(wins, abs=1e-14)
    assert found.area.low < wins < found.area.high


def test_a_perfect_attacker():
    found = loss_threshold(np.arange(200) / 1000, 1 + np.arange(200), seed=1, confidence=0.95)
    assert found.area.value == found.accuracy.value == 1.0
    assert found.found[0.01].value == found.found[0.001].value == 1.0
    assert 0.9 < found.area.low < 1
    assert 0.9 < found.accuracy.low < 1
    assert (found.guesses, found.right, found.tested) == (100, 100, 100)
    q = 0.05 ** (1 / 100)  # Clopper and Pearson, of 100 in 100
    assert found.epsilon == pytest.approx(math.log(q / (1 - q)) / 2, abs=1e-9)
    replaced = loss_threshold(np.arange(200) / 1000, 1 + np.arange(200), seed=1, confidence=0.95, relation="replace")
    assert replaced.epsilon == pytest.approx(2 * found.epsilon, abs=1e-9)


def test_a_threshold_among_ties_is_the_one_that_is_used():
    found = loss_threshold(np.zeros(40), np.ones(40), seed=1)
    assert found.accuracy.value == found.area.value == 1.0


def test_a_useless_attacker_who_sees_the_same_loss_everywhere():
    found = loss_threshold(np.ones(500), np.ones(300), seed=1, coins=True)
    assert found.area.value == found.accuracy.value == 0.5
    assert found.epsilon == 0
    assert found.found[0.01].value == 0
    assert found.tested == 400  # a coin for each record, and half of them are tested
    paired = loss_threshold(np.ones(500), np.ones(300), seed=1)
    assert paired.epsilon == 0
    assert paired.tested == 150  # a coin for each pair


def test_an_attacker_who_has_it_backwards_proves_nothing():
    found = loss_threshold(1 + np.arange(100), np.arange(100) / 1000, seed=1)
    assert found.area.value == 0
    assert found.epsilon == 0


def test_members_found_at_a_share_of_others_accused():
    ours = np.concatenate([np.full(30, 0.0), np.full(70, 2.0)])
    theirs = np.concatenate([np.full(1, 0.0), np.full(99, 1.0)])
    found = loss_threshold(ours, theirs, seed=1)
    assert found.found[0.01].value == 0.3  # one in a hundred may be accused
    assert found.found[0.001].value == 0.0
    assert found.found[0.01].low == pytest.approx(0.1890, abs=1e-4)  # Clopper and Pearson at 99%


def test_the_curve_runs_from_corner_to_corner_and_is_thinned():
    ours, theirs = uniform(3, 4000, 1)[:, 0] - 0.5, uniform(4, 4000, 1)[:, 0]
    found = loss_threshold(ours, theirs, seed=1)
    assert len(found.hits) == len(found.false_alarms) <= 512
    for share in (found.hits, found.false_alarms):
        assert share[0] == 0
        assert share[-1] == 1
        assert (np.diff(share) >= 0).all()
    assert np.trapezoid(found.hits, found.false_alarms) == pytest.approx(found.area.value, abs=2e-3)


# The bound -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 7, 40])
@pytest.mark.parametrize("delta", [0.0, 1e-4, 0.02])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_no_private_mechanism_is_guessed_more_often_than_chance_says(m, delta, epsilon):
    q = 1 / (1 + math.exp(-epsilon))
    for v in range(m + 1):
        allowed = chance(v, m, m, epsilon, delta)
        kept = binom.sf(v - 1, m, q)
        each_on_its_own = binom.sf(v - 1, m, q + (1 - q) * delta)
        assert max(kept, each_on_its_own) <= allowed + 1e-12
        for block in range(1, m + 1):  # with probability m delta / block, so many are shown
            shown = min(1.0, m * delta / block)
            some = (1 - shown) * kept + shown * binom.sf(v - block - 1, m - block, q)
            assert some <= allowed + 1e-12


@pytest.mark.parametrize("miss", [0.06, 0.08, 0.1])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("block", [5, 10, 20])
def test_the_number_of_guesses_may_depend_on_the_model(miss, epsilon, block):
    """With probability m delta / block so many coins are shown and only they are guessed, or else all, exactly."""
    m, delta = 1000, 1e-4
    shown, q = m * delta / block, 1 / (1 + math.exp(-epsilon))
    wrong = shown * (chance(block, block, m, epsilon, delta) <= miss)
    least = next((v for v in range(m + 1) if chance(v, m, m, epsilon, delta) <= miss), None)
    wrong += 0.0 if least is None else (1 - shown) * binom.sf(least - 1, m, q)
    assert wrong <= miss


def test_without_delta_it_is_the_binomial_tail():
    assert chance(75, 100, 100, math.log(3), 0.0) == pytest.approx(binom.sf(74, 100, 0.75), rel=1e-12)
    assert chance(0, 100, 100, 1.0, 0.0) == 1.0
    assert chance(100, 100, 200, 0.0, 1e-4) == pytest.approx(0.5**100 + 200 * 1e-4 / 2, rel=1e-12)
    assert chance(100, 100, 100, 5000.0, 0.5) == 1.0


@pytest.mark.wide
@pytest.mark.parametrize("mode", ["coins", "pairs", "replace"])
def test_the_bound_keeps_its_level_and_is_tight(mode):
    """Randomized response of the membership: the epsilon is known. False alarm 1e-7 each."""
    epsilon, runs, n = 1.0, 300, 80
    share = epsilon / 2 if mode == "replace" else epsilon  # who replaces a record changes two bits
    q = 1 / (1 + math.exp(-share))
    options: dict = {"coins": mode == "coins", "relation": "replace" if mode == "replace" else "add-or-remove"}

    def bound(seed: int, n: int, confidence: float) -> float:
        stream = Stream.seeded(seed, mode)
        truth = stream.below(2, 2 * n, lane=0) == 1 if mode == "coins" else np.arange(2 * n) < n
        told = truth ^ (stream.below(1 << 53, 2 * n, lane=1) / 2.0**53 >= q)
        found = loss_threshold(1.0 - told[truth], 1.0 - told[~truth], seed=seed, confidence=confidence, **options)
        return found.epsilon

    wrong = sum(bound(seed, n, 0.9) > epsilon for seed in range(runs))
    assert wrong <= binom.isf(ALARM, runs, 0.1)
    assert wrong > 0  # it is not weak out of mere caution
    assert 0.75 < bound(1, 30_000, 1 - ALARM) <= 1.0


@pytest.mark.parametrize("mode", ["coins", "replace", "pairs"])
def test_what_delta_adds_is_taken_where_it_is_half_of_what_may_go_wrong(mode):
    """Of one who knows nearly all coins."""
    options: dict = {"coins": mode == "coins", "relation": "replace" if mode == "replace" else "add-or-remove"}
    n, small = 6000, 1e-5
    found = loss_threshold(np.zeros(n), np.ones(n), delta=small, seed=1, **options)
    at = found.epsilon

    def bound(epsilon: float, delta: float = small) -> float:
        if mode == "pairs":
            return chance(found.right, found.guesses, found.tested, 2 * epsilon, (1 + math.exp(epsilon)) * delta)
        return chance(found.right, found.guesses, found.tested, epsilon, delta)

    assert bound(0.0) > 0.01  # so that a search from 0 on would prove nothing
    assert bound(at) <= 0.01
    assert bound(at, 0.0) == pytest.approx(0.005, rel=1e-6)
    tiny = loss_threshold(np.zeros(n), np.ones(n), delta=1e-6, seed=1, **options)
    added = tiny.tested * 1e-6 * (1.0 if mode == "pairs" else 0.5)  # at epsilon 0; a pair costs delta twice
    assert bound(tiny.epsilon, 0.0) == pytest.approx(0.01 - added, rel=1e-6)
    hopeless = loss_threshold(np.zeros(n), np.ones(n), delta=0.01, seed=1, **options)
    assert hopeless.epsilon == 0  # what delta allows is seen before epsilon is


@pytest.mark.parametrize("delta", [1e-4, 0.002, 0.005])
def test_the_bound_keeps_its_level_with_a_delta(delta):
    """Each coin is shown with probability delta, or else told with epsilon. Exact."""
    tested, miss, epsilon = 50, 0.05, 1.0
    q = 1 / (1 + math.exp(-epsilon))
    begin, added = _begin(tested, delta, 1, miss)
    assert added <= miss / 2
    assert (begin > 0) == (tested * delta / 2 > miss / 2)

    def proves(right: int) -> float:
        def refuted(at: float) -> bool:
            return chance(right, tested, tested, at) <= miss - added

        return _largest(refuted, begin, 40.0) if refuted(begin) else 0.0

    wrong = [right for right in range(tested + 1) if proves(right) > epsilon]
    assert wrong  # or else nothing would be tested here
    assert binom.sf(wrong[0] - 1, tested, q + (1 - q) * delta) <= miss


def test_a_delta_weakens_the_bound_and_a_large_one_ends_it():
    ours, theirs = np.arange(400) / 1000, 1 + np.arange(400)
    strong, weaker, none = (loss_threshold(ours, theirs, seed=1, delta=delta).epsilon for delta in (0.0, 1e-4, 0.5))
    assert strong > weaker > 1
    assert none == 0


def test_a_certificate_stands_or_is_refuted_in_words():
    ours, theirs = np.arange(400) / 1000, 1 + np.arange(400)
    refuted = loss_threshold(ours, theirs, certificate=Guarantee(1.0, 1e-6, "bound"), seed=1)
    assert refuted.refuted
    assert "REFUTED" in str(refuted)
    assert "REFUTED" in str(refuted.table())
    assert refuted.delta == 1e-6
    stands = loss_threshold(ours, theirs, certificate=Guarantee(8.0, 1e-6, "bound"), seed=1)
    assert not stands.refuted
    assert "the certificate stands" in str(stands)
    seeded = loss_threshold(ours, theirs, certificate=NO_GUARANTEE, seed=1)
    assert not seeded.refuted
    assert "no certificate" in str(seeded)
    assert not loss_threshold(ours, theirs, certificate=Guarantee(0.1, 0.0, "simulated"), seed=1).refuted


# Models --------------------------------------------------------------------------------------------------------------


def test_the_loss_of_all_kinds_of_models_is_the_same():
    torch = pytest.importorskip("torch")
    weights, inputs = uniform(5, 6, 3), uniform(6, 40, 5)
    labels = np.arange(40) % 3
    model = attack.Softmax(weights)
    module = torch.nn.Linear(5, 3).double()
    with torch.no_grad():
        module.weight.copy_(torch.as_tensor(weights[:5].T))
        module.bias.copy_(torch.as_tensor(weights[5]))

    class Classifier:
        classes_ = np.array(["a", "b", "c"])
        predict_proba = staticmethod(model)

    class Trained:  # as DPSGD holds what it has trained
        model = module

    names = Classifier.classes_[labels]
    np.testing.assert_array_equal(losses(Trained(), inputs, labels), losses(module, inputs, labels))
    expected = -np.log(model(inputs)[np.arange(40), labels])
    for found in (losses(model, inputs, labels), losses(module, inputs, labels), losses(Classifier(), inputs, names)):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    p = np.exp(-expected)
    for found in (log_odds(model, inputs, labels), log_odds(module, inputs, labels)):
        np.testing.assert_allclose(found, np.log(p / (1 - p)), atol=1e-9)
    assert module.training  # as it was


def test_a_module_with_one_logit_has_two_labels():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 1).double()
    inputs = uniform(7, 30, 2)
    logits = module(torch.as_tensor(inputs)).detach().numpy()[:, 0]
    np.testing.assert_allclose(log_odds(module, inputs, np.ones(30, dtype=int)), logits, atol=1e-12)
    np.testing.assert_allclose(log_odds(module, inputs, np.zeros(30, dtype=int)), -logits, atol=1e-12)


def test_all_models_at_once_are_each_of_them_alone():
    trainer = SoftmaxTrainer(classes=3, steps=30, penalty=0.01)
    inputs, labels = uniform(8, 50, 4), np.arange(50) % 3
    seen = uniform(9, 50, 6).T > 0
    together = trainer.many(inputs, labels, seen)
    for weights, chosen in zip(together, seen, strict=True):
        np.testing.assert_allclose(weights, trainer(inputs[chosen], labels[chosen]).weights, atol=1e-12)


def test_every_record_is_in_half_of_the_shadow_models():
    inside = shadow_halves(Stream.seeded(1), 12, 500)
    assert inside.shape == (12, 500)
    assert (inside.sum(axis=0) == 6).all()
    assert len({row.tobytes() for row in inside.T}) > 300  # not always the same half
    assert abs(inside.sum(axis=1) - 250).max() < 80  # five standard deviations and more


def test_the_nearest_neighbour_is_caught():
    neighbors = pytest.importorskip("sklearn.neighbors")
    ours, theirs = by_heart(10, 300, 8)
    model = neighbors.KNeighborsClassifier(1).fit(*ours)
    found = loss_threshold(ours, theirs, model, seed=1, certificate=Guarantee(0.5))
    assert found.area.value > 0.7
    assert found.refuted


@pytest.mark.parametrize("online", [True, False])
def test_an_overfitted_model_is_caught_and_a_constant_one_is_not(online):
    ours, theirs = by_heart(11, 150, 150)
    trainer = SoftmaxTrainer(classes=2, steps=100)
    caught = likelihood_ratio(ours, theirs, trainer(*ours), trainer, shadows=16, online=online, seed=1)
    assert caught.area.low > 0.5
    assert caught.accuracy.value > 0.6
    constant = attack.Softmax(np.zeros((151, 2)))
    spared = likelihood_ratio(ours, theirs, constant, trainer, shadows=16, online=online, seed=1)
    assert 0.4 < spared.area.value < 0.6
    assert spared.epsilon < 0.3


def test_the_likelihood_ratio_sees_through_records_of_different_difficulty():
    """Half of the records are easy, with or without; the loss threshold takes easy for member."""
    n, width = 200, 60
    table = uniform(12, 2 * n, width + 2)
    inputs, hard = table[:, 2:], table[:, 1] > 0
    labels = np.where(hard, table[:, 0] > 0, inputs[:, 0] > 0).astype(int)
    inputs[~hard, 0] *= 6  # easy: far from the border
    ours, theirs = (inputs[:n], labels[:n]), (inputs[n:], labels[n:])
    trainer = SoftmaxTrainer(classes=2, steps=80, rate=0.5)
    model = trainer(*ours)
    simple = loss_threshold(ours, theirs, model, seed=1)
    better = likelihood_ratio(ours, theirs, model, trainer, shadows=64, seed=1)
    assert better.area.value > simple.area.value + 0.05
    assert better.found[0.01].value > 3 * simple.found[0.01].value


def test_offline_shadows_of_another_population_and_a_trainer_of_ones_own():
    ours, theirs = by_heart(13, 100, 100)
    population, _ = by_heart(14, 200, 100)
    trainer = SoftmaxTrainer(classes=2, steps=60)
    seeds = []

    def train(inputs, labels, seed):
        seeds.append(seed)
        return trainer(inputs, labels, seed)

    options = {"shadows": 8, "online": False, "population": population, "seed": 3}
    one = likelihood_ratio(ours, theirs, trainer(*ours), train, **options)
    other = likelihood_ratio(ours, theirs, trainer(*ours), trainer, **options)
    assert one.area.value == pytest.approx(other.area.value, abs=1e-9)
    assert one.area.low > 0.5
    assert len(set(seeds)) == 8


def test_shadows_of_another_population_all_speak_about_every_record():
    odds = 3 * uniform(20, 5, 60)  # of four shadow models and the one under attack, in 60 records
    where = np.arange(60.0)[:, None]
    numbers = iter(range(4))

    def model(number: int):
        def shown(inputs):
            p = 1 / (1 + np.exp(-odds[number, inputs[:, 0].astype(int)]))
            return np.stack([1 - p, p], axis=1)

        return shown

    ours, theirs = ((where[part], np.ones(30, dtype=int)) for part in (slice(30), slice(30, 60)))
    found = likelihood_ratio(
        ours, theirs, model(4), lambda *_: model(next(numbers)), shadows=4, online=False, population=ours, seed=1
    )
    score = odds[4] - odds[:4].mean(axis=0)  # one spread for all
    assert found.area.value == pytest.approx((score[:30, None] > score[30:]).mean(), abs=1e-12)


# What is kept and shown ----------------------------------------------------------------------------------------------


def test_nothing_of_the_records_is_kept():
    secret = 0.123456789012345
    ours = np.full(64, secret)
    found = loss_threshold(ours, uniform(15, 64, 1)[:, 0] + 3, seed=1)
    kept = pickle.dumps(found)
    assert struct.pack("<d", secret) not in kept
    assert struct.pack("<d", -secret) not in kept
    assert struct.pack(">d", secret) not in kept
    for text in (repr(found), str(found), str(found.table())):
        assert "0.1234" not in text
    assert str(pickle.loads(kept)) == str(found)


def test_a_seed_repeats_and_without_one_the_halves_are_drawn_afresh():
    ours, theirs = uniform(16, 500, 1)[:, 0] - 0.3, uniform(17, 500, 1)[:, 0]
    assert str(loss_threshold(ours, theirs, seed=1).table()) == str(loss_threshold(ours, theirs, seed=1).table())
    drawn = {str(loss_threshold(ours, theirs).accuracy) for _ in range(12)}
    assert len(drawn) > 1


def test_table_words_and_plot(tmp_path):
    found = loss_threshold(uniform(18, 300, 1)[:, 0] - 0.5, uniform(19, 300, 1)[:, 0], seed=1)
    beside = attack.attacks_table({"one": found, "two": found}, accuracy={"one": 0.9, "two": 0.8})
    assert len(beside) == 2
    assert "accuracy" in beside.columns
    assert "accuracy" not in attack.attacks_table({"one": found}).columns
    with pytest.raises(ParameterError, match="every model"):
        attack.attacks_table({"one": found}, accuracy={"two": 0.8})
    found.plot(tmp_path / "roc.svg")
    assert (tmp_path / "roc.svg").stat().st_size > 1000


# Bad input -----------------------------------------------------------------------------------------------------------

FINE = np.arange(20.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: loss_threshold(FINE[:7], FINE), "at least 8"),
        (lambda: loss_threshold(np.where(FINE == 3, np.nan, FINE), FINE), "not a number"),
        (lambda: loss_threshold("losses", FINE), "list of numbers"),
        (lambda: loss_threshold(FINE, FINE, relation="swap"), "relation must be"),
        (lambda: loss_threshold(FINE, FINE, relation="replace", coins=True), "needs a split"),
        (lambda: loss_threshold(FINE, FINE, certificate=1.0), "model.guarantee"),  # type: ignore[arg-type]
        (lambda: loss_threshold(FINE, FINE, certificate=Guarantee(1.0), delta=0.1), "leave delta out"),
        (lambda: loss_threshold(FINE, FINE, confidence=1.0), "confidence"),
        (lambda: loss_threshold(FINE, FINE, model=lambda inputs: inputs), "pair"),
        (lambda: chance(3, 2, 5, 1.0), "right must be at most"),
        (lambda: chance(-1, 2, 5, 1.0), "right must be at least"),
        (lambda: chance(1, 6, 5, 1.0), "guesses must be at most"),
        (lambda: chance(1, 2, 2.5, 1.0), "tested must be a whole"),  # type: ignore[arg-type]
        (lambda: chance(1, 2, 5, -1.0), "epsilon must be"),
        (lambda: chance(1, 2, 5, math.inf), "epsilon must be"),
        (lambda: chance(1, 2, 5, math.nan), "epsilon must be"),
        (lambda: chance(1, 2, 5, 1.0, 1.5), "delta lie"),
        (lambda: chance(1, 2, 5, 1.0, math.nan), "delta lie"),
        (lambda: losses(3, FINE, FINE), "give losses"),
        (lambda: losses(lambda inputs: np.ones((20, 2)), FINE, FINE.astype(int)), "softmax"),
        (lambda: losses(lambda inputs: np.full((20, 2), 0.5), FINE, np.full(20, 7)), "0 to 1"),
        (lambda: losses(lambda inputs: np.full((20, 2), 0.5), FINE, np.zeros(19, dtype=int)), "19 labels"),
        (lambda: SoftmaxTrainer(classes=1), "classes"),
        (lambda: SoftmaxTrainer(classes=2, rate=0.0), "rate"),
        (lambda: SoftmaxTrainer(classes=2)(np.full((3, 2), np.nan), np.zeros(3, dtype=int)), "finite"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises((DomainError, ParameterError), match=message):
        call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shadows": 7}, "even"),
        ({"shadows": 2}, "at least 4"),
        ({"population": by_heart(1, 10, 3)[0]}, "online=False"),
        ({"train": "sgd"}, "train must be"),
        ({"relation": "swap"}, "relation must be"),
        ({"relation": "replace", "coins": True}, "needs a split"),
        ({"certificate": 1.0}, "model.guarantee"),
        ({"certificate": Guarantee(1.0), "delta": 0.1}, "leave delta out"),
        ({"certificate": Guarantee(1.0, neighbours="add-remove"), "relation": "replace"}, "does not refute it"),
        ({"delta": 1.0}, "delta"),
        ({"confidence": 1.0}, "confidence"),
        ({"seed": "one"}, "seed"),
        ({"population": by_heart(1, 7, 3)[0], "online": False}, "population needs at least 8"),
        ({"members": by_heart(1, 7, 3)[0]}, "at least 8"),
        ({"others": by_heart(1, 7, 3)[0]}, "at least 8"),
        ({"model": 3}, "give losses"),
    ],
)
def test_bad_shadows_are_refused_before_any_is_trained(options, message):
    ours, theirs = by_heart(1, 10, 3)

    def train(*_):
        raise AssertionError("trained")

    model = SoftmaxTrainer(classes=2, steps=2)(*ours)
    with pytest.raises(ParameterError, match=message):
        likelihood_ratio(**{"members": ours, "others": theirs, "model": model, "train": train, **options})


def test_small_products_are_left_to_one_thread(monkeypatch):
    entered = []

    @contextmanager
    def spy():
        entered.append(True)
        yield

    monkeypatch.setattr(softmax, "small_matrices", spy)
    ours, _ = by_heart(1, 10, 3)
    small = SoftmaxTrainer(classes=2, steps=2)(*ours)
    assert entered == [True]
    monkeypatch.setattr(softmax, "_SMALL", 1)
    assert (SoftmaxTrainer(classes=2, steps=2)(*ours).weights == small.weights).all()
    assert entered == [True]


def test_an_unknown_label_of_a_classifier_is_refused_without_quoting_it():
    class Classifier:
        classes_ = np.array(["no", "yes"])

        @staticmethod
        def predict_proba(inputs):
            return np.full((len(inputs), 2), 0.5)

    with pytest.raises(DomainError) as refused:
        losses(Classifier(), np.zeros((2, 1)), np.array(["no", "secret"]))
    assert "secret" not in str(refused.value)
