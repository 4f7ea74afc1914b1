"""What chapter 5 of 001 claims, and how the numbers decide it."""

import math

from dither.reproduce.claims import Claim, Verdict, by_criterion, corrected, holds, refuted, undecided
from dither.reproduce.measured import Measured, Row

from .central_training import CNN, RESNET
from .gradient_directions import BATCHES, BETAS, DIMENSIONS, DIRECTIONS, SIGMA, SIGMAS
from .membership import MEMBERSHIP
from .step_analysis import AVERAGES, CONVERSION_TIME, EQUAL, EQUAL_PRIVACY, EQUAL_RATES, STEP_LAW, STEP_PRIVACY

_CLEAR = 3.0  # standard errors that a difference must exceed


def _told(row: Row, digits: int = 3) -> str:
    """A number with its standard error."""
    error = f" ± {row.stderr:.1g}" if row.stderr > 0 else ""
    return f"{row.value:.{digits}g}{error}"


def _above(one: Row, other: Row, by: float = 0.0) -> bool:
    """Whether one number is larger than another by so much, beyond what noise explains."""
    errors = [each.stderr for each in (one, other) if each.stderr > 0]
    return one.value - other.value > by + _CLEAR * math.hypot(*errors)


def _gain(one: Row, other: Row) -> str:
    """A difference with its standard error."""
    return f"{one.value - other.value:+.2g} ± {math.hypot(one.stderr, other.stderr):.1g}"


def efficiency(found: Measured) -> Verdict:
    """Claim 13: the identity, and the law that follows from it."""
    off = max(row.value for row in found.select(quantity="largest error of the identity").rows)
    ratio = found.row(quantity="mean over its law", at="away from the optimum")
    spread = found.row(quantity="deviation over its law", at="away from the optimum")
    fine = off < 1e-9 and abs(ratio.value - 1) < 0.01 + _CLEAR * (ratio.stderr or 0)
    return by_criterion(
        fine, f"off by {off:.1g} at most; simulated over predicted mean {_told(ratio, 4)}, deviation {_told(spread, 4)}"
    )


def no_rest(found: Measured) -> Verdict:
    """Claim 14: at the optimum, noise leads away on average."""
    mean = found.row(quantity="mean of item A", at="at the optimum")
    return by_criterion(mean.value > _CLEAR * mean.stderr, f"mean of item A at the optimum {_told(mean)} > 0")


def item_b(found: Measured) -> Verdict:
    """Claim 15: halved rates and clips halve item B."""
    whole, rate, clip = (found.value(quantity="deviation of item B", at=at) for at in ("η, C", "η / 2, C", "η, C / 2"))
    evidence = f"deviation of item B {whole:.3g}; at half the rate {rate:.3g}, at half the clip {clip:.3g}"
    still = rate > 0.9 * whole and clip > 0.9 * whole
    return by_criterion(
        still, f"{evidence}. What stays is the angle, of a gradient that is clipped along with it (Example 1)"
    )


def batch_and_direction(found: Measured) -> Verdict:
    """Claim 16: DP's direction error over batches."""
    here = found.select(d=10000, sigma=SIGMA, beta=1.0)
    divided = [here.row(B=batch, line="θ, DP") for batch in (BATCHES[0], BATCHES[-1])]
    whole = [here.row(B=batch, line="θ, DP, noise not divided by B") for batch in (BATCHES[0], BATCHES[-1])]
    evidence = (
        f"squared error of DP's direction {_told(divided[0])} at B = {BATCHES[0]}, {_told(divided[1])} at "
        f"{BATCHES[-1]}; "
        f"it stays ({_told(whole[0])}, {_told(whole[1])}) only if the noise is not divided by B, against eq. 5.5"
    )
    return by_criterion(divided[0].value < 2 * divided[1].value, evidence)


def biased_angles(found: Measured) -> Verdict:
    """Claim 17: which angles are biased."""
    rows = found.select(quantity="bias of angle").rows
    biased = [abs(row.value) > _CLEAR * row.stderr for row in rows]
    evidence = f"biases of the angles of one vector: {', '.join(_told(row, 2) for row in rows)}"
    if all(biased):
        return holds(evidence)
    if all(biased[:-1]):
        return corrected(
            f"{evidence}: all but the last, which has none, since the noise is symmetric around the vector"
        )
    return refuted(evidence)


def some_beta(found: Measured) -> Verdict:
    """Claim 18: a bounding factor with a smaller error of directions than DP."""
    told, best = [], {"as printed": True, "without step 5": True}
    for d in DIMENSIONS:
        here = found.select(d=d, B=4096, sigma=SIGMA)
        dp = here.value(line="θ, DP", beta=1.0)
        least = {each: min(here.value(line=f"θ, GeoDP {each}", beta=beta) for beta in BETAS) for each in best}
        best = {each: best[each] and least[each] < dp for each in best}
        told.append(
            f"d = {d}: DP {dp:.3g}, as printed {least['as printed']:.3g}, without {least['without step 5']:.3g}"
        )
    evidence = f"least over β, with and without step 5; {'; '.join(told)}"
    if best["as printed"]:
        return holds(evidence)
    reason = "only without the clip of step 5, and then nothing bounds a direction and the noise promises nothing"
    return corrected(f"{evidence}: {reason}") if best["without step 5"] else refuted(evidence)


def beta_one(found: Measured) -> Verdict:
    """Claim 19: Fig. 5.3 (a)."""
    here = found.select(d=5000, B=2048, beta=1.0)
    pairs = [(s, here.row(sigma=s, line="θ, GeoDP as printed"), here.row(sigma=s, line="θ, DP")) for s in SIGMAS[:5]]
    told = ", ".join(f"{_told(geo)} against {_told(dp)} at σ = {s:g}" for s, geo, dp in pairs)
    return by_criterion(
        all(_above(dp, geo) for _, geo, dp in pairs), f"squared error of directions, GeoDP against DP: {told}"
    )


def small_beta(found: Measured) -> Verdict:
    """Claim 20: Fig. 5.3 (b) and (c), direction and gradient, at every noise."""
    here = found.select(d=5000, B=2048)

    def wins(form: str, beta: float) -> bool:
        lines = [(f"{what}, GeoDP {form}", f"{what}, DP") for what in "θg"]
        return all(
            here.value(sigma=s, beta=beta, line=geo) < here.value(sigma=s, beta=beta, line=dp)
            for s in SIGMAS
            for geo, dp in lines
        )

    won = {(form, beta): wins(form, beta) for form in ("as printed", "without step 5") for beta in (0.1, 0.01)}
    told = "; ".join(
        f"{form}, β = {beta:g}: θ {here.value(sigma=1.0, beta=beta, line=f'θ, GeoDP {form}'):.3g}, "
        f"g {here.value(sigma=1.0, beta=beta, line=f'g, GeoDP {form}'):.3g}"
        for form, beta in won
    )
    errors = {what: here.value(sigma=1.0, beta=0.1, line=f"{what}, DP") for what in "θg"}
    dp = f"DP θ {errors['θ']:.3g}, g {errors['g']:.3g}"
    evidence = f"at σ = 1: {dp}; {told}"
    if won["as printed", 0.1] and won["as printed", 0.01]:
        return holds(evidence)
    shown = [f"{form}, β = {beta:g}" for (form, beta), won_it in won.items() if won_it]
    return refuted(f"{evidence}. Better on both at every σ: {', '.join(shown) or 'none'}")


def geodp_privacy(found: Measured) -> Verdict:
    """Claim 21: what a step promises, and what it gives."""
    value = {row.where["quantity"]: row.value for row in found.rows}
    claimed, true = value["claimed ε of a step"], value["true ε of a step, at least (two flipped batches)"]
    joint, said = (
        value["Rényi divergence of magnitude and angles together, order 2"],
        value["the same by Theorem 7 with d = 2"],
    )
    evidence = (
        f"two batches that differ in a record: ε {claimed:.3g} promised, {true:,.0f} true at δ = 1e-5 (δ at the "
        "promised ε "
        f"{value['true δ at the claimed ε']:.4g}); over the whole region "
        f"{value['true ε of a step, whole diameter']:,.0f}. "
        f"Divergences of magnitude and angles add up to {joint:g}, and Theorem 7 has {said:g}"
    )
    return by_criterion(true <= claimed and joint <= said, evidence)


def equal_privacy(found: Measured) -> Verdict:
    """Claim 22: accuracies at the same certified budget, each method at its better rate."""
    told, better = [], True
    for epsilon in (1.0, 8.0):
        here = found.select(epsilon=epsilon)
        rows = {each: [here.row(method=each, rate=rate) for rate in EQUAL_RATES] for each in EQUAL}
        best = {each: max(some, key=lambda row: row.value) for each, some in rows.items()}
        dp = best.pop("DP-SGD")
        better = better and any(_above(row, dp) for row in best.values())
        shown = ", ".join(f"{each} {_told(row)}" for each, row in best.items())
        told.append(f"ε = {epsilon:g}: DP-SGD {_told(dp)}, {shown}")
    return by_criterion(better, f"test accuracy on digits, in per cent: {'; '.join(told)}")


def _cells(found: Measured, column: str, *names: str) -> list[Row]:
    return [found.row(method=name, column=column) for name in names]


def cnn_gain(found: Measured) -> Verdict:
    """Claim 23: Table 5.2, beta = .1 against DP."""
    told, wins, loose = [], [], []
    for column in ("σ = 10", "σ = 1"):
        for batch in (8192, 16384):
            dp, geo, free = _cells(
                found, column, f"DP (B = {batch})", f"GeoDP (B = {batch}, β = 0.1)",
                f"GeoDP (B = {batch}, β = 0.1), without step 5",
            )  # fmt: skip
            wins.append(_above(geo, dp))
            loose.append(_above(free, dp))
            told.append(f"{column}, B = {batch}: DP {_told(dp)}, GeoDP {_told(geo)}, without step 5 {_told(free)}")
    control = ", ".join(_told(found.row(method=name, column="σ = 1")) for name in _CONTROLS)
    evidence = f"{'; '.join(told)}; a direction without data {control}"
    return by_criterion(all(wins), f"{evidence}. Without step 5 it is better in {sum(loose)} of {len(loose)} cells")


_CONTROLS = ("control: a direction without data (B = 16384)",)


def cnn_half(found: Measured) -> Verdict:
    """Claim 24: beta = .5 loses 34 points and more against beta = .1."""
    told, falls, loose = [], [], []
    for column in ("σ = 10", "σ = 1"):
        narrow, wide, free, loose_wide = _cells(
            found, column, "GeoDP (B = 8192, β = 0.1)", "GeoDP (B = 8192, β = 0.5)",
            "GeoDP (B = 8192, β = 0.1), without step 5", "GeoDP (B = 8192, β = 0.5), without step 5",
        )  # fmt: skip
        falls.append(_above(narrow, wide, by=25.0))
        loose.append(_above(free, loose_wide, by=25.0))
        told.append(
            f"{column}: β = .1 {_told(narrow)}, β = .5 {_told(wide)}; without step 5 {_told(free)} and "
            f"{_told(loose_wide)}"
        )
    if all(falls):
        return holds("; ".join(told))
    if any(loose):
        return corrected(f"{'; '.join(told)}: a fall of 25 points or more only without step 5, not at every σ")
    return refuted(f"{'; '.join(told)}: as printed there is nothing to lose")


def auto_gain(cnn: Measured, resnet: Measured) -> Verdict:
    """Claim 25: what AUTO-S adds."""
    gains = []
    for found, columns, geo in (
        (cnn, ("σ = 10", "σ = 1"), "GeoDP (B = 16384, β = 0.1"),
        (resnet, ("σ = 0.1", "σ = 0.01"), "GeoDP (B = 16384, β = 0.1"),
    ):
        for column in columns:
            for plain, auto in (("DP (B = 16384)", "DP (B = 16384 + AUTO-S)"), (f"{geo})", f"{geo} + AUTO-S)")):
                gains.append((plain, column, *_cells(found, column, plain, auto)))
    told = ", ".join(f"{plain} {column} {_gain(auto, one)}" for plain, column, one, auto in gains)
    evidence = f"points added by AUTO-S: {told}"
    if all(_above(auto, one) for _, _, one, auto in gains):
        return holds(evidence)
    if any(_above(one, auto) for _, _, one, auto in gains):
        return refuted(evidence)
    return undecided(f"{evidence}: the printed gains are a tenth of what seeds make of so small a training")


def resnet_gain(found: Measured) -> Verdict:
    """Claim 26: Table 5.3, beta = 1 against DP at sigma = .1."""
    pairs = [_cells(found, "σ = 0.1", f"DP (B = {batch})", f"GeoDP (B = {batch}, β = 1)") for batch in (8192, 16384)]
    plain = found.row(method="No noise (B = 8192)", column="σ = 0.1")
    told = ", ".join(f"GeoDP {_told(geo)} against DP {_told(dp)}" for dp, geo in pairs)
    evidence = f"on digits, no noise {_told(plain)}; {told}, B = 8192 and 16384"
    if all(_above(geo, dp) for dp, geo in pairs):
        return holds(evidence)
    if all(_above(dp, geo, by=-2.0) for dp, geo in pairs):
        return refuted(f"{evidence}: less than the 2 points that are printed")
    return undecided(f"{evidence}: CIFAR-10 is not to be had, and here seeds make more of a difference than 2 points")


def attacked(found: Measured) -> Verdict:
    """Claim 27: whether attacks on the private models are better than coins, where the same attack finds something."""
    columns = ("attack, ε = 4.9", "attack, ε = 11.3")
    rows = {
        name: [found.row(method=name, column=column) for column in columns]
        for name in ("Original model", "DP", "GeoDP (β = 0.1), as printed")
    }
    accuracy = found.row(method="GeoDP (β = 0.1), as printed", column="model, ε = 11.3")
    told = "; ".join(f"{name} {' and '.join(_told(row) for row in some)}" for name, some in rows.items())
    evidence = f"accuracy of the attack at ε = 4.9 and 11.3: {told}. Algorithm 5's model is right in {_told(accuracy)}%"
    original, *private = rows.values()
    if any(row.value - 50 > _CLEAR * row.stderr for some in private for row in some):
        return refuted(evidence)
    if all(row.value - 50 > _CLEAR * row.stderr for row in original):
        return holds(f"{evidence}. That an attack fails is no promise: claim 21 shows what a step tells")
    return undecided(
        f"{evidence}. The attack hardly finds anything in the model without privacy either: it has no power"
    )


def conversion(found: Measured) -> Verdict:
    """Claim 28: seconds."""
    value = {row.where["quantity"]: row.value for row in found.rows}
    batch = value["gradients of 256 records"]
    one, two = (value[f"conversion there and back, {d} dimensions"] for d in ("21,840", "43,680"))
    return by_criterion(
        one < 0.1 * batch and two < 4 * one,
        f"gradients of 256 records {1000 * batch:.3g} ms, angles there and back {1000 * one:.3g} ms "
        f"({one / batch:.1%}); "
        f"twice the dimensions {two / one:.2g} times as long",
    )


def average_law(found: Measured) -> Verdict:
    """Claim 37: the density, the variance, and which average is meant."""
    whole = found.value(quantity="integral of the printed density, B = 64")
    ratio = found.row(quantity="variance of an average of 64, over var / 64")
    cosine = found.row(quantity="cosine of the two averages")
    evidence = (
        f"the printed density integrates to {whole:.4g} = 1/√64; an average of 64 real gradients has {_told(ratio)} "
        "times the "
        "variance var / 64; the direction of averaged angles and that of the averaged gradient have a cosine of "
        f"{_told(cosine)}"
    )
    if abs(whole - 1) < 0.01:
        return holds(evidence)
    fine = abs(ratio.value - 1) < 0.1
    reason = "with the exponent B and the variance var / B it is the central limit theorem; it is not about Algorithm 5"
    return corrected(f"{evidence}: {reason}") if fine else refuted(evidence)


def concentrated(found: Measured) -> Verdict:
    """Claim 38: the share of angles inside ((1 - beta) pi, pi)."""
    here = found.select(d=5000, B=2048, line="share of angles in the region")
    shares = {beta: here.row(beta=beta) for beta in (0.1, 0.4, 0.6, 1.0)}
    told = ", ".join(f"{row.value:.2%} at β = {beta:g}" for beta, row in shares.items())
    return by_criterion(
        shares[0.1].value > 0.5, f"angles of averaged real gradients in ((1 - β)π, π): {told}; they lie around π/2"
    )


def renyi(found: Measured) -> Verdict:
    """Claim 39: whether the two guarantees are equivalent."""
    exact = found.value(quantity="exact ε of a Gaussian, σ = 5")
    through = found.value(quantity="ε of the same Gaussian through Rényi, best order")
    return by_criterion(
        through < 1.001 * exact,
        f"Gaussian, σ = 5, δ = 1e-5: exact ε {exact:.4f}, by the printed conversion at its best order {through:.4f}: "
        "RDP implies "
        "that, and not conversely; who shows everything with probability δ keeps (0, δ) and no RDP at all",
    )


CLAIMS = (
    Claim(
        "001.claim13",
        "the efficiency difference of a noisy step is item A plus item B",
        "Theorem 6",
        (STEP_LAW,),
        efficiency,
    ),
    Claim(
        "001.claim14",
        "DP-SGD does not stay at the optimum",
        "Corollary 1",
        (STEP_LAW,),
        no_rest,
    ),
    Claim(
        "001.claim15",
        "clipping and learning rate cannot reduce item B",
        "Corollary 2",
        (STEP_LAW,),
        item_b,
    ),
    Claim(
        "001.claim16",
        "the batch size hardly changes the error of DP's direction",
        "5.3.2, Fig. 5.3 (g)",
        (DIRECTIONS,),
        batch_and_direction,
    ),
    Claim(
        "001.claim17",
        "Gaussian noise on a gradient biases its angles",
        "Lemma 6",
        (STEP_LAW,),
        biased_angles,
    ),
    Claim(
        "001.claim18",
        "some bounding factor gives GeoDP a smaller error of directions than DP",
        "Lemma 6",
        (DIRECTIONS,),
        some_beta,
    ),
    Claim(
        "001.claim19",
        "with β = 1 GeoDP preserves directions better up to σ = 1",
        "Fig. 5.3 (a)",
        (DIRECTIONS,),
        beta_one,
    ),
    Claim(
        "001.claim20",
        "with β = .1 or .01 GeoDP is better on directions and gradients",
        "Fig. 5.3 (b), (c)",
        (DIRECTIONS,),
        small_beta,
    ),
    Claim(
        "001.claim21",
        "GeoDP keeps the budget of its magnitude and angles, averaged over dimensions",
        "Theorems 7, 11, Lemma 7",
        (STEP_PRIVACY,),
        geodp_privacy,
    ),
    Claim(
        "001.claim22",
        "at equal privacy GeoDP is always closer to the optimum",
        "Theorem 10",
        (EQUAL_PRIVACY,),
        equal_privacy,
    ),
    Claim(
        "001.claim23",
        "GeoDP with β = .1 beats DP by 2.2 to 5.5 points at equal σ",
        "Table 5.2",
        (CNN,),
        cnn_gain,
    ),
    Claim(
        "001.claim24",
        "β = .5 costs 34 points and more",
        "Table 5.2",
        (CNN,),
        cnn_half,
    ),
    Claim(
        "001.claim25",
        "AUTO-S adds .02 to .4 points to both",
        "Tables 5.2, 5.3",
        (CNN, RESNET),
        auto_gain,
    ),
    Claim(
        "001.claim26",
        "GeoDP with β = 1 beats DP by 2 to 3 points at σ = .1",
        "Table 5.3",
        (RESNET,),
        resnet_gain,
    ),
    Claim(
        "001.claim27",
        "a white-box attack tells members of private models as a coin does",
        "Table 5.4",
        (MEMBERSHIP,),
        attacked,
    ),
    Claim(
        "001.claim28",
        "GeoDP takes as long as DP-SGD: conversions cost little",
        "5.2.2",
        (CONVERSION_TIME,),
        conversion,
    ),
    Claim(
        "001.claim37",
        "averaged gradients and angles are normal with the density of eq. 5.21 and 5.23",
        "Theorems 8, 9",
        (AVERAGES,),
        average_law,
    ),
    Claim(
        "001.claim38",
        "angles of averaged gradients concentrate in ((1 - β)π, π)",
        "5.2.2, 5.2.3",
        (DIRECTIONS,),
        concentrated,
    ),
    Claim(
        "001.claim39",
        "Rényi DP of order a is equivalent to (ε + log(1/δ)/(a - 1), δ)-DP",
        "3.1.1",
        (STEP_PRIVACY,),
        renyi,
    ),
)
