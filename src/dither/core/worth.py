"""What one report is worth: how much it adds to each number that is estimated, at most and at least.

Nearly every estimate is an average over reports: of n reports, each adds w(y) / n, where w is a function of the report
alone, the *worth* of y (its score; in robust statistics, the influence of an observation). An honest report is worth
the truth about its user *on average*, and a single one is worth far more or far less: that is the noise which hides
the user, and what a liar can use. Whoever sends what he likes picks the valid report y with the largest w(y). So

    swing = most - least

is what replacing one of n reports moves the number by, in units of 1/n, and a share b of liars turns an estimate of f
into (1 - b) f + b w, with any w from `least` to `most`.

**Asked are some.** Where only a share `asked` of the reports is about the number, drawn without looking at values, an
honest device keeps to the draw and a liar does not: all liars speak about the number that they want to move. It is an
average over the reports about it, of which they are then

    b' = b / (b + (1 - b) asked).

Worths are rationals of the integers that are sampled and read with. Where one is a bound, which no valid report
exceeds and perhaps none attains, it says so.
"""

from fractions import Fraction
from typing import NamedTuple

ZERO, ONE = Fraction(0), Fraction(1)


class Worth(NamedTuple):
    """What a valid report adds to each of `items` numbers, at least and at most; an honest one, on average, `low` to
    `high`."""

    question: str
    least: Fraction
    most: Fraction
    low: Fraction = ZERO
    high: Fraction = ONE
    items: int = 1
    at_once: int | None = 1  # how many of them one report can move by that much; None: a liar searches hash functions
    asked: Fraction = ONE  # the share of honest reports that are about a number
    exact: bool = True  # some valid report is worth it; otherwise none is worth more
    note: str = ""  # what is not an average of reports, and what is known of it

    @property
    def swing(self) -> Fraction:
        """What replacing one of the n reports about a number moves it by, at most, in units of 1/n."""
        return self.most - self.least

    def movement(self) -> Fraction:
        """The same in units of 1/n for the n reports of all users, of whom only some were asked."""
        return self.swing / self.asked

    def liars_among(self, share: Fraction) -> Fraction:
        """Which part of the reports about a number are lies, if this share of all users lies about it."""
        return share / (share + (1 - share) * self.asked)

    def shifted(self, truth: Fraction, share: Fraction) -> tuple[Fraction, Fraction]:
        """The estimate that liars can make of a number, on average: the lowest and the highest."""
        lies = self.liars_among(share)
        return (1 - lies) * truth + lies * self.least, (1 - lies) * truth + lies * self.most

    def shift(self, share: Fraction) -> tuple[Fraction, Fraction]:
        """How far liars can move a number down and up, on average and at most, whatever the truth is."""
        lies = self.liars_among(share)
        return lies * (self.least - self.high), lies * (self.most - self.low)

    def worst_shift(self, share: Fraction) -> Fraction:
        """The larger of the two."""
        down, up = self.shift(share)
        return max(-down, up)

    def scaled(self, unit: Fraction, centre: Fraction = ZERO) -> "Worth":
        """In other units: one is worth `unit`, and zero is at `centre`."""
        least, most, low, high = (centre + unit * each for each in (self.least, self.most, self.low, self.high))
        return self._replace(least=least, most=most, low=low, high=high)

    def asked_of(self, share: Fraction) -> "Worth":
        """Where only this share of the users is asked at all."""
        return self._replace(asked=self.asked * share)

    @classmethod
    def of_mean(cls, most: Fraction, least: Fraction | None = None, **more: object) -> "Worth":
        """Of a number from -1 to 1, by default with reports that reach as far down as up."""
        return cls("mean", -most if least is None else least, most, -ONE, ONE)._replace(**more)  # type: ignore[arg-type]


Worths = tuple[Worth, ...]
