"""What only a trial knows: the truth, from the records themselves, however they are cut."""

import math

import numpy as np
import pyarrow
import pytest

from dither import Categorical, KeyValue, Numeric, Ordinal, Schema, plan
from dither.errors import EmptyError
from dither.planning.trial import truths

SCHEMA = Schema(
    {
        "age": Ordinal(0, 9),
        "income": Numeric(0, 1000),
        "job": Categorical(["nurse", "driver", "other"]),
        "films": KeyValue(["Alien", "Heat", "Totoro"], size=2, low=1, high=5),
    }
)
ASK = ["distribution(age)", "mean(age)", "mean(income)", "distribution(income)", "histogram(job)", "films"]
PLAN = plan(SCHEMA, 2.0, users=10_000, ask=ASK)
RECORDS = [
    {"age": 3, "income": 10.1, "job": "nurse", "films": {"Heat": 5, "Alien": 2}},
    {"age": 7, "income": 999.9, "job": "other", "films": {}},
    {"age": 3, "income": 0.3, "job": "nurse", "films": {"Heat": 2}},
    {"age": 0, "income": 500.0, "job": "driver", "films": {"Alien": 1}},
]


def test_the_truth_of_every_question():
    found = truths(PLAN, [RECORDS])
    ages = np.bincount([3, 7, 3, 0], minlength=10) / 4
    assert found["distribution(age)"].tolist() == ages.tolist()
    assert found["mean(age)"] == pytest.approx([3.25], rel=1e-15)
    assert found["mean(income)"] == pytest.approx([math.fsum([10.1, 999.9, 0.3, 500.0]) / 4], rel=1e-14)
    bins = np.histogram([10.1, 999.9, 0.3, 500.0], bins=32, range=(0, 1000))[0] / 4
    assert found["distribution(income)"].tolist() == bins.tolist()
    assert found["histogram(job)"].tolist() == [0.5, 0.25, 0.25]
    assert found["presence(films)"].tolist() == [0.5, 0.5, 0.0]
    # A key that a user does not hold counts as 3, the middle of its values.
    assert found["mean(films)"].tolist() == [(2 + 3 + 3 + 1) / 4, (5 + 3 + 2 + 3) / 4, 3.0]
    means = found["conditional_mean(films)"]
    assert means[:2].tolist() == [1.5, 3.5]
    assert np.isnan(means[2])


@pytest.mark.wide
def test_the_cut_does_not_matter():
    rng = np.random.default_rng(1)
    table = pyarrow.table({"income": rng.uniform(0, 1000, 5000) ** 1.1 / 2, "age": rng.integers(0, 10, 5000)})
    made = plan(Schema({name: SCHEMA[name] for name in ("income", "age")}), 1.0, users=5000)
    whole = truths(made, [table])
    for size in (1, 7, 4999):
        cut = truths(made, table.to_batches(max_chunksize=size))
        assert all(cut[name].tobytes() == whole[name].tobytes() for name in whole)
    order = rng.permutation(5000)
    assert truths(made, [table.take(order)])["mean(income)"].tobytes() == whole["mean(income)"].tobytes()


def test_what_does_not_fit_counts_as_its_substitute():
    found = truths(PLAN, [[{"age": -4, "income": 5000, "job": "astronaut", "films": {"Solaris": 3}}]])
    assert found["distribution(age)"].argmax() == 0
    assert found["mean(income)"].tolist() == [1000.0]
    assert found["histogram(job)"].tolist() == [0.0, 0.0, 1.0]
    assert found["presence(films)"].tolist() == [0.0, 0.0, 0.0]


def test_ranges_have_no_single_truth():
    made = plan(SCHEMA, 1.0, users=10_000, ask=["ranges(age, income)", "mean(income)"])
    assert set(truths(made, [RECORDS])) == {"mean(income)"}


def test_without_records_there_is_no_truth():
    with pytest.raises(EmptyError, match="no records"):
        truths(PLAN, [])
