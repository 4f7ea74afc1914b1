"""The results of a plan: a mapping from each question to what was estimated.

Most questions are about one attribute, and their result is an `Estimate`. One about several at once has a
`RangeEstimate`, which answers any query about them. Both are results (`core.results`): a loop over all of them finds a
table, a picture, intervals and words on each. `single` gives a result of the first kind and `ranges` one of the second,
with their types; `cumulative` gives shares below thresholds, which have quantiles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dither.core.cumulative_estimate import Cumulative
from dither.core.estimate import Estimate, Estimates
from dither.core.reports import left_out_in_words
from dither.errors import UnknownError
from dither.ranges.range_estimate import RangeEstimate


@dataclass(frozen=True, eq=False, repr=False)
class PlanEstimates(Estimates[str, Estimate | RangeEstimate]):
    """A result for each question, as in `estimates["mean(income)"]`; an attribute's name means its first question.

    `dropped` says how many reports were left out of the tally, by the reason: they are in no number.
    """

    dropped: Mapping[str, int] = field(default_factory=dict)

    def explain(self) -> str:
        """Each part in words, and what was left out."""
        return "\n\n".join(filter(None, [super().explain(), left_out_in_words(self.dropped)]))

    def single(self, question: str) -> Estimate:
        """The result of a question about one attribute."""
        found = self[question]
        if isinstance(found, RangeEstimate):
            raise UnknownError("this result is about several attributes: estimates.ranges(...) gives it")
        return found

    def cumulative(self, attribute: str) -> Cumulative:
        """The shares of users below thresholds of an attribute, with the quantiles that can be read off them."""
        found = self.parts.get(f"cumulative({attribute})")
        if not isinstance(found, Cumulative):
            raise UnknownError(f'this plan did not ask for it: plan with ask=["cumulative({attribute})"]')
        return found

    def ranges(self, *attributes: str) -> RangeEstimate:
        """The result about exactly these attributes together, in any order; the only one, if none are named."""
        asked = {tuple(part.axes.names): part for part in self.values() if isinstance(part, RangeEstimate)}
        found = [part for names, part in asked.items() if not attributes or set(names) == set(attributes)]
        if len(found) == 1:
            return found[0]
        known = ", ".join(f"ranges({', '.join(names)})" for names in list(asked)[:12])
        if not asked:
            raise UnknownError('this plan did not ask for ranges: plan with ask=["ranges(age, income)"]')
        raise UnknownError(f"name the attributes of one of these results: {known}")
