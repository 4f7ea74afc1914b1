"""Sealed reports: what opens, what does not, and what neither the bytes nor the keys tell."""

import json
import pickle
import sys
import threading
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dither
from collect.collectors import other_plan, records, small_plan
from collect.hpke_by_hand import sealed_by_hand
from dither.collect import sealed_reports
from dither.collect.collector import Collector
from dither.collect.sealed_batches import BatchGuarantees, SealedBatches, guarantee_of_batches, shuffled_facts
from dither.collect.sealed_reports import (
    EXPIRED_KEY,
    HEAD_BYTES,
    LEAST_BYTES,
    MISLABELLED,
    NOT_OPENED,
    UNKNOWN_KEY,
    Head,
    SealedReportFormat,
    crowds_of,
    key_id,
    merged,
    read_head,
    sealing_info,
    split_messages,
)
from dither.collect.sealing_keys import EXPIRED, PENDING, KeyFileError, KeyFolder, OpeningKeys, new_key
from dither.collect.sqlite_store import SqliteStore
from dither.collect.store import Crowds
from dither.core.guarantee import Guarantee
from dither.errors import CollectorError, MissingExtraError, ParameterError, ReportError, WireError
from dither.planning import Plan

STORED = Path(__file__).parents[1] / "stored"
VECTORS = STORED / "sealed" / "sealed-reports.json"
KEY = new_key()


@lru_cache
def every_plan() -> Plan:
    """Two questions behind a shuffler, of which every user answers both, in three rounds."""
    return Plan.read(STORED / "plan-rounds-shuffled.json")


@lru_cache
def crowd_plan() -> Plan:
    """One question behind a shuffler."""
    schema = dither.Schema({"member": dither.Categorical(["no", "yes"])})
    return dither.plan(schema, users=10_000, central=1.0, delta=1e-6)


@lru_cache
def some_plan() -> Plan:
    """Several questions a user, of more."""
    schema = dither.Schema({f"x{place}": dither.Numeric(0, 1) for place in range(6)})
    return dither.plan(schema, epsilon=6.0, users=10_000)


@lru_cache
def grouped_plan() -> Plan:
    """With public groups."""
    schema = dither.Schema({"where": dither.Public(["north", "south"]), "age": dither.Ordinal(0, 3)})
    return dither.plan(schema, epsilon=1.0, users=10_000)


def reports_of(plan: Plan) -> dict[str, Any]:
    """What somebody sends."""
    return plan.fresh_report({"where": "south"} if plan.groups else {})


def period_of(plan: Plan) -> str | int | None:
    """The last round."""
    return plan.schedule.periods[-1] if plan.schedule.repeats else None


PLANS = {"one": small_plan, "every": every_plan, "some": some_plan, "groups": grouped_plan}


# The format ----------------------------------------------------------------------------------------------------------


def test_the_sender_by_hand_is_the_one_of_the_rfc():
    # RFC 9180, appendix A.1.1
    message = sealed_by_hand(
        bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736"),
        bytes.fromhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d"),
        bytes.fromhex("4f6465206f6e2061204772656369616e2055726e"),
        bytes.fromhex("4265617574792069732074727574682c20747275746820626561757479"),
        b"Count-0",
    )
    assert message[:32].hex() == "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
    assert message[32:].hex() == (
        "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
    )


@pytest.mark.parametrize("name", PLANS)
def test_what_is_sealed_opens_to_the_same_reports(name: str):
    plan = PLANS[name]()
    form = SealedReportFormat(plan)
    reports, period = reports_of(plan), period_of(plan)
    messages = form.seal(reports, KEY.public, period=period)
    assert {read_head(each).round for each in messages} == {plan.schedule.rounds - 1}
    batch = merged([form.opened(each, KEY.opener()) for each in messages], form.wire)
    assert batch == plan.pack(reports, period=period)


@pytest.mark.parametrize("name", PLANS)
def test_all_messages_of_a_plan_have_one_size(name: str):
    plan = PLANS[name]()
    form = SealedReportFormat(plan)
    drawn, sizes = set[str](), set[int]()
    for _ in range(40):
        reports = reports_of(plan)
        drawn |= {name for name, own in reports.items() if len(own)}
        sizes |= {len(message) for message in form.seal(reports, KEY.public, period=period_of(plan))}
    assert sizes == {form.size}
    assert len(drawn) > 1 or len(plan.parts) == 1 or plan.groups


def test_crowds_are_who_hides_whom():
    assert [(len(each.parts), each.reports) for each in crowds_of(small_plan())] == [(3, 1)]
    assert every_plan().questions_per_user == 2
    assert [(set(each.parts), each.reports) for each in crowds_of(every_plan())] == [({0}, 1), ({1}, 1)]
    assert 1 < some_plan().questions_per_user < len(some_plan().parts)
    assert [each.reports for each in crowds_of(some_plan())] == [some_plan().questions_per_user]
    groups = crowds_of(grouped_plan())
    assert len(groups) == 2
    assert not groups[0].parts & groups[1].parts
    (message,) = SealedReportFormat(grouped_plan()).seal(grouped_plan().report({"where": "south"}), KEY.public)
    assert read_head(message).crowd == 1


@pytest.mark.parametrize("place", range(LEAST_BYTES))
def test_a_changed_message_does_not_open(place: int):
    form = SealedReportFormat(other_plan())
    (message,) = form.seal(other_plan().report({}), KEY.public)
    changed = message[:place] + bytes([message[place] ^ 1]) + message[place + 1 :]
    with pytest.raises(WireError) as told:
        form.opened(changed, KEY.opener())
    assert told.value.reason in (NOT_OPENED, "malformed", "unknown version")
    assert place < HEAD_BYTES or told.value.reason == NOT_OPENED


def test_a_message_opens_for_its_plan_and_key_alone():
    (message,) = SealedReportFormat(small_plan()).seal(small_plan().report({}), KEY.public)
    with pytest.raises(WireError, match="another plan"):
        SealedReportFormat(other_plan()).opened(message, KEY.opener())
    with pytest.raises(WireError, match="does not open"):
        SealedReportFormat(small_plan()).opened(message, new_key().opener())


def by_hand(plan: Plan, head: Head, plaintext: bytes, ephemeral: bytes = bytes(range(32))) -> bytes:
    """A message with any content."""
    first = head.to_bytes()
    info = sealing_info(first, bytes.fromhex(plan.fingerprint))
    return first + sealed_by_hand(ephemeral, KEY.public, info, plaintext)


def padded(batch: bytes, size: int) -> bytes:
    return (len(batch).to_bytes(4, "little") + batch).ljust(size, b"\0")


def test_what_contradicts_its_head_is_mislabelled():
    plan, name = small_plan(), key_id(KEY.public)
    form = SealedReportFormat(plan)
    one = plan.pack(plan.report({}))
    two = plan.pack(plan.randomize({key: column[:2] for key, column in records(2).items()}))
    assert form.opened(by_hand(plan, Head(name), padded(one, form.padded)), KEY.opener()) == one
    for head, batch in (
        (Head(name, 1), one),
        (Head(name, 0, 1), one),
        (Head(name), two),
        (Head(name, users=3, many=True), two),
    ):
        with pytest.raises(WireError) as told:
            form.opened(by_hand(plan, head, padded(batch, form.padded)), KEY.opener())
        assert told.value.reason == MISLABELLED


@pytest.mark.parametrize("plaintext", [b"", b"\0", b"\xff\xff\xff\xff", b"\1\0\0\0", b"\0\0\0\0\1", bytes(80)])
def test_what_is_no_batch_is_malformed(plaintext: bytes):
    plan = small_plan()
    with pytest.raises(WireError) as told:
        SealedReportFormat(plan).opened(by_hand(plan, Head(key_id(KEY.public)), plaintext), KEY.opener())
    assert told.value.reason in ("malformed", "truncated")


def test_padding_is_zeros():
    plan = small_plan()
    form, batch = SealedReportFormat(plan), plan.pack(plan.report({}))
    plaintext = padded(batch, form.padded + 1)[:-1] + b"\1"
    with pytest.raises(WireError, match="does not end where it says"):
        form.opened(by_hand(plan, Head(key_id(KEY.public)), plaintext), KEY.opener())


def test_simulated_reports_are_not_sealed_and_not_opened():
    plan = small_plan()
    form, simulated = SealedReportFormat(plan), plan.report({}, seed=1)
    with pytest.raises(ReportError, match="simulated"):
        form.seal(simulated, KEY.public)
    with pytest.raises(ReportError, match="simulated"):
        form.seal_many(plan.randomize(records(10), seed=1), KEY.public)
    message = by_hand(plan, Head(key_id(KEY.public)), padded(plan.pack(simulated), form.padded))
    with pytest.raises(WireError) as told:
        form.opened(message, KEY.opener())
    assert told.value.reason == "simulated"


def test_a_user_is_sealed_alone():
    with pytest.raises(ReportError, match="one user at a time"):
        SealedReportFormat(small_plan()).seal(small_plan().randomize(records(9)), KEY.public)


def test_one_seal_over_many_mixes_them():
    plan = other_plan()
    form = SealedReportFormat(plan)
    reports = plan.randomize({"job": ["nurse"] * 500 + ["driver"] * 500})
    (message,) = form.seal_many(reports, KEY.public)
    assert read_head(message) == Head(key_id(KEY.public), users=1000, many=True)
    (name,) = reports
    sent, mixed = np.asarray(reports[name]), np.asarray(plan.unpack(form.opened(message, KEY.opener()))[name])
    assert np.array_equal(np.sort(sent), np.sort(mixed))
    assert not np.array_equal(sent, mixed)  # 1000 reports of 4 kinds: the same by chance below 1e-100


def test_bodies_are_cut_into_messages():
    form = SealedReportFormat(small_plan())
    (message,) = form.seal(small_plan().report({}), KEY.public)
    assert split_messages(message * 3, form.size) == [message] * 3
    for bad in (b"", b"DTHW", message[:-1], message + b"DTHS", message[:30]):
        with pytest.raises(WireError):
            split_messages(bad, form.size)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_whatever_strangers_send_is_refused_by_a_word(data: bytes, begun: bool):
    form = SealedReportFormat(small_plan())
    body = (Head(key_id(KEY.public)).to_bytes() if begun else b"") + data
    try:
        messages = split_messages(body, form.size)
    except WireError:
        return
    for message in messages:
        with pytest.raises(WireError):
            form.opened(message, KEY.opener())


def test_without_hpke_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.hpke", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dither\[seal\]'"):
        sealed_reports.hpke_suite.__wrapped__()


# Vectors -------------------------------------------------------------------------------------------------------------


def vectors() -> dict[str, Any]:
    """Messages with a fixed ephemeral key, for clients in other languages. Run this file to write them."""
    private = bytes(range(100, 132))
    public = sealed_public(private)
    plan = Plan.read(STORED / "plan-first.json")
    form, rows = SealedReportFormat(plan), []
    for number in range(4):
        reports = plan.report({}, seed=number)
        batch = bytearray(plan.pack(reports))
        batch[6] = 0  # not marked as simulated: the reports of a vector protect nobody, and nobody sends them
        crowd = next(
            place
            for place, each in enumerate(form.crowds)
            if {section.part for section in form.wire.frame(bytes(batch)).sections} <= each.parts
        )
        head, ephemeral = Head(key_id(public), 0, crowd).to_bytes(), bytes([number + 1] * 32)
        plaintext = padded(bytes(batch), form.padded)
        info = sealing_info(head, form.plan_hash)
        rows.append(
            {
                "batch": bytes(batch).hex(),
                "plaintext": plaintext.hex(),
                "info": info.hex(),
                "ephemeral_private_key": ephemeral.hex(),
                "message": (head + sealed_by_hand(ephemeral, public, info, plaintext)).hex(),
            }
        )
    return {
        "plan": plan.fingerprint,
        "plan_file": "tests/stored/plan-first.json",
        "private_key": private.hex(),
        "public_key": public.hex(),
        "key_id": key_id(public).hex(),
        "size": form.size,
        "messages": rows,
    }


def sealed_public(private: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def test_stored_messages_are_made_and_opened_as_ever():
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    stored = json.loads(VECTORS.read_text())
    assert vectors() == stored
    plan = Plan.read(Path(__file__).parents[2] / stored["plan_file"])
    opener = X25519PrivateKey.from_private_bytes(bytes.fromhex(stored["private_key"]))
    for row in stored["messages"]:
        assert SealedReportFormat(plan).opened(bytes.fromhex(row["message"]), opener).hex() == row["batch"]


# Keys ----------------------------------------------------------------------------------------------------------------


def test_a_private_key_is_its_owners_and_is_told_nobody(tmp_path: Path):
    folder = KeyFolder(tmp_path / "keys")
    key = folder.add(new_key())
    (path,) = (tmp_path / "keys").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    assert key.private is not None
    for shown in (repr(key), str(key), repr([key]), json.dumps(key.published())):
        assert key.private.hex() not in shown
        assert repr(key.private)[2:-1] not in shown
    with pytest.raises(ParameterError, match="not pickled"):
        pickle.dumps(key)
    assert folder.stored()[0].private == key.private


def test_states_of_keys(tmp_path: Path):
    folder, now = KeyFolder(tmp_path), time.time()
    pending, active = folder.add(new_key(PENDING)), folder.add(new_key())
    keys = OpeningKeys(folder, lasts=0.0)
    assert [each["id"] for each in keys.published()] == [active.name]
    for key in (pending, active):
        assert keys.opener(key_id(key.public), now) is not None
    folder.activate(pending.name)
    folder.expire(active.name[:6], hours=1)
    assert [each["id"] for each in keys.published()] == [pending.name]
    assert keys.opener(key_id(active.public), now) is not None
    assert keys.opener(key_id(active.public), now + 3601) is None
    (expired,) = (each for each in folder.stored() if each.state == EXPIRED)
    assert expired.private is not None
    assert folder.expire(active.name, hours=100).opens_until == expired.opens_until  # a grace does not grow
    folder.erase_expired(now + 3700)
    (erased,) = (each for each in folder.stored() if each.state == EXPIRED)
    assert erased.private is None
    with pytest.raises(ParameterError, match="make a new one"):
        folder.activate(active.name)
    with pytest.raises(ParameterError, match="erased"):
        erased.opener()
    with pytest.raises(ParameterError, match="keys in"):
        folder.expire("")


def test_a_damaged_key_is_named_and_not_quoted(tmp_path: Path):
    folder = KeyFolder(tmp_path)
    key = folder.add(new_key())
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(KeyFileError) as told:
        folder.stored()
    assert path.name in str(told.value)
    assert told.value.__context__ is None
    path.rename(tmp_path / f"{new_key().name}.key")
    folder.add(key)
    with pytest.raises(KeyFileError):
        folder.stored()


def test_a_collector_without_keys_is_told():
    for document in (
        {},
        {"keys": []},
        {"keys": [{"public": "?"}]},
        {"keys": [{"public": "AAAA", "id": "00"}]},
        [],
        None,
    ):
        with pytest.raises(CollectorError, match="no key"):
            sealed_reports.public_key_of(document)


# Batches at the collector --------------------------------------------------------------------------------------------


def opening(tmp_path: Path, *keys: Any) -> SealedBatches:
    folder = KeyFolder(tmp_path / "keys")
    for key in keys:
        folder.add(key)
    with SqliteStore(tmp_path / "store") as store:
        return SealedBatches(Collector(store), folder)


def test_what_does_not_open_is_counted_and_taints_nobody(tmp_path: Path):
    plan, old = small_plan(), new_key()
    form, batches = SealedReportFormat(plan), opening(tmp_path, KEY, old)
    fine = [message for _ in range(5) for message in form.seal(plan.report({}), KEY.public)]
    changed = fine[0][:-1] + bytes([fine[0][-1] ^ 1])
    rubbish = by_hand(plan, Head(key_id(KEY.public)), b"\xff" * form.padded)
    found = batches.opened(plan, b"".join([*fine, changed, rubbish]))
    assert (found.users, dict(found.rejected)) == (5, {NOT_OPENED: 1, "malformed": 1})
    assert form.wire.check(found.batch).accepted == 5
    elsewhere = SealedReportFormat(other_plan()).seal(other_plan().report({}), KEY.public)
    resized = [message.ljust(form.size, b"\0") for message in elsewhere]
    assert dict(batches.opened(plan, b"".join([*resized, *fine])).rejected) == {NOT_OPENED: 1}
    stranger = form.seal(plan.report({}), new_key().public)
    assert dict(batches.opened(plan, stranger[0]).rejected) == {UNKNOWN_KEY: 1}
    late = form.seal(plan.report({}), old.public)
    assert batches.opened(plan, late[0]).users == 1
    KeyFolder(tmp_path / "keys").expire(old.name, hours=0)
    again = SealedBatches(batches._collector, KeyFolder(tmp_path / "keys"))
    assert dict(again.opened(plan, late[0]).rejected) == {EXPIRED_KEY: 1}
    with pytest.raises(WireError, match="one key, one round"):
        again.opened(plan, fine[0] + stranger[0])


def test_reports_that_no_honest_device_sends_hide_nobody(tmp_path: Path):
    plan = other_plan()
    form, batches = SealedReportFormat(plan), opening(tmp_path, KEY)
    fine = [message for _ in range(3) for message in form.seal(plan.report({}), KEY.public)]
    batch = plan.pack(plan.report({}))
    strange = by_hand(plan, Head(key_id(KEY.public)), padded(batch[:-1] + b"\xff", form.padded))
    found = batches.opened(plan, b"".join([*fine, strange]))
    assert found.users == 3
    assert form.wire.check(found.batch).rejected == {"out of range": 1}


def test_the_smallest_batch_is_what_counts(tmp_path: Path):
    plan = small_plan()
    with SqliteStore(tmp_path) as store:
        number = store.add_campaign(plan.fingerprint, b"").number
        guarantees = BatchGuarantees(plan)
        assert shuffled_facts(store, number, plan, guarantees) == {}
        for key, users in ((b"a", 5000), (b"b", 1000), (b"b", 7), (b"c", 2000)):
            store.note_crowd(number, key, users)
        assert store.crowds(number) == Crowds(3, 8000, 1000)
        first = shuffled_facts(store, number, plan, guarantees)["shuffled"]
        assert not first["pending"] or first["guarantee"] == plan.guarantee.to_dict()
        guarantees.wait()
        told = shuffled_facts(store, number, plan, guarantees)["shuffled"]
        assert not told["pending"]
        assert told["smallest_batch"] == 1000
        assert told["guarantee"] == guarantee_of_batches(plan, 1000).to_dict()
        assert told["guarantee"]["model"] == "shuffled"
        assert "must not work together" in told["trust"]
        store.delete_campaign(number)
        assert store.crowds(number) == Crowds()


def test_until_a_guarantee_is_computed_one_is_told_that_holds(monkeypatch: pytest.MonkeyPatch):
    plan, computed, go_on = small_plan(), list[int](), threading.Event()

    def slow(plan: Plan, smallest: int) -> Guarantee:
        computed.append(smallest)
        assert go_on.wait(60)
        if smallest == 3:
            raise ParameterError("not known")
        return replace(plan.guarantee, epsilon=1 / smallest, model="shuffled", established="bound")

    monkeypatch.setattr("dither.collect.sealed_batches.guarantee_of_batches", slow)
    guarantees = BatchGuarantees(plan)
    assert [guarantees.found(1000) for _ in range(3)] == [(plan.guarantee, False)] * 3
    go_on.set()
    guarantees.wait()
    assert computed == [1000]  # once, however often it is asked for
    found, final = guarantees.found(1000)
    assert (found.epsilon, final) == (1 / 1000, True)  # type: ignore[union-attr]
    assert guarantees.found(2000) == (found, False)
    guarantees.wait()
    assert guarantees.found(500) == (plan.guarantee, False)  # what larger batches promise does not hold
    guarantees.wait()
    assert guarantees.found(3)[1] is False
    guarantees.wait()
    assert str(guarantees.found(3)[0]) == "not known"


def test_the_guarantee_of_batches_is_that_of_the_plan():
    plan = crowd_plan()
    assert plan.crowd is not None
    assert guarantee_of_batches(plan, plan.crowd.batch) == plan.shuffled
    assert guarantee_of_batches(plan, plan.crowd.batch // 2).epsilon > plan.shuffled.epsilon
    assert guarantee_of_batches(plan, 1) == plan.guarantee
    assert guarantee_of_batches(grouped_plan(), 1000).epsilon < grouped_plan().guarantee.epsilon


if __name__ == "__main__":
    VECTORS.parent.mkdir(exist_ok=True)
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n")
