"""Schedules: rounds, their names, and the channel of all of them."""

import pytest

from dither import GRR
from dither.core.schedule import FRESH, KEPT, ONCE, ONE, Schedule
from dither.errors import ParameterError


def test_once():
    assert not ONCE.repeats
    assert (ONCE.rounds, ONCE.responses, ONCE.turnout, ONCE.periods) == (1, 1, 1, (0,))


@pytest.mark.parametrize(
    ("schedule", "responses", "turnout"),
    [(Schedule(5), 1, 0.2), (Schedule(5, FRESH), 5, 1), (Schedule(5, KEPT, 0), 1, 1), (Schedule(5, KEPT, 2), 3, 1)],
)
def test_how_often_a_value_is_randomized(schedule: Schedule, responses: int, turnout: float):
    assert (schedule.responses, float(schedule.turnout)) == (responses, turnout)
    channel = GRR(k=3, epsilon=1.0).channel()
    assert schedule.over_time(channel).ratio() == channel.ratio() ** responses
    assert schedule.over_time(channel).announced == bool(schedule.changes)
    assert Schedule.from_dict(schedule.to_dict()) == schedule


def test_names():
    weeks = Schedule.of(("W47", "W48"))
    assert weeks.periods == ("W47", "W48")
    assert weeks.number_of("W48") == 1
    assert Schedule.from_dict(weeks.to_dict()) == weeks
    assert Schedule.of(3).number_of(2) == 2
    for schedule, odd in ((weeks, 1), (weeks, "W49"), (weeks, None), (Schedule.of(3), "2"), (Schedule.of(3), 3)):
        with pytest.raises(ParameterError, match="no such period"):
            schedule.number_of(odd)


@pytest.mark.parametrize(
    "odd",
    [
        {"rounds": 0},
        {"rounds": 3, "mode": "often"},
        {"rounds": 3, "mode": KEPT},
        {"rounds": 3, "mode": ONE, "changes": 1},
        {"rounds": 3, "mode": KEPT, "changes": -1},
        {"rounds": 3, "labels": ("a", "b")},
        {"rounds": 2, "labels": ("a", "a")},
        {"rounds": 2, "labels": ("a", "b" * 201)},
        {"rounds": 2, "labels": ("a", 7)},
    ],
)
def test_odd_schedules(odd: dict):
    with pytest.raises(ParameterError):
        Schedule(**odd)


@pytest.mark.parametrize(
    "odd", [{}, {"rounds": 1, "mode": "one"}, {"rounds": 3, "mode": "one", "more": 1}, {"rounds": "3"}]
)
def test_odd_files(odd: dict):
    with pytest.raises(ParameterError):
        Schedule.from_dict(odd)
