"""What any method makes of its reports: a model of the users that answers queries.

A model has to tell the share of users inside each query, and how far off that is. Everything else follows: the share of
a value or of a pair of values is the answer of a query about it. A model that knows better says so itself, and one that
is even inside some pieces of an attribute says where they are cut: all values of a piece have the same answer, and a
table asks for one of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.ranges.queries import Queries

Floats = NDArray[np.float64]
Cuts = NDArray[np.int64]

COMPLETIONS = ("copula", "entropy", "weighted update")
_MOST_AT_ONCE, _WEIGHTS_AT_ONCE = 1 << 12, 1 << 22  # queries, and the weights of their values


class Answered(NamedTuple):
    """For each query the answer, the standard error from the reports, and the doubt from what was guessed."""

    value: Floats
    noise: Floats
    doubt: Floats
    iterations: NDArray[np.int64]
    converged: NDArray[np.bool_]

    @property
    def stderr(self) -> Floats:
        """Both together."""
        return np.hypot(self.noise, self.doubt)


class Model(ABC):
    """What a method makes of its reports."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has."""

    @abstractmethod
    def answers(self, queries: Queries) -> Answered:
        """The share of users inside each query."""

    def answered(self, queries: Queries) -> Answered:
        """The same, so many at a time that they fit into memory."""
        step = self._at_once
        found = [self.answers(queries[low : low + step]) for low in range(0, len(queries), step)]
        if found:
            return found[0] if len(found) == 1 else Answered(*map(np.concatenate, zip(*found, strict=True)))
        none = np.zeros(0)
        return Answered(none, none, none, none.astype(np.int64), none.astype(bool))

    @property
    def _at_once(self) -> int:
        return min(_MOST_AT_ONCE, max(1, _WEIGHTS_AT_ONCE // sum(self.shape)))

    # Tables ----------------------------------------------------------------------------------------------------

    def marginal(self, attribute: int) -> tuple[Floats, Floats]:
        """The shares of the values of one attribute, and their standard errors."""
        return self.points([attribute])

    def table(self, one: int, other: int) -> Floats:
        """The shares of all pairs of values, a row for each of the first attribute."""
        return self.points([one, other])[0]

    def points(
        self, places: Sequence[int], merged: Mapping[int, Floats] = MappingProxyType({})
    ) -> tuple[Floats, Floats]:
        """The share of each value, or of each pair of values, and its standard error, by asking for them.

        Of an attribute that is `merged`, of each set of its values: a row has the weights of the values.
        """
        cuts = [
            np.arange(len(merged[j]) + 1) if j in merged else self.pieces(j, [other for other in places if other != j])
            for j in places
        ]
        firsts = np.stack([each.ravel() for each in np.meshgrid(*(each[:-1] for each in cuts), indexing="ij")], axis=1)
        parts = []
        for low in range(0, len(firsts), self._at_once):
            some = firsts[low : low + self._at_once]
            values = {
                j: merged[j][some[:, i]] if j in merged else np.arange(self.shape[j]) == some[:, i, None]
                for i, j in enumerate(places)
            }
            parts.append(self.answers(queries_about(self.shape, values)))
        found = []
        for entries in ([part.value for part in parts], [part.stderr for part in parts]):
            table = np.concatenate(entries).reshape([len(each) - 1 for each in cuts])
            for axis, each in enumerate(cuts):
                table = np.repeat(table, np.diff(each), axis=axis)
            found.append(table)
        return found[0], found[1]

    def pieces(self, attribute: int, others: Sequence[int]) -> Cuts:
        """Where an attribute is cut so that all values in a piece have the same answers, alone or with the others."""
        return np.arange(self.shape[attribute] + 1)

    def condensed(self, continuous: Sequence[bool]) -> "Model":
        """The same model, with equal values of these attributes put together where it is even inside pieces of them."""
        return self

    # What it rests on ------------------------------------------------------------------------------------------

    def basis(self) -> Mapping[tuple[int, ...], str]:
        """What was made of the reports about some attributes, in words, by their places."""
        return {}

    def doubts(self) -> Mapping[str, Sequence[tuple[int, ...]]]:
        """What a reader should be warned of, and of which attributes or pairs it is true, if of any."""
        return {}

    # What only some have ---------------------------------------------------------------------------------------

    def completed(self, by: str) -> Self:
        """The same model with another way to put pairs together, one of `COMPLETIONS`."""
        raise ParameterError(
            f"by must be one of {', '.join(map(repr, COMPLETIONS))}, for a method that has marginals and pairs"
        )

    def records(self, n: int, seed: int | None) -> NDArray[np.int64]:
        """n synthetic records, a row each."""
        raise ParameterError("this method has no model of whole records to draw from: take Copula or HDG")


def queries_about(shape: tuple[int, ...], values: Mapping[int, NDArray[np.bool_] | Floats]) -> Queries:
    """Queries that restrict these attributes, each to the values of its row, or to these weights of them."""
    rows = len(next(iter(values.values())))
    weights = {j: chosen.astype(np.float64) for j, chosen in values.items()}
    masks = tuple(weights.get(j, np.broadcast_to(1.0, (rows, size))) for j, size in enumerate(shape))
    return Queries(shape, (tuple(sorted(values)),) * rows, masks)
