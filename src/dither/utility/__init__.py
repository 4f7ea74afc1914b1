"""What it will cost: the error, known before a single report is collected.

- `deviation`: bias, variance and the normal law of an estimate, for any mechanism and any population
- `pooled_deviation`: the same for groups with budgets and regions of their own, put together
- `rank`, `break_even`: which of several mechanisms is best, and from how many users on
- `users_for`, `epsilon_for`: the inverse questions
- `limit`, `least_mse`: the error that no mechanism can beat
- `influence`: how far one report, or a share of liars, can move each estimate
- `goodness`: whether honest reports can have made a tally at all

Nothing here knows a concrete mechanism: everything follows from `moments`, and from what a report is worth.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
