"""004's Table 2: the granularities (g1, g2) of HDG that its guideline suggests, for 64 values an attribute.

python papers/004/table2.py
"""

from dither.ranges.granularity import guideline, power_of_two

SIZE = 64
BUDGETS = [round(0.2 * step, 1) for step in range(1, 11)]
SETTINGS = [(d, 6.0) for d in range(3, 11)] + [(6, round(5 + 0.2 * step, 1)) for step in range(11)]


def row(d: int, exponent: float) -> list[tuple[int, int]]:
    """The granularities of d attributes and 10^exponent users, for each budget."""
    groups = d + d * (d - 1) // 2
    suggested = (guideline(epsilon, 10**exponent / groups) for epsilon in BUDGETS)
    return [(power_of_two(one, SIZE), power_of_two(two, SIZE)) for one, two in suggested]


if __name__ == "__main__":
    print("d, lg(n) ".ljust(10) + "".join(f"{epsilon:>8}" for epsilon in BUDGETS))
    for d, exponent in SETTINGS:
        print(f"{d}, {exponent}".ljust(10) + "".join(f"{one:>5}, {two}" for one, two in row(d, exponent)))
