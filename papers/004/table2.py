"""004's Table 2: the granularities (g1, g2) of HDG that its guideline suggests, for 64 values an attribute.

python papers/004/table2.py
"""

from dither.ranges.granularity import guideline, power_of_two
from dither.reproduce.measured import Coordinate

SIZE = 64
BUDGETS = [round(0.2 * step, 1) for step in range(1, 11)]
SETTINGS = [(d, 6.0) for d in range(3, 11)] + [(6, round(5 + 0.2 * step, 1)) for step in range(11)]
PRINTED = """
8,2 16,4 32,4 32,4 32,4 32,4 32,8 64,8 64,8 64,8
8,2 16,2 16,4 32,4 32,4 32,4 32,4 32,4 32,8 64,8
8,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4 32,4 32,8
8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4 32,4
8,2 8,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4 32,4
8,2 8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4
8,2 8,2 16,2 16,2 16,4 16,4 16,4 32,4 32,4 32,4
4,2 8,2 8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4
4,2 4,2 8,2 8,2 8,2 16,2 16,2 16,2 16,2 16,4
4,2 8,2 8,2 8,2 16,2 16,2 16,2 16,4 16,4 16,4
4,2 8,2 8,2 16,2 16,2 16,2 16,4 16,4 16,4 32,4
4,2 8,2 8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4
8,2 8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4
8,2 16,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4 32,4
8,2 16,2 16,4 16,4 32,4 32,4 32,4 32,4 32,4 32,8
8,2 16,2 16,4 32,4 32,4 32,4 32,4 32,8 64,8 64,8
16,2 16,4 32,4 32,4 32,4 32,4 32,8 64,8 64,8 64,8
16,2 16,4 32,4 32,4 32,4 64,8 64,8 64,8 64,8 64,8
16,2 32,4 32,4 32,4 64,8 64,8 64,8 64,8 64,8 64,8
"""  # in the order of SETTINGS, a column for each budget


def label(d: int, exponent: float) -> str:
    """How a row is called."""
    return f"d={d}, lg n={exponent}"


def printed(side: int) -> dict[tuple[Coordinate, Coordinate], float | str]:
    """What the paper prints, by row and budget: g1 for side 0, g2 for side 1."""
    return {
        (label(*setting), epsilon): int(cell.split(",")[side])
        for setting, line in zip(SETTINGS, PRINTED.split("\n")[1:-1], strict=True)
        for epsilon, cell in zip(BUDGETS, line.split(), strict=True)
    }


def row(d: int, exponent: float) -> list[tuple[int, int]]:
    """The granularities of d attributes and 10^exponent users, for each budget."""
    groups = d + d * (d - 1) // 2
    suggested = (guideline(epsilon, 10**exponent / groups) for epsilon in BUDGETS)
    return [(power_of_two(one, SIZE), power_of_two(two, SIZE)) for one, two in suggested]


if __name__ == "__main__":
    print("d, lg(n) ".ljust(10) + "".join(f"{epsilon:>8}" for epsilon in BUDGETS))
    for d, exponent in SETTINGS:
        print(f"{d}, {exponent}".ljust(10) + "".join(f"{one:>5}, {two}" for one, two in row(d, exponent)))
