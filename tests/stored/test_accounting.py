"""What the accountant says, case by case: numbers that were stored, and that a later version may only make smaller.

`accounting.json` has one row a case: what was called with what, and what came out when it was stored. Where a later
version proves a smaller epsilon, the row keeps both: the first answer, and `tighter`, with the new epsilon and the
reason. To add a case, append it without an answer and run `python tests/stored/test_accounting.py`, which fills in
answers that are missing and never changes one that is there.
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
from dither.privacy.accounting.exact_sums import basic_composition

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
    """Whether an answer is the stored one, or the smaller one of which the row says why."""
    stored = row["answer"]
    if "tighter" in row:  # by transforms, which other machines round in other ways
        epsilon, close = row["tighter"]["epsilon"], 1e-9
        assert epsilon < stored["epsilon"]
    else:
        epsilon, close = stored["epsilon"], CLOSE
    same = abs(found.epsilon - epsilon) <= close * epsilon and abs(found.delta - stored["delta"]) <= CLOSE
    return same and found.established == stored["established"]


ROWS: list[dict[str, Any]] = json.loads(STORED.read_text()) if STORED.exists() else []


def test_there_are_enough_cases_of_every_call():
    assert len(ROWS) >= 60
    assert {row["call"] for row in ROWS} == set(CALLS)


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.wide] if row.get("wide") else []) for row in ROWS],
    ids=lambda row: f"{row['call']}-{json.dumps(row['given'])[:60]}",
)
def test_the_answer_is_the_stored_one(row):
    assert kept(row, answer(row))


def test_mutant_numbers_are_noticed():
    for row in ROWS:
        stored = row["answer"]
        epsilon = row.get("tighter", stored)["epsilon"]
        assert kept(row, Guarantee(epsilon, stored["delta"], stored["established"]))
        for change in (1 + 1e-8, 1 - 1e-8):
            mutant = Guarantee(epsilon * change, stored["delta"], stored["established"])
            assert kept(row, mutant) is (epsilon == 0)


def fill_in() -> None:
    """Answers for the rows that have none."""
    for row in ROWS:
        if "answer" not in row:
            found = answer(row)
            row["answer"] = {"epsilon": found.epsilon, "delta": found.delta, "established": found.established}
    STORED.write_text("[\n" + ",\n".join(json.dumps(row) for row in ROWS) + "\n]\n")


if __name__ == "__main__":
    fill_in()
