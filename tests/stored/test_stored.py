"""What was stored stays what it was: hashes of seeded reports and tallies, and of plans that devices may hold.

A seeded report is a function of the seed and of what is stored of its mechanism or plan, and of nothing else: neither
a new name in the code nor a faster kernel changes it. `hashes.json` was written by version 0.1; a hash in it changes
only together with the format of what it is of.

`python tests/stored/test_stored.py` adds the hashes of what has none yet.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dither
from dither.core.exact import share_below

HERE = Path(__file__).parent
PLANS = sorted(path.stem for path in HERE.glob("plan-*.json"))
EXAMPLES = [(name, place) for name, cls in dither.registry.items() for place in range(len(cls.examples))]
USERS = 500


def hash_of(*parts: bytes) -> str:
    """A hash of some bytes."""
    return hashlib.sha256(b"".join(parts)).hexdigest()


def of_example(name: str, place: int) -> dict[str, str]:
    """The hashes of an example."""
    cls = dither.registry[name]
    return of_mechanism(cls(**cls.examples[place]))


def of_mechanism(mechanism: dither.Mechanism) -> dict[str, str]:
    """The hashes of what is stored of a mechanism, and of what it makes of its inputs."""
    inputs = mechanism.inputs()
    reports = mechanism.randomize(inputs[np.arange(USERS) % len(inputs)], seed=19)
    return {
        "stored": mechanism.fingerprint,
        "reports": hash_of(np.asarray(reports).tobytes()),
        "tally": hash_of(mechanism.tally(reports).to_bytes()),
    }


def of_plan(stem: str) -> dict[str, str]:
    """The hashes of a stored plan: its own, and those of what it makes of some people."""
    plan = dither.Plan.from_json((HERE / f"{stem}.json").read_text())
    if plan.schedule.repeats:  # of two rounds one
        _, reports = plan.randomize_rounds([people(plan.schema)] * 2, seed=19)
    else:
        reports = plan.randomize(people(plan.schema), seed=19, invalid="substitute")  # some are out of their region
    return {
        "stored": plan.fingerprint,
        "reports": hash_of(*(np.asarray(reports[name]).tobytes() for name in sorted(reports))),
        "tally": hash_of(plan.tally(reports).to_bytes()),
    }


def people(schema: dither.Schema) -> dict[str, object]:
    """Values of all kinds for each attribute."""
    numbers = np.arange(USERS)
    columns: dict[str, object] = {}
    for name, stored in schema.to_dict().items():
        if stored["kind"] in ("categorical", "public"):
            columns[name] = [stored["labels"][i % len(stored["labels"])] for i in numbers]
        elif stored["kind"] == "text":
            columns[name] = [["", "a", "bad", "Cabbage ", "x" * 99][i % 5] for i in numbers]
        elif stored["kind"] == "keyvalue":
            keys = stored["keys"] if isinstance(stored["keys"], list) else list(range(stored["keys"]))
            middle = (stored.get("low", -1) + stored.get("high", 1)) / 2
            columns[name] = [
                {keys[(i + j) % len(keys)]: middle for j in range(i % (stored["size"] + 1))} for i in numbers
            ]
        else:
            low, high = stored["low"], stored["high"]
            whole = stored["kind"] == "ordinal"
            columns[name] = low + numbers % (high - low + 1) if whole else low + (high - low) * numbers / USERS
    return columns


@pytest.fixture(scope="module")
def hashes() -> dict[str, dict[str, str]]:
    return json.loads((HERE / "hashes.json").read_text())


@pytest.mark.parametrize(("name", "place"), EXAMPLES)
def test_seeded_reports_of_mechanisms_stay(hashes, name: str, place: int):
    assert of_example(name, place) == hashes[f"{name} {place}"]


@pytest.mark.parametrize(("name", "place"), [("Sampled", 1), ("Split", 2), ("SampledDuchi", 1)])
def test_records_from_before_all_of_delta_was_spent_stay(hashes, name: str, place: int):
    """Version 0.1 gave each report delta/m, and its integers had no share at the end: they are what they were."""
    cls = dither.registry[name]
    now = cls(**cls.examples[place])
    m = now.dtype[-1].shape[0]
    parts = [replace(part, delta=share_below(now.delta, m), weights=None) for part in now.components]  # type: ignore
    before = cls(**cls.examples[place], weights=tuple(part.weights for part in parts))
    assert of_mechanism(before) == hashes[f"{name} {place}, delta/m"]


@pytest.mark.parametrize("stem", PLANS)
def test_stored_plans_keep_their_hash_and_their_reports(hashes, stem: str):
    assert of_plan(stem) == hashes[stem]


if __name__ == "__main__":
    path = HERE / "hashes.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    made = {f"{name} {place}": of_example(name, place) for name, place in EXAMPLES}
    made |= {stem: of_plan(stem) for stem in PLANS}
    path.write_text(json.dumps({**made, **known}, indent=1) + "\n")
