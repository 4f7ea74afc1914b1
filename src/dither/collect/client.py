"""A device that reports over a network: it fetches a plan, checks it, answers it once, and sends until it has arrived.

**What it trusts.** Nobody. The plan comes from the collector, so it is checked here: its hash is computed anew and must
be the one that was asked for, its integers are certified again (`Plan.from_json`), and what it costs must fit the
budget of this device (`privacy.ledger`). A plan is *pinned* if the program names its hash, or an address with it.
Otherwise the collector chooses the plan, and the program has to say what its user is willing to spend.

**Always a report.** A record that does not fit is reported with the substitutes of the plan, and nothing about it is
told, in no message and by no silence. `client.plan.check(record)` is for tests of the program. A record whose *public*
values name no group of the plan is refused: they are public.

**One user, once.** A store belongs to one user. What is sent is drawn once and kept (`Ledger`), and a round of a plan
has one batch with one idempotency key, which the ledger makes (`outbox`). So a program may call `send` at every start,
and is counted once.
Servers that report for many users of their own randomize with the plan, and hand over `send_reports`.

**Until it has arrived.** A batch is on the disk before it is sent. Whatever goes wrong then, a lost answer, a full
server, a crash, a week in the mountains, it is sent again as it is, under the same key. A call tries for `patience`
seconds, with waits that double, up to a minute, at random so that devices do not come back all at once, and not before
the collector's Retry-After. What is left is for the next call. What the collector will never take (a campaign that is
closed, a batch that it cannot read) is not sent again. When a device sends depends on when it is asked, and on the
network; never on what its record holds.

**Behind a shuffler.** With `shuffler`, reports are sealed to the collector's key and go to the shuffler instead, so
that the collector does not see who sent them (docs/shuffler.md). What is on the disk is then the sealed message, and a
retry has the same bytes. The key comes from the collector, and is kept for times without a network.

**What it costs to import**: the standard library, NumPy, and what a plan needs. No Numba, no pyarrow, no SciPy.
"""

import asyncio
import os
import ssl
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dither.collect.client_http import Address, Connection, HttpAnswer, UnreachableError
from dither.collect.outbox import Outbox, Waiting
from dither.core.atomic_write import write_bytes
from dither.core.checks import checked_real, is_string
from dither.core.randomness import secret
from dither.errors import CollectorError, ParameterError, ReportError
from dither.planning.plans import Plan
from dither.privacy.ledger import Ledger
from dither.wire.batches import CONTENT_TYPE, BatchFormat
from dither.wire.frames import read_frame

if TYPE_CHECKING:
    from dither.collect.sealed_reports import SealedReportFormat

_LEDGER = "ledger.db"
_CHOSEN = "plan"
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0  # seconds
_PROBLEM_OF_ALL = frozenset({408, 425, 429})  # with 5xx and no answer: try again later, whatever is sent
_PROBLEM_OF_ACCESS = frozenset({401, 403, 404})  # may be put right, and are no fault of the batch
_HASH_LETTERS = 64
_SEALED_MAGIC, _SEALED_TYPE = b"DTHS", "application/vnd.dither.sealed-reports"  # of `sealed_reports`


@dataclass(frozen=True)
class Delivery:
    """What became of batches: those that were delivered now, and what is left."""

    batches: int = 0
    accepted: int = 0  # reports that the collector counts
    rejected: Mapping[str, int] = field(default_factory=dict)  # reports that it does not, by the reason
    duplicates: int = 0  # batches that it had already: an answer was lost
    refused: int = 0  # batches that it will never take
    pending: int = 0  # batches that are still to be sent
    trouble: str = ""  # why they are

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be sent."""
        return not self.pending


class Client:
    """A device, its ledger and its outbox, and the collector that it reports to.

    `url` is the address of a collector, or that of a plan there (`https://.../v1/plans/HASH`), and `store` a folder of
    this user's own. `plan` pins the plan: its hash, or the plan itself. `epsilon` and `delta` are the budget of this
    user, for all plans that are answered from this store; without them a pinned plan is answered once. `shuffler` is
    the address of the shuffler that sealed reports go to, for a plan that counts on one.
    """

    def __init__(
        self,
        url: str,
        store: str | os.PathLike[str],
        *,
        plan: "str | Plan | None" = None,
        epsilon: float | None = None,
        delta: float | None = None,
        token: str | None = None,
        patience: float = 10.0,
        timeout: float = 30.0,
        allow_http: bool = False,
        context: ssl.SSLContext | None = None,
        shuffler: str | None = None,
    ) -> None:
        address = Address.of(url, allow_http)
        self._pinned = _pinned(address.plan, plan)
        self._given = plan if isinstance(plan, Plan) else None
        self._budget = epsilon, delta
        self.patience = _seconds("patience", patience)
        longest = _seconds("timeout", timeout) or 1e-3
        self._connection = Connection(address, _checked_token(token), longest, context)
        self._shuffler = None  # which gets no token: it would know the device again
        if shuffler is not None:
            self._shuffler = Connection(Address.of(shuffler, allow_http), None, longest, context)
        self._folder = Path(os.path.abspath(os.fspath(store)))
        self._outbox = Outbox(self._folder)

    # The plan --------------------------------------------------------------------------------------------------

    @cached_property
    def plan(self) -> Plan:
        """The plan, checked: from the collector at first, then from the store."""
        if self._given is not None:
            return self._given
        hashed = self._pinned or self._outbox.fact(_CHOSEN) or self._chosen()
        path = self._folder / f"plan-{hashed}.json"
        if path.is_file():
            return _read_plan(path.read_bytes(), hashed)
        answer = self._get(f"/v1/plans/{hashed}")
        made = _read_plan(answer.body, hashed)
        write_bytes(path, answer.body, private=True)
        self._outbox.remember(_CHOSEN, hashed)
        return made

    def check_collector(self) -> None:
        """Refuse a collector that does not collect for the plan, or cannot be reached; nothing is reported."""
        _read_plan(self._get(f"/v1/plans/{self.plan.fingerprint}").body, self.plan.fingerprint)

    def _chosen(self) -> str:
        """The only plan that the collector has reports collected for."""
        if self._budget[0] is None and not (self._folder / _LEDGER).exists():
            raise ParameterError(
                "without plan= the collector chooses what is asked, so say what this user may spend: epsilon=1.0. Or "
                "pin the plan by its hash, plan=..., or by its address"
            )
        found = self._get("/v1/plans").json()
        rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
        plans = [str(row.get("plan")) for row in rows if row.get("state") == "open"]
        if len(plans) != 1 or not _is_hash(plans[0]):
            raise CollectorError(f"the collector has {len(plans):,} open plans: name one of them by its hash, plan=...")
        return plans[0]

    def _get(self, path: str) -> HttpAnswer:
        reason = ""
        try:
            answer = self._connection.get(path)
        except UnreachableError as error:
            answer, reason = HttpAnswer(0, b""), str(error)
        if answer.status != 200:
            raise CollectorError(
                f"the plan cannot be fetched: {reason or answer.in_words()}. Nothing was reported; try again later"
            )
        return answer

    # Reporting -------------------------------------------------------------------------------------------------

    def send(self, record: Any, *, period: str | int | None = None, patience: float | None = None) -> Delivery:
        """Report about the record of this user, once for the plan, or once for each period of a plan with rounds.

        It is on the disk before anything is sent. If it cannot be delivered now, it is with the next call.
        """
        self.report(record, period=period)
        return self.flush(patience)

    def report(self, record: Any, *, period: str | int | None = None) -> None:
        """The same without sending: it waits for `flush`."""
        made, number = self.plan, self._round(period)
        if self._outbox.has(made.fingerprint, number):
            return
        with self._ledger() as ledger:
            if self._sealed is not None:
                self._refuse_lost(ledger, period, number)
            if not made.schedule.repeats:  # it is asked once: all else of the budget is left to other plans
                with suppress(ParameterError):  # more is reserved already, and that is not changed
                    ledger.reserve(made, changes=0)
            reports = ledger.report(made, record, period=period)
            if period is not None and any(map(len, reports.values())) and not ledger.keeps(made, period):
                raise ParameterError("this period is over on this device: it has answered a later one")
            key = ledger.name_of_round(made, number)
        if any(map(len, reports.values())):  # a device may have drawn another round to report in
            self._outbox.add(made.fingerprint, self._packed(reports, period), number, key)

    def _refuse_lost(self, ledger: Ledger, period: str | int | None, number: int) -> None:
        """Behind a shuffler a user would be counted twice whose outbox was lost after it was sent from."""
        if not self._outbox.has_begun(self.plan.fingerprint, number):
            if ledger.has_answered(self.plan, period=period):
                raise CollectorError(
                    f"the ledger in {self._folder} has a report to this plan, and the outbox beside it knows of none: "
                    "it was lost. What it held may have arrived, and would be counted twice; nothing is sent. Put the "
                    "outbox back, or leave this user out of this round"
                )
            self._outbox.begin(self.plan.fingerprint, number)

    def send_reports(
        self,
        reports: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        *,
        period: str | int | None = None,
        most: int = 10_000,
        patience: float | None = None,
    ) -> Delivery:
        """Send reports of many users, as `client.plan.randomize` makes them, in batches of at most `most`.

        Behind a shuffler they are sealed once for all, and hide among each other: `most` has no meaning then.
        Each call is another collection of these users, who are counted again: what could not be delivered is sent by
        `flush`. Simulated reports protect nobody, and are refused.
        """
        self.queue_reports(reports, period=period, most=most)
        return self.flush(patience)

    def queue_reports(
        self,
        reports: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        *,
        period: str | int | None = None,
        most: int = 10_000,
    ) -> int:
        """The same without sending: all of them are on the disk, or none. How many batches they are."""
        several: Any = [reports] if isinstance(reports, Mapping) else reports
        if self._sealed is not None:
            key, sealed = self._sealing_key(), self._sealed
            bodies = (body for each in several for body in sealed.seal_many(each, key, period=period))
            return self._outbox.add_all(self.plan.fingerprint, bodies)
        return self._outbox.add_all(self.plan.fingerprint, self._batches(several, period, most))

    def _batches(self, several: Iterable[Mapping[str, Any]], period: str | int | None, most: int) -> Iterator[bytes]:
        for reports in several:
            for body in self._format.pack_batches(reports, most, period=period):
                if read_frame(body).simulated:
                    raise ReportError("these reports are simulated from a seed, and protect nobody: they are not sent")
                yield body

    @cached_property
    def _format(self) -> BatchFormat:
        return BatchFormat(self.plan)

    # Behind a shuffler -----------------------------------------------------------------------------------------

    @cached_property
    def _sealed(self) -> "SealedReportFormat | None":
        """The messages of the plan, if there is a shuffler; refused, if the plan counts on one and there is none."""
        if self._shuffler is None:
            if self.plan.crowd is not None:
                raise ParameterError(
                    "this plan counts on a shuffler, and its reports tell too much without: name it, shuffler=..."
                )
            return None
        from dither.collect.sealed_reports import SealedReportFormat, hpke_suite

        hpke_suite()  # or what to install
        return SealedReportFormat(self.plan)

    def _packed(self, reports: Mapping[str, Any], period: str | int | None) -> bytes:
        """What is sent for one user."""
        if self._sealed is None:
            return self._format.pack(reports, period=period)
        return b"".join(self._sealed.seal(reports, self._sealing_key(), period=period))

    def _sealing_key(self) -> bytes:
        """The public key of the collector: the one in use, or the last one that was, if it cannot be asked."""
        from dither.collect.sealed_reports import public_key_of

        name = f"key of {self.plan.fingerprint}"
        try:
            key = public_key_of(self._get(f"/v1/plans/{self.plan.fingerprint}/keys").json())
        except CollectorError:
            known = self._outbox.fact(name)
            if known is None:
                raise
            return bytes.fromhex(known)
        self._outbox.remember(name, key.hex())
        return key

    def _round(self, period: str | int | None) -> int:
        schedule = self.plan.schedule
        if schedule.repeats and period is not None:
            return schedule.number_of(period)
        if schedule.repeats or period is not None:
            periods = f"say which period it is: {schedule.periods_in_words()}" if schedule.repeats else ""
            raise ParameterError(periods or "this plan asks once: leave period out")
        return 0

    def _ledger(self) -> Ledger:
        path, (epsilon, delta) = self._folder / _LEDGER, self._budget
        if epsilon is None and not path.exists():
            epsilon, delta = self.plan.epsilon, self.plan.delta if delta is None else delta
        return Ledger(path, epsilon, delta)

    # Sending ---------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """How many batches are still to be sent."""
        return self._outbox.waiting

    def flush(self, patience: float | None = None) -> Delivery:
        """Send what waits, for so many seconds at most; a first try is always made."""
        end = time.monotonic() + (self.patience if patience is None else _seconds("patience", patience))
        done, rejected, trouble, failures, before = Counter[str](), Counter[str](), "", 0, -1
        while (batch := self._outbox.next(before)) is not None:
            answer, reason = self._posted(batch)
            told = _counts(answer) if answer.status == 200 else None
            if told is not None:
                done.update(batches=1, accepted=told.accepted, duplicates=told.duplicates)
                rejected.update(told.rejected)
                self._outbox.delivered(batch.number)
                failures = 0
            elif answer.status in _PROBLEM_OF_ACCESS or 300 <= answer.status < 400:
                trouble, before = answer.in_words(), batch.number  # others may be for another plan
            elif answer.status >= 500 or answer.status < 300 or answer.status in _PROBLEM_OF_ALL:
                trouble = reason or answer.in_words()
                wait = max(answer.retry_after, _backoff(failures))
                failures += 1
                if time.monotonic() + wait > end:
                    break
                time.sleep(wait)
            else:
                done.update(refused=1)
                self._outbox.refused(batch.number, answer.in_words())
        pending = self._outbox.waiting
        return Delivery(
            done["batches"],
            done["accepted"],
            dict(rejected),
            done["duplicates"],
            done["refused"],
            pending,
            trouble if pending else "",
        )

    def _posted(self, batch: Waiting) -> tuple[HttpAnswer, str]:
        headers = {"Content-Type": CONTENT_TYPE, "Idempotency-Key": batch.key}
        try:
            if batch.body.startswith(_SEALED_MAGIC):
                if self._shuffler is None:
                    return HttpAnswer(0, b""), "sealed reports wait for a shuffler: name it, shuffler=..."
                kind = {"Content-Type": _SEALED_TYPE}
                return self._shuffler.post(f"/v1/plans/{batch.plan}/sealed", batch.body, kind), ""
            return self._connection.post(f"/v1/plans/{batch.plan}/reports", batch.body, headers), ""
        except UnreachableError as error:
            return HttpAnswer(0, b""), str(error)

    @property
    def refusals(self) -> dict[str, int]:
        """How many batches the collector will never take, by what it said."""
        return self._outbox.refusals

    # For programs with an event loop -----------------------------------------------------------------------------

    async def asend(self, record: Any, *, period: str | int | None = None, patience: float | None = None) -> Delivery:
        """`send`, in a thread."""
        return await asyncio.to_thread(self.send, record, period=period, patience=patience)

    async def asend_reports(
        self,
        reports: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        *,
        period: str | int | None = None,
        most: int = 10_000,
        patience: float | None = None,
    ) -> Delivery:
        """`send_reports`, in a thread."""
        return await asyncio.to_thread(self.send_reports, reports, period=period, most=most, patience=patience)

    async def aflush(self, patience: float | None = None) -> Delivery:
        """`flush`, in a thread."""
        return await asyncio.to_thread(self.flush, patience)

    def __repr__(self) -> str:
        return f"Client(store={str(self._folder)!r})"


def _counts(answer: HttpAnswer) -> Delivery | None:
    """What a collector says that it counted; None if it is not a collector who says so, as in a hotel's network."""
    found = answer.json()
    told = found if isinstance(found, dict) else {}
    accepted, rejected = told.get("accepted"), told.get("rejected")
    if type(accepted) is not int or not isinstance(rejected, dict):
        return None
    counted = {_visible(key): count for key, count in rejected.items() if type(count) is int}
    return Delivery(accepted=accepted, rejected=counted, duplicates=int(told.get("duplicate") is True))


def _visible(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())[:100]


def _backoff(failures: int) -> float:
    """A wait that doubles with every failure, and of which the second half is random."""
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failures, 30))
    return longest * (1 + int.from_bytes(secret(4)) / (1 << 32)) / 2


def _read_plan(document: bytes, hashed: str) -> Plan:
    """A plan from anywhere, certified again, if it is the one that is meant."""
    try:
        made = Plan.from_json(document.decode("utf-8"))
    except UnicodeDecodeError:
        made = None
    if made is None:
        raise CollectorError("what the collector sent is no plan")
    if made.fingerprint != hashed:
        raise CollectorError("the collector sent another plan than the one that was asked for; nothing was reported")
    return made


def _pinned(of_address: str | None, plan: "str | Plan | None") -> str | None:
    named = plan.fingerprint if isinstance(plan, Plan) else plan
    for each in (of_address, named):
        if each is not None and not _is_hash(each):
            raise ParameterError("a plan is named by its hash, 64 hexadecimal digits: plan.fingerprint")
    if None not in (of_address, named) and of_address != named:
        raise ParameterError("the address names another plan than plan= does; leave one of them out")
    return of_address or named


def _is_hash(text: object) -> bool:
    return isinstance(text, str) and len(text) == _HASH_LETTERS and set(text) <= set("0123456789abcdef")


def _checked_token(token: Any) -> str | None:
    if token is None:
        return None
    if not is_string(token) or not token or not all("!" <= letter <= "~" for letter in token):
        raise ParameterError("token is a text of visible ASCII characters, as whoever runs the collector gave it")
    return str(token)


def _seconds(name: str, value: Any) -> float:
    number = checked_real(name, value)
    if not 0 <= number < 1e6:
        raise ParameterError(f"{name} is in seconds, for example {name}=10")
    return number
