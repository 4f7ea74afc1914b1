"""What it will cost: the error, known before a single report is collected.

- `deviation`: bias, variance and the normal law of an estimate, for any mechanism and any population
- `rank`, `break_even`: which of several mechanisms is best, and from how many users on
- `users_for`, `epsilon_for`: the inverse questions
- `limit`, `least_mse`: the error that no mechanism can beat

Nothing here knows a concrete mechanism: everything follows from `moments`.
"""

from dither.utility.compare import break_even, epsilon_for, rank, users_for
from dither.utility.deviation import Deviation, deviation
from dither.utility.limits import Parameters, least_mse, limit

__all__ = [
    "Deviation",
    "Parameters",
    "break_even",
    "deviation",
    "epsilon_for",
    "least_mse",
    "limit",
    "rank",
    "users_for",
]
