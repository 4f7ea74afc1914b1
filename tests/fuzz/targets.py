"""What is fuzzed: everything that reads bytes from strangers, with what must hold for whatever it reads.

A target has valid bytes to begin with, a way to mutate them, what reads them, and what is true of all that it accepts.
`checked` runs one case: whatever comes in, nothing but an error of dither may come out, what is accepted must be
written as it was read, and a small input must not take much memory.

    @target("name", cases=400)
    def _() -> Target: ...

adds another one: it is then part of `make fuzz`, and of the tests with so many cases.
"""

import hashlib
import json
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import Any

import msgspec
import numpy as np

import dither
from dither.collect.sealed_reports import Head, SealedReportFormat, key_id, read_head, split_messages
from dither.collect.sealing_keys import new_key
from dither.errors import DitherError
from dither.mechanisms import load
from dither.planning import Plan, PlanTally, plan_files
from dither.testing import examples
from dither.wire import BatchFormat, read_frame
from fuzz.mutations import mutated_bytes, mutated_tree

MOST_MEMORY = 64 << 20
KEY = bytes(range(32))
Mutate = Callable[[bytes, Random], bytes]


@dataclass(frozen=True)
class Target:
    """Something that reads bytes."""

    seeds: tuple[bytes, ...]  # that are right
    read: Callable[[bytes], Any]
    accepted: Callable[[bytes, Any], None]  # what must hold for what was read
    mutations: tuple[Mutate, ...] = (mutated_bytes,)
    most_memory: int = field(default=MOST_MEMORY)


@dataclass(frozen=True)
class Entry:
    """How a target is made, when somebody wants to run it, and how many cases of it are a test."""

    make: Callable[[], Target]
    cases: int


TARGETS: dict[str, Entry] = {}


def target(name: str, cases: int) -> Callable[[Callable[[], Target]], Callable[[], Target]]:
    """Add a target."""

    def added(make: Callable[[], Target]) -> Callable[[], Target]:
        TARGETS[name] = Entry(lru_cache(maxsize=1)(make), cases)
        return make

    return added


def case(name: str, random: Random) -> bytes:
    """One mutated input of a target."""
    found = TARGETS[name].make()
    return random.choice(found.mutations)(random.choice(found.seeds), random)


def checked(name: str, data: bytes) -> bool:
    """Whether these bytes are accepted; AssertionError if anything happens that must not."""
    found, outside = TARGETS[name].make(), tracemalloc.is_tracing()
    if not outside:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", dither.errors.DitherWarning)
                value = found.read(data)
                found.accepted(data, value)
            fine = True
        except DitherError:
            fine = False
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}\n{data!r}") from error
        peak = tracemalloc.get_traced_memory()[1] - before
        assert peak <= found.most_memory, f"{name}: {peak:,} bytes of memory for {len(data):,} of input\n{data!r}"
        return fine
    finally:
        if not outside:
            tracemalloc.stop()


# Tallies -------------------------------------------------------------------------------------------------------------


def _repacked(data: bytes, random: Random) -> bytes:
    """A MessagePack map with something in it changed; bytes in it that are such a map, too."""
    try:
        tree = msgspec.msgpack.decode(data, type=dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return mutated_bytes(data, random)
    try:
        return msgspec.msgpack.encode(mutated_tree(tree, random, inside=_repacked))
    except (OverflowError, UnicodeEncodeError, TypeError):  # what MessagePack has no bytes for
        return mutated_bytes(data, random)


def _signed(data: bytes, random: Random) -> bytes:
    """The tally of a plan with something changed, and a digest that is right."""
    body = _repacked(data[:-32], random)
    return body + hashlib.sha256(body).digest()


def _same(write: Callable[[Any], bytes]) -> Callable[[bytes, Any], None]:
    def same(data: bytes, value: Any) -> None:
        assert write(value) == data, "what was read is not what it writes"

    return same


@lru_cache(maxsize=1)
def _collected() -> tuple[tuple[Plan, PlanTally], ...]:
    """Small plans with all kinds of counts, and honest tallies of them."""
    some = np.random.default_rng(5)
    columns: dict[str, Any] = {
        "age": (dither.Ordinal(0, 9), some.integers(0, 10, 60)),
        "income": (dither.Numeric(0, 100), some.uniform(0, 100, 60)),
        "job": (dither.Categorical(["nurse", "driver", "other"]), some.choice(["nurse", "driver"], 60)),
        "films": (dither.KeyValue(keys=6, size=2), [{int(user) % 6: 0.5} for user in range(60)]),
    }
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dither.errors.BudgetWarning)
        for names, epsilon, ask in (
            (("age", "income", "job", "films"), 1.0, None),
            (("income", "job"), 9.0, None),
            (("films",), 4.0, None),
            (("age", "job"), 1.0, ["ranges(age, job)"]),
            (("age", "income", "job"), 5.0, None),  # two of them crossed
        ):
            schema = dither.Schema({name: columns[name][0] for name in names})
            made = dither.plan(schema, epsilon=epsilon, users=1000, ask=ask)
            table = {name: columns[name][1] for name in names}
            found.append((made, made.tally(made.randomize(table, seed=1))))
    return tuple(found)


@target("Tally.from_bytes", cases=450)
def _tally() -> Target:
    parts = [part for _, tally in _collected() for part in tally.parts.values()]
    seeds = (*(part.to_bytes() for part in parts), dither.Tally("abc", 0, np.zeros((0, 3), dtype=np.int64)).to_bytes())
    return Target(seeds, dither.Tally.from_bytes, _same(lambda tally: tally.to_bytes()), (mutated_bytes, _repacked))


@target("PlanTally.from_bytes", cases=450)
def _plan_tally() -> Target:
    tallies = [tally for _, tally in _collected()]
    listed = replace(tallies[0], files={"ab" * 32: 5, "cd" * 32: 6})
    seeds = tuple(tally.to_bytes() for tally in (*tallies, listed))
    return Target(seeds, PlanTally.from_bytes, _same(lambda tally: tally.to_bytes()), (mutated_bytes, _signed, _signed))


@target("PlanTally.from_bytes with a key", cases=225)
def _sealed_tally() -> Target:
    seeds = tuple(tally.to_bytes(key=KEY) for _, tally in _collected())

    def accepted(data: bytes, tally: PlanTally) -> None:
        assert data in seeds, "a seal that nobody with the key has made"
        assert tally.to_bytes(key=KEY) == data

    return Target(seeds, lambda data: PlanTally.from_bytes(data, key=KEY), accepted, (mutated_bytes, _repacked))


@target("plan.estimate", cases=150)
def _claims() -> Target:
    """A tally that gets as far as an estimate: what it claims can be true, and every number comes out."""
    plans = {made.fingerprint: made for made, _ in _collected()}
    seeds = tuple(tally.to_bytes() for _, tally in _collected())

    def accepted(data: bytes, tally: PlanTally) -> None:
        made = plans.get(tally.plan)
        if made is not None:
            made.check_tally(tally)
            found = made.estimate(tally)
            assert len(found) >= len(made.parts)

    return Target(seeds, PlanTally.from_bytes, accepted, (_signed,))


# Batches -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _batches() -> tuple[tuple[BatchFormat, bytes], ...]:
    """Batches of these plans, as a device and as a server would send them."""
    found = []
    for made, _ in _collected():
        wire = BatchFormat(made)
        nothing = made.report({})
        found += [(wire, wire.pack(nothing)), (wire, wire.pack(made.report({}, seed=1)))]
        several = {name: np.concatenate([own, made.report({})[name]]) for name, own in nothing.items()}
        found.append((wire, wire.pack(several)))
    return tuple(found)


def _numbers(data: bytes, random: Random) -> bytes:
    """A batch with one of the numbers of its frame changed: to a small one, a near one, or a large one."""
    place = 40 + 4 * random.randrange(min(len(data) - 40, 48) // 4)
    value = int.from_bytes(data[place : place + 4], "little")
    other = random.choice([0, 1, value + 1, value - 1, value * 2, random.randrange(40), 2**31, 2**32 - 1]) % 2**32
    return data[:place] + other.to_bytes(4, "little") + data[place + 4 :]


@target("BatchFormat.check", cases=450)
def _checked_batch() -> Target:
    """A batch of reports: whatever is accepted can be tallied, and what is sound is written as it was read."""
    plans = {wire.plan.fingerprint: wire for wire, _ in _batches()}

    def read(data: bytes) -> Any:
        wire = plans.get(read_frame(data).plan.hex(), _batches()[0][0])
        return wire, wire.check(data, allow_simulated=True)

    def accepted(data: bytes, found: Any) -> None:
        wire, batch = found
        assert batch.accepted + sum(batch.rejected.values()) == batch.reports
        assert wire.from_json(wire.to_json(data)) == data, "what was read is not what it writes"
        tally = wire.tally([batch])
        wire.plan.check_tally(tally)
        assert (tally.reports, tally.rows) == (batch.accepted, batch.reports)
        if not batch.rejected:
            assert wire.pack(wire.unpack(data)) == data

    return Target(tuple(data for _, data in _batches()), read, accepted, (mutated_bytes, _numbers, _numbers))


@target("BatchFormat.from_json", cases=300)
def _json_batch() -> Target:
    """The same from JSON: what comes out is a batch whose frame is sound, and comes back the same."""
    plans = {wire.plan.fingerprint: wire for wire, _ in _batches()}

    def read(data: bytes) -> Any:
        named = next((name for name in plans if name.encode() in data), _batches()[0][0].plan.fingerprint)
        return plans[named], plans[named].from_json(data)

    def accepted(data: bytes, found: Any) -> None:
        wire, packed = found
        wire.tally([wire.check(packed)])
        assert wire.from_json(wire.to_json(packed)) == packed

    seeds = tuple(wire.to_json(data).encode() for wire, data in _batches())
    return Target(seeds, read, accepted, (mutated_bytes, _changed, _changed))


@target("SealedReportFormat.opened", cases=300)
def _sealed() -> Target:
    """What is in a sealed message, whose sender sealed whatever they liked: what comes out agrees with the head."""
    key, wire = new_key(), _batches()[0][0]
    form = SealedReportFormat(wire.plan)
    head = Head(key_id(key.public))
    padded = (form.opened(message, key.opener()) for message in form.seal(wire.plan.report({}), key.public))

    def read(data: bytes) -> Any:
        return form.opened(form.sealed(head, data, key.public), key.opener())

    def accepted(data: bytes, found: bytes) -> None:
        (section,) = wire.frame(found).sections
        assert (section.reports, section.part in form.crowds[0].parts) == (1, True)
        assert data == (len(found).to_bytes(4, "little") + found).ljust(len(data), b"\0")
        wire.check(found)

    seeds = tuple((len(batch).to_bytes(4, "little") + batch).ljust(form.padded, b"\0") for batch in padded)
    return Target(seeds, read, accepted, (mutated_bytes, _numbers))


@target("sealed_reports.split_messages", cases=300)
def _messages() -> Target:
    """What a shuffler reads of a request."""
    key, wire = new_key(), _batches()[0][0]
    form = SealedReportFormat(wire.plan)
    messages = [message for _ in range(3) for message in form.seal(wire.plan.report({}), key.public)]

    def read(data: bytes) -> Any:
        return [(read_head(message), message) for message in split_messages(data, form.size)]

    def accepted(data: bytes, found: Any) -> None:
        assert b"".join(message for _, message in found) == data
        assert all(message.startswith(head.to_bytes()) for head, message in found)

    return Target((messages[0], b"".join(messages)), read, accepted, (mutated_bytes, _head_numbers))


def _head_numbers(data: bytes, random: Random) -> bytes:
    """With one of the numbers of a head changed."""
    place = 4 + 4 * random.randrange(6)
    return data[:place] + random.choice([0, 1, 2, 2**32 - 1]).to_bytes(4, "little") + data[place + 4 :]


# Plans ---------------------------------------------------------------------------------------------------------------


def _rehashed(data: bytes, random: Random) -> bytes:
    """A plan with something changed, and a hash that is right."""
    stored = json.loads(json.dumps(mutated_tree(json.loads(data), random), default=bytes.hex))
    if isinstance(stored, dict) and random.randrange(4):
        hashed = {name: each for name, each in stored.items() if name not in plan_files.BESIDE}
        stored["hash"] = plan_files.digest(hashed)
    return json.dumps(stored).encode()


@target("Plan.from_json", cases=300)
def _plan() -> Target:
    def read(data: bytes) -> Plan:
        return Plan.from_json(data.decode("utf-8", "surrogateescape"))

    def accepted(data: bytes, made: Plan) -> None:
        stored = json.loads(data)
        hashed = {name: each for name, each in stored.items() if name not in plan_files.BESIDE}
        assert made.to_dict() == hashed, "what was read is not what stands there"
        assert made.guarantee.epsilon <= made.epsilon
        assert Plan.from_json(made.to_json()) == made

    seeds = tuple(made.to_json().encode() for made, _ in _collected())
    return Target(seeds, read, accepted, (mutated_bytes, _rehashed, _rehashed))


@target("mechanisms.load", cases=225)
def _mechanism() -> Target:
    """The description of a mechanism, as it stands in a plan: all kinds of integers, and all kinds of sizes."""

    def read(data: bytes) -> Any:
        return load(json.loads(data))

    def accepted(data: bytes, made: Any) -> None:
        assert load(made.to_dict()) == made
        assert made.guarantee.epsilon <= made.epsilon
        made.check_size()
        assert made.contributions.size is not None

    seeds = tuple(json.dumps(made.to_dict()).encode() for made in examples())
    return Target(seeds, read, accepted, (_changed,))


def _changed(data: bytes, random: Random) -> bytes:
    return json.dumps(mutated_tree(json.loads(data), random), default=bytes.hex).encode()
