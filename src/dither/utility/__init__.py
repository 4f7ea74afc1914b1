"""What it will cost: the error, known before a single report is collected.

- `deviation`: bias, variance and the normal law of an estimate, for any mechanism and any population
- `rank`, `break_even`: which of several mechanisms is best, and from how many users on
- `users_for`, `epsilon_for`: the inverse questions

Nothing here knows a concrete mechanism: everything follows from `moments`.
"""

from dither.utility.compare import break_even, epsilon_for, rank, users_for
from dither.utility.deviation import Deviation, deviation

__all__ = ["Deviation", "break_even", "deviation", "epsilon_for", "rank", "users_for"]
