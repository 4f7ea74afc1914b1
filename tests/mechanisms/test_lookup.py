"""The registry takes mechanisms of others, and refuses what does not say what it is."""

from dataclasses import dataclass, field
from typing import Any

import pytest

import dither
from dither.core.domains import BALL, CATEGORIES, KINDS, NUMBERS, Categories, Records, UnitInterval
from dither.core.estimate import Estimate
from dither.core.mechanism import Mechanism
from dither.core.workload import Workload
from dither.errors import ParameterError
from dither.mechanisms.grr import GRR
from dither.mechanisms.lookup import MechanismRegistry
from dither.mechanisms.spec import from_spec, normal_spec


@dataclass(frozen=True)
class Coin(GRR):
    """Randomized response by another name."""


def registry() -> MechanismRegistry:
    """One like dither's own, without what is installed here."""
    return MechanismRegistry("mechanism", dither.registry.homes, _unread=[])


def variant(**declared: Any) -> Any:
    """Another class called Coin, with these declarations."""
    return dataclass(frozen=True)(type("Coin", (GRR,), {"__doc__": "Another.", "__annotations__": {}, **declared}))


def test_a_registered_mechanism_is_found_like_any_other():
    own = registry()
    assert "Coin" not in own
    assert own.register(Coin) is Coin
    assert own["Coin"] is own.find("coin") is own.get("Coin") is Coin
    assert list(own) == [*own.homes, "Coin"]
    assert len(own) == len(own.homes) + 1
    assert own.register(Coin) is Coin  # once more is no harm
    assert len(own) == len(own.homes) + 1
    assert own.register(GRR) is GRR  # nor is what is there already


def test_what_is_registered_for_a_while_is_forgotten():
    own = registry()
    own.register(Coin)
    with own.restored():
        own.register(variant(__module__=Coin.__module__, __qualname__=Coin.__qualname__))
        assert own["Coin"] is not Coin
    assert list(own) == [*own.homes, "Coin"]
    assert own["Coin"] is Coin


def test_a_name_that_is_taken_is_refused():
    own = registry()
    own.register(Coin)
    other = variant(__module__="somewhere")
    with pytest.raises(ParameterError, match="the name Coin is taken by a mechanism of"):
        own.register(other)
    assert own["Coin"] is Coin
    for name in ("GRR", "grr", "HDG"):
        taken = variant()
        taken.__name__ = name
        with pytest.raises(ParameterError, match=f"dither has a mechanism of the name {name}: give yours another one"):
            own.register(taken)


def test_a_definition_that_ran_again_takes_the_place_of_the_first():
    own = registry()
    own.register(Coin)
    again = variant(__module__=Coin.__module__, __qualname__=Coin.__qualname__)
    assert own.register(again) is own["Coin"] is again


class Unfrozen(GRR):
    """A class that is no dataclass of its own counts as the one that it derives from."""


@dataclass(frozen=True)
class Lacking(Mechanism[Estimate]):
    """Nothing but a budget."""

    epsilon: float
    weights: tuple[int, ...] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Needy(GRR):
    """Wants something that nobody knows."""

    mood: str = field(kw_only=True)


@pytest.mark.parametrize(
    ("mechanism", "why"),
    [
        (3, "it must be a class that derives from dither.Mechanism"),
        (dict, "it must be a class that derives from dither.Mechanism"),
        (GRR(3, 1.0), "it must be a class that derives from dither.Mechanism"),
        (Lacking, "Lacking lacks _fill, _validate, channel, law, or _fit, reading"),
        (variant(family=None), 'Coin must declare a family, as in family = "categorical"'),
        (variant(examples=()), "Coin must declare examples"),
        (variant(takes="stars"), f"Coin must declare what it takes, one of {', '.join(KINDS)}"),
        (variant(__doc__=None), "Coin must say in the first line of its docstring what it does"),
        (variant(takes=NUMBERS), "the planner does not know what Coin needs as k"),
        (Needy, "the planner does not know what Needy needs as mood"),
    ],
)
def test_what_does_not_say_what_it_is_is_refused(mechanism: Any, why: str):
    own = registry()
    with pytest.raises(ParameterError) as caught:
        own.register(mechanism)
    assert str(caught.value).startswith(f"this mechanism cannot be registered: {why}")
    assert len(own) == len(own.homes)


def test_what_the_planner_need_not_know_may_be_left_to_others():
    own = registry()
    quiet = dataclass(frozen=True)(
        type("Quiet", (Needy,), {"__doc__": "Not planned.", "planned": False, "__annotations__": {}})
    )
    assert own.register(quiet) is quiet


def test_all_of_dithers_own_declare_what_they_are():
    for name, cls in dither.registry.items():
        own = registry()
        assert own.register(cls) is cls, name
        made = cls(**cls.examples[0])
        assert made.takes == made.reading.domain.kind, name
        assert set(made.reading.domain.parameters) == set(KINDS[made.takes]), name
        assert all((part.takes in KINDS) for part in made.components), name


def offered(workload: Workload) -> list[str]:
    return [
        normal_spec({"mechanism": name, **parameters})
        for name, cls in dither.registry.items()
        for parameters in cls.candidates(workload)
    ]


def test_candidates_of_a_workload():
    many = Workload(Categories(50), ("frequency",), 1.0)
    names = ["GRR", "Unary", "LocalHash", "SubsetSelection", "Hadamard", "ProjectiveGeometry"]
    assert offered(many) == [f"{name}(k=50)" for name in names]
    few = Workload(Categories(50), ("frequency",), 1.0, most_evaluations=12)  # a subset has 13 or 14 of them
    assert offered(few) == [f"{name}(k=50)" for name in names if name != "SubsetSelection"]
    assert offered(Workload(UnitInterval(), ("mean",), 1.0)) == ["Duchi", "Piecewise", "Hybrid"]
    assert offered(Workload(Records(2, (UnitInterval(),)), ("mean",), 1.0)) == ["Hypercube(d=2)"]
    assert offered(Workload(UnitInterval(), ("median",), 1.0)) == []


def test_candidates_of_keys():
    from dither.core.sparse_domain import Sparse

    both = offered(Workload(Sparse(20, 3), ("presence", "mean"), 1.0))
    assert both == [
        "Collision(d=20, s=3)",
        "CoCo(d=20, s=3, goal='mean')",
        "CoCo(d=20, s=3, goal='presence')",
        "SignSum(d=20, s=3, goal='frequency')",
        "PCKV_UE(d=20, s=3)",
        "PCKV_GRR(d=20, s=3)",
        "PCKV_AGRR(d=20, s=3)",
        "PrivKV(d=20, s=3)",
    ]
    (one,) = (spec for spec in offered(Workload(Sparse(20, 3), ("mean",), 1.0)) if "Sign" in spec)
    assert one == "SignSum(d=20, s=3, goal='mean')"


def test_hash_functions_are_shared_where_the_server_cannot_afford_others():
    own = dither.Collision(d=1000, s=8, epsilon=1.0)
    shared = own.affordable(70.0, 10**4, 1999)
    assert (shared.cohorts, shared.t, shared.weights) == (2048, own.t, own.weights)
    assert shared.displacement() > own.displacement() == 0.0
    assert (own.evaluations, shared.evaluations) == (2000, 0)
    hashed = dither.LocalHash(k=1000, epsilon=1.0)
    shared = hashed.affordable(3.7, 10**5, 500)
    assert (shared.cohorts, shared.g, shared.displacement()) == (32768, hashed.g, 1 / (3 * 32768))
    assert (hashed.evaluations, shared.evaluations) == (1000, 0)
    assert dither.GRR(1000, 1.0).affordable(70.0, 10**4, 1).displacement() == 0.0


def test_a_budget_is_given_as_far_as_the_class_knows_it():
    assert dither.GRR.with_budget({"k": 3}, 1.0, 1e-6) == dither.GRR(3, 1.0, 1e-6)
    assert dither.Piecewise.with_budget({}, 1.0, 1e-6) == dither.Piecewise(1.0) == from_spec("Piecewise", 1.0, 1e-6)


def test_what_is_declared_of_rounds_and_vectors():
    declared = dict(dither.registry)
    assert [name for name, cls in declared.items() if cls.needs_delta] == [
        "OneHotGaussian",
        "Gaussian",
        "BallGaussian",
    ]
    assert [name for name, cls in declared.items() if cls.remembers] == ["LGRR", "LUnary", "LHash"]
    assert [name for name, cls in declared.items() if cls.for_vectors and cls.takes == BALL] == [
        "UnitVector",
        "BallGaussian",
    ]
    assert all(not cls.for_vectors for cls in declared.values() if cls.takes == CATEGORIES)
