"""Projective spaces: incidence by definition, points of hyperplanes by number, counts, in NumPy and compiled."""

import numpy as np
import pytest
from numpy.typing import NDArray

from dither.kernels import with_numpy
from dither.kernels.projective_space import ProjectiveSpace

with_numba = pytest.importorskip("dither.kernels.with_numba")

both = pytest.mark.parametrize("loops", [with_numba, with_numpy], ids=["numba", "numpy"])
SPACES = [(2, 3), (2, 5), (3, 3), (3, 4), (4, 3), (4, 4), (5, 3), (7, 3), (8, 3), (9, 3), (16, 3)]
LARGE = [(257, 3), (1009, 3), (8191, 3), (4, 13), (251, 4), (19, 6)]


def incidence(space: ProjectiveSpace) -> NDArray[np.bool_]:
    """Which points (columns) are on which hyperplanes (rows)."""
    every = np.arange(space.size)
    return space.on(every[:, None], every)


@pytest.mark.parametrize(("q", "t"), SPACES)
def test_points_and_hyperplanes_are_all_different_up_to_multiples(q: int, t: int):
    space = ProjectiveSpace(q, t)
    every = np.arange(space.size)
    for vectors in (space.vectors(every), space.normals(every)):
        multiples = [space.field.times(np.full(vectors.shape, factor), vectors) for factor in range(1, q)]
        assert len(np.unique(np.concatenate(multiples), axis=0)) == q**t - 1


@pytest.mark.parametrize(("q", "t"), SPACES)
def test_every_two_hyperplanes_share_as_many_points(q: int, t: int):
    space = ProjectiveSpace(q, t)
    table = incidence(space).astype(np.int64)
    shared = np.where(np.eye(space.size, dtype=bool), space.on_hyperplane, space.on_two)
    assert (table @ table.T == shared).all()
    assert (table.T @ table == shared).all()


@both
@pytest.mark.parametrize(("q", "t"), SPACES)
def test_places_run_through_the_points_of_a_hyperplane_and_then_through_the_others(q: int, t: int, loops):
    space = ProjectiveSpace(q, t)
    hyperplanes, positions = (each.reshape(-1) for each in np.indices((space.size, space.size)))
    points = loops.hyperplane_points(space, hyperplanes, positions)
    assert (np.sort(points.reshape(space.size, -1), axis=1) == np.arange(space.size)).all()
    assert (space.on(hyperplanes, points) == (positions < space.on_hyperplane)).all()


@pytest.mark.parametrize(("q", "t"), LARGE)
def test_places_in_large_spaces(q: int, t: int):
    space, rng, rows = ProjectiveSpace(q, t), np.random.default_rng(1), 20_000
    hyperplanes, positions = rng.integers(0, space.size, (2, rows))
    positions[::2] %= space.on_hyperplane
    hyperplanes[:2000] %= q + 2  # few digits
    positions[1000:2000] = space.on_hyperplane + positions[1000:2000] % (q + 2)
    positions[2000:3000] %= q + 2
    points = with_numpy.hyperplane_points(space, hyperplanes, positions)
    assert (points == with_numba.hyperplane_points(space, hyperplanes, positions)).all()
    assert (space.on(hyperplanes, points) == (positions < space.on_hyperplane)).all()


@both
@pytest.mark.parametrize(("q", "t"), SPACES)
def test_counts_on_all_hyperplanes(monkeypatch, q: int, t: int, loops):
    space = ProjectiveSpace(q, t)
    counts = np.random.default_rng(2).integers(0, 1 << 40, space.size)
    monkeypatch.setattr("dither.kernels._loops", lambda: loops)
    assert (space.counted(counts) == incidence(space).astype(np.int64) @ counts).all()
    assert np.allclose(space.counted(counts.astype(float)), incidence(space) @ counts.astype(float), rtol=1e-12)


@pytest.mark.parametrize(("q", "t"), SPACES)
def test_weights_of_the_hyperplanes_through_a_point(q: int, t: int):
    space = ProjectiveSpace(q, t)
    weights = np.random.default_rng(4).normal(size=space.size)
    assert np.allclose(space.through(weights), weights @ incidence(space), rtol=0, atol=1e-9)


@pytest.mark.parametrize("q", [2, 3, 4, 9, 257, 263])
def test_sums_along_lines_are_the_same_integers(q: int):
    blocks = np.random.default_rng(3).integers(-(1 << 40), 1 << 40, (2, 3 if q < 100 else 1, q, q))
    field = ProjectiveSpace(q, 3).field
    assert (with_numpy.line_sums(field, blocks) == with_numba.line_sums(field, blocks)).all()
    assert with_numba.line_sums(field, blocks[:, :0]).shape == (q, 2, 0, q)


def test_a_line_that_is_turned_the_wrong_way_is_noticed(monkeypatch):
    space = ProjectiveSpace(5, 3)
    counts = np.random.default_rng(2).integers(0, 1000, space.size)
    real = with_numpy.line_sums
    monkeypatch.setattr("dither.kernels._loops", lambda: with_numpy)
    monkeypatch.setattr(with_numpy, "line_sums", lambda field, blocks: real(field, blocks[..., ::-1]))
    assert (space.counted(counts) != incidence(space).astype(np.int64) @ counts).any()


def test_the_smallest_space_that_holds_enough():
    assert ProjectiveSpace.holding(7, 2) == ProjectiveSpace(2, 3)
    assert ProjectiveSpace.holding(8, 2) == ProjectiveSpace(2, 4)
    assert ProjectiveSpace.holding(2, 149) == ProjectiveSpace(149, 3)
    assert ProjectiveSpace.holding(22_352, 149) == ProjectiveSpace(149, 4)
