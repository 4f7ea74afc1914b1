"""Numbers for readers: as many digits as the error bar allows, and no more.

An error keeps two digits if it begins with 1 or 2, and otherwise one: 0.0042 is 0.004, and 0.0012 stays. The value ends
where its error ends. Of an error of tens or more the zeros are no digits, and the value keeps one digit more, so that
12,345 ± 120 is not 12,350. What is not known is called so, never `nan`.
"""

import math

UNKNOWN = "unknown"
_MINUS = "\u2212"
_FEW = 4  # digits of a number without an error
_SMALLEST, _LARGEST = -7, 15  # places beyond these are written with an exponent


def last_place(error: float) -> int:
    """The power of ten of the last digit that an error deserves.

    >>> last_place(120), last_place(0.0042), last_place(0.0012), last_place(0.0096)
    (1, -3, -4, -3)
    """
    lead, _, exponent = f"{error:.1e}".partition("e")
    two_digits = float(lead) < 3
    return int(exponent) - two_digits  # from 9.5 on one digit rounds up to 10, which begins with 1: two digits again


def number(value: float, error: float | None = None) -> str:
    """A value with the digits that its error allows.

    >>> number(12345.4, 123.0), number(0.31234, 0.0042), number(-0.0001, 0.3), number(float("nan"), 1.0)
    ('12,345', '0.312', '0.0', 'unknown')
    """
    if not math.isfinite(value) or (error is not None and error == math.inf):
        return UNKNOWN
    if error is None or not error > 0:
        text = _written(value, _own_place(value))
        return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
    place = last_place(error)
    return _written(value, place - 1 if place > 0 else place)


def plus_minus(value: float, error: float) -> str:
    """A value and its error.

    >>> plus_minus(12345.4, 123.0), plus_minus(0.31234, 0.0042)
    ('12,345 ± 120', '0.312 ± 0.004')
    """
    told = number(value, error)
    return told if told == UNKNOWN or not error >= 0 else f"{told} ± {size(error)}"


def size(error: float) -> str:
    """An error by itself.

    >>> size(2538.4), size(0.0207), size(0.057), size(0.0)
    ('2,500', '0.021', '0.06', '0')
    """
    if not 0 <= error < math.inf:
        return UNKNOWN
    return _written(error, last_place(error)) if error else "0"


def percent(value: float, error: float | None = None) -> str:
    """A share as a percentage.

    >>> percent(0.31234, 0.0042), percent(0.5), percent(float("nan"))
    ('31.2%', '50%', 'unknown')
    """
    told = number(100 * value, None if error is None else 100 * error)
    return told if told == UNKNOWN else f"{told}%"


def percent_size(error: float) -> str:
    """The error of a share.

    >>> percent_size(0.0207)
    '2.1%'
    """
    told = size(100 * error)
    return told if told == UNKNOWN else f"{told}%"


def span(low: float, high: float, error: float, *, share: bool = False) -> str:
    """The two ends of an interval, both with the digits of the value between them.

    >>> span(29847.0, 39776.0, 2538.4), span(0.3042, 0.3206, 0.0042, share=True)
    ('29,850 to 39,780', '30.4 to 32.1%')
    """
    unit = 100 if share else 1
    ends = [number(unit * end, unit * error) for end in (low, high)]
    return UNKNOWN if UNKNOWN in ends else " to ".join(ends) + "%" * share


def plain_number(value: float) -> str:
    """A number that is known exactly, such as the end of a domain.

    >>> plain_number(200_000.0), plain_number(0.5), plain_number(1e-9)
    ('200,000', '0.5', '1e-09')
    """
    if value and not 1e-5 <= abs(value) < 1e15:
        return f"{value:g}".replace("-", _MINUS, int(value < 0))
    return f"{float(value):,.10f}".rstrip("0").rstrip(".").replace("-", _MINUS)


def _own_place(value: float) -> int:
    """Where a number without an error ends."""
    return math.floor(math.log10(abs(value))) - _FEW + 1 if value else 0


def _written(value: float, place: int) -> str:
    if abs(value) < 10.0 ** min(place, 300) / 2 and place > 0:
        return "0"
    if not _SMALLEST <= place <= _LARGEST:
        digits = max(0, (math.floor(math.log10(abs(value))) if value else place) - place)
        text = f"{value:.{min(digits, 15)}e}"
    else:
        text = f"{round(value, -place):,.{max(0, -place)}f}"
    if not any(digit in text.partition("e")[0] for digit in "123456789"):
        return text.lstrip("-")
    return text.replace("-", _MINUS, int(value < 0))
