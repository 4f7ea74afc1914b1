"""Outward-rounded arithmetic: the only road between e^epsilon and the integers of a sampler.

A guarantee is an inequality between integers, `A <= e^epsilon * B`, and e^epsilon is irrational. So it is
enclosed: `exp_below` returns a rational that is never above e^epsilon, and `log_above` a float that is
never below the logarithm of a rational. Both stand on `decimal`, whose `exp` and `ln` are correctly
rounded, and step one unit outward to be safe. Nothing in this module is approximate in the direction
that would cost a user privacy.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

# e^x for x beyond this does not change any answer: no sampler here has weights of 2,100 bits.
_LARGEST_EXPONENT = Decimal(1500)


def _context(digits: int, rounding: str = ROUND_HALF_EVEN) -> Context:
    return Context(prec=digits, rounding=rounding, Emax=10**9, Emin=-(10**9))


def exp_below(epsilon: float, digits: int = 60) -> Fraction:
    """A rational just below e^epsilon, right to `digits` significant digits.

    >>> float(exp_below(1.0))
    2.718281828459045
    >>> exp_below(1e9) == exp_below(1500)  # saturates, still below
    True
    """
    context = _context(digits)
    exponent = min(Decimal(epsilon), _LARGEST_EXPONENT)
    if exponent == 0:
        return Fraction(1)
    return Fraction(context.next_minus(exponent.exp(context)))


def exp_above(epsilon: float) -> float:
    """A float at or just above e^epsilon.

    >>> exp_above(0.0), exp_above(1.0) > 2.718281828459045
    (1.0, True)
    """
    exponent = Decimal(epsilon)
    if exponent == 0:
        return 1.0
    return math.inf if exponent > 700 else float_above(Fraction(_context(60).next_plus(exponent.exp(_context(60)))))


def log_above(ratio: Fraction | float) -> float:
    """A float at or just above ln(ratio); `inf` where the ratio is.

    >>> log_above(Fraction(3)), log_above(Fraction(1)), log_above(math.inf)
    (1.0986122886681098, 0.0, inf)
    """
    return math.inf if ratio == math.inf else float_above(closely_above_log(Fraction(ratio)))


def closely_above_log(ratio: Fraction) -> Fraction:
    """A rational above ln(ratio), right to about 50 digits: sums of these are rounded once, at the end."""
    if ratio == 1:
        return Fraction(0)
    # ln(a/b) = ln a - ln b may cancel: carry as many more digits as the integers have.
    digits = 50 + (ratio.numerator.bit_length() + ratio.denominator.bit_length()) // 3
    context = _context(digits, ROUND_CEILING)
    upper = context.next_plus(Decimal(ratio.numerator).ln(context))
    lower = context.next_minus(Decimal(ratio.denominator).ln(context))
    return Fraction(context.subtract(upper, lower))


def root_below(number: Fraction, degree: int) -> Fraction:
    """A rational at or just below the root of a number that is at least 1: its power never exceeds the number.

    >>> 2 - float(root_below(Fraction(8), 3)) < 1e-15, root_below(Fraction(5), 1)
    (True, Fraction(5, 1))
    """
    if degree == 1:
        return number
    # ln(a/b) = ln a - ln b may cancel: carry as many more digits as the integers have.
    digits = 60 + (number.numerator.bit_length() + number.denominator.bit_length()) // 3
    context = _context(digits)
    log = context.subtract(Decimal(number.numerator).ln(context), Decimal(number.denominator).ln(context))
    root = _context(50, ROUND_FLOOR).create_decimal(context.divide(log, Decimal(degree)).exp(context))
    below = Fraction(root)
    while below**degree > number:  # cannot happen, but a guarantee hangs on it
        below -= Fraction(1, 10**48)
    return max(below, Fraction(1))


def share_below(total: float, parts: int) -> float:
    """The largest float of which `parts` do not add up to more than `total`.

    >>> share_below(1.0, 3) * 3 <= 1.0, share_below(1.0, 4)
    (True, 0.25)
    """
    share = total / parts
    return share if Fraction(share) * parts <= Fraction(total) else math.nextafter(share, 0.0)


def float_above(number: Fraction) -> float:
    """The smallest float that is not below `number`.

    >>> float_above(Fraction(1, 3)) >= Fraction(1, 3)
    True
    """
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def upward(number: float, digits: int = 9) -> str:
    """`number` as text with `digits` significant digits, rounded up: a printed guarantee is never too good.

    >>> upward(0.99999999999), upward(1.0000000001), upward(0.0)
    ('1', '1.00000001', '0')
    >>> upward(0.1), upward(1 / 3)  # a float that has a short name is called by it
    ('0.1', '0.333333334')
    """
    if not math.isfinite(number):
        return str(number)
    if number == 0:
        return "0"
    shortest = Decimal(repr(float(number)))
    short = len(shortest.normalize().as_tuple().digits) <= digits
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(shortest if short else Decimal(number))
    text = f"{rounded:f}" if -5 < rounded.adjusted() < digits else f"{rounded:e}"
    mantissa, mark, exponent = text.partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return mantissa + mark + exponent
