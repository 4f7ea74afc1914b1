"""All rounds of a plan in one trial: what the devices of many users would send, each with a memory of its own.

The rules are those of a device with a ledger (`privacy.ledger.round_answers`), for columns of users at once: who
reports in which round, whose kept response is made from which value, and how many responses are left. Each draw has
words of its own: the round (`turn`) and the questions of a user once, responses and reports by the round in which they
are made.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_choice, is_list
from dither.core.columns import filled
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.core.schedule import FRESH, ONE
from dither.errors import ParameterError, RowError
from dither.planning.record_tables import columns_of, missing_replaced
from dither.schema import RULES

if TYPE_CHECKING:
    from dither.planning.plan_parts import Part
    from dither.planning.plans import Plan

Rows = NDArray[np.intp]
Encoded = dict[str, NDArray[Any]]


def reports_of_rounds(
    plan: "Plan", tables: Sequence[Any], *, seed: int | None, invalid: str, missing: str
) -> list[dict[str, Reports]]:
    """For each of the first rounds the reports of those who send one."""
    if not plan.schedule.repeats:
        raise ParameterError("this plan has one round: plan.randomize(table) is for it")
    if not is_list(tables) or not 0 < len(tables) <= plan.rounds:
        raise ParameterError(
            f"give a list of tables, one for each round and at most {plan.rounds:,}, as in "
            "plan.randomize_rounds([table] * plan.rounds) where nothing changes"
        )
    encoded = list(_encoded(plan, tables, invalid, missing))
    users = {count for _, count in encoded}
    if len(users) > 1:
        raise ParameterError("all tables need the same users, one in the same row of each; leave nobody out")
    tape = Stream.secure() if seed is None else Stream.seeded(seed, plan.fingerprint)
    values, (count,) = [each for each, _ in encoded], users
    if plan.schedule.mode == FRESH:
        return [_fresh(plan, each, count, tape.spawn("round", str(r))) for r, each in enumerate(values)]
    rounds: list[dict[str, Reports]] = [{} for _ in values]
    turn = tape.spawn("turn").below(plan.rounds, count).astype(np.intp) if plan.schedule.mode == ONE else None
    for part, rows in zip(plan.parts, plan._asked(tape, count), strict=True):
        own = [each[part.name] for each in values]
        words = tape.spawn("question", part.name)
        made = _from_memory(plan, part, own, rows, words) if turn is None else _in_turn(part, own, rows, turn, words)
        for number, reports in enumerate(made):
            rounds[number][part.name] = Reports.wrap(reports, plan.tag(part), tape.simulated)
    return rounds


def _encoded(plan: "Plan", tables: Sequence[Any], invalid: str, missing: str) -> Iterator[tuple[Encoded, int]]:
    """What the mechanisms take of each table; one that stands there again is not looked at again."""
    known: dict[int, tuple[Encoded, int]] = {}
    fill = checked_choice("missing", missing, RULES[::-1]) == "substitute"
    for number, table in enumerate(tables):
        if id(table) not in known:
            columns, users = columns_of(table, plan.attributes)
            if fill and not missing_replaced(table):
                columns = {name: filled(column, plan.schema[name].substitute) for name, column in columns.items()}
            try:
                known[id(table)] = {part.name: part.encode(columns, users, invalid) for part in plan.parts}, users
                wrong = None
            except RowError as error:
                wrong = ParameterError(f"round {number}: {error}")
            if wrong is not None:
                raise wrong
        yield known[id(table)]


def _fresh(plan: "Plan", values: Encoded, users: int, tape: Stream) -> dict[str, Reports]:
    return {part.name: reports for part, _, reports in plan.sent(values, users, tape)}


def _in_turn(
    part: "Part", values: list[NDArray[Any]], rows: Rows, turn: NDArray[np.intp], tape: Stream
) -> Iterator[NDArray[Any]]:
    """One report of every user, in the round that was drawn."""
    for number, own in enumerate(values):
        due = rows[turn[rows] == number]
        yield part.mechanism.drawn(own[due], tape, due)


def _from_memory(
    plan: "Plan", part: "Part", values: list[NDArray[Any]], rows: Rows, tape: Stream
) -> Iterator[NDArray[Any]]:
    """A report of every user in every round, from the response to the value that it was made for."""
    mechanism, most = part.mechanism, plan.schedule.responses
    made_for = values[0][rows].copy()
    kept = mechanism.response(made_for, tape.spawn("response", "0"), rows)
    drawn = np.ones(len(rows), dtype=np.intp)
    for number, own in enumerate(values):
        if own is not values[max(number - 1, 0)]:
            now = own[rows]
            changed = np.flatnonzero(_differ(now, made_for) & (drawn < most))
            if changed.size:
                kept, made_for = kept.copy(), made_for.copy()
                words = tape.spawn("response", str(number))
                kept[changed] = mechanism.response(now[changed], words, rows[changed])
                made_for[changed] = now[changed]
                drawn[changed] += 1
        yield mechanism.said(kept, tape.spawn("report", str(number)), rows)


def _differ(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Which users hold another value, whatever a value is."""
    bytes_of = [np.frombuffer(each.tobytes(), np.uint8).reshape(len(each), each[:1].nbytes) for each in (one, other)]
    return (bytes_of[0] != bytes_of[1]).any(axis=1)
