"""Every sparse vector of signs, in the order in which the domain numbers its inputs."""

from itertools import combinations, product


def signs_of(d: int, s: int) -> list[dict[int, int]]:
    """All vectors of signs with at most s of d keys, in the order of `Sparse.vector`."""
    return [
        {key: signs[bit] for bit, key in enumerate(keys)}
        for count in range(s + 1)
        for keys in combinations(range(d), count)
        for signs in (tuple(reversed(each)) for each in product((-1, 1), repeat=count))
    ]
