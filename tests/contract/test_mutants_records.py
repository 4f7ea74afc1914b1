"""Records broken on purpose: each mutant changes the code the way a tired programmer might, and a check must notice.

A mutant is a patch and the check that has to fail under it. Checks that the contract suite does not run anyway are
run before the patch, so that one that always fails is not mistaken for one that sees.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from scipy.stats import chi2

import dither
from dither import testing as checks
from dither.core import channel, draw, privacy_losses, subsets
from dither.core import composite_channels as compose
from dither.core.channel import TwoLevel, Walk
from dither.core.composite_channels import Independent
from dither.core.draw import TAG
from dither.core.exact import exp_below
from dither.core.mechanism import Moments
from dither.core.randomness import Stream
from dither.mechanisms import histogram, hybrid, personalised, sampled
from dither.mechanisms import multi_attribute as dimensions
from dither.mechanisms.mean import Mean
from dither.mechanisms.multi_attribute import MultiAttribute
from dither.testing.tapes import EveryTape, ProbeTape


def caught(check, *arguments) -> bool:
    """Whether the check fails as the code is now."""
    try:
        check(*arguments)
    except AssertionError:
        return True
    return False


def mixed() -> dither.Sampled:
    """Bases whose reports have different sizes, in slots of one size."""
    return dither.Sampled(["Duchi", "GRR(k=300)", "Unary(k=30)"], d=3, m=2, epsilon=2.0)


# Checks that the contract does not have -----------------------------------------------------------------------------


def check_subsets(d: int, m: int, bits: int) -> None:
    """Over all tapes every subset, in order, is equally likely."""
    tape = EveryTape(bits, {TAG: min(m, d - m)})
    drawn = subsets.random_subsets(d, m, tape, slice(0, tape.rows))
    rows, inverse = tape.odds()
    found: dict[tuple[int, ...], Fraction] = {}
    for (subset, odds), count in Counter(zip(map(tuple, drawn[rows].tolist()), inverse.tolist(), strict=True)).items():
        found[subset] = found.get(subset, Fraction(0)) + Fraction(count, odds)
    assert found == {subset: Fraction(1, comb(d, m)) for subset in combinations(range(d), m)}


def check_slots(mechanism: dither.Split) -> None:
    """Two slots of the same value have the product law: chi-square on 40,000 users, false alarm 1e-9."""
    reports = mechanism.randomize(np.full((40_000, 2), 1), seed=5)["value"].astype(int)
    law = np.array(mechanism.part(0).channel().row(1), dtype=float)
    expected = 40_000 * np.outer(law, law).reshape(-1)
    found = np.bincount(len(law) * reports[:, 0] + reports[:, 1], minlength=len(expected))
    assert ((found - expected) ** 2 / expected).sum() < chi2.isf(1e-9, len(expected) - 1)


def check_budget(mechanism) -> None:
    """What is reported together keeps the declared epsilon: by the parts' ratios, not by what the whole says."""
    layout, ratio = mechanism.layout, Fraction(1)
    parts = sorted((Fraction(layout.part(j).channel().ratio()) for j in range(layout.d)), reverse=True)
    changed = 2 if isinstance(mechanism, dither.Histogram) else layout.m
    for part in parts[:changed]:
        ratio *= part
    assert ratio <= exp_below(mechanism.epsilon, 120)


def check_marginals(mechanism) -> None:
    """The number and the counts of every dimension are those of its reports."""
    reports = np.asarray(mechanism.randomize(np.zeros((3000, mechanism.d)), seed=1))
    tally = mechanism.tally(reports)
    for j in range(mechanism.d):
        own = reports["value"][reports["dimension"] == j]
        marginal = mechanism.marginal(tally, j)
        assert marginal.n == len(own)
        assert marginal.counts.tolist() == np.bincount(own, minlength=marginal.counts.size).tolist()


def check_forgeries() -> None:
    """A number too wide for its slot, and bytes beyond a short report, are refused."""
    plain = dither.Sampled(["Duchi", "GRR(k=300)"], d=2, m=1, epsilon=2.0)
    wide = mixed()
    for mechanism, place, value in ((plain, 2, 1), (wide, 4, 1), (wide, 5, 128)):
        reports = np.asarray(mechanism.randomize(np.zeros((100, mechanism.d)), seed=1)).copy()
        row = int((reports["dimension"][:, 0] == 0).argmax())
        reports.view(np.uint8).reshape(100, -1)[row, place] = value
        assert mechanism.valid(reports).tolist() == [i != row for i in range(100)]


def check_regions() -> None:
    """Moments on the scale of the region, by enumeration of the reports."""
    checks.check_groups(dither.Personalised("Duchi", {"half": (1.0, 0.0, 1.0), "all of it": 2.0}))


def check_error_bars() -> None:
    """At a large epsilon the error is that of asking a fourth of the users: 1,500 collections, 6 deviations (2e-9)."""
    mechanism = dither.Sampled("Piecewise", d=4, m=1, epsilon=8.0)
    table = np.repeat([-1.0, 1.0], 100)[:, None].repeat(4, axis=1)
    reports = np.asarray(mechanism.randomize(np.tile(table, (1500, 1)), seed=4))
    scores = []
    for part in np.split(reports, 1500):
        estimate = mechanism.estimate(mechanism.tally(part))
        scores.append(estimate.value[0] / estimate.stderr[0])
    assert abs(np.mean(np.square(scores)) - 1) < 6 * (2 / 1500) ** 0.5 + 0.05


def check_convolution() -> None:
    """The divergence of two coordinates is that of the written-out product."""
    law = TwoLevel(4, 1, favoured=2, outputs=4, apart=2, inputs=2, members=lambda x: range(2 * x, 2 * x + 2))
    words = [[a * b for a, b in product(law.row(x), repeat=2)] for x in (0, 1)]
    for ratio in (Fraction(1), Fraction(3), Fraction(10)):
        true = channel.hockey_stick(words[0], words[1], ratio)
        assert Independent((law, law), 2).divergence(ratio) == true


# Subsets -------------------------------------------------------------------------------------------------------------


def test_subsets_that_keep_duplicates(monkeypatch):
    def drawn(d, m, tape, rows):
        bounds = np.arange(d - m + 1, d + 1, dtype=np.uint64)[None, :]
        return draw.below(bounds, tape, rows, lane=TAG, width=m).reshape(-1, m)

    check_subsets(5, 2, 3)
    monkeypatch.setattr(subsets, "_drawn", drawn)
    assert caught(check_subsets, 5, 2, 3)


def test_subsets_whose_duplicates_move_to_the_wrong_number(monkeypatch):
    def drawn(d, m, tape, rows):
        bounds = np.arange(d - m + 1, d + 1, dtype=np.uint64)[None, :]
        taken = draw.below(bounds, tape, rows, lane=TAG, width=m).reshape(-1, m)
        for s in range(1, m):
            again = (taken[:, :s] == taken[:, [s]]).any(axis=1)
            taken[again, s] = d - 1  # not d - m + s
        return taken

    monkeypatch.setattr(subsets, "_drawn", drawn)
    assert caught(check_subsets, 6, 3, 3)


def test_subsets_in_the_order_of_their_draws(monkeypatch):
    # The order would tell nothing, but a server refuses it: half of the honest reports were lost.
    monkeypatch.setattr(subsets.np, "sort", lambda drawn, axis: drawn)
    assert caught(check_subsets, 5, 2, 3)


def test_subsets_by_modulo(monkeypatch):
    def modulo(bound, tape, rows, *, lane, width=1):
        return tape.words(lane, rows, width) % bound

    monkeypatch.setattr(subsets, "below", modulo)
    assert caught(check_subsets, 5, 2, 3)


def test_the_left_out_instead_of_the_chosen(monkeypatch):
    check_subsets(5, 4, 3)
    monkeypatch.setattr(subsets, "_complement", lambda left_out, d: np.sort(left_out, axis=1))
    assert caught(check_subsets, 5, 4, 3)


# Slots ---------------------------------------------------------------------------------------------------------------


def test_slots_that_share_one_tape(monkeypatch):
    # Every slot reads the words of its user.
    split = dither.Split("GRR(k=3)", d=2, epsilon=1.0)
    check_slots(split)
    monkeypatch.setattr(dimensions, "slots_of", lambda rows, m: np.arange(rows.start, rows.stop).repeat(m))
    assert caught(check_slots, split)
    assert caught(checks.check_sampler, split)


def test_parts_that_share_one_tape(monkeypatch):
    # Slots are apart, but one part reads two words a row and the other one: slot 0 of user 2i + 1 reads what slot 1 of
    # user i read before.
    mechanism = dither.Split(["GRR(k=2)", "GRR(k=300)"], d=2, epsilon=2e-9)
    assert mechanism.part(0).channel().total < 1 << 64 < mechanism.part(1).channel().total  # type: ignore[attr-defined]

    def check() -> None:
        reports = mechanism.randomize(np.zeros((60_000, 2), dtype=int), seed=1)["value"]
        own = np.flatnonzero(reports[:30_000, 1] == 0)  # a draw that fell on the value, as one in 300 does
        signs = reports[2 * own + 1, 0]
        assert abs(int(signs.sum()) - len(own) / 2) < 6.2 * len(own) ** 0.5 / 2  # false alarm below 1e-9

    check()
    monkeypatch.setattr(Stream, "slots", lambda self, label, number: self.spawn("slots", str(number)))
    assert caught(check)


def test_a_coin_and_a_draw_that_share_a_word(monkeypatch):
    victim = dither.Hybrid(epsilon=1.0)
    checks.check_sampler(victim)
    monkeypatch.setattr(hybrid, "TAG", draw.DRAW)
    for tape in (EveryTape, ProbeTape):
        monkeypatch.setattr(tape, "slots", lambda self, label, number: self)
    assert caught(checks.check_sampler, victim)


def test_noise_that_depends_on_the_chunk(monkeypatch):
    # Slot numbers are counted from the start of the chunk.
    victim = dither.Sampled("Duchi", d=3, m=2, epsilon=1.0)

    def check() -> None:
        values = np.zeros((5000, 3))
        whole = np.asarray(victim.randomize(values, seed=1))
        halves = np.empty_like(whole)
        tape = Stream.seeded(1, victim.fingerprint)
        for rows in (slice(0, 2000), slice(2000, 5000)):
            victim._fill(halves[rows], values[rows], tape, rows)
        assert (whole == halves).all()

    check()
    monkeypatch.setattr(dimensions, "slots_of", lambda rows, m: slice(0, (rows.stop - rows.start) * m))
    assert caught(check)


# The budget ----------------------------------------------------------------------------------------------------------


def whole_share(total: float, parts: int) -> float:
    return total


def test_epsilon_for_every_dimension(monkeypatch):
    # The certificate of the whole refuses it when it is made.
    monkeypatch.setattr(sampled, "share_below", whole_share)
    with pytest.raises(dither.DitherError, match="do not keep the declared guarantee"):
        dither.SampledDuchi(d=3, m=2, epsilon=1.0)


def test_epsilon_for_every_dimension_with_a_certificate_that_forgets_the_others(monkeypatch):
    monkeypatch.setattr(sampled, "share_below", whole_share)
    monkeypatch.setattr(Independent, "epsilon", property(lambda self: self.factors[0].epsilon))
    victim = dither.SampledDuchi(d=3, m=2, epsilon=1.0)
    assert caught(check_budget, victim)


def test_a_histogram_whose_entries_have_the_full_epsilon(monkeypatch):
    check_budget(dither.Histogram("Duchi", k=3, epsilon=1.0))
    monkeypatch.setattr(histogram, "share_below", whole_share)
    with pytest.raises(dither.DitherError, match="do not keep the declared guarantee"):
        dither.Histogram("Duchi", k=3, epsilon=1.0)
    monkeypatch.setattr(compose.Product, "ratio", lambda self: self.factor.ratio())
    assert caught(check_budget, dither.Histogram("Duchi", k=3, epsilon=1.0))


def test_shares_rounded_to_nearest(monkeypatch):
    # The nearest float to a tenth of 0.7 is above it by a bit in the last place, and so are ten of them.
    def check() -> None:
        for total, parts in product((0.1, 0.7, 1.0), range(1, 20)):
            part = dither.Split("Duchi", d=parts, epsilon=total).part(0)
            assert Fraction(part.epsilon) * parts <= Fraction(total)

    check()
    monkeypatch.setattr(sampled, "share_below", lambda total, parts: total / parts)
    with pytest.raises(dither.DitherError, match="do not keep the declared guarantee"):
        check()


def test_a_root_that_is_rounded_up(monkeypatch):
    # Composition with the ratio split a little too generously: the bound falls below the truth.
    sign, other = TwoLevel(3, 1, 1, 2), channel.Table(((5, 2, 2), (2, 5, 2)))  # a table has no walk

    def check() -> None:
        for ratio in (Fraction(2), Fraction(4), Fraction(13, 2)):
            words = [[a * b for a, b in product(sign.row(x), other.row(x))] for x in (0, 1)]
            assert channel.hockey_stick(words[0], words[1], ratio) <= Independent((sign, other), 2).divergence(ratio)
            assert compose.root_below(ratio, 2) ** 2 <= ratio

    check()
    real = compose.root_below
    monkeypatch.setattr(compose, "root_below", lambda number, degree: real(number, degree) + Fraction(1, 10**30))
    assert caught(check)


def test_a_convolution_that_loses_a_step(monkeypatch):
    check_convolution()
    real = privacy_losses.walked
    monkeypatch.setattr(privacy_losses, "walked", lambda walk, times: real(walk, times - 1))
    assert caught(check_convolution)
    monkeypatch.undo()
    closer = property(lambda self: Walk.of(self.high, self.total - self.high - self.low, self.low))
    monkeypatch.setattr(TwoLevel, "walk", closer)
    assert caught(check_convolution)


# Reading -------------------------------------------------------------------------------------------------------------


def test_error_bars_that_forget_who_was_asked(monkeypatch):
    check_error_bars()
    real = Mean.estimate
    monkeypatch.setattr(
        Mean, "estimate", lambda self, tally, guarantee, source, among=None: real(self, tally, guarantee, source)
    )
    assert caught(check_error_bars)


def test_a_marginal_off_by_one(monkeypatch):
    victim = dither.Sampled("GRR(k=4)", d=3, m=1, epsilon=1.0)
    check_marginals(victim)

    def marginal(self, tally, dimension):
        part, first = self.part(dimension), int(self._starts[dimension])
        counts = tally.counts[first : int(self._starts[dimension + 1]) - 1]
        return dither.Tally(part.fingerprint, int(tally.counts[first]), counts, tally.simulated)

    monkeypatch.setattr(MultiAttribute, "marginal", marginal)
    assert caught(check_marginals, victim)
    assert caught(checks.check_records, victim)


def test_means_scaled_by_all_users(monkeypatch):
    # d/m times the sum over all users, as the papers have it, but with the error bars of the reports alone.
    victim = dither.Sampled("Duchi", d=2, m=1, epsilon=1.0)
    checks.check_records(victim)
    real = MultiAttribute._dimension

    def scaled(self, j, tally, guarantee, source, users):
        found = real(self, j, tally, guarantee, source, users)
        return replace(found, value=found.value * found.n * self.d / (self.m * users))

    monkeypatch.setattr(MultiAttribute, "_dimension", scaled)
    assert caught(checks.check_records, victim)


def test_a_tally_that_counts_every_dimension_as_the_first(monkeypatch):
    victim = dither.Sampled("GRR(k=4)", d=3, m=1, epsilon=1.0)
    real = MultiAttribute.count

    def count(self, reports):
        forged = reports.copy()
        forged["dimension"] = 0
        return real(self, forged)

    monkeypatch.setattr(MultiAttribute, "count", count)
    assert caught(check_marginals, victim)


# Hybrid and groups ---------------------------------------------------------------------------------------------------


def test_a_coin_biased_by_one_per_cent(monkeypatch):
    victim = dither.Hybrid(epsilon=1.0)
    checks.check_sampler(victim)

    def biased(bound, tape, rows, *, lane, width=1):
        drawn = draw.below(bound, tape, rows, lane=lane, width=width)
        return np.where(drawn < bound - bound // 100, drawn, 0)

    monkeypatch.setattr(hybrid, "below", biased)
    # The short coin has eight sides, of which a per cent is none: production reports tell.

    def check() -> None:
        share = victim.share
        branch = np.asarray(victim.randomize(np.zeros(400_000), seed=1)["branch"])
        assert abs(branch.mean() - share) < 6 * (share * (1 - share) / len(branch)) ** 0.5  # false alarm 2e-9

    assert caught(check)
    monkeypatch.setattr(hybrid, "below", draw.below)
    check()


def test_a_coin_with_its_sides_swapped(monkeypatch):
    victim = dither.Hybrid(epsilon=1.0)
    real = dither.Hybrid._fill

    def fill(self, reports, values, tape, rows):
        twin = replace(self)
        (a, sign), (b, window) = self.branches
        vars(twin)["branches"] = ((b, sign), (a, window))
        real(twin, reports, values, tape, rows)

    monkeypatch.setattr(dither.Hybrid, "_fill", fill)
    assert caught(checks.check_sampler, victim)
    assert caught(checks.check_plumbing, victim)


def test_a_region_that_is_forgotten_in_the_variance(monkeypatch):
    check_regions()
    real = personalised.Pooled.moments

    def moments(self, x):
        found, rows = real(self, x), self.domain.check(x)
        half = np.array([group.half for group in self.groups])[rows["group"]]
        return Moments(found.bias, found.variance / half**2, found.third)

    monkeypatch.setattr(personalised.Pooled, "moments", moments)
    assert caught(check_regions)


def test_a_region_that_is_forgotten_in_the_report(monkeypatch):
    victim = dither.Personalised("Duchi", {"half": (1.0, 0.0, 1.0), "all of it": 2.0})
    checks.check_sampler(victim)
    monkeypatch.setattr(personalised, "_scaled", lambda values, group: values)
    assert caught(checks.check_sampler, victim)


def test_groups_that_swap_their_budgets(monkeypatch):
    # The careful are randomized with the generous integers; the certificate of each group alone is right.
    victim = dither.Personalised("Duchi", {"careful": 0.5, "generous": 2.0})
    real = dither.Personalised._fill

    def fill(self, reports, values, tape, rows):
        twin = replace(self)
        vars(twin)["reading"] = personalised.Pooled(self.groups, self.reading.parts[::-1])
        real(twin, reports, values, tape, rows)

    monkeypatch.setattr(dither.Personalised, "_fill", fill)
    assert caught(checks.check_sampler, victim)
    assert caught(checks.check_plumbing, victim)


# Forgeries -----------------------------------------------------------------------------------------------------------


def test_a_number_too_wide_for_its_slot_is_accepted(monkeypatch):
    check_forgeries()
    real = MultiAttribute._load

    def load(self, slots, here, part):
        own, fits = real(self, slots, here, part)
        return own, np.ones_like(fits) if self._plain else fits

    monkeypatch.setattr(MultiAttribute, "_load", load)
    assert caught(check_forgeries)


def test_bytes_beyond_a_short_report_are_not_looked_at(monkeypatch):
    real = MultiAttribute._load

    def load(self, slots, here, part):
        own, fits = real(self, slots, here, part)
        return own, fits if self._plain else np.ones_like(fits)

    monkeypatch.setattr(MultiAttribute, "_load", load)
    assert caught(check_forgeries)


def test_dimensions_out_of_order_are_accepted(monkeypatch):
    victim = dither.SampledDuchi(d=4, m=2, epsilon=1.0)

    def check() -> None:
        reports = np.asarray(victim.randomize(np.zeros((50, 4)), seed=1)).copy()
        reports["dimension"][7] = reports["dimension"][7][::-1].copy()
        reports["dimension"][9] = 2
        assert victim.valid(reports).tolist() == [i not in (7, 9) for i in range(50)]

    check()
    real = MultiAttribute.valid

    def valid(self, reports):
        ordered = reports.copy()
        ordered["dimension"] = np.arange(self.m)
        return real(self, ordered)

    monkeypatch.setattr(MultiAttribute, "valid", valid)
    assert caught(check)


def test_unchecked_numbers_are_not_clipped(monkeypatch):
    # With invalid="clip" a table of floats is handed on as it is: the last line of defence is `_within`.
    victim = dither.Split("Duchi", d=2, epsilon=1.0)

    def check() -> None:
        junk = np.array([[7.0, np.nan], [-np.inf, 0.5]] * 50)
        mended = np.array([[1.0, 0.0], [-1.0, 0.5]] * 50)
        with np.errstate(invalid="ignore"):
            found = victim.randomize(junk, seed=1, invalid="clip")
        assert (found == victim.randomize(mended, seed=1)).all()

    check()
    monkeypatch.setattr(dimensions, "_within", lambda part, values: values.astype(np.float64))
    assert caught(check)
