"""001 section 6.1.4: the efficiency difference of federated logistic regression under three mechanisms.

The paper has N = 500 devices of equal weight, d = 785, learning rate 0.1, an epsilon of 0.1 "for each dimension", and
prints 25,521,315 for Laplace, 10,542,640 for Piecewise and 170,859 for Gaussian noise. They cannot be had from its own
equation 6.12 with its own inputs, which gives the second column. Its inputs are wrong as well:

- the clip is C = 1.8 above eq. 6.24 and 0.1 ("2C = 0.2") below eq. 6.25;
- the variances of eq. 6.25 and 6.29 are for inputs that differ by sqrt(2), not by 2 as values in [-1, 1] do;
- eq. 6.27 has half the variance of the Piecewise mechanism: t^2/(h-1) + (h+3)/(3(h-1)^2) with h = e^(eps/2);
- eq. 6.29 says delta = 1e-7, and 4,694.5 is for 1e-5;
- epsilon = 0.1 for each dimension *and* a sensitivity of C' = 785 * 2C, that of all dimensions together, count the
  dimensions twice for Laplace and Piecewise, and the Gaussian has them not at all;
- the L1 sensitivity of vectors of norm C is 2 C sqrt(d), not 2 C d.

So two readings are worked out, both for C = 0.1: epsilon 0.1 for each coordinate (785 times as much for a report), and
epsilon 0.1 for the whole report. Only the second compares like with like.

    python papers/001/case_study.py
"""

import math

from dither.display.table import TextTable
from dither.learn.analysis import federated_limit

DEVICES, D, RATE, EPSILON, DELTA = 500, 785, 0.1, 0.1, 1e-7
PRINTED = {"Laplace": 25_521_315, "Piecewise": 10_542_640, "Gaussian": 170_859}
PRINTED_VARIANCES = {"Laplace": 400.0, "Piecewise": 256.7, "Gaussian": 4694.5}
PRINTED_SCALES = {"Laplace": 157.0, "Piecewise": 157.0, "Gaussian": 0.1}
SHARES = [1 / DEVICES] * DEVICES


def difference(variance: float, scale: float) -> float:
    """Corollary 3 (the noise has no bias): noise of this variance in each coordinate, times the scale.

    >>> round(difference(400.0, 157.0))
    154796
    """
    return federated_limit(rate=RATE, weights=SHARES, noise=D * variance * scale**2)


def by_its_equation() -> dict[str, float]:
    """Equation 6.12 with the numbers that the paper puts into it."""
    return {name: difference(PRINTED_VARIANCES[name], PRINTED_SCALES[name]) for name in PRINTED}


def piecewise(epsilon: float, value: float = 0.0) -> float:
    """The variance of the Piecewise mechanism for a value in [-1, 1].

    >>> round(piecewise(0.1), 1)
    513.7
    """
    grown = math.expm1(epsilon / 2)
    return value**2 / grown + (grown + 4) / (3 * grown**2)


def by_coordinate(clip: float = 0.1) -> dict[str, float]:
    """Epsilon 0.1 (and delta 1e-7) for each coordinate, which lies in [-C, C]; for a gradient near zero."""
    variances = {
        "Laplace": 8 / EPSILON**2,
        "Piecewise": piecewise(EPSILON),
        "Gaussian": 8 * math.log(1.25 / DELTA) / EPSILON**2,
    }
    return {name: difference(variance, clip) for name, variance in variances.items()}


def by_report(clip: float = 0.1) -> dict[str, float]:
    """Epsilon 0.1 (and delta 1e-7) for the whole report, a vector of norm C or less.

    Laplace by the L1 diameter 2 C sqrt(d), Gaussian by the L2 diameter 2 C, Piecewise with epsilon / d a coordinate.
    """
    variances = {
        "Laplace": 8 * D / EPSILON**2,
        "Piecewise": piecewise(EPSILON / D),
        "Gaussian": 8 * math.log(1.25 / DELTA) / EPSILON**2,
    }
    return {name: difference(variance, clip) for name, variance in variances.items()}


if __name__ == "__main__":
    columns = {
        "printed": PRINTED,
        "by its equation": by_its_equation(),
        "right, 0.1 a coordinate": by_coordinate(),
        "right, 0.1 a report": by_report(),
    }
    print(
        TextTable(
            {"mechanism": list(PRINTED)}
            | {title: [f"{column[name]:,.4g}" if column[name] < 1000 else f"{column[name]:,.0f}" for name in PRINTED]
               for title, column in columns.items()}
        )
    )  # fmt: skip
