"""Mutations of what is right: bytes that are flipped, cut, doubled or put elsewhere, and numbers that become extreme.

Most mutations of bytes end at a digest. So a format that can be taken apart is mutated inside, too, and put together
again with digests that are right, as somebody would who wants it to be read.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

EXTREMES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 7, 255, 256, 1 << 16, 1 << 30, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 40, (1 << 53) + 1, 1 << 60),
    *((1 << 63) - 1, 1 << 63, (1 << 64) - 1, -(1 << 31), -(1 << 63)),
    *(0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), True, False, None),
    *("", "x", "\x00", "\ud800", "9" * 400, "GRR", b"", b"\xff" * 32),
)


def mutated_bytes(data: bytes, random: Random) -> bytes:
    """Some bytes flipped, cut out, doubled, put elsewhere, or set to an end."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        if not changed:
            break
        at = random.randrange(len(changed))
        to = min(len(changed), at + random.choice((1, 1, 2, 4, 8, 9, 33, 200)))
        kind = random.randrange(7)
        if kind == 0:
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del changed[at:to]
        elif kind == 2:
            changed[at:at] = changed[at:to]
        elif kind == 3:
            piece, place = changed[at:to], random.randrange(len(changed))
            changed[place : place + len(piece)] = piece
        elif kind == 4:
            changed[at:to] = bytes([random.choice((0, 0x7F, 0x80, 0xFF))]) * (to - at)
        elif kind == 5:
            del changed[at:]
        else:
            changed[at:at] = bytes(random.randrange(256) for _ in range(random.choice((1, 2, 9))))
    return bytes(changed)


def mutated_tree(tree: Any, random: Random, *, inside: Callable[[bytes, Random], bytes] = mutated_bytes) -> Any:
    """A copy of nested lists and maps with one place changed: another value, left out, twice, or under another name.

    `inside` changes bytes that stand in it: a format within the format.
    """
    copy = _copied(tree)
    places = list(_places(copy))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        holder, key = random.choice(places)
        here = key in holder if isinstance(holder, dict) else key < len(holder)
        if not here:  # a change before took it away
            continue
        value, kind = holder[key], random.randrange(10)
        if isinstance(value, bytes) and kind < 6:
            holder[key] = inside(value, random)
        elif isinstance(value, int | float) and not isinstance(value, bool) and kind < 3:
            near = (value + 1, value - 1, -value, value * 2, value // 2)
            holder[key] = random.choice(near)
        elif kind < 6:
            holder[key] = random.choice(EXTREMES)
        elif kind == 6:
            del holder[key]
        elif kind == 7:
            other, place = random.choice(places)
            if place in other if isinstance(other, dict) else place < len(other):
                holder[key] = _copied(other[place])
        elif isinstance(holder, dict):
            holder[random.choice(("", "n", "x", "weights", "d"))] = value
        else:
            holder[key:key] = [value] * random.choice((1, 2, 50))
    return copy


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a tree, as what holds it and its name there."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    return [_copied(value) for value in tree] if isinstance(tree, list | tuple) else tree
