"""What is promised, to whom and against whom, and how it is known.

A `Guarantee` is a plain value: (epsilon, delta)-differential privacy, which says three things of itself.

`model` says whom it protects against:

- `local`: whoever sees the reports of one person, the collecting server included. Nobody is trusted;
- `shuffled`: whoever sees the reports of a whole crowd in no order. A shuffler is trusted to take off who sent what;
- `central`: whoever sees what a server publishes. The server holds the raw records, and is trusted with them.

`neighbours` says which two worlds cannot be told apart: `replace` (a record has this content or any other), or
`add-remove` (a record is there or not). Replacing is removing and adding: (epsilon, delta) for `add-remove` is
(2 epsilon, (1 + e^epsilon) delta) for `replace`, so the two are not compared without saying so.

`established` says how it is known:

- `exact`: computed from the integers that the sampler uses, and attained by some pair of inputs (where a report shows
  a public tag, such as a hash seed, under the worst tag);
- `bound`: proved, but perhaps not attained;
- `simulated`: there is none. The reports came from a seed, and whoever knows the seed knows the noise.

All roundings go up. Guarantees of different models or neighbours do not add up (`one_kind`), nor do those of single
rounds of a device that keeps a response (`OneRound`).
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from math import inf
from typing import Any, ClassVar, Literal

from dither.core.channel import Channel
from dither.core.exact import upward
from dither.errors import ParameterError

KINDS = ("exact", "bound", "simulated")
MODELS = ("local", "shuffled", "central")
NEIGHBOURS = ("replace", "add-remove")

Model = Literal["local", "shuffled", "central"]
Neighbours = Literal["replace", "add-remove"]

_IN_WORDS = {
    ("local", "replace"): "",
    ("local", "add-remove"): " for adding or removing a record",
    ("shuffled", "replace"): " once shuffled",
    ("shuffled", "add-remove"): " for adding or removing a record, once shuffled",
    ("central", "replace"): " for replacing a record, with a trusted server",
    ("central", "add-remove"): " for adding or removing a record, with a trusted server",
}


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta), how it was established, whom it protects against, and between which neighbours.

    >>> print(Guarantee(1.0, 1e-6))
    epsilon 1, delta 1e-6 (exact)
    >>> print(Guarantee(1.0, 1e-6, "bound", model="shuffled"))
    epsilon 1, delta 1e-6 (bound) once shuffled
    """

    epsilon: float
    delta: float = 0.0
    established: str = "exact"
    _: KW_ONLY
    model: Model = "local"
    neighbours: Neighbours = "replace"

    adds_up: ClassVar[bool] = True  # whether several of its kind promise their sum

    def __post_init__(self) -> None:
        if self.established not in KINDS or not self.epsilon >= 0 or not 0 <= self.delta <= 1:
            raise ParameterError(f"a guarantee has epsilon >= 0, delta in [0, 1], established in {KINDS}")
        if self.model not in MODELS or self.neighbours not in NEIGHBOURS:
            raise ParameterError(f"a guarantee has a model in {MODELS}, and neighbours in {NEIGHBOURS}")

    @classmethod
    def of(cls, channel: Channel, epsilon: float, delta: float) -> "Guarantee":
        """What a channel promises: its pure epsilon, or with a declared delta, its delta at the declared epsilon."""
        if delta == 0 or channel.epsilon <= epsilon:
            return cls(channel.epsilon)
        return cls(epsilon, channel.profile(epsilon), "exact" if channel.exact else "bound")

    @property
    def simulated(self) -> bool:
        """Whether there is no guarantee because the reports came from a seed."""
        return self.established == "simulated"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: epsilon is null where there is none; model and neighbours are told where not the usual ones.

        >>> Guarantee(1.0, 1e-6, "bound", model="shuffled").to_dict()
        {'epsilon': 1.0, 'delta': 1e-06, 'established': 'bound', 'model': 'shuffled', 'neighbours': 'replace'}
        """
        told = {"epsilon": None if self.simulated else self.epsilon, "delta": self.delta}
        usual = self.simulated or (self.model, self.neighbours) == ("local", "replace")
        kind = {} if usual else {"model": self.model, "neighbours": self.neighbours}
        return {**told, "established": self.established, **kind}

    def __str__(self) -> str:
        if self.simulated:
            return "no guarantee (simulated from a seed)"
        delta = f", delta {upward(self.delta)}" if self.delta else ""
        return f"epsilon {upward(self.epsilon)}{delta} ({self.established}){_IN_WORDS[self.model, self.neighbours]}"


@dataclass(frozen=True)
class OneRound(Guarantee):
    """What a single round promises, of a device that keeps a response; and what any number of rounds does.

    The rounds share what the device keeps. They are not drawn independently, so what they promise one by one does not
    add up: state `all_rounds` for more than one. It is about one value: a new one is kept on its own, and costs once
    more. Where it is shuffled, all users of the crowd take part in the same rounds: who is left alone in one is not
    hidden by those of another.

    >>> print(OneRound(0.01, 1e-6, "bound", model="shuffled", all_rounds=Guarantee(2.0)))  # doctest: +ELLIPSIS
    epsilon 0.01, delta 1e-6 (bound) once shuffled, for one round; for any number of rounds about one value epsilon 2...
    """

    all_rounds: Guarantee = field(kw_only=True)

    adds_up: ClassVar[bool] = False

    @classmethod
    def within(cls, one: Guarantee, all_rounds: Guarantee) -> "OneRound":
        """The guarantee of one round, beside that of all."""
        return cls(
            one.epsilon, one.delta, one.established, model=one.model, neighbours=one.neighbours, all_rounds=all_rounds
        )

    def to_dict(self) -> dict[str, Any]:
        """As of any guarantee, with that of all rounds."""
        return {**super().to_dict(), "all_rounds": self.all_rounds.to_dict()}

    def __str__(self) -> str:
        crowd = " of the same users" if self.all_rounds.model == "shuffled" else ""
        return f"{super().__str__()}, for one round; for any number of rounds{crowd} about one value {self.all_rounds}"


NO_GUARANTEE = Guarantee(inf, 0.0, "simulated")


def one_kind(guarantees: Iterable[Guarantee]) -> tuple[Model, Neighbours]:
    """The model and the neighbours that all of these have; refused if they differ. What is simulated has none.

    >>> one_kind([Guarantee(1.0), Guarantee(0.5, 1e-6, "bound")])
    ('local', 'replace')
    """
    usual: tuple[Model, Neighbours] = ("local", "replace")
    promised = [each for each in guarantees if not each.simulated]
    if not all(each.adds_up for each in promised):
        raise ParameterError(
            "rounds of a device that keeps a response share it, and what they promise one by one does not add up: take "
            "guarantee.all_rounds, which holds for any number of rounds"
        )
    kinds: set[tuple[Model, Neighbours]] = {(each.model, each.neighbours) for each in promised}
    if len({model for model, _ in kinds}) > 1:
        named = ", ".join(model for model in MODELS if any(model == each for each, _ in kinds))
        raise ParameterError(
            f"guarantees of different models ({named}) do not add up, since they protect against different parties: "
            "state each by itself. To shuffle several reports of a user, compose the local guarantees first, and "
            "amplify the epsilon of the sum"
        )
    if len(kinds) > 1:
        raise ParameterError(
            "guarantees between different neighbours (replace, add-remove) do not add up: state each by itself, or "
            "work both out for the same neighbours. Replacing a record is removing one and adding one: (epsilon, "
            "delta) for add-remove is (2 epsilon, (1 + e^epsilon) delta) for replace"
        )
    return next(iter(kinds), usual)
