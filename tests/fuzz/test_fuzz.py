"""Every target with its share of cases; `make fuzz` runs many more (tests/fuzz/run.py)."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dither.errors import TallyError
from fuzz import targets
from fuzz.targets import TARGETS, Entry, Target, case, checked


@pytest.mark.parametrize("name", list(TARGETS))
def test_nothing_but_an_error_of_dither(name: str):
    @settings(
        max_examples=TARGETS[name].cases, deadline=None, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    @given(st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        checked(name, case(name, Random(seed)))

    run()


@pytest.mark.parametrize("name", list(TARGETS))
def test_what_is_right_is_accepted(name: str):
    assert all(checked(name, data) for data in TARGETS[name].make().seeds)


@pytest.mark.parametrize("name", list(TARGETS))
def test_some_mutants_get_far(name: str):
    """Were all refused at the first byte, nothing would be fuzzed: 300 are refused for different reasons."""
    said = set()
    found = TARGETS[name].make()
    for seed in range(300):
        try:
            found.read(case(name, Random(seed)))
            said.add("accepted")
        except Exception as error:
            said.add(str(error)[:60])
    assert len(said) >= 5


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (
            "mechanisms.load",
            b'{"mechanism": "Hypercube", "d": 3, "epsilon": "\\ud800", "delta": 1, "weights": [12, 4]}',
        ),
        ("mechanisms.load", b'{"mechanism": "Hybrid", "epsilon": 1.0, "weights": [4, 2, 5, 5, 128, 211, 256]}'),
        ("Tally.from_bytes", b"\x80"),
        ("PlanTally.from_bytes", b""),
    ],
)
def test_what_was_found_before(name: str, data: bytes):
    assert not checked(name, data)


def test_a_reader_that_crashes_lies_or_eats_memory_is_found(monkeypatch):
    def noted(read, most_memory: int = 64 << 20) -> Target:
        return Target((b"abc",), read, lambda data, value: None, most_memory=most_memory)

    def lie(data: bytes, value: object) -> None:
        assert value == data, "not what stands there"

    def refuse(data: bytes) -> None:
        raise TallyError("no")

    bad = {
        "crashes": (noted(lambda data: 1 // 0), "ZeroDivisionError"),
        "lies": (replace(noted(lambda data: data + b"x"), accepted=lie), "not what stands there"),
        "eats": (noted(lambda data: bytes(1 << 20), 1 << 19), "bytes of memory"),
    }
    for name, (made, words) in bad.items():
        monkeypatch.setitem(targets.TARGETS, name, Entry(lambda made=made: made, 1))
        with pytest.raises(AssertionError, match=words):
            checked(name, b"abc")
    monkeypatch.setitem(targets.TARGETS, "refuses", Entry(lambda: noted(refuse), 1))
    assert not checked("refuses", b"abc")
