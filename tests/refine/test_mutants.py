"""Broken on purpose: each mutant changes a refinement the way a tired programmer might, and a check must notice.

The checks are those of the ordinary tests, as they are; here they run on broken code and have to fail. That they pass
on the code as it is, is what the ordinary tests say.
"""

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dither.core.estimate import MEAN, Bounds
from dither.errors import DitherError
from refine import test_hdr4me as recalibrating
from refine import test_project as projecting
from refine import test_shrink as shrinks

shrinking, hdr4me, project, inputs = (
    importlib.import_module(f"dither.refine.{name}") for name in ("shrink", "hdr4me", "project", "inputs")
)
Patch = pytest.MonkeyPatch
real: dict[str, Any] = vars(shrinking) | {
    name: vars(hdr4me)[f"_{name}"] for name in ("beyond", "shrunk", "risk_change")
}


def caught(check: Callable[..., None], *arguments: Any) -> bool:
    """Whether the check fails as things are now."""
    try:
        check(*arguments)
    except (AssertionError, DitherError, pytest.fail.Exception):
        return True
    return False


# The posterior -------------------------------------------------------------------------------------------------------


def tilted_the_other_way(patch: Patch) -> None:
    def cut_normal(low, high):
        log, mean, variance = real["cut_normal"](low, high)
        return log, -mean, variance

    patch.setattr(shrinking, "cut_normal", cut_normal)


def not_cut(patch: Patch) -> None:
    patch.setattr(
        shrinking, "cut_normal", lambda low, high: (real["cut_normal"](low, high)[0], 0 * low, np.ones_like(low))
    )


def bounds_ignored(patch: Patch) -> None:
    patch.setattr(shrinking, "_span", lambda bounds, y, sigma: Bounds(-1e6, 1e6))


def closed_formulas_everywhere(patch: Patch) -> None:
    patch.setattr(shrinking, "_NARROW", 0.0)
    patch.setattr(shrinking, "_TAIL", np.inf)


def mass_of_the_prior_forgotten(patch: Patch) -> None:
    def components(y, sigma, centres, widths, bounds):
        log, mean, variance = real["components"](y, sigma, centres, widths, bounds)
        return (
            log + real["cut_normal"]((bounds.low - centres) / widths, (bounds.high - centres) / widths)[0],
            mean,
            variance,
        )

    patch.setattr(shrinking, "components", components)


def sigma_off_by_a_tenth(patch: Patch) -> None:
    def values_and_errors(estimate, **options):
        value, stderr = inputs.values_and_errors(estimate, **options)
        return value, 1.1 * stderr

    for module in (shrinking, hdr4me):
        patch.setattr(module, "values_and_errors", values_and_errors)


# The average ---------------------------------------------------------------------------------------------------------


def risk(factor: float = 2.0, held_out: bool = True, noise: float = 1.0) -> Callable[[Any, Any], float]:
    """The estimate of the risk, with something wrong."""

    def wrong(fit, items):
        total = 0.0
        for fold in range(5):
            left = items.fold == fold
            out = items.some(left)
            mean, variance = fit(items.some(~left) if held_out else items).posterior(out.y, out.sigma)
            total += float((((mean - out.y) ** 2 + factor * variance) / out.sigma**2 - noise).sum())
        return total

    return wrong


def stein_without_its_two(patch: Patch) -> None:
    patch.setattr(shrinking, "_risk", risk(factor=1.0))


def noise_not_taken_off(patch: Patch) -> None:
    patch.setattr(shrinking, "_risk", risk(noise=0.0))


def folds_not_held_out(patch: Patch) -> None:
    patch.setattr(shrinking, "_risk", risk(held_out=False))


def weights_upside_down(patch: Patch) -> None:
    patch.setattr(shrinking, "_TEMPERATURE", -4.0)


def weights_that_do_not_add_up(patch: Patch) -> None:
    def weights(items, names):
        return {name: 0.9 * each for name, each in real["_weights"](items, names).items()}

    patch.setattr(shrinking, "_weights", weights)


def em_without_the_old_shares(patch: Patch) -> None:
    def fitted(likely, count, added, shares, *, rounds):
        for _ in range(rounds):
            shares = (count / (likely @ shares)) @ likely + added
            shares = shares / shares.sum()
        return shares

    patch.setattr(shrinking, "_fitted", fitted)


def clusters_counted_from_zero(patch: Patch) -> None:
    def clusters(items):
        prior, step = real["_clusters"](items), items.scale / 2
        return replace(prior, centres=np.round(prior.centres / step) * step)

    patch.setitem(shrinking.PRIORS, "clusters", clusters)


def peak_at_zero(patch: Patch) -> None:
    def peak(items):
        prior = real["_peak"](items)
        return None if prior is None else replace(prior, centres=0 * prior.centres)

    patch.setitem(shrinking.PRIORS, "peak", peak)
    patch.setitem(shrinking.PRIORS, "bell", peak)


def too_many_clusters_still_weigh(patch: Patch) -> None:
    def clusters(items):
        prior = real["_clusters"](items)
        return real["Prior"](np.zeros(1), np.full(1, 1e-3), np.ones(1), items.bounds) if prior is None else prior

    patch.setitem(shrinking.PRIORS, "clusters", clusters)


def original_lost(patch: Patch) -> None:
    def refined(estimate, *parts, **learned):
        return replace(inputs.refined_estimate(estimate, *parts, **learned), original=estimate)

    for module in (shrinking, project, hdr4me):
        patch.setattr(module, "refined_estimate", refined)


# The others ----------------------------------------------------------------------------------------------------------


def adaptive_weights_swapped(patch: Patch) -> None:
    def shrunk(penalty, y, sigma, reach):
        found, slope = real["shrunk"](penalty, y, sigma, reach)
        if penalty == "adaptive":
            one, two = (real["beyond"](limit, sigma) for limit in (1.0, 2.0))
            soft, divided = (real["shrunk"](each, y, sigma, reach)[0] for each in ("l1", "l2"))
            found = (1 - one) * y + two * soft + (one - two) * divided
        return found, slope

    patch.setattr(hdr4me, "_shrunk", shrunk)


def changed(patch: Patch, wrong: Callable[..., tuple[float, float]]) -> None:
    """Another estimate of the change and its standard error."""

    def risk_change(step, slope, sigma, correlation):
        right = real["risk_change"](step, slope, sigma, correlation)
        return hdr4me.RiskChange(*wrong(right, step, slope, sigma))

    patch.setattr(hdr4me, "_risk_change", risk_change)


def product_of_tails(patch: Patch) -> None:
    def wrong(right, step, slope, sigma):
        return (1.0, 0.0) if np.prod(real["beyond"](1.0, sigma)) < 0.5 else (right.change, right.stderr)

    changed(patch, wrong)


def slope_counted_once(patch: Patch) -> None:
    changed(
        patch,
        lambda right, step, slope, sigma: (right.change - np.mean(sigma**2 * slope) / np.mean(sigma**2), right.stderr),
    )


def error_without_the_slope(patch: Patch) -> None:
    def wrong(right, step, slope, sigma):
        return right.change, 2 * np.sqrt(np.sum(sigma**2 * step**2)) / np.sum(sigma**2)

    changed(patch, wrong)


def correlations_forgotten(patch: Patch) -> None:
    patch.setattr(
        hdr4me, "_risk_change", lambda step, slope, sigma, correlation: real["risk_change"](step, slope, sigma, None)
    )


def warned_without_significance(patch: Patch) -> None:
    patch.setattr(hdr4me, "SIGNIFICANT", -1e9)


def slope_of_one(patch: Patch) -> None:
    def shrunk(penalty, y, sigma, reach):
        return real["shrunk"](penalty, y, sigma, reach)[0], np.ones_like(y)

    patch.setattr(hdr4me, "_shrunk", shrunk)


def negative_values_set_to_zero_and_scaled(patch: Patch) -> None:
    def onto_simplex(vector, total=1.0, cap=None):
        positive = np.maximum(vector, 0) + 1e-12
        return positive / positive.sum()

    patch.setattr(project, "onto_simplex", onto_simplex)


def norm_sub_that_does_not_drop(patch: Patch) -> None:
    def norm_sub(estimate):
        found = estimate.value - (estimate.value.sum() - estimate.bounds.total) / estimate.value.size
        return inputs.refined_estimate(estimate, found, estimate.stderr, "")

    patch.setattr("dither.refine.norm_sub", norm_sub)


def norm_sub_in_units_of_the_variance(patch: Patch) -> None:
    def norm_sub(estimate):
        scale = estimate.stderr**2
        low, high = -1e3, 1e3
        while high - low > 1e-12:
            middle = (low + high) / 2
            kept = np.maximum(estimate.value - middle * scale, 0).sum()
            low, high = (middle, high) if kept >= estimate.bounds.total else (low, middle)
        return inputs.refined_estimate(estimate, np.maximum(estimate.value - low * scale, 0), estimate.stderr, "")

    patch.setattr("dither.refine.norm_sub", norm_sub)


VALUE = np.array([0.9, 0.4, 0.2, -0.3])
MUTANTS: list[tuple[Callable[[Patch], None], Callable[..., None], tuple[Any, ...]]] = [
    (tilted_the_other_way, shrinks.check_posterior, ((0.1, 1.0), (0.3, np.inf), (MEAN,))),
    (not_cut, shrinks.check_posterior, ((0.1, 1.0), (0.3, np.inf), (MEAN,))),
    (not_cut, shrinks.check_single_items, ()),
    (bounds_ignored, shrinks.check_single_items, ()),
    (closed_formulas_everywhere, shrinks.check_posterior, ()),
    (mass_of_the_prior_forgotten, shrinks.check_posterior, ((0.1,), (0.3,), (MEAN,))),
    (sigma_off_by_a_tenth, shrinks.check_single_items, ()),
    (sigma_off_by_a_tenth, recalibrating.check_errors, ("l2", 0.7)),
    (stein_without_its_two, shrinks.check_stein, ()),
    (noise_not_taken_off, shrinks.check_stein, ()),
    (folds_not_held_out, shrinks.check_stein, ("clusters",)),
    (weights_upside_down, shrinks.check_weights, ()),
    (weights_that_do_not_add_up, shrinks.check_weights, ()),
    (em_without_the_old_shares, shrinks.check_em, ()),
    (clusters_counted_from_zero, shrinks.check_equivariance, ()),
    (peak_at_zero, shrinks.check_one_cluster, (0.5, 0.3)),
    (too_many_clusters_still_weigh, shrinks.check_crowded_clusters, ()),
    (original_lost, shrinks.check_original, ()),
    (adaptive_weights_swapped, recalibrating.check_adaptive, ()),
    (product_of_tails, recalibrating.check_warnings, ()),
    (warned_without_significance, recalibrating.check_warnings, ()),
    (slope_counted_once, recalibrating.check_stein_change, ("l2", 0.4)),
    (error_without_the_slope, recalibrating.check_stein_change, ("l1", 0.4)),
    (correlations_forgotten, recalibrating.check_correlated_items, ()),
    (slope_of_one, recalibrating.check_errors, ("l1", 0.7)),
    (negative_values_set_to_zero_and_scaled, projecting.check_nearest, (VALUE,)),
    (norm_sub_that_does_not_drop, projecting.check_nearest, (VALUE,)),
    (norm_sub_in_units_of_the_variance, projecting.check_nearest, (VALUE,)),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::dither.errors.HarmWarning")
@pytest.mark.parametrize(("mutant", "check", "arguments"), MUTANTS, ids=[each[0].__name__ for each in MUTANTS])
def test_mutants_are_killed(mutant, check, arguments, monkeypatch):
    assert not arguments or not caught(check, *arguments)  # without arguments it is an ordinary test
    mutant(monkeypatch)
    assert caught(check, *arguments)
