"""dither against the fastest peer, mechanism by mechanism, in one run.

For every mechanism of categories the client (values to reports) and the server (reports to the estimates of all) are
raced apart, and the fastest peer may be another one on each side. dither draws secure randomness, as on a device.
Contestants take turns, so the ratio survives a noisy machine. A peer that would take minutes gets fewer users:
`users` of the row's peer says how many; all costs are linear in users, but for the estimation at the end, which is
small beside them.

Of the mechanisms for numbers only additive noise has peers, and these have no server: clients are raced (`noises`).

What depends on public parameters alone is outside the clock on both sides: a peer's server is made (with its table of
hashes) and dither's mechanism has estimated before (with its table of collisions) when the clock starts.
Everything compiled runs on a few users before the clock starts; `warm_up` returns what compiling the peers took.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import peers
from alone import numbers, population
from dither.core.mechanism import Mechanism
from dither.mechanisms import GRR, Gaussian, Hadamard, Laplace, LocalHash, SubsetSelection, Unary
from figures import Peers, Row, Target
from measure import in_turns, seconds

K = 1000
EPSILON = 1.0
DELTA = 1e-6
COHORTS = 1024
ROUNDS = 5
_FEW = 50


@dataclass(frozen=True)
class Contest:
    """A mechanism of dither and its peers. The shares say which part of the users a peer is measured on."""

    name: str
    make: Callable[[], Mechanism]
    peers: Sequence[peers.Peer]
    client_share: float = 1.0
    server_share: float = 1.0
    client_target: Target | None = None
    server_target: Target | None = None
    numeric: bool = False

    def values(self, users: int) -> NDArray:
        """What the users hold."""
        return numbers(users) if self.numeric else population(users, K)


def contests() -> list[Contest]:
    """All the races."""
    twenty = Target(20, of_ratio=True)
    return [
        Contest(
            "LocalHash",
            lambda: LocalHash(K, EPSILON),
            peers.local_hash(K, EPSILON),
            server_share=0.02,
            server_target=Target(500, of_ratio=True),
        ),
        Contest(
            f"LocalHash, {COHORTS} cohorts",
            lambda: LocalHash(K, EPSILON, cohorts=COHORTS),
            peers.shared_hash(K, EPSILON, COHORTS),
        ),
        Contest(
            "Unary",
            lambda: Unary(K, EPSILON),
            peers.unary(K, EPSILON),
            client_share=0.2,
            server_share=0.2,
            client_target=twenty,
            server_target=twenty,
        ),
        Contest(
            "GRR",
            lambda: GRR(K, EPSILON),
            peers.randomized_response(K, EPSILON),
            client_target=Target(20e6),
        ),
        Contest("Hadamard", lambda: Hadamard(K, EPSILON), peers.hadamard(K, EPSILON)),
        Contest(
            "SubsetSelection",
            lambda: SubsetSelection(K, EPSILON),
            peers.subset_selection(K, EPSILON),
            client_share=0.2,
            server_share=0.1,
        ),
    ]


def noises() -> list[Contest]:
    """The races of additive noise, against the peers that are installed."""
    laplace, gaussian = Laplace(EPSILON), Gaussian(EPSILON, delta=DELTA)
    sigma = float(gaussian.moments([1.0]).variance[0]) ** 0.5 / gaussian.noise.step
    found = [
        Contest("Laplace", lambda: laplace, peers.laplace(EPSILON, laplace.noise.law.steps), 0.1, numeric=True),
        Contest(
            "Gaussian",
            lambda: gaussian,
            peers.gaussian(EPSILON, DELTA, gaussian.noise.law.steps, sigma),
            client_share=0.1,
            numeric=True,
        ),
    ]
    return [contest for contest in found if contest.peers]


def warm_up(contest: Contest) -> float:
    """Run everything on a few users, twice: the seconds that the peers' first run took beyond their second."""
    values = contest.values(_FEW)
    mechanism = contest.make()
    mechanism.estimate(mechanism.tally(mechanism.randomize(values)))

    def all_peers() -> None:
        for peer in contest.peers:
            reports = peer.client(values.tolist())
            if peer.server is not None:
                _checked(peer.server()(reports), K)
            else:
                _checked(reports, _FEW)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "only aggregated small amounts of data"
        first, second = seconds(all_peers), seconds(all_peers)
    return max(0.0, first - second)


def client_row(contest: Contest, users: int) -> Row:
    """Values to reports, in users a second."""
    values, few = contest.values(users), max(_FEW, int(users * contest.client_share))
    short = values[:few].tolist()
    mechanism = contest.make()
    runs: dict[str, Callable[[], Any]] = {"dither": lambda: mechanism.randomize(values)}
    for peer in contest.peers:
        runs[peer.library] = _later(peer.client, short)
    times = in_turns(runs, ROUNDS)
    peer = _fastest(times, few)
    return Row(contest.name, "client, users/s", users, users / times["dither"], peer, target=contest.client_target)


def server_row(contest: Contest, users: int) -> Row:
    """Reports to the estimates of all categories, in users a second."""
    values, few = contest.values(users), max(_FEW, int(users * contest.server_share))
    short = values[:few].tolist()
    mechanism = contest.make()
    reports = mechanism.randomize(values)
    mechanism.estimate(mechanism.tally(reports))
    runs: dict[str, Callable[[], Any]] = {"dither": lambda: mechanism.estimate(mechanism.tally(reports))}
    for peer in contest.peers:
        runs[peer.library] = _served(peer, peer.client(short))
    times = in_turns(runs, ROUNDS)
    peer = _fastest(times, few)
    return Row(contest.name, "server, users/s", users, users / times["dither"], peer, target=contest.server_target)


def _served(peer: peers.Peer, reports: Any) -> Callable[[], Any]:
    """A new server for every round, since they remember; all are made before the clock starts."""
    assert peer.server is not None
    servers = iter([peer.server() for _ in range(ROUNDS)])
    return lambda: next(servers)(reports)


def _later(work: Callable[[Any], Any], argument: Any) -> Callable[[], Any]:
    return lambda: work(argument)


def _fastest(times: dict[str, float], users: int) -> Peers:
    name = min((name for name in times if name != "dither"), key=times.__getitem__)
    return Peers(name, users / times[name], users)


def _checked(found: Any, size: int) -> None:
    """A peer that returns nonsense would be no measure."""
    values = np.asarray(found)
    if values.shape != (size,) or not np.isfinite(values).all():
        raise RuntimeError("a peer did not return one estimate for each category, or one report for each user")
