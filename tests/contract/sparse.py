"""What the tests of mechanisms for sparse vectors share: users, the worst of them, and how a mutant is caught."""

from typing import Any

import numpy as np
import pytest

from dither import testing as checks
from dither.utility import deviation

Vector = dict[int, float]

USERS: list[Vector] = [
    {0: 1, 1: -1, 2: 0.5},
    {0: 1, 3: -0.25},
    {0: -0.5, 1: -1, 4: 1},
    {0: 1},
    {},
    {0: 0.0, 2: -1},
    {5: 1, 1: 1, 0: 0.75},
    {0: 1, 1: -0.5},
]
SIGNS: list[Vector] = [{0: 1, 1: -1}, {0: 1, 2: 1}, {3: -1}, {}]
MANY: list[Vector] = [{0: 1, 1: -1, 2: 0.5, 3: 1, 4: -1}, {0: 1, 5: -1}, {0: -0.5, 1: -1, 4: 1}, {2: 1}]


def check_worst_users(mechanism: Any) -> None:
    """No vector with at most s keys has a larger error than the worst users are said to have."""
    worst = deviation(mechanism, reports=1000)
    assert 1000 * worst.variance.mean() == pytest.approx(mechanism.reading.worst_variance(), rel=1e-9)
    generator = np.random.default_rng(3)
    for _ in range(10):
        keys = generator.choice(mechanism.d, generator.integers(0, mechanism.s + 1), replace=False).tolist()
        vector = {key: float(generator.uniform(-1, 1)) for key in keys}
        assert deviation(mechanism, [vector], reports=1000).mse <= worst.mse * (1 + 1e-9)


def caught(check: Any, *arguments: Any, **options: Any) -> bool:
    """Whether the check fails as the code is now."""
    try:
        check(*arguments, **options)
    except AssertionError:
        return True
    return False


def sampled(victim: Any, vector: Vector) -> bool:
    """Whether the law of the sampler over all tapes is seen to be wrong."""
    return caught(checks.check_sparse_sampler, victim, vector)
