"""Flower: real client apps, the real mod and the real strategy, over a grid in this process.

Statistical tests run from a seed, with noise that is small beside what is looked for. Their threshold is seven
standard errors of the mean of forty Laplace numbers; by Chernoff's bound a false alarm is below 1e-8 a coordinate, and
1e-7 in sum.
"""

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from dither.errors import EmptyError, ParameterError
from dither.learn.vector_reporter import VectorReporter
from dither.privacy.ledger import BudgetError, Ledger, LedgerError, store

flower = pytest.importorskip("dither.learn.flower", exc_type=ImportError)

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402

Debiasing, Randomizer = flower.Debiasing, flower.Randomizer
D = 4
REPORTER = VectorReporter("Hypercube", d=D, epsilon=2.0, clip=1.0)
SHARP = VectorReporter("Laplace", d=D, epsilon=80.0, clip=1.0)
TARGET = np.array([0.5, -0.25, 1.0, 0.0])


class Wiretapped(flower.LocalGrid):
    """A grid that remembers all replies; `changed` is what an adversary does to them on the way."""

    def __init__(self, app: ClientApp, devices: int, run_id: int = 7) -> None:
        super().__init__(app, devices, run_id)
        self.replies: list[Message] = []
        self.changed = lambda reply: reply

    def send_and_receive(self, messages, *, timeout=None):
        replies = super().send_and_receive(messages, timeout=timeout)
        self.replies += replies
        return [self.changed(reply) for reply in replies]


def linear_app(*mods, train=None) -> ClientApp:
    """Devices that each pull a linear model half of the way to one place, and tell more than they should."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def default(message: Message, context: Context) -> Message:
        arrays = message.content.array_records["arrays"]
        weights = np.concatenate([array.numpy().ravel() for array in arrays.values()])
        moved = train(weights, context) if train else weights + 0.5 * (TARGET - weights)
        new = {"weight": Array(moved[:3].reshape(3, 1).astype(np.float32)), "bias": Array(moved[3:].astype(np.float64))}
        metrics = MetricRecord({"loss": 0.123, "num-examples": 10 * context.node_id})
        notes = ConfigRecord({"diary": "secret"})
        content = RecordDict({"arrays": ArrayRecord(new), "metrics": metrics, "notes": notes})
        return Message(content, reply_to=message)

    @app.evaluate()
    def measure(message: Message, context: Context) -> Message:
        return Message(RecordDict({"metrics": MetricRecord({"loss": 0.123})}), reply_to=message)

    return app


def for_a_run(reporter: VectorReporter, rounds: int, **options: Any) -> Any:
    """A device without a ledger: what is tested with it lies within one run."""
    return Randomizer(reporter, rounds, no_budget_across_runs=True, **options)


def start() -> ArrayRecord:
    return ArrayRecord({"weight": Array(np.zeros((3, 1), dtype=np.float32)), "bias": Array(np.zeros(1))})


def values(record: ArrayRecord) -> np.ndarray:
    return np.concatenate([array.numpy().ravel() for array in record.values()])


def test_two_rounds_of_a_linear_model_end_where_averaging_would():
    grid = Wiretapped(linear_app(Randomizer(SHARP, rounds=2, seed=1)), devices=40)
    strategy = Debiasing(SHARP, rounds=2, simulated=True)
    result = strategy.start(grid, start(), num_rounds=2)
    first, second = strategy.estimates
    for estimate, truth in ((first, TARGET / 2), (second, (TARGET - first.value) / 2)):
        assert estimate.n == 40
        assert (np.abs(estimate.value - truth) < 7 * estimate.stderr).all()
    assert (7 * first.stderr).max() < 0.2  # a model that does not move would be seen
    np.testing.assert_allclose(values(result.arrays), first.value + second.value, atol=1e-6)
    assert result.arrays["weight"].numpy().dtype == np.float32
    assert result.arrays["weight"].numpy().shape == (3, 1)
    assert strategy.guarantee.simulated
    assert str(strategy.table()).splitlines()[1].split()[:3] == ["1", "40", "0"]


def test_the_servers_rate_scales_the_step_and_equal_weights_are_kept():
    app = linear_app(Randomizer(REPORTER, rounds=1, seed=1))
    ends = [
        values(Debiasing(REPORTER, rounds=1, rate=rate, simulated=True).start(Wiretapped(app, 10), start(), 1).arrays)
        for rate in (1.0, 0.25)
    ]
    np.testing.assert_allclose(ends[1], 0.25 * ends[0], atol=1e-6)


def test_nothing_but_the_report_leaves_the_device():
    grid = Wiretapped(linear_app(for_a_run(REPORTER, rounds=1)), devices=5)
    strategy = Debiasing(REPORTER, rounds=1)
    strategy.start(grid, start(), num_rounds=1)
    for reply in grid.replies:
        assert list(reply.content) == ["dither"]
        sealed: dict = dict(reply.content.config_records["dither"])
        assert set(sealed) == {"format", "dither-plan", "server-round", "simulated", "report"}
        assert sealed["simulated"] is False
        assert len(sealed["report"]) == REPORTER.mechanism.dtype.itemsize
        assert "secret" not in str(reply.content)
        assert "0.123" not in str(reply.content)


def test_what_is_declared_public_is_sent_and_averaged_without_weights():
    grid = Wiretapped(linear_app(for_a_run(REPORTER, rounds=1, public=["num-examples"])), devices=5)
    result = Debiasing(REPORTER, rounds=1, public=["num-examples"]).start(grid, start(), num_rounds=1)
    assert dict(grid.replies[0].content.metric_records["public"]).keys() == {"num-examples"}
    assert result.train_metrics_clientapp[1]["num-examples"] == 30.0
    assert "loss" not in result.train_metrics_clientapp[1]


@pytest.mark.parametrize("kind", ["error", "nothing", "text", "list", "missing"])
def test_what_is_public_is_one_float_in_every_reply(kind):
    """A reply of a device that failed has the same shape as any other."""
    mod = for_a_run(REPORTER, rounds=1, public=["loss", "num-examples"])
    app = ClientApp(mods=[mod])

    @app.train()  # type: ignore[arg-type]
    def train(message, context):
        if context.node_id == 1 and kind == "error":
            raise ValueError("the patient in row 17")
        if context.node_id == 1 and kind in ("nothing", "text"):
            return None if kind == "nothing" else "a text"
        told = {"loss": [0.5, 0.5] if kind == "list" else 0.5} if context.node_id == 1 else {"loss": 0.5}
        more = {} if context.node_id == 1 else {"num-examples": 3}
        metrics = MetricRecord({**told, **more})  # type: ignore[arg-type]
        return Message(RecordDict({"arrays": message.content.array_records["arrays"], "m": metrics}), reply_to=message)

    grid = Wiretapped(app, devices=3)
    result = Debiasing(REPORTER, rounds=1, public=["loss", "num-examples"]).start(grid, start(), num_rounds=1)
    assert not any(reply.has_error() for reply in grid.replies)
    shapes = {
        tuple((name, type(value)) for name, value in sorted(reply.content.metric_records["public"].items()))
        for reply in grid.replies
    }
    assert shapes == {(("loss", float), ("num-examples", float))}
    assert len({tuple(sorted(reply.content)) for reply in grid.replies}) == 1
    assert result.train_metrics_clientapp[1]["loss"] == 0.5  # of those that sent a number
    assert result.train_metrics_clientapp[1]["num-examples"] == 3.0


@pytest.mark.parametrize(
    "lie",
    [{"reports": 1e9, "refused": -3}, {"loss": float("inf")}, {"loss": float("nan")}, {"loss": [1.0]}, {"new": 1}],
)
def test_a_device_cannot_write_what_the_server_counts(lie):
    grid = Wiretapped(linear_app(for_a_run(REPORTER, rounds=1, public=["loss"])), devices=3)

    def change(reply: Message) -> Message:
        if reply.metadata.src_node_id == 1:
            reply.content["public"] = MetricRecord(lie)
        return reply

    grid.changed = change
    strategy = Debiasing(REPORTER, rounds=1, public=["loss"])
    told = strategy.start(grid, start(), num_rounds=1).train_metrics_clientapp[1]
    assert dict(told) == {"reports": 3, "refused": 0, "loss": pytest.approx(0.123)}
    unasked = Debiasing(REPORTER, rounds=1)
    told = unasked.start(two_devices(), start(), num_rounds=1).train_metrics_clientapp[1]
    assert dict(told) == {"reports": 2, "refused": 0}


def test_the_largest_numbers_are_averaged_without_a_word():
    app = linear_app(for_a_run(REPORTER, rounds=1, public=["loss"]))
    grid = Wiretapped(app, devices=3)

    def change(reply: Message) -> Message:
        reply.content["public"] = MetricRecord({"loss": 1.5e308})
        return reply

    grid.changed = change
    told = Debiasing(REPORTER, rounds=1, public=["loss"]).start(grid, start(), 1).train_metrics_clientapp[1]
    assert told["loss"] == pytest.approx(1.5e308)


def test_evaluation_is_not_asked_for_and_not_answered():
    app = linear_app(for_a_run(REPORTER, rounds=1))
    grid = Wiretapped(app, devices=2)
    asked = Message(RecordDict({"arrays": start()}), dst_node_id=1, message_type="evaluate")
    assert len(app(asked, grid.contexts[1]).content) == 0
    assert list(Debiasing(REPORTER, rounds=1).configure_evaluate(1, start(), ConfigRecord(), grid)) == []


def test_an_update_is_clipped_as_a_whole():
    reporter = VectorReporter("Laplace", d=D, epsilon=80.0, clip=0.1)
    app = linear_app(Randomizer(reporter, rounds=1, seed=1), train=lambda weights, context: weights + 1e6)
    strategy = Debiasing(reporter, rounds=1, simulated=True)
    strategy.start(Wiretapped(app, 40), start(), num_rounds=1)
    assert (np.abs(strategy.estimates[0].value - 0.1) < 7 * strategy.estimates[0].stderr).all()


@pytest.mark.parametrize("kind", ["nan", "error", "shape", "name", "empty", "text", "nothing", "type"])
def test_whatever_goes_wrong_on_a_device_looks_like_no_update(kind):
    def train(weights, context):
        if kind == "error":
            raise ValueError("the patient in row 17")
        return np.full(D, np.nan)

    mod = Randomizer(REPORTER, rounds=1, seed=1)
    app = linear_app(mod, train=train)
    if kind not in ("nan", "error"):
        app = ClientApp(mods=[mod])

        @app.train()  # type: ignore[arg-type]
        def wrong(message, context):
            arrays = {
                "weight": Array(np.ones((1, 3)) if kind == "shape" else np.ones((3, 1))),
                "bias": Array(np.ones(1)),
            }
            if kind == "name":
                arrays["beside"] = arrays.pop("bias")
            if kind == "empty":
                arrays["bias"] = Array("float64", (1,), "numpy.ndarray", b"")
            if kind == "text":
                arrays["bias"] = Array(np.array(["a text"]))
            if kind == "nothing":
                return None
            if kind == "type":
                return "a text"
            return Message(RecordDict({"arrays": ArrayRecord(arrays)}), reply_to=message)

    still = linear_app(mod, train=lambda weights, context: weights)
    sent = []
    for each in (app, still):
        grid = Wiretapped(each, devices=3)
        Debiasing(REPORTER, rounds=1, simulated=True).start(grid, start(), num_rounds=1)
        answers = {
            reply.metadata.src_node_id: reply.content.config_records["dither"]["report"] for reply in grid.replies
        }
        sent.append(answers)
    assert sent[0] == sent[1]  # to the bit


class Unheard(BaseException):
    """What no handler for exceptions hears."""


RAISED = [ValueError, MemoryError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, Unheard]


@pytest.mark.parametrize("raised", RAISED)
def test_whatever_training_raises_a_report_goes_out(raised, tmp_path, caplog):
    """A device that fell silent, or sent the text of what was raised, would tell something about its data."""

    def train(weights, context):
        raise raised("the patient in row 17")

    still = lambda weights, context: weights  # noqa: E731
    sent = []
    for each in (train, still):
        grid = Wiretapped(linear_app(Randomizer(REPORTER, rounds=1, seed=1), train=each), devices=2)
        Debiasing(REPORTER, rounds=1, simulated=True).start(grid, start(), num_rounds=1)
        sent.append([reply.content.config_records["dither"]["report"] for reply in grid.replies])
    assert sorted(sent[0]) == sorted(sent[1])  # to the bit
    kept = Randomizer(REPORTER, rounds=1, ledger_path=lambda context: tmp_path / f"{context.node_id}.db")
    grid = Wiretapped(linear_app(kept, train=train), devices=2)
    Debiasing(REPORTER, rounds=1).start(grid, start(), num_rounds=1)
    assert not any(reply.has_error() for reply in grid.replies)
    assert raised.__name__ in caplog.text
    assert "row 17" not in caplog.text + "".join(str(reply.content) for reply in grid.replies)


class Nameless(type):
    """Classes that do not say what they are called."""

    @property
    def __name__(cls):  # type: ignore[override]
        raise RuntimeError("the patient in row 17")


def test_a_report_goes_out_also_where_the_name_of_what_was_raised_raises(tmp_path):
    unnamed = Nameless("unnamed", (BaseException,), {})

    def train(weights, context):
        raise unnamed

    kept = Randomizer(REPORTER, rounds=1, ledger_path=lambda context: tmp_path / f"{context.node_id}.db")
    grid = Wiretapped(linear_app(kept, train=train), devices=2)
    Debiasing(REPORTER, rounds=1).start(grid, start(), num_rounds=1)
    assert [reply.has_error() for reply in grid.replies] == [False, False]


def test_a_person_who_presses_ctrl_c_is_heard_when_the_report_is_out(tmp_path):
    """The first one waits for the device in turn; the second stops its training, and a report goes out all the same."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background, it is ignored
    try:
        for presses in (1, 2):
            done = []

            def train(weights, context, presses=presses, done=done):
                for _ in range(presses):
                    os.kill(os.getpid(), signal.SIGINT)
                done.append(context.node_id)
                return weights

            path = tmp_path / f"{presses}.db"
            grid = Wiretapped(linear_app(Randomizer(REPORTER, rounds=1, ledger_path=path), train=train), devices=3)
            message = Message(RecordDict({"arrays": start(), "config": asked(1)}), dst_node_id=1, message_type="train")
            with pytest.raises(KeyboardInterrupt):
                grid.send_and_receive([message, message, message])
            assert done == ([1] if presses == 1 else [])
            with Ledger(path) as ledger:
                assert ledger.spent.epsilon == REPORTER.guarantee.epsilon
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_for_development_failures_are_shown():
    def train(weights, context):
        raise RuntimeError("mine")

    app = linear_app(Randomizer(REPORTER, rounds=1, on_failure="raise", seed=1), train=train)
    grid = Wiretapped(app, 1)
    message = Message(RecordDict({"arrays": start(), "config": asked(1)}), dst_node_id=1, message_type="train")
    with pytest.raises(RuntimeError, match="mine"):
        app(message, grid.contexts[1])


# The budget ----------------------------------------------------------------------------------------------------------


def asked(number: int, reporter: VectorReporter = REPORTER) -> ConfigRecord:
    return ConfigRecord({"server-round": number, "dither-plan": flower.fingerprint(reporter)})


def test_the_server_refuses_the_round_after_the_last():
    grid = Wiretapped(linear_app(for_a_run(REPORTER, rounds=9)), devices=3)
    strategy = Debiasing(REPORTER, rounds=2)
    assert strategy.guarantee.epsilon == pytest.approx(4.0)
    assert strategy.spent.epsilon == 0
    with pytest.raises(BudgetError, match="2 rounds"):
        strategy.start(grid, start(), num_rounds=3)
    assert len(grid.replies) == 6  # two rounds were sent, the third never was
    assert strategy.spent == strategy.guarantee
    assert "Asked for so far: 2 rounds" in strategy.explain()
    longer = Debiasing(REPORTER, rounds=2)
    longer.configure_train(1, start(), ConfigRecord(), grid)
    with pytest.raises(BudgetError, match="already"):
        longer.configure_train(1, start(), ConfigRecord(), grid)


def test_a_device_refuses_whatever_the_server_says():
    app = linear_app(for_a_run(REPORTER, rounds=1))
    grid = Wiretapped(app, devices=3)
    strategy = Debiasing(REPORTER, rounds=2)
    with pytest.raises(EmptyError, match="3 x an error instead of a report"):
        strategy.start(grid, start(), num_rounds=2)
    assert all("rounds of this device are spent" in str(reply.error.reason) for reply in grid.replies[3:])
    again = Message(RecordDict({"arrays": start(), "config": asked(1)}), dst_node_id=1, message_type="train")
    with pytest.raises(BudgetError, match="already"):
        app(again, grid.contexts[1])


def test_a_ledger_repeats_a_round_and_outlives_the_run(tmp_path):
    reporter = VectorReporter("Hypercube", d=D, epsilon=0.5)
    mod = Randomizer(reporter, rounds=2, ledger_path=lambda context: tmp_path / f"{context.node_id}.db")
    app = linear_app(mod)
    grid = Wiretapped(app, devices=2)

    def ask(grid, number):
        message = Message(
            RecordDict({"arrays": start(), "config": asked(number, reporter)}), dst_node_id=1, message_type="train"
        )
        return app(message, grid.contexts[1]).content.config_records["dither"]["report"]

    reports = [ask(grid, 1) for _ in range(8)]
    reports += [ask(Wiretapped(app, devices=2), 1) for _ in range(8)]  # the context is lost, and the file is not
    assert len(set(reports)) == 1  # asked again, the same to the bit
    with Ledger(tmp_path / "1.db") as ledger:
        assert ledger.spent.epsilon == 0.5
    Debiasing(reporter, rounds=2).start(Wiretapped(app, devices=2, run_id=8), start(), num_rounds=1)
    with Ledger(tmp_path / "1.db") as ledger:
        assert ledger.spent.epsilon == 1.0 == ledger.budget.epsilon
    other = Wiretapped(app, devices=1, run_id=9)  # another run, another context: the file remembers
    with pytest.raises(BudgetError, match="budget is spent"):
        ask(other, 1)
    with Ledger(tmp_path / "1.db") as ledger:
        assert ledger.spent.epsilon == 1.0


def test_a_ledger_repeats_the_last_of_all_rounds_and_none_before(tmp_path):
    reporter = VectorReporter("Hypercube", d=D, epsilon=0.5)
    app = linear_app(Randomizer(reporter, rounds=2, ledger_path=tmp_path / "ledger.db"))

    def ask(grid, number) -> Any:
        content = RecordDict({"arrays": start(), "config": asked(number, reporter)})
        message = Message(content, dst_node_id=1, message_type="train")
        return app(message, grid.contexts[1]).content.config_records["dither"]["report"]

    grid = Wiretapped(app, devices=1)
    ask(grid, 1)
    last = ask(grid, 2)
    assert {ask(grid, 2) for _ in range(8)} == {last}
    with pytest.raises(BudgetError, match="another one after it"):
        ask(grid, 1)
    lost = Wiretapped(app, devices=1)  # all is spent, and nothing but the file knows for what
    assert {ask(lost, 2) for _ in range(8)} == {last}
    for number in (1, 3):
        with pytest.raises(BudgetError, match="budget is spent"):
            ask(lost, number)
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.spent.epsilon == 1.0


def test_no_number_of_runs_buys_more_than_the_budget(tmp_path, monkeypatch):
    """A server that starts run after run, loses contexts and restarts the device. Labels are counted, not codes."""
    monkeypatch.setattr(store, "_SETTINGS", ("synchronous=OFF", *store._SETTINGS[1:]))  # nothing pulls the plug
    reporter = VectorReporter("UnitVector", d=D, epsilon=0.5)
    sent, refused = [], 0
    for run in range(200):
        app = linear_app(Randomizer(reporter, rounds=2, ledger_path=tmp_path / "ledger.db"))  # as after a restart
        for number in (1, 2):
            grid = Wiretapped(app, devices=1, run_id=run)  # a context that knows nothing
            content = RecordDict({"arrays": start(), "config": asked(number, reporter)})
            (reply,) = grid.send_and_receive([Message(content, dst_node_id=1, message_type="train")])
            if reply.has_error():
                refused += "budget is spent" in reply.error.reason
            else:
                sent.append((run, number))
    assert sent == [(0, 1), (0, 2)]
    assert refused == 398
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.spent.epsilon == ledger.budget.epsilon == 1.0


def test_without_a_ledger_a_run_is_all_that_is_limited_and_that_is_said():
    with pytest.raises(ParameterError, match="no_budget_across_runs=True"):
        Randomizer(REPORTER, rounds=2)
    app = linear_app(for_a_run(REPORTER, rounds=2))
    runs = [Wiretapped(app, devices=1, run_id=run) for run in range(5)]
    content = RecordDict({"arrays": start(), "config": asked(1)})
    for grid in runs:  # what the argument gives up: every run gets fresh reports
        (reply,) = grid.send_and_receive([Message(content, dst_node_id=1, message_type="train")])
        assert not reply.has_error()


def test_a_server_hears_nothing_of_where_a_ledger_is(tmp_path, caplog):
    def lost(context):
        raise RuntimeError(f"no home for {tmp_path}")

    for path in (tmp_path / "nowhere" / "ledger.db", lost):
        grid = Wiretapped(linear_app(Randomizer(REPORTER, rounds=1, ledger_path=path)), devices=1)
        message = Message(RecordDict({"arrays": start(), "config": asked(1)}), dst_node_id=1, message_type="train")
        (reply,) = grid.send_and_receive([message])
        assert "cannot be used" in reply.error.reason
        assert str(tmp_path) not in reply.error.reason
    assert str(tmp_path) in caplog.text  # the device's own log says why


def test_a_round_that_could_not_be_stored_may_be_asked_again(tmp_path):
    folder = tmp_path / "later"
    app = linear_app(Randomizer(REPORTER, rounds=1, ledger_path=folder / "ledger.db"))
    grid = Wiretapped(app, devices=1)
    message = Message(RecordDict({"arrays": start(), "config": asked(1)}), dst_node_id=1, message_type="train")
    with pytest.raises(LedgerError):
        app(message, grid.contexts[1])
    folder.mkdir()
    assert "dither" in app(message, grid.contexts[1]).content


def test_a_device_that_has_promised_less_takes_no_part(tmp_path):
    mod = Randomizer(REPORTER, rounds=2, ledger_path=tmp_path / "ledger.db", epsilon=3.0)
    app = linear_app(mod)
    grid = Wiretapped(app, 1)
    message = Message(RecordDict({"arrays": start(), "config": asked(1)}), dst_node_id=1, message_type="train")
    with pytest.raises(BudgetError, match="does not fit"):
        app(message, grid.contexts[1])


# What a server refuses -----------------------------------------------------------------------------------------------


def changed(**entries):
    """What an adversary does to the reply of device 1."""

    def change(reply: Message) -> Message:
        if reply.metadata.src_node_id == 1:
            sealed = {**reply.content.config_records["dither"], **entries}
            reply.content = RecordDict(
                {"dither": ConfigRecord({name: entry for name, entry in sealed.items() if entry is not None})}
            )
        return reply

    return change


WIDE = REPORTER.mechanism.dtype.itemsize


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"format": "other"}, "format"),
        ({"dither-plan": "0" * 64}, "another reporter"),
        ({"server-round": 2}, "another round"),
        ({"simulated": True}, "simulated"),
        ({"simulated": None}, "simulated"),
        ({"report": b""}, "wrong size"),
        ({"report": b"secret" * 40}, "wrong size"),
        ({"report": "secret"}, "wrong size"),
        ({"report": None}, "wrong size"),
        ({"report": b"\xff" * WIDE}, "out of range"),
    ],
)
def test_a_malformed_report_is_refused_and_never_quoted(entries, reason, capfd):
    grid = Wiretapped(linear_app(for_a_run(REPORTER, rounds=1)), devices=4)
    grid.changed = changed(**entries)
    strategy = Debiasing(REPORTER, rounds=1)
    result = strategy.start(grid, start(), num_rounds=1)
    assert strategy.estimates[0].n == 3
    assert result.train_metrics_clientapp[1]["refused"] == 1
    assert reason in strategy.explain()
    told = strategy.explain() + "".join(capfd.readouterr())
    assert "secret" not in told
    assert "\\xff" not in told


def test_a_device_counts_once_and_only_if_it_was_asked():
    grid = Wiretapped(linear_app(for_a_run(REPORTER, rounds=1)), devices=3)
    strategy = Debiasing(REPORTER, rounds=1)
    messages = strategy.configure_train(1, start(), ConfigRecord(), grid)
    replies = list(grid.send_and_receive(messages))
    strategy.aggregate_train(1, [*replies, replies[0]])
    assert strategy.estimates[0].n == 3
    assert "twice" in strategy.explain()


def test_a_device_that_was_not_asked_is_not_heard():
    grid = Wiretapped(linear_app(for_a_run(REPORTER, rounds=1)), devices=4)
    strategy = Debiasing(REPORTER, rounds=1, fraction=0.5)
    messages = list(strategy.configure_train(1, start(), ConfigRecord(), grid))
    (stranger,) = sorted(set(grid.contexts) - {message.metadata.dst_node_id for message in messages})[:1]
    uninvited = Message(messages[0].content, dst_node_id=stranger, message_type="train")
    strategy.aggregate_train(1, grid.send_and_receive([*messages, uninvited]))
    assert strategy.estimates[0].n == 2
    assert "1 x from a device that was not asked" in strategy.explain()


def test_only_the_difference_from_the_model_that_was_sent_is_reported():
    app = linear_app(Randomizer(REPORTER, rounds=1, seed=1), train=lambda weights, context: weights + TARGET / 2)
    sent = []
    for begin in (0.0, 8.0):
        grid = Wiretapped(app, devices=20)
        arrays = ArrayRecord(
            {"weight": Array(np.full((3, 1), begin, dtype=np.float32)), "bias": Array(np.full(1, begin))}
        )
        result = Debiasing(REPORTER, rounds=1, simulated=True).start(grid, arrays, num_rounds=1)
        answers = {
            reply.metadata.src_node_id: reply.content.config_records["dither"]["report"] for reply in grid.replies
        }
        sent.append((answers, values(result.arrays) - begin))
    assert sent[0][0] == sent[1][0]
    np.testing.assert_allclose(sent[0][1], sent[1][1], atol=1e-5)


def test_simulated_reports_need_a_word_and_carry_no_guarantee():
    app = linear_app(Randomizer(REPORTER, rounds=1, seed=1))
    with pytest.raises(EmptyError, match="simulated=True"):
        Debiasing(REPORTER, rounds=1).start(Wiretapped(app, 3), start(), num_rounds=1)
    strategy = Debiasing(REPORTER, rounds=1, simulated=True)
    strategy.start(Wiretapped(app, 3), start(), num_rounds=1)
    assert strategy.estimates[0].guarantee.simulated


def test_a_client_without_the_mod_is_refused():
    with pytest.raises(EmptyError, match="does the client have the mod"):
        Debiasing(REPORTER, rounds=1).start(Wiretapped(linear_app(), 3), start(), num_rounds=1)


def test_a_server_with_another_reporter_gets_nothing():
    wider = VectorReporter("Hypercube", d=D, epsilon=2.0, clip=2.0)
    grid = Wiretapped(linear_app(for_a_run(REPORTER, rounds=1)), devices=2)
    with pytest.raises(EmptyError):
        Debiasing(wider, rounds=1).start(grid, start(), num_rounds=1)
    assert all("another reporter" in str(reply.error.reason) for reply in grid.replies)


# Devices and parameters ----------------------------------------------------------------------------------------------


def test_a_fraction_of_the_devices_is_asked_and_it_changes():
    grid = Wiretapped(linear_app(for_a_run(REPORTER, rounds=9)), devices=40)
    strategy = Debiasing(REPORTER, rounds=9, fraction=0.25)
    rounds = [strategy.configure_train(number, start(), ConfigRecord(), grid) for number in (1, 2, 3)]
    asked_nodes = [frozenset(message.metadata.dst_node_id for message in messages) for messages in rounds]
    assert {len(nodes) for nodes in asked_nodes} == {10}
    assert len(set(asked_nodes)) == 3  # three equal draws of 10 in 40: below 1e-17


def test_too_few_devices_are_waited_for_and_then_said():
    grid = Wiretapped(linear_app(for_a_run(REPORTER, rounds=1)), devices=1)
    with pytest.raises(EmptyError, match="2 are needed"):
        Debiasing(REPORTER, rounds=1, patience=0.0).configure_train(1, start(), ConfigRecord(), grid)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Randomizer(REPORTER, rounds=0), "rounds"),
        (lambda: Randomizer("Hypercube", rounds=1), "reporter"),
        (lambda: Randomizer(REPORTER, rounds=1, on_failure="hide"), "on_failure"),
        (lambda: Randomizer(REPORTER, rounds=1, seed=1, ledger_path="x.db"), "seed"),
        (lambda: Randomizer(REPORTER, rounds=1, epsilon=3.0), "ledger_path"),
        (lambda: Randomizer(REPORTER, rounds=1), "no_budget_across_runs=True"),
        (lambda: Randomizer(REPORTER, rounds=1, no_budget_across_runs="yes"), "ledger_path"),  # type: ignore[arg-type]
        (lambda: Randomizer(REPORTER, rounds=1, ledger_path="x.db", no_budget_across_runs=True), "across runs"),
        (lambda: for_a_run(REPORTER, rounds=1, on_failure="raise"), "give a seed"),
        (lambda: for_a_run(REPORTER, rounds=1, public="loss"), "list of names"),
        (lambda: for_a_run(REPORTER, rounds=1, public=["loss", 3]), "list of names"),  # type: ignore[list-item]
        (lambda: for_a_run(REPORTER, rounds=1, public=["reports"]), "server counts"),
        (lambda: Debiasing(REPORTER, rounds=1, public="loss"), "list of names"),
        (lambda: Debiasing(REPORTER, rounds=1, public=["refused"]), "server counts"),
        (lambda: Debiasing(REPORTER, rounds=1, rate=0.0), "rate"),
        (lambda: Debiasing(REPORTER, rounds=1, fraction=1.5), "fraction"),
        (
            lambda: Debiasing(VectorReporter("Hypercube", d=3, epsilon=1.0), rounds=1).start(two_devices(), start(), 1),
            "4 parameters",
        ),
        (lambda: Debiasing(REPORTER, rounds=1).aggregate_train(1, []), "configure it first"),
        (
            lambda: Debiasing(REPORTER, rounds=1).start(two_devices(), ArrayRecord([np.arange(4)]), 1),
            "no floating point numbers",
        ),
    ],
)
def test_bad_parameters_are_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def two_devices() -> Wiretapped:
    return Wiretapped(linear_app(for_a_run(REPORTER, rounds=1)), devices=2)


def test_learning_needs_no_flower_and_a_missing_one_is_named():
    code = """
import sys
import dither.learn
assert "flwr" not in sys.modules
sys.modules["flwr"] = None
sys.modules["flwr.serverapp"] = None
try:
    dither.learn.flower
except ImportError as error:
    print(type(error).__name__, error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("MissingExtraError")
    assert "pip install 'dither[federated]'" in said


def test_reports_of_two_devices_differ_even_in_a_simulation():
    grid = Wiretapped(linear_app(Randomizer(REPORTER, rounds=1, seed=1)), devices=12)
    Debiasing(REPORTER, rounds=1, simulated=True).start(grid, start(), num_rounds=1)
    reports = [reply.content.config_records["dither"]["report"] for reply in grid.replies]
    assert len(set(reports)) > 3
