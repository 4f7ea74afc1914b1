"""What voids a kept result, and what does not."""

import pytest

from dither.reproduce import fingerprints, papers
from reproduce.made_papers import EXPERIMENTS, PAPER, forget, write


def key(folder, experiments=EXPERIMENTS) -> str:
    """The key of one setting, of a paper whose experiments are these."""
    write(folder, experiments=experiments, paper=PAPER)
    forget()
    experiment = papers.load_paper("900").experiments[0]
    return fingerprints.measurement_key(experiment, {"level": 2}, {})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("FACTOR = 2.0", "FACTOR = 2.5"),  # a constant of a function that is reached
        ("return FACTOR * value", "return FACTOR * value + 0"),  # the function itself
        ('line="noise"', 'line="chance"'),  # the measurement
        ("epsilon=1.0", "epsilon=1.5"),  # a mechanism
        ('"900.levels"', '"900.steps"'),
    ],
)
def test_a_changed_description_never_shows_an_old_result(made, before, after):
    assert before in EXPERIMENTS
    assert key(made, EXPERIMENTS.replace(before, after)) != key(made)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"Twice as much."', '"Double it."'),
        ("UNUSED = 7", "UNUSED = 8"),
        ('"smoke": 1, "quick": 2', '"smoke": 1, "quick": 20'),  # more repetitions keep those that are there
        ("return FACTOR * value", "return FACTOR * value  # as it was"),
    ],
)
def test_words_and_repetitions_void_nothing(made, before, after):
    assert before in EXPERIMENTS
    assert key(made, EXPERIMENTS.replace(before, after)) == key(made)


def test_setting_and_size_count(made):
    experiment = papers.load_paper("900").experiments[0]
    keys = [
        fingerprints.measurement_key(experiment, {"level": 2}, {}),
        fingerprints.measurement_key(experiment, {"level": 1}, {}),
        fingerprints.measurement_key(experiment, {"level": 2}, {"users": 1000}),
    ]
    assert len(set(keys)) == 3
