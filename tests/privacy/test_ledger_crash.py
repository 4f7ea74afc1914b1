"""The ledger under kill -9, and under many processes at once: nothing is spent twice, nothing is sent unstored.

A small program starts the processes, so that they start fast: it forks them, and kills them by their numbers, before
every single statement that the ledger gives to SQLite, and at random times in between.
"""

import json
import os
import subprocess
import sys
import time

import pytest

from dither import Unary
from dither.privacy.ledger import Ledger, LedgerError, store

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")

PROGRAM = """
import functools, json, os, random, signal, sqlite3, sys, time
import numpy as np
from dither import Unary
from dither.privacy.ledger import Ledger, store

MECHANISM = Unary(k=4096, epsilon=1.0)
MECHANISM.guarantee, MECHANISM.randomize([0])  # worked out before the forks
path, log = sys.argv[1], sys.argv[2]

def say(*words):
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, (json.dumps(words) + "\\n").encode())
    os.close(out)

def ask(value):
    say("asks", value)
    say("sends", value, Ledger(path, epsilon=1e6).report(MECHANISM, value).tobytes().hex())

def child(work, *arguments):
    number = os.fork()
    if number == 0:
        work(*arguments)
        os._exit(0)
    return number

def finished(number):
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
"""

STATEMENTS = """
class Killed(sqlite3.Connection):
    left = 0
    def execute(self, *arguments):
        if Killed.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        Killed.left -= 1
        return super().execute(*arguments)
    def close(self):
        self.execute("SELECT 1")  # also between the last statement and the return
        super().close()

def work(value, point):
    Killed.left = point
    store.sqlite3.connect = functools.partial(sqlite3.connect, factory=Killed)
    ask(value)

value = 0
store._SETTINGS = ("synchronous=OFF", *store._SETTINGS[1:])  # what a process wrote survives it without the disk
store._sync_directory = lambda _: None
for stage in range(2):  # a ledger that is made, then one that holds a report
    for point in range(1000):
        if stage == 0:
            for name in os.listdir(os.path.dirname(path)):
                if name.startswith("ledger"):
                    os.unlink(os.path.join(os.path.dirname(path), name))
            say("new")
            value = 0
        else:
            value += 1
        died = finished(child(work, value, point))
        assert finished(child(ask, value)) == 0
        assert finished(child(ask, value)) == 0
        say("spent", sum(Ledger(path).table().columns["rounds"]), died)
        if died == 0:
            break
"""

ANY_TIME = """
def work(value):
    while True:
        ask(value)
        ask(value)
        value += 1

random.seed(7)
value, end = 0, time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    number = child(work, value)
    time.sleep(random.expovariate(50))
    os.kill(number, signal.SIGKILL)
    finished(number)
    with open(log) as lines:
        value = max([json.loads(line)[1] for line in lines], default=0)
ask(value)
say("spent", sum(Ledger(path).table().columns["rounds"]), 0)
"""

TOGETHER = """
def work(seed):
    random.seed(seed)
    for step in range(int(sys.argv[3])):
        ask(5 if sys.argv[4] == "same" else random.randrange(4))

numbers = [child(work, seed) for seed in range(6)]
assert [finished(number) for number in numbers] == [0] * 6
say("spent", sum(Ledger(path).table().columns["rounds"]), 0)
"""


def told(tmp_path, program: str, *arguments: str) -> list[list]:
    """What the processes said, in the order in which they said it."""
    log = tmp_path / "log"
    command = [sys.executable, "-c", PROGRAM + program, str(tmp_path / "ledger.db"), str(log), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in log.read_text().splitlines()]


def check(lines: list[list]) -> int:
    """Never two reports about one value, never more spent than there were values; how many deaths there were."""
    sent, deaths = {}, 0
    for kind, *rest in lines:
        if kind == "new":
            sent = {}
        elif kind == "sends":
            assert sent.setdefault(rest[0], rest[1]) == rest[1]
        elif kind == "spent":
            deaths += rest[1] != 0
            assert rest[0] == len(sent)
            assert len(set(sent.values())) == len(sent)
    return deaths


@pytest.mark.wide
def test_killed_before_every_statement(tmp_path):
    lines = told(tmp_path, STATEMENTS)
    assert check(lines) > 60  # some forty statements make a ledger and answer, some twenty more answer


@pytest.mark.wide
def test_killed_at_any_time(tmp_path):
    lines = told(tmp_path, ANY_TIME, "6")
    check(lines)
    assert len(lines) > 50
    asked = [value for kind, value, *_ in lines if kind == "asks"]
    assert asked == sorted(asked)
    assert sorted(set(asked)) == list(range(max(asked) + 1))
    path = tmp_path / "ledger.db"
    assert Ledger(path).spent.epsilon == pytest.approx((max(asked) + 1) * Unary(k=4096, epsilon=1.0).guarantee.epsilon)


def test_a_report_that_was_sent_before_it_was_stored_would_be_noticed(tmp_path):
    mutant = """
class Late(sqlite3.Connection):
    def execute(self, statement, *rest):
        return super().execute("SELECT 1" if statement == "COMMIT" else statement, *rest)
Ledger(path, epsilon=1e6)
store.sqlite3.connect = functools.partial(sqlite3.connect, factory=Late)
ask(0)
ask(0)
"""
    with pytest.raises(AssertionError):
        check(told(tmp_path, mutant))


def test_processes_at_the_same_time_get_the_same_report(tmp_path):
    lines = told(tmp_path, TOGETHER, "15", "same")
    check(lines)
    assert lines[-1] == ["spent", 1, 0]
    assert sum(kind == "sends" for kind, *_ in lines) == 6 * 15


def test_processes_that_disagree_are_charged_for_each_change_and_never_more(tmp_path):
    lines = told(tmp_path, TOGETHER, "10", "different")
    reports = {line[2] for line in lines if line[0] == "sends"}
    assert lines[-1][1] == len(reports) <= 60  # each fresh report was paid for, and each that was paid for was sent


def test_a_ledger_is_used_after_a_fork(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db", epsilon=8.0)
    mechanism = Unary(k=4096, epsilon=1.0)
    first = ledger.report(mechanism, 3).tobytes()
    script = (
        "import sys, os, dither; from dither.privacy.ledger import Ledger\n"
        "ledger = Ledger(sys.argv[1]); mechanism = dither.Unary(k=4096, epsilon=1.0); ledger.report(mechanism, 3)\n"
        "number = os.fork()\n"
        "sys.stdout.write(ledger.report(mechanism, 3).tobytes().hex() + '\\n'); sys.stdout.flush()\n"
        "if number: os.waitpid(number, 0)\n"
        "os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(ledger.path)], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {first.hex()}


def test_commits_wait_for_the_disk(tmp_path):
    assert "synchronous=EXTRA" in store._SETTINGS
    Ledger(tmp_path / "ledger.db", epsilon=1.0)
    connection = store._connect(tmp_path / "ledger.db", 1.0)
    assert connection.execute("PRAGMA synchronous").fetchall() == [(3,)]
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("delete",)]
    connection.close()


def test_a_process_that_hangs_in_the_ledger_does_not_hang_the_others(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db", epsilon=1.0, timeout=0.2)
    with store.opened_book(ledger.path, 1.0):
        start = time.monotonic()
        with pytest.raises(LedgerError, match=r"0\.2 seconds"):
            ledger.report(Unary(k=4096, epsilon=1.0), 3)
        assert time.monotonic() - start < 30
    ledger.report(Unary(k=4096, epsilon=1.0), 3)
