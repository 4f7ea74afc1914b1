"""The most frequent words of a text that nobody has a list of: `top(word, 20)`.

The list may be shorter than what was asked for. A word is on it when it is significantly above a stated share: by
default a quarter of the standard error that a share has, or the third number of `top(word, 20, 0.001)`. On average at
most 5% of a list are not above it, and intervals hold for all words that were looked at, at once
(`mechanisms.prefix_search`). The sibling for keys, whose names are known, is `questions.top_keys`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from dither.core.estimate import Bounds, Estimate
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.core.words import Words
from dither.display.significant_digits import plain_number
from dither.display.table import TextTable
from dither.errors import ParameterError
from dither.mechanisms.heavy_hitters import TopWords, WordSearch, first_length
from dither.mechanisms.prefix_search import FALSE
from dither.questions.question import Floats, Question, Whole
from dither.questions.ranking import means_the_same, name_and_numbers
from dither.schema import Attribute, Schema
from dither.utility.population import Population

USUAL = 20
MOST = 1000
_NUMBERS = re.compile(r"(?:(?P<count>[0-9]{1,9})(?:,(?P<above>[0-9]*\.?[0-9]+(?:e-?[0-9]+)?))?)?")


@dataclass(frozen=True)
class TopWordsOf(Question[TopWords]):
    """The words that most users have, and their shares, the largest first."""

    count: int = USUAL
    above: float | None = None

    statistic: ClassVar[str] = "top"
    needs: ClassVar[str] = "words"
    found: ClassVar[bool] = True
    group: ClassVar[str] = "words"

    def __str__(self) -> str:
        above = "" if self.above is None else f", {plain_number(self.above)}"
        return f"{self.statistic}({self.name}, {self.count}{above})"

    @property
    def title(self) -> str:  # type: ignore[override]
        return f"the {self.count} most frequent"

    @property
    def caption(self) -> str:
        return "Only words that stand out of the noise are listed, so the list may be shorter."

    @property
    def sought(self) -> str:
        return f"which {self.count} words of {self.name} most people have, and which share of them"

    @classmethod
    def asks(cls, attribute: Attribute) -> bool:
        return attribute.kind == "text"

    @classmethod
    def usage(cls, name: str, attribute: Attribute) -> str:
        return f"{cls.statistic}({name}, {USUAL})"

    @classmethod
    def read(cls, schema: Schema, inside: str) -> Self | None:
        name, numbers = name_and_numbers(schema, inside)
        if name not in schema or not cls.asks(schema[name]):
            return None
        found = _NUMBERS.fullmatch(",".join(numbers))
        count = int((found and found["count"]) or USUAL)
        above = float(found["above"]) if found and found["above"] else None
        if found is None or not 1 <= count <= MOST or (above is not None and not 0 <= above < 1):
            raise ParameterError(
                f"top asks for a number of words from 1 to {MOST}, and for a share from 0 to 1 that they are above, as "
                f"in top({name}, 20) or top({name}, 20, 0.001)"
            )
        return cls(name, schema[name], count=count, above=above)

    def means(self, text: str) -> bool:
        return means_the_same(self, text)

    # What a mechanism takes --------------------------------------------------------------------------------------

    @cached_property
    def domain(self) -> Words:
        return self.attribute.domain

    def encode_value(self, value: Any) -> Any:
        return np.bytes_(self.attribute.encode_value(value))

    @cached_property
    def known(self) -> tuple[bytes, ...]:
        """The codes of the known words."""
        words = map(self.attribute.codes.word, self.attribute.known)
        return tuple(word for word in words if isinstance(word, bytes))

    def reading_of(self, mechanism: Mechanism) -> WordSearch:
        own: Any = mechanism
        return own.search(self.count, self.known, self.above, self.attribute.codes)

    @property
    def together(self) -> str:
        """One collection answers for any number of words, above any share."""
        return self.name

    def select(self, own: TopWords, place: int, count: int) -> TopWords:
        return own.as_many(self.count, self.above) if place else own

    # What it costs -----------------------------------------------------------------------------------------------

    def limit(self, weight: float) -> None:
        """None is known."""

    @property
    def unasked(self) -> float:
        """Of shares that add up to at most 1."""
        return 1 / self.count

    @property
    def useless(self) -> float:
        return self.count**-0.5 / 1.96

    @property
    def remark(self) -> str:
        return (
            "predicted is the standard error of the share of a word that all reports tell about, as they do about "
            "short ones; words that end behind the first level have fewer reports, and larger errors."
        )

    def forecast(self, mechanism: Mechanism, reports: float, users: Population | None) -> dict[str, float]:
        reading = self.reading_of(mechanism)
        search = reading.forecast(max(reports, 1.0))
        if users is None:
            return search.smallest().stored()
        return search.of_words(users.values, users.weights, self.count, self.known).stored()

    def forecast_in_words(self, told: Mapping[str, float]) -> str:
        short, long, hopeless = (_percent(told[name]) for name in ("short", "long", "hopeless"))
        first = first_length(self.domain.symbols, self.domain.longest)
        longer = "" if first == self.domain.longest else f", and one of {self.domain.longest} from {long} of them on"
        said = (
            f"a word of {first} {self.attribute.codes.units} is found, with a chance of nine in ten, from {short} of "
            f"the users on{longer}; nothing below {hopeless} will be found"
        )
        if "recall" not in told:
            return f"{said}."
        return (
            f"{said}. For users like those of the prior {told['recall']:.0%} of the {self.count} most frequent words "
            f"will be on the list, which will have about {told['listed']:.0f}; on average at most {FALSE:.0%} of it "
            "false."
        )

    def weighted(self, given: Mapping[Any, float]) -> tuple[Self, float]:
        raise ParameterError(f"weights: {self} finds its words itself, so that none has a weight; give it one weight")

    # What it gives -----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int]:
        return (self.count,)

    def unknown(self, guarantee: Guarantee, source: str) -> TopWords:
        return TopWords(
            np.zeros(0), np.zeros(0), 0, guarantee, str(self), (), source, bounds=Bounds(0.0, 1.0), ordered=True
        )

    def decode(self, estimate: TopWords) -> TopWords:
        texts = tuple(str(self.attribute.decode(word)) for word in estimate.words)
        return replace(estimate, question=str(self), labels=texts)

    def shares_of(self, estimate: TopWords, items: Sequence[Any]) -> Estimate:
        return estimate.share_of(items)

    def search_table(self, estimate: TopWords) -> TextTable | None:
        """Prefixes of which length, by whose reports; how many were looked at, and how many were worth extending."""
        if estimate.searched is None:
            return None
        evidence, candidates, kept = estimate.searched.evidence, estimate.searched.candidates, estimate.searched.kept
        lengths = evidence.levels.lengths
        return TextTable(
            {
                f"first {self.attribute.codes.units}": list(lengths),
                "reports": [evidence.n_at(level) for level in range(len(lengths))],
                "looked at": [*candidates, *[0] * (len(lengths) - len(candidates))],
                "extended": [*kept, *[0] * (len(lengths) - len(kept))],
            }
        )

    def refine(self, estimate: TopWords, apply: Callable[[TopWords], TopWords], auto: bool) -> TopWords:
        """A list that was tested stays as it is."""
        return estimate

    def stratified(self, terms: Sequence[TopWords], weights: Sequence[float]) -> None:
        """Lists of different users are not put together: the words of one need not be on the other."""

    # What is true, in a trial ------------------------------------------------------------------------------------

    def sums(self, column: Any) -> Whole | None:
        """Which words come out on top is part of the result: it has no truth beforehand."""
        return None

    def truths(self, sums: Whole, users: int) -> dict[str, Floats]:
        return {}


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%"
