"""Questions: statistics of attributes, written `mean(income)`.

A question knows both sides of its attribute: how a column in its own units becomes what a mechanism takes, and how
what the mechanism estimates becomes a result in these units again. There are two kinds. A *mean* is asked by a
mechanism for one number, and `cells` is 0. *Frequencies* are asked by a mechanism for `cells` categories: labels,
whole numbers, or the bins that a number falls into.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.core.errors import DomainError, ParameterError
from dither.core.estimate import Bounds, Estimate
from dither.schema import Attribute, KeyValue, Numeric, Ordinal, Schema

BINS = 32  # cells of the distribution of a number


@dataclass(frozen=True)
class Question:
    """A statistic of a named attribute.

    >>> question = Question("income", "mean", Numeric(0, 200_000))
    >>> str(question), question.cells, question.unit
    ('mean(income)', 0, 100000.0)
    """

    name: str
    statistic: str
    attribute: Any = field(hash=False)  # labels may be many, and names suffice to tell questions apart

    def __str__(self) -> str:
        return f"{self.statistic}({self.name})"

    @property
    def cells(self) -> int:
        """How many frequencies are asked for; 0 for a mean."""
        if self.statistic == "mean":
            return 0
        return BINS if isinstance(self.attribute, Numeric) else self.attribute.k

    @property
    def unit(self) -> float:
        """What a mechanism's one is worth."""
        return self.attribute.scale if self.cells == 0 else 1.0

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The names of the cells."""
        if self.cells == 0:
            return None
        if not isinstance(self.attribute, Numeric):
            return self.attribute.labels
        edges = np.linspace(self.attribute.low, self.attribute.high, BINS + 1)
        return tuple(f"{low:g} to {high:g}" for low, high in pairwise(edges))

    def encode(self, column: Any, invalid: str = "error") -> NDArray:
        """What the mechanism takes, for each value of the column."""
        attribute = self.attribute
        coder = attribute.numeric() if self.cells == 0 and isinstance(attribute, Ordinal) else attribute
        try:
            encoded: NDArray = coder.encode(column, invalid)
        except DomainError as error:  # never quotes a value
            reason = str(error)
        else:
            if self.cells and isinstance(attribute, Numeric):
                return np.minimum(((encoded + 1) / 2 * BINS).astype(np.int64), BINS - 1)
            return encoded
        raise DomainError(f"attribute {self.name}, {reason}")

    def decode(self, estimate: Estimate) -> Estimate:
        """A mechanism's estimate in the attribute's own units, with its labels."""
        value, stderr, bounds = estimate.value, estimate.stderr, estimate.bounds
        if self.cells == 0:
            value, stderr = self.attribute.centre + self.unit * value, self.unit * stderr
            bounds = Bounds(self.attribute.low, self.attribute.high)
        kept = None if estimate.original is None else self.decode(estimate.original)
        return replace(
            estimate, value=value, stderr=stderr, question=str(self), labels=self.labels, bounds=bounds, original=kept
        )

    @property
    def useless(self) -> float:
        """From this standard error on, the 95% interval tells nothing that the domain does not tell.

        A mean is in the domain without asking anybody, and the squares of k frequencies add up to at most 1.
        """
        return (self.unit if self.cells == 0 else self.cells**-0.5) / 1.96


def questions(schema: Schema, ask: Iterable[str] | None) -> tuple[Question, ...]:
    """The questions that are asked for; by default each attribute's first."""
    if isinstance(ask, str):
        ask = [ask]
    given: Any = list(schema) if ask is None else list(ask) if isinstance(ask, Iterable) else [ask]
    if not all(isinstance(text, str) for text in given):
        raise ParameterError('ask is a list of texts, as in ask=["mean(income)", "histogram(job)"]')
    full = [f"{schema[text].questions[0]}({text})" if text in schema else text for text in given]
    found = tuple(_question(schema, text) for text in full)
    if not found or len(set(map(str, found))) < len(found):
        raise ParameterError("ask for at least one question, and for each only once")
    return found


def _question(schema: Schema, text: str) -> Question:
    statistic, _, rest = text.partition("(")
    name = rest.removesuffix(")")
    if name not in schema or statistic not in schema[name].questions or not text.endswith(")"):
        raise ParameterError(f"there is no such question; this schema answers {_known(schema)}")
    attribute: Attribute = schema[name]
    if isinstance(attribute, KeyValue):
        raise ParameterError(
            f"attribute {name}: key-value questions cannot be planned yet; leave it out with ask=[...]"
        )
    return Question(name, statistic, attribute)


def _known(schema: Schema, most: int = 12) -> str:
    listed = [f"{statistic}({name})" for name in schema for statistic in schema[name].questions]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most:,} more" if len(listed) > most else "")
