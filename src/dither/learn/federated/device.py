"""A real device: what it knows before a round, what it sends, and the ledger that keeps what it has promised.

A round is a period of the ledger (`privacy.Ledger`). Asked again about the same round the device repeats its report;
over budget it refuses, where a ledger alone would repeat the report of another round. Whatever goes wrong in training,
which may be because of the records, counts as no update (`participation`): a report goes out in any case.
"""

from dataclasses import dataclass, field
from logging import getLogger
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dither.core.ball_domain import shortened_to
from dither.core.checks import checked_count
from dither.core.randomness import Stream
from dither.core.reports import Reports
from dither.errors import BudgetError, ParameterError, ReportError
from dither.learn.federated.encoders import VectorEncoder
from dither.learn.federated.local_training import LocalTraining
from dither.learn.federated.participation import check_round, guarded, round_report
from dither.learn.federated.partition import Devices
from dither.privacy.ledger import Ledger

Numbers = NDArray[np.float64]
_LOG = getLogger("dither")


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
    again about the same round the device repeats its report, also after a restart; asked about more rounds than were
    agreed, it refuses. A training that fails, by whatever it raises, is one without an update: see the log `dither`.

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
        start = np.asarray(parameters)
        if start.shape != (task.local.d,) or start.dtype.kind not in "fiu":
            raise ParameterError(f"the server must send {task.local.d:,} parameters, as one vector of numbers")
        mechanism, label = task.encoder.mechanism, f"{task.name} {turn}"
        check_round(self.ledger, mechanism, task.most, label)
        nothing = np.zeros((1, task.local.d))
        update = guarded(
            lambda: task.update(start, self._own, np.array([0]), turn - 1, Stream.secure()), lambda: nothing, _LOG
        )
        return round_report(self.ledger, mechanism, label, task.encoder.inside(update))


def clipped(updates: Numbers, clip: float) -> Numbers:
    """Whole updates of norm `clip` at most; one with anything that is not finite counts as zero.

    >>> clipped(np.array([[3.0, 4.0], [np.nan, 1.0]]), 1.0).round(3).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    finite = np.isfinite(updates).all(axis=1, keepdims=True)
    return shortened_to(np.where(finite, updates, 0.0), clip)
