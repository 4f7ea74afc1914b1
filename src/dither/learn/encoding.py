"""Records as vectors: the encoding of 002, from public domains alone.

A number becomes one entry from -1 to 1 (an ordinal attribute too, by its value). A category with k labels becomes k - 1
entries of -1 or 1: entry l is 1 for label l, and for the last label all are -1 (002 section 6.2). All entries of a
record are within [-1, 1], so a box of half-width 1 holds it, and nothing has to be learned from data first: there is no
`fit`, since domains are public.

**What is known beforehand.** Indicators of rare labels are nearly always -1, so all of them move with the intercept,
and gradients along that one direction drown the others. Which labels are rare is a fact about the data; how many labels
there are is not. `second_moments` is E[x x'] for a record drawn uniformly from the domains: labels alike, numbers
uniform, attributes independent. Training divides by it (`learn.linear`), which is as good as dividing by the true
moments at the noise of local reports, and costs nobody anything.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError, RowError
from dither.planning.record_tables import columns_of
from dither.schema import Categorical, Numeric, Ordinal, Schema


@dataclass(frozen=True)
class Encoder:
    """Records with the attributes of a schema, as rows of d numbers from -1 to 1.

    >>> from dither import Categorical, Numeric
    >>> encoder = Encoder(Schema({"age": Numeric(0, 100), "job": Categorical(["nurse", "driver", "other"])}))
    >>> encoder.names
    ('age', 'job=nurse', 'job=driver')
    >>> encoder.transform({"age": [50, 100], "job": ["driver", "other"]}).tolist()
    [[0.0, -1.0, 1.0], [1.0, -1.0, -1.0]]
    """

    schema: Schema

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise ParameterError("an encoder is made from a dither.Schema")
        for name, attribute in self.schema.items():
            if attribute.kind not in _BLOCKS:
                raise ParameterError(f"attribute {name}: a key-value attribute has no encoding; leave it out")

    @classmethod
    def without(cls, schema: Schema, label: str) -> "Encoder":
        """The encoder of all attributes but the label."""
        if label not in schema:
            raise ParameterError(f"the schema has no attribute for the label; it has {', '.join(schema)}")
        rest = {name: attribute for name, attribute in schema.items() if name != label}
        if not rest:
            raise ParameterError("the schema holds the label only: there is nothing to learn from")
        return cls(Schema(rest))

    @cached_property
    def d(self) -> int:
        """How many entries a record has."""
        return len(self.names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The entries: a number's name, and for a label its attribute and its text."""
        return tuple(name for _, block in self._blocks() for name in block.names)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The same, as scikit-learn asks for it."""
        return np.array(self.names, dtype=object)

    def fit(self, table: Any = None, y: Any = None) -> "Encoder":
        """Nothing to do: it is here for scikit-learn's pipelines."""
        return self

    def transform(self, table: Any, invalid: str = "error") -> NDArray[np.float64]:
        """The records of a table (as `Plan.randomize` takes it) as rows; `invalid` as in every attribute.

        `"error"` refuses what is outside of its domain with the attribute, the row and the rule. `"substitute"` puts
        the attribute's substitute there.
        """
        columns, users = columns_of(table, dict(self.schema))
        made = np.empty((users, self.d))
        place = 0
        for name, block in self._blocks():
            made[:, place : place + len(block.names)] = _encoded(name, block, columns[name], invalid)
            place += len(block.names)
        return made

    def fit_transform(self, table: Any, y: Any = None) -> NDArray[np.float64]:
        """`transform`, for scikit-learn's pipelines."""
        return self.transform(table)

    def second_moments(self) -> NDArray[np.float64]:
        """E[z z'] of a record with a constant 1 behind it, drawn uniformly from the domains.

        >>> from dither import Categorical
        >>> Encoder(Schema({"job": Categorical(["nurse", "other"])})).second_moments().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        mean, spread = np.ones(self.d + 1), np.zeros((self.d + 1, self.d + 1))
        place = 0
        for _, block in self._blocks():
            here = slice(place, place + len(block.names))
            mean[here], spread[here, here] = block.uniform()
            place += len(block.names)
        return spread + np.outer(mean, mean)

    def _blocks(self) -> Iterator[tuple[str, "_Block"]]:
        """Each attribute with its entries."""
        return ((name, _BLOCKS[attribute.kind](name, attribute)) for name, attribute in self.schema.items())


class _Block(NamedTuple):
    """The entries of one attribute."""

    names: Sequence[str]
    encode: Callable[[Any, str], NDArray[np.float64]]  # a column, with the rule for what is invalid, as rows
    uniform: Callable[[], tuple[Any, Any]]  # mean and covariance, of a value drawn uniformly from the domain


def _number(name: str, attribute: Numeric) -> _Block:
    return _Block([name], lambda column, invalid: attribute.encode(column, invalid)[:, None], lambda: (0.0, 1 / 3))


def _ordinal(name: str, attribute: Ordinal) -> _Block:
    number = _number(name, attribute.numeric())
    return number._replace(
        encode=lambda column, invalid: number.encode(attribute.low + attribute.encode(column, invalid), invalid)
    )


def _labels(name: str, attribute: Categorical) -> _Block:
    share, entries = 1 / attribute.k, attribute.k - 1
    return _Block(
        [f"{name}={label}" for label in attribute.labels[:-1]],
        lambda column, invalid: np.where(attribute.encode(column, invalid)[:, None] == np.arange(entries), 1.0, -1.0),
        lambda: (2 * share - 1, 4 * share * (np.eye(entries) - share)),
    )


def _encoded(name: str, block: _Block, column: Any, invalid: str) -> NDArray[np.float64]:
    try:
        return block.encode(column, invalid)
    except RowError as error:  # never quotes a value
        wrong = error.but(attribute=name)
    raise wrong


_BLOCKS: dict[str, Callable[[str, Any], _Block]] = {
    Numeric.kind: _number,
    Ordinal.kind: _ordinal,
    Categorical.kind: _labels,
}
