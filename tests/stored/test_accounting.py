"""What the accountant says, case by case: numbers that were stored, and that a later version may only make smaller.

`accounting.json` has one row a case: what was called with what, and what came out. A row is kept where the answer is
the stored one to 1e-12, or a smaller epsilon that the row owns up to with `tighter`, the name of the proof. To add a
case, append it without an answer and run `python tests/stored/test_accounting.py`, which fills in answers that are
missing and never changes one that is there.
"""

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest

import dither
from dither.core.guarantee import Guarantee
from dither.errors import DitherWarning
from dither.learn.federated.round_accounting import per_round, shuffled_total, together
from dither.privacy import Ledger, amplify, compose, noise_multiplier, parallel, subsampled_gaussian
from dither.privacy.ledger.ledger import basic_composition

STORED = Path(__file__).with_name("accounting.json")
CLOSE = 1e-12


def made(part: Any) -> Any:
    """A mechanism, `["GRR", {"k": 4, ...}]`, or a guarantee, `["Guarantee", {"epsilon": ...}]`."""
    name, options = part
    return Guarantee(**options) if name == "Guarantee" else getattr(dither, name)(**options)


def counted(parts: list[Any]) -> list[tuple[Any, int]]:
    return [(made(part), times) for part, times in parts]


def ledger_totals(parts: list[Any], epsilon: float, delta: float) -> Guarantee:
    """What is reserved after each part was, for so many periods."""
    with tempfile.TemporaryDirectory() as place, Ledger(f"{place}/ledger.db", epsilon, delta) as ledger:
        for part, times in parts:
            ledger.reserve(made(part), periods=times)
        return ledger.reserved


CALLS: dict[str, Any] = {
    "compose": lambda parts, delta: compose(counted(parts), delta),
    "parallel": lambda parts: parallel(each for each, _ in counted(parts)),
    "basic_composition": lambda part, times: basic_composition(made(part), times),
    "subsampled_gaussian": subsampled_gaussian,
    "noise_multiplier": lambda **given: Guarantee(noise_multiplier(**given), 0.0, "bound"),
    "amplify": lambda part, n, delta, bound="best": amplify(
        part if isinstance(part, float) else made(part), n, delta, bound
    ),
    "ledger": ledger_totals,
    "together": lambda part, times, delta: together(made(part), times, delta),
    "per_round": lambda **given: Guarantee(*per_round(**given), "bound"),
    "shuffled_total": lambda part, n, times, delta: shuffled_total(made(part), n, times, delta),
}


def answer(row: dict[str, Any]) -> Guarantee:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DitherWarning)
        return CALLS[row["call"]](**row["given"])


def kept(row: dict[str, Any], found: Guarantee) -> bool:
    """Whether an answer is the stored one, or smaller where the row says why it may be."""
    epsilon, delta = row["answer"]["epsilon"], row["answer"]["delta"]
    same = abs(found.epsilon - epsilon) <= CLOSE * epsilon or ("tighter" in row and found.epsilon < epsilon)
    return same and abs(found.delta - delta) <= CLOSE * delta and found.established == row["answer"]["established"]


ROWS: list[dict[str, Any]] = json.loads(STORED.read_text()) if STORED.exists() else []


def test_there_are_enough_cases_of_every_call():
    assert len(ROWS) >= 60
    assert {row["call"] for row in ROWS} == set(CALLS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['call']}-{json.dumps(row['given'])[:60]}")
def test_the_answer_is_the_stored_one(row):
    assert kept(row, answer(row))


def test_mutant_numbers_are_noticed():
    for row in ROWS:
        stored = row["answer"]
        for change in (1 + 1e-9, 1 - 1e-9):
            mutant = Guarantee(stored["epsilon"] * change, stored["delta"], stored["established"])
            assert kept(row, mutant) is (not stored["epsilon"] or (change < 1 and "tighter" in row))


def fill_in() -> None:
    """Answers for the rows that have none."""
    for row in ROWS:
        if "answer" not in row:
            found = answer(row)
            row["answer"] = {"epsilon": found.epsilon, "delta": found.delta, "established": found.established}
    STORED.write_text("[\n" + ",\n".join(json.dumps(row) for row in ROWS) + "\n]\n")


if __name__ == "__main__":
    fill_in()
