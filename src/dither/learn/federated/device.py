"""A real device: what it knows before a round, what it sends, and the ledger that keeps what it has promised.

A round is a period of the ledger (`privacy.Ledger`). Asked again about the same round the device repeats its report;
over budget it refuses, where a ledger alone would repeat the report of another round.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dither.core.ball_domain import shortened_to
from dither.core.checks import checked_count
from dither.core.mechanism import Mechanism
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.errors import BudgetError, ParameterError, ReportError
from dither.learn.federated.encoders import VectorEncoder
from dither.learn.federated.local_training import LocalTraining
from dither.learn.federated.partition import Devices
from dither.privacy.ledger import Ledger

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """What every device knows beforehand: how to train, how to report, and in how many rounds at most."""

    local: LocalTraining
    encoder: VectorEncoder | None
    clip: float
    rounds: int
    most: int
    name: str = "federation"

    def update(
        self, parameters: Numbers, devices: Devices, who: NDArray[np.int64], turn: int, stream: Stream
    ) -> Numbers:
        """The whole update of each of these devices, of norm `clip` at most; zero where anything is not finite."""
        return clipped(self.local.updates(parameters, devices, who, turn, stream), self.clip)


@dataclass
class Device:
    """One real device: its records, and the ledger that keeps what it has promised.

    `report` trains on the parameters of the server and gives what to send. A round is a period of the ledger: asked
    again about the same round the device repeats its report; asked about more rounds than were agreed, it refuses.

    >>> import tempfile, numpy as np, torch
    >>> from dither.learn.federated import Federation
    >>> federation = Federation(torch.nn.Linear(2, 1), "Hypercube", rounds=1, epsilon=2.0, local_steps=1, batch=2)
    >>> with tempfile.TemporaryDirectory() as place, Ledger(f"{place}/ledger.db", epsilon=2.0) as ledger:
    ...     device = Device(np.eye(2), [0, 1], ledger)
    ...     report = device.report(federation.task, federation.parameters, turn=1)
    ...     print(len(report), ledger.spent)
    1 epsilon 2 (bound)
    """

    inputs: Any
    labels: Any
    ledger: Ledger
    _own: Devices = field(init=False, repr=False)
    _last: tuple[str, int] | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.ledger, Ledger):
            raise ParameterError("a device needs a ledger for its budget: privacy.Ledger(path, epsilon=8.0)")
        self._own = Devices(self.inputs, self.labels, [np.arange(len(torch.as_tensor(self.inputs)))])

    def report(self, task: Task, parameters: Any, turn: int) -> Reports:
        """What the device sends in round `turn`, counted from 1."""
        if task.encoder is None:
            raise ReportError("a device sends nothing that is not randomized: make the federation with a reporter")
        if checked_count("turn", turn, 1) > task.rounds:
            raise BudgetError(
                f"{task.rounds} rounds were agreed, and round {turn} is not one of them. For more rounds agree on a "
                "new federation, with a budget of its own"
            )
        mechanism = task.encoder.mechanism
        self.ledger.reserve(mechanism, periods=task.most)
        self._check_left(task, mechanism, turn)
        update = task.update(np.asarray(parameters), self._own, np.array([0]), turn - 1, Stream.secure())
        sent = self.ledger.report(mechanism, task.encoder.inside(update), period=f"{task.name} {turn}")
        self._last = task.name, turn
        return sent

    def _check_left(self, task: Task, mechanism: Mechanism, turn: int) -> None:
        """Over budget a ledger repeats its last report, which here would be that of another round: refuse instead."""
        columns = self.ledger.table().columns
        paid = dict(zip(columns["plan"], columns["rounds"], strict=True)).get(mechanism.fingerprint[:12], 0)
        if paid >= task.most and self._last != (task.name, turn):
            raise BudgetError(
                f"the budget is spent: this device has reported in the {task.most} rounds that it promised, "
                f"{self.ledger.guarantee(mechanism)}. It takes no part in more; a new federation needs a new budget"
            )


def clipped(updates: Numbers, clip: float) -> Numbers:
    """Whole updates of norm `clip` at most; one with anything that is not finite counts as zero.

    >>> clipped(np.array([[3.0, 4.0], [np.nan, 1.0]]), 1.0).round(3).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    finite = np.isfinite(updates).all(axis=1, keepdims=True)
    return shortened_to(np.where(finite, updates, 0.0), clip)
