"""From the scores of an attack to all that it says: the one way that every attack ends.

An attack is no more than a score for each record, the higher the likelier a member. The records are put in random order
first: halves of them choose thresholds and numbers of guesses, and ties are broken by the order. `curve` then says how
well the scores tell members from others, and `bound` what epsilon the guesses prove.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_confidence, checked_delta
from dither.core.guarantee import Guarantee
from dither.core.randomness import Stream
from dither.errors import ParameterError
from dither.learn.attack.curve import area_under, balanced, found_at, roc, thinned
from dither.learn.attack.membership_bound import RELATIONS, proved
from dither.learn.attack.result import FALSE_ALARMS, Attack

Numbers = NDArray[np.float64]

FEWEST = 8  # records of either kind


class Settings(NamedTuple):
    """What the user of an attack may say about it, beside the records."""

    certificate: Guarantee | None
    relation: str
    delta: float | None
    coins: bool
    confidence: float
    seed: int | None

    def checked(self) -> "Settings":
        """The same, with the delta that the bound is for."""
        if self.relation not in RELATIONS:
            raise ParameterError(f"relation must be one of {', '.join(RELATIONS)}")
        if self.relation == "replace" and self.coins:
            raise ParameterError("coins add or remove a record: a bound for replacing one needs a split (coins=False)")
        given = self.certificate
        if given is not None and not isinstance(given, Guarantee):
            raise ParameterError("certificate must be a guarantee, as in certificate=model.guarantee")
        if given is not None and self.delta is not None:
            raise ParameterError("a certificate has its own delta: leave delta out")
        if given is not None and self.relation == "replace" and given.neighbours == "add-remove":
            raise ParameterError(
                "the certificate is for adding or removing a record, and an attack on replacing one does not refute "
                'it: take relation="add-or-remove"'
            )
        delta = given.delta if given is not None else checked_delta(self.delta or 0.0)
        return self._replace(delta=delta, confidence=checked_confidence(self.confidence))


def judged(name: str, ours: Numbers, theirs: Numbers, settings: Settings) -> Attack:
    """All that can be said about the scores of members and others, the higher the likelier a member.

    The settings are checked already: before the scores were made, which may take long.
    """
    miss, delta = 1 - settings.confidence, settings.delta or 0.0
    stream = stream_of(settings.seed).spawn("attack")
    ours, theirs = ours[stream.order(len(ours), lane=0)], theirs[stream.order(len(theirs), lane=1)]
    alarms, hits = roc(ours, theirs)
    corners = thinned(len(alarms))
    proof = proved(ours, theirs, stream, delta=delta, relation=settings.relation, coins=settings.coins, miss=miss)
    return Attack(
        name=name,
        members=len(ours),
        others=len(theirs),
        area=area_under(ours, theirs, miss),
        accuracy=balanced(ours, theirs, miss),
        found={share: found_at(alarms, hits, share, len(ours), miss) for share in FALSE_ALARMS},
        epsilon=proof.epsilon,
        delta=delta,
        relation=settings.relation,
        confidence=settings.confidence,
        guesses=proof.guesses,
        right=proof.right,
        tested=proof.tested,
        certificate=settings.certificate,
        false_alarms=alarms[corners],
        hits=hits[corners],
    )


def check_number(members: int, others: int) -> None:
    """Halves of fewer records would say nothing."""
    if min(members, others) < FEWEST:
        raise ParameterError(f"an attack needs at least {FEWEST} members and as many others")


def stream_of(seed: int | None) -> Stream:
    """Where an attack draws from."""
    return Stream.secure() if seed is None else Stream.seeded(seed, "membership")
