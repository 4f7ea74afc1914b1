"""All claims of 004, in their order; each needs the data that can be had everywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dither.reproduce.claims import Claim
from dither.reproduce.measured import Coordinate

from . import claims_of_errors, claims_of_grids, claims_of_theory
from .evidence import NO_STAND_INS, needing
from .sweeps import MADE

_ENDS = (0.2, 1.0)  # of the budgets that any scale but the smallest has
_SETS = {"data": NO_STAND_INS, "epsilon": _ENDS}
NEEDS: Mapping[str, Mapping[str, Sequence[Coordinate]]] = {
    "004.epsilon": _SETS,
    "004.components": _SETS,
    "004.cells": _SETS,
    "004.full": _SETS,
    "004.sigma": _SETS,
    "004.convergence": _SETS,
    "004.spread": _SETS,
    "004.omega": {"data": NO_STAND_INS},
    "004.lambda": {"data": NO_STAND_INS},
    "004.uniformity": {"data": ("Normal", "Bfive")},
    "004.attributes": {"data": NO_STAND_INS, "d": (3, 9, 10)},
    "004.domain": {"data": MADE, "c": (16, 64, 256, 1024)},
    "004.users": {"data": MADE, "lg n": (5.0, 7.0)},
    "004.covariance": {"data": MADE, "covariance": (0.0, 1.0), "epsilon": _ENDS},
}


def _checked(claim: Claim) -> Claim:
    return replace(claim, judge=needing(claim.judge, **NEEDS.get(claim.experiments[0].name, {})))


CLAIMS = tuple(
    _checked(claim)
    for claim in sorted(
        (*claims_of_theory.CLAIMS, *claims_of_errors.CLAIMS, *claims_of_grids.CLAIMS),
        key=lambda claim: int(claim.name.removeprefix("004.claim")),
    )
)
