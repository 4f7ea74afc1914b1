"""A guarantee: what it says of itself, and with which others it adds up."""

from dataclasses import FrozenInstanceError, replace
from itertools import product
from typing import Any

import pytest

from dither.core.guarantee import MODELS, NEIGHBOURS, NO_GUARANTEE, Guarantee, one_kind
from dither.errors import ParameterError

KINDS: list[Any] = [
    Guarantee(1.0, 1e-6, "bound", model=model, neighbours=neighbours)  # type: ignore[arg-type]
    for model, neighbours in product(MODELS, NEIGHBOURS)
]


def test_the_first_three_stand_in_their_order_and_the_others_are_named():
    assert Guarantee(1.0, 1e-6, "bound") == Guarantee(epsilon=1.0, delta=1e-6, established="bound")
    assert (Guarantee(1.0).model, Guarantee(1.0).neighbours) == ("local", "replace")
    with pytest.raises(TypeError):
        Guarantee(1.0, 1e-6, "bound", "central")  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        Guarantee(1.0).model = "central"  # type: ignore[misc]


def test_kinds_are_part_of_the_value():
    assert len(set(KINDS)) == len({repr(each) for each in KINDS}) == len({str(each) for each in KINDS}) == 6
    for each in KINDS:
        assert f"model={each.model!r}, neighbours={each.neighbours!r}" in repr(each)
        assert replace(each) == each


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        (Guarantee(1.0), "epsilon 1 (exact)"),
        (Guarantee(1.0, 1e-6, "bound"), "epsilon 1, delta 1e-6 (bound)"),
        (Guarantee(0.2, 1e-6, "bound", model="shuffled"), "epsilon 0.2, delta 1e-6 (bound) once shuffled"),
        (
            Guarantee(0.2, 1e-6, "bound", model="shuffled", neighbours="add-remove"),
            "epsilon 0.2, delta 1e-6 (bound) for adding or removing a record, once shuffled",
        ),
        (
            Guarantee(2.0, 1e-5, "bound", model="central", neighbours="add-remove"),
            "epsilon 2, delta 1e-5 (bound) for adding or removing a record, with a trusted server",
        ),
        (Guarantee(2.0, model="central"), "epsilon 2 (exact) for replacing a record, with a trusted server"),
        (Guarantee(2.0, neighbours="add-remove"), "epsilon 2 (exact) for adding or removing a record"),
        (replace(NO_GUARANTEE, model="central"), "no guarantee (simulated from a seed)"),
    ],
)
def test_in_words(guarantee, words):
    assert str(guarantee) == words


@pytest.mark.parametrize("change", [{"model": "Local"}, {"model": None}, {"neighbours": "add-or-remove"}], ids=str)
def test_kinds_that_do_not_exist(change):
    with pytest.raises(ParameterError, match="a model in"):
        Guarantee(1.0, **change)


@pytest.mark.parametrize(("one", "other"), list(product(KINDS, KINDS)))
def test_only_the_same_kinds_agree(one, other):
    if (one.model, one.neighbours) == (other.model, other.neighbours):
        assert one_kind([one, other]) == (one.model, one.neighbours)
        return
    with pytest.raises(ParameterError, match="state each by itself") as refused:
        one_kind([one, other])
    assert ("amplify" in str(refused.value)) == (one.model != other.model)


def test_what_is_simulated_has_no_kind():
    assert one_kind([]) == one_kind([NO_GUARANTEE]) == ("local", "replace")
    assert one_kind([NO_GUARANTEE, KINDS[-1]]) == ("central", "add-remove")


def test_ready_for_json():
    assert Guarantee(1.0).to_dict() == {"epsilon": 1.0, "delta": 0.0, "established": "exact"}
    assert NO_GUARANTEE.to_dict() == {"epsilon": None, "delta": 0.0, "established": "simulated"}
    for each in KINDS:
        assert Guarantee(**each.to_dict()) == each
