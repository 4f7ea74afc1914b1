"""The game: tell two inputs apart by their reports, and count how often it works.

1. **Worst pair.** A few reports of each candidate input are drawn, every pair is attacked with one half of them and the
   attack tried on the other. The best few pairs go on, and the ends of the domain.
2. **Event.** With more reports of these pairs all adversaries are trained (`likelihood`, who knows the channel, and
   `feature_sets`, who knows nothing but the format), and the event with the largest bound to be expected is chosen.
3. **Proof.** All the other reports, three fifths of them or more, are drawn afresh for this pair and counted for this
   event (`bound`). Nothing was chosen on them, so one bound is enough, and no correction for what was tried before.

Reports come from the production `randomize`, in chunks of which only counts are kept. Steps 1 and 2 may be as wrong as
they like: they can make the bound weak, not false.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dither.core.checks import checked_count, checked_real
from dither.core.guarantee import Guarantee
from dither.core.mechanism import Mechanism
from dither.display.table import TextTable
from dither.errors import ParameterError
from dither.privacy.auditing.candidates import Candidate, candidates, pairs
from dither.privacy.auditing.epsilon_bound import Event, best_event, epsilon_below
from dither.privacy.auditing.features import Score, feature_sets, learned
from dither.privacy.auditing.likelihood import exact, worst_rows
from dither.privacy.auditing.targets import ROUNDS, Attacked, Auditable, Remembering, Rounds, Unspecified

FEWEST, MOST = 1000, 10**12
_CHUNK = 1 << 17
_SCOUTED, _EXPLORED = 0.15, 0.25  # of the trials, at most
_FINALISTS, _FEWEST_SCOUTED = 4, 10
_MOST_SCOUTED, _MOST_EXPLORED = 1 << 15, 1 << 18  # reports of one input

Progress = Callable[[Iterable[int]], Iterable[int]]


@runtime_checkable
class Audited(Protocol):
    """What knows itself what of it is to be attacked, as a plan does."""

    def audited(self) -> Auditable:
        """What is attacked."""
        ...


Attackable = Mechanism | Auditable | Audited


@dataclass(frozen=True)
class Audit:
    """What an attack proved: with this confidence, epsilon is at least so large at the certificate's delta."""

    mechanism: str
    certificate: Guarantee
    epsilon: float
    confidence: float
    trials: int
    pair: tuple[str, str]
    event: str
    seen: tuple[int, int]  # under either input
    reports: int  # of either input that were looked at for it

    @property
    def passed(self) -> bool:
        """Whether the attack leaves the certificate standing."""
        return self.epsilon <= self.certificate.epsilon

    @property
    def fraction(self) -> float:
        """How much of the certified epsilon was proved to be leaked: near 1 the certificate is tight."""
        return self.epsilon / self.certificate.epsilon if self.certificate.epsilon else 0.0

    @property
    def verdict(self) -> str:
        """In a word."""
        return "stands" if self.passed else "is REFUTED"

    def table(self) -> TextTable:
        """Certificate and audit, side by side."""
        likely, rare = (f"{count:,} of {self.reports:,}" for count in self.seen)
        facts = {
            "certificate": str(self.certificate),
            "audit": f"epsilon at least {self.epsilon:.5g}, confidence {self.confidence:.10g}",
            "fraction": f"{self.fraction:.3f}",
            "verdict": f"the certificate {self.verdict}",
            "trials": f"{self.trials:,}",
            "inputs": f"{self.pair[0]} against {self.pair[1]}",
            "event": self.event,
            "seen": f"{likely} against {rare}",
        }
        return TextTable({"": list(facts), self.mechanism: list(facts.values())})

    def __str__(self) -> str:
        return str(self.table())


def audit(
    mechanism: Attackable,
    trials: int = 1_000_000,
    confidence: float = 0.999,
    *,
    rounds: int | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Attack a mechanism, or all that a device sends for a plan, and say what epsilon so many reports prove at least.

    `seed=None` audits the randomness of production; a number makes an audit that can be repeated. `progress` wraps
    the chunks, as `rich.progress.track` does. If the certificate is right, it is refuted with a probability of at
    most 1 - confidence. What a mechanism with memory promises for ever is attacked over so many `rounds` of each user,
    16 by default; a trial is then a user.

    >>> from dither.mechanisms import GRR
    >>> found = audit(GRR(k=4, epsilon=1.0), trials=100_000, seed=1)
    >>> found.passed, found.fraction > 0.9
    (True, True)
    """
    trials = checked_count("trials", trials, FEWEST, MOST)
    confidence = checked_real("confidence", confidence)
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence must be at least 0.5 and below 1, as in 0.999")
    attacked = _attacked(mechanism.audited() if isinstance(mechanism, Audited) else mechanism, rounds)
    source, promise = _Source(attacked, seed), attacked.guarantee
    found = candidates(attacked)
    if not pairs(found):
        raise ParameterError("there are no two inputs to tell apart")
    aim = _Aim(int(0.3 * trials), confidence, promise.delta)
    attack = max(
        (_explored(attacked, source, found, pair, trials, aim) for pair in _finalists(source, found, trials, aim)),
        key=lambda each: each.event.promise,
    )
    reports = (trials - source.drawn) // 2
    chunks = range(-(-reports // _CHUNK))
    seen = np.zeros(2, dtype=np.int64)
    for chunk in (progress or iter)(chunks):
        size = min(_CHUNK, reports - chunk * _CHUNK)
        seen += [attack.event.seen(attack.score(source.of(found[place], size))) for place in attack.pair]
    order = (0, 1) if attack.event.first else (1, 0)
    hits, misses = (int(seen[place]) for place in order)
    return Audit(
        mechanism=repr(attacked),
        certificate=promise,
        epsilon=epsilon_below(hits, misses, reports, confidence, promise.delta),
        confidence=confidence,
        trials=source.drawn,
        pair=(str(found[attack.pair[order[0]]]), str(found[attack.pair[order[1]]])),
        event=f"{attack.score.words} {'>=' if attack.event.above else '<'} {attack.event.cut:.4g}",
        seen=(hits, misses),
        reports=reports,
    )


def audit_table(
    mechanisms: Iterable[Attackable],
    trials: int = 1_000_000,
    confidence: float = 0.999,
    *,
    seed: int | None = None,
    progress: Callable[[list[Attackable]], Iterable[Attackable]] | None = None,
) -> TextTable:
    """Audits of several mechanisms, beside their certificates. `progress` wraps the mechanisms."""
    return audits_table([audit(each, trials, confidence, seed=seed) for each in (progress or iter)(list(mechanisms))])


def audits_table(audits: Sequence[Audit], names: Sequence[str] | None = None) -> TextTable:
    """A line for each audit, under names of their own if they are given."""
    return TextTable(
        {
            "mechanism": list(names or [each.mechanism for each in audits]),
            "certificate": [str(each.certificate) for each in audits],
            "epsilon at least": [each.epsilon for each in audits],
            "fraction": [round(each.fraction, 3) for each in audits],
            "the certificate": [each.verdict for each in audits],
        }
    )


def _attacked(mechanism: Mechanism | Auditable, rounds: int | None) -> Attacked:
    if isinstance(mechanism, Remembering):
        return Rounds(mechanism, ROUNDS if rounds is None else checked_count("rounds", rounds, 1, 1 << 12))
    if rounds is not None:
        raise ParameterError("rounds are for mechanisms with memory; this one promises something for each report")
    return mechanism if isinstance(mechanism, Mechanism) else Unspecified(mechanism)


class _Aim(NamedTuple):
    """What an event is chosen for: the reports of each input that will be looked at, and what is asked of them."""

    reports: int
    confidence: float
    delta: float

    def best(self, score: Score, ours: NDArray, theirs: NDArray) -> Event:
        return best_event(score(ours), score(theirs), *self)


class _Attack(NamedTuple):
    pair: tuple[int, int]
    score: Score
    event: Event


class _Source:
    """Reports of the production code, and how many there have been."""

    def __init__(self, mechanism: Attacked, seed: int | None) -> None:
        self.mechanism, self.seed, self.drawn = mechanism, seed, 0

    def of(self, candidate: Candidate, count: int) -> NDArray:
        """So many reports of one input."""
        seed = None if self.seed is None else (self.seed << 48) + self.drawn  # another one for every call
        self.drawn += count
        reports = np.asarray(self.mechanism.randomize(np.repeat(candidate.row, count, axis=0), seed=seed))
        return reports if reports.dtype.names else reports.view([("value", reports.dtype)])


def _enough(found: list[Candidate]) -> int:
    """So many trials that every input is looked at."""
    return int(np.ceil(_FEWEST_SCOUTED * len(found) / _SCOUTED))


def _finalists(source: _Source, found: list[Candidate], trials: int, aim: _Aim) -> list[tuple[int, int]]:
    """The few pairs that a quick attack tells apart best, the first one (the ends), and the channel's own worst."""
    tried = pairs(found)
    if len(tried) <= 2:
        return tried
    count = min(_MOST_SCOUTED, int(_SCOUTED * trials) // len(found))
    if count < _FEWEST_SCOUTED:
        raise ParameterError(f"there are {len(found)} inputs to try: give at least {_enough(found):,} trials")
    reports = [source.of(each, count) for each in found]
    half = count // 2

    def promise(pair: tuple[int, int]) -> float:
        ours, theirs = (reports[place] for place in pair)
        scores = _learned(source.mechanism, tuple(found[i] for i in pair), ours[:half], theirs[:half])
        return max(aim.best(score, ours[half:], theirs[half:]).promise for score in scores)

    best = sorted(tried, key=promise, reverse=True)[:_FINALISTS]
    return list(dict.fromkeys([*best, tried[0], *worst_rows(source.mechanism, found, tried)]))


def _explored(
    mechanism: Attacked, source: _Source, found: list[Candidate], pair: tuple[int, int], trials: int, aim: _Aim
) -> _Attack:
    """The best event for one pair."""
    count = min(_MOST_EXPLORED, int(_EXPLORED * trials) // (2 * (_FINALISTS + 2)))
    ours, theirs = (source.of(found[place], count) for place in pair)
    half = count // 2
    two = tuple(found[place] for place in pair)
    scores = list(_learned(mechanism, two, ours[:half], theirs[:half], known=True))
    events = [(aim.best(score, ours[half:], theirs[half:]), score) for score in scores]
    event, score = max(events, key=lambda each: each[0].promise)
    return _Attack(pair, score, event)


def _learned(
    mechanism: Attacked, pair: tuple[Candidate, ...], ours: NDArray, theirs: NDArray, known: bool = False
) -> Iterator[Score]:
    """The scores of all adversaries, trained on these reports; with `known`, also of the one who knows the channel."""
    sample = np.concatenate([ours, theirs])
    channel, reading = mechanism.channel(), mechanism.reading
    domain = None if reading is None else reading.domain
    g = (channel and channel.outputs_by_tag) or 2
    seen = list(feature_sets(sample, (pair[0].row[0], pair[1].row[0]), domain, g))
    for view in seen:
        yield from learned(view, ours, theirs)
    numbers = tuple(each.number for each in pair if each.number is not None)
    if known and isinstance(mechanism, Mechanism) and len(numbers) == 2:
        yield from exact(mechanism, numbers, seen, sample)
