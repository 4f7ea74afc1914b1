"""Small drawings that need no library: they stretch to any width, follow light and dark, and print.

Only shapes are drawn. All words stand beside them as text of the page, so that letters have one size on a phone and on
paper. Shapes are placed in per cent of the width, or are stretched, with strokes that keep their width. Colours
are classes of the page's style sheet.

A heat map is a picture of one dot a cell (a PNG, which has a dozen lines here), since thousands of rectangles would
make the page large and leave hairlines between cells.
"""

import base64
import math
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dither.display.markup import Markup, element, joined

Floats = NDArray[np.float64]

# The stops of cividis (Nuñez, Anderton, Renslow 2018): as bright as the number is large, to all kinds of eyes.
_STOPS = "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838"
_WIDE = 1000  # units of a drawing that is stretched


def bar(value: float, low: float, high: float, most: float, truth: float | None = None) -> Markup:
    """A share from 0 to `most` as a bar, with its interval, and a mark for the truth."""
    return _strip(
        element("rect", class_="track", x=0, y=4, width="100%", height=8, rx=2),
        element("rect", class_="fill", x=0, y=4, width=at(value, 0, most), height=8, rx=2),
        element("line", class_="reach", x1=at(low, 0, most), x2=at(high, 0, most), y1=8, y2=8),
        *_mark(truth, 0, most),
    )


def whisker(value: float, low: float, high: float, first: float, last: float, truth: float | None = None) -> Markup:
    """A number with its interval, between the ends of its domain."""
    if not math.isfinite(value):
        return _strip(element("line", class_="axis", x1=0, x2="100%", y1=8, y2=8))
    return _strip(
        element("line", class_="axis", x1=0, x2="100%", y1=8, y2=8),
        element("line", class_="band", x1=at(low, first, last), x2=at(high, first, last), y1=8, y2=8),
        *_mark(truth, first, last),
        element("circle", class_="dot", cx=at(value, first, last), cy=8, r=4),
    )


def _strip(*shapes: Markup) -> Markup:
    """A drawing beside its numbers: who cannot see it misses nothing."""
    return element("svg", *shapes, class_="strip", width="100%", height=16, aria_hidden="true")


def _mark(truth: float | None, first: float, last: float) -> list[Markup]:
    if truth is None or not math.isfinite(truth):
        return []
    here = at(truth, first, last)
    return [element("line", class_="truth", x1=here, x2=here, y1=0, y2=16)]


def at(number: float, first: float, last: float) -> str:
    """A place between two ends in per cent; what lies beyond is at the end.

    >>> at(5, 0, 20), at(-1, 0, 20), at(float("inf"), 0, 20)
    ('25%', '0%', '100%')
    """
    part = (number - first) / (last - first) if last > first else 0.0
    return f"{100 * min(max(part, 0.0), 1.0):.4g}%" if part == part else "0%"


def steps(edges: Floats, value: Floats, low: Floats, high: Floats, top: float, lines: Sequence[float]) -> list[Markup]:
    """Steps with a band, for a field that is `top` high; `lines` are the heights of a light grid."""
    table = np.stack([value, low, high])
    changed = np.flatnonzero(np.append(True, (np.diff(table, axis=1) != 0).any(axis=0)))  # even pieces are one step
    value, low, high = table[:, changed]
    edges = np.append(edges[changed], edges[-1])
    x = np.rint((edges - edges[0]) / (edges[-1] - edges[0]) * _WIDE).astype(int).tolist()
    above, below = _stairs(x, _heights(high, top)), _stairs(x, _heights(low, top))
    return [
        *(element("line", class_="grid", x1=0, x2=_WIDE, y1=y, y2=y) for y in _heights(np.array(lines), top)),
        element("path", class_="shade", d=f"M{_path(above)}L{_path(below[::-1])}Z"),
        element("path", class_="line", d=f"M{_path(_stairs(x, _heights(value, top)))}"),
    ]


def truth_steps(edges: Floats, truth: Floats, top: float) -> Markup:
    """The true shares, as steps over the estimated ones."""
    x = np.rint((edges - edges[0]) / (edges[-1] - edges[0]) * _WIDE).astype(int).tolist()
    return element("path", class_="truth", d=f"M{_path(_stairs(x, _heights(truth, top)))}")


def curve(
    places: Floats, ends: tuple[float, float], value: Floats, low: Floats, high: Floats, lines: Sequence[float]
) -> list[Markup]:
    """Shares along an axis, known at some places, with a band; `lines` are the heights of a light grid."""
    above, below = _line(places, ends, high), _line(places, ends, low)
    return [
        *(element("line", class_="grid", x1=0, x2=_WIDE, y1=y, y2=y) for y in _heights(np.array(lines), 1.0)),
        element("path", class_="shade", d=f"M{_path(above)}L{_path(below[::-1])}Z"),
        element("path", class_="line", d=f"M{_path(_line(places, ends, value))}"),
    ]


def truth_curve(places: Floats, ends: tuple[float, float], truth: Floats) -> Markup:
    """The true shares along an axis, over the estimated ones."""
    return element("path", class_="truth", d=f"M{_path(_line(places, ends, truth))}")


def _line(places: Floats, ends: tuple[float, float], shares: Floats) -> list[tuple[int, int]]:
    x = np.rint((places - ends[0]) / (ends[1] - ends[0]) * _WIDE).astype(int).tolist()
    return list(zip(x, _heights(shares, 1.0), strict=True))


def field(shapes: Sequence[Markup], told: str) -> Markup:
    """A drawing that fills its place, whatever its shape, and says what it shows."""
    return element(
        "svg",
        element("title", told),
        joined(shapes),
        viewBox=f"0 0 {_WIDE} {_WIDE}",
        preserveAspectRatio="none",
        role="img",
        aria_label=told,
    )


def _heights(shares: Floats, top: float) -> list[int]:
    return np.rint(_WIDE * (1 - np.clip(shares / top, 0.0, 1.0))).astype(int).tolist()


def _stairs(x: Sequence[int], y: Sequence[int]) -> list[tuple[int, int]]:
    return [corner for place, height in enumerate(y) for corner in ((x[place], height), (x[place + 1], height))]


def _path(corners: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{x} {y}" for x, y in corners)


def ticks(first: float, last: float, most: int = 5, least: float = 0.0) -> list[float]:
    """Round numbers from `first` to `last`, at most so many and no nearer than `least`.

    >>> ticks(18, 99), ticks(0, 0.037, 4), ticks(1, 5, least=1)
    ([20.0, 40.0, 60.0, 80.0], [0.0, 0.01, 0.02, 0.03], [1.0, 2.0, 3.0, 4.0, 5.0])
    """
    if not last > first:
        return [first]
    power = math.floor(math.log10((last - first) / most))
    for step in (factor * 10.0**exponent for exponent in range(power, power + 3) for factor in (1, 2, 5)):
        low, high = math.ceil(first / step - 1e-9), math.floor(last / step + 1e-9)
        if high - low < most and step >= least:
            return [float(f"{place * step:.12g}") for place in range(low, high + 1)]
    return [first, last]


# Pictures ----------------------------------------------------------------------------------------------------------


def picture(table: Floats, most: float, power: float = 1.0) -> str:
    """A table as the address of a picture of one dot a cell, the first row on top; colours go from 0 to `most`."""
    shares = np.clip(np.nan_to_num(table) / (most or 1.0), 0.0, 1.0)
    dots = np.rint(255 * shares**power).astype(np.uint8)
    height, width = dots.shape
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), dots], axis=1)  # each begins with "no filter"
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", _palette()),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _palette() -> bytes:
    """The 256 colours between the stops."""
    stops = np.array([list(bytes.fromhex(stop)) for stop in _STOPS.split()], dtype=np.float64)
    places = np.linspace(0, len(stops) - 1, 256)
    mixed = [np.interp(places, np.arange(len(stops)), channel) for channel in stops.T]
    return np.rint(np.stack(mixed, axis=1)).astype(np.uint8).tobytes()
