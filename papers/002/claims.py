"""What 002 claims, and how the numbers decide it."""

from dither.reproduce.claims import Claim, Verdict, judged
from dither.reproduce.measured import Measured

from .experiments import EPSILONS, ONE_NUMBER


def worst_variance(found: Measured) -> Verdict:
    """Algorithm 2's formula against the integers that are sampled."""
    apart = [
        abs(row.value / found.value(**{**row.where, "line": "eq. 33"}) - 1)
        for row in found.select(line="Algorithm 2").rows
    ]
    return judged(max(apart) < 1e-6, f"formula and sampled integers differ by {max(apart):.1e} at most")


def below_gaussian(found: Measured) -> Verdict:
    """At every epsilon of the grid, by how much."""
    here = found.select(panel="epsilon")
    ratios = [here.value(epsilon=e, line="Opt-GM") / here.value(epsilon=e, line="Algorithm 2") for e in EPSILONS]
    told = ", ".join(f"{ratio:.3g} (epsilon {e:g})" for e, ratio in zip(EPSILONS, ratios, strict=True))
    return judged(min(ratios) > 1, f"variance of Opt-GM over that of Algorithm 2: {told}")


CLAIMS = (
    Claim(
        "002.claim5",
        "the worst variance of Algorithm 2 is ((E+1)/(E+2 delta-1))^2",
        "eq. 33",
        (ONE_NUMBER,),
        worst_variance,
    ),
    Claim(
        "002.claim6",
        "Algorithm 2 has a smaller worst variance than Opt-GM everywhere",
        "Fig. 1",
        (ONE_NUMBER,),
        below_gaussian,
    ),
)
