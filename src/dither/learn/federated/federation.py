"""The server of a federation: a public schedule, reports in, an estimated mean update, a step of the model.

The devices are simulated here (`run`, `step`), or real ones whose reports arrive (`absorb`). Either way the server sees
reports alone; `parameters`, `history` and `model` are computed from them.
"""

import copy
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dither.core.checks import checked_count, checked_delta, checked_real
from dither.core.guarantee import NO_GUARANTEE, Guarantee
from dither.core.randomness import Stream
from dither.core.tally import Tally
from dither.display.plots import COLOURS, saved, tidy
from dither.display.progress import progress
from dither.display.table import TextTable
from dither.errors import BudgetError, DomainError, ParameterError, ReportError
from dither.learn.federated.device import Numbers, Task, clipped
from dither.learn.federated.encoders import DEFAULT, VectorEncoder, encoder_for, noise_kind, update_candidates
from dither.learn.federated.local_training import LocalTraining, check_labels, decided, loss
from dither.learn.federated.partition import Devices, whole_labels
from dither.learn.federated.round_accounting import Accounts, Rota, most_rounds, per_round, shuffled_total, together
from dither.learn.federated.weighting import Copies, checked_weights, effective_reports, weighted_tally
from dither.privacy.accounting.exact_sums import basic_composition

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Federation:
    """Federated averaging with one randomized report a device and round.

    `mechanism` is the name of a mechanism for vectors (with its `options`), "LDPVec", a `VectorReporter` that is made
    already, or None for training without any privacy, to compare with. The default, "best", takes what has the least
    error at this budget: UnitVector, or, with a delta and little to spend in a round, BallGaussian.

    `weights` are public, one for each device, in any unit: the mean update has shares of it in their proportion, among
    the devices of a round. What a device promises does not depend on them; they do not go with a shuffler.

    >>> import numpy as np, torch
    >>> from dither.learn.federated import Devices
    >>> inputs = np.repeat(np.array([[1.0, 0.5], [-0.5, -1.0]], dtype=np.float32), 500, axis=0)
    >>> devices = Devices(inputs, np.repeat([1, 0], 500), np.arange(1000).reshape(200, 5))
    >>> federation = Federation(
    ...     torch.nn.Linear(2, 1), "Hypercube", rounds=2, epsilon=8.0, local_steps=4, batch=5, rate=1.0,
    ...     clip=1.0, server_rate=4.0, seed=1,
    ... )
    >>> federation.run(devices).score(inputs, np.repeat([1, 0], 500))
    1.0
    >>> print(federation.total)
    epsilon 8 (exact)
    >>> federation.step(devices)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    dither.errors.BudgetError: all 2 rounds are done, ...
    """

    def __init__(
        self,
        model: nn.Module,
        mechanism: str | VectorEncoder | None = DEFAULT,
        *,
        rounds: int,
        epsilon: float | None = None,
        delta: float = 0.0,
        budget: str = "total",
        local_steps: int = 20,
        batch: int = 32,
        rate: float = 0.1,
        decay: float = 0.0,
        clip: float = 0.1,
        server_rate: float = 1.0,
        momentum: float = 0.0,
        average: bool = False,
        participants: int | None = None,
        devices: int | None = None,
        shuffled: bool = False,
        weights: Any = None,
        options: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        self.rounds = checked_count("rounds", rounds, 1)
        self.local = LocalTraining(copy.deepcopy(model), local_steps, batch, rate, decay)
        self.clip, self.server_rate = _positive("clip", clip), _positive("server_rate", server_rate)
        self.momentum = checked_real("momentum", momentum)
        if not 0 <= self.momentum < 1:
            raise ParameterError("momentum must be at least 0 and below 1, for example momentum=0.9")
        if budget not in ("total", "round"):
            raise ParameterError('budget says what epsilon and delta are for: "total", all rounds together, or "round"')
        if (participants is None) != (devices is None):
            raise ParameterError("to let some take part, say how many of how many: participants=100, devices=1000")
        if participants is not None and devices is not None and participants > devices:
            raise ParameterError(f"there are {devices} devices: participants must be at most that many")
        self.average, self.shuffled, self.seed = bool(average), bool(shuffled), seed
        self.participants, self.devices = participants, devices
        self._copies = self._weighted(weights)
        self.most = self.rounds if devices is None else most_rounds(devices, participants, self.rounds)
        self.delta = checked_delta(delta)
        self.encoder = self._encoder(mechanism, epsilon, budget, options or {})
        if budget == "round":
            self.delta = min(1.0, self.most * self.delta)
        elif epsilon is not None and (self.total.epsilon > epsilon or self.total.delta > self.delta):
            raise ParameterError("no budget of a round keeps this total: ask for fewer rounds, or a larger epsilon")
        self._stream = Stream.secure() if seed is None else Stream.seeded(seed, "federation")
        self._speed = np.zeros(self.local.d)
        self._sum, self._summed = np.zeros(self.local.d), 0
        self._past: list[dict[str, Any]] = []
        self._accounts: Accounts | None = None
        self._rota: Rota | None = None
        self.parameters = self.local.start()
        self.done = 0

    def _weighted(self, weights: Any) -> Copies | None:
        """How often the report of each device counts; None for devices that all count alike."""
        copies = None if weights is None else checked_weights(weights)
        if copies is not None and self.devices not in (None, len(copies)):
            raise ParameterError(f"give a weight for each of the {self.devices} devices")
        if copies is None or (copies == 1).all():  # in lowest terms
            return None
        if self.shuffled:
            raise ParameterError(
                "a shuffled report has no sender, and so no weight: leave weights out, or take shuffled=False"
            )
        return copies

    def _encoder(
        self, mechanism: str | VectorEncoder | None, epsilon: float | None, budget: str, options: dict[str, Any]
    ) -> VectorEncoder | None:
        if not isinstance(mechanism, str):
            if epsilon is not None or options:
                raise ParameterError("a reporter that is made already has its budget: leave epsilon and options out")
            if mechanism is not None and not (isinstance(mechanism, VectorEncoder) and mechanism.d == self.local.d):
                raise ParameterError(f"the reporter must be made for d={self.local.d} parameters, as this model has")
            return mechanism
        if epsilon is None:
            raise ParameterError(
                "epsilon is missing: what a device promises over all its rounds, for example epsilon=8.0"
            )
        if mechanism != "best":
            return self._named(mechanism, epsilon, budget, options)
        if options:
            raise ParameterError('options belong to a mechanism that is named, as in Federation(model, "LDPVec", ...)')
        tried = (self._named(name, epsilon, budget, {}) for name in update_candidates(self.delta))
        return min(tried, key=lambda each: each.error())

    def _named(self, name: str, epsilon: float, budget: str, options: dict[str, Any]) -> VectorEncoder:
        """The encoder of a mechanism with what its reports may cost."""
        kind = noise_kind(name, options)
        if budget == "total":
            of_one = per_round(epsilon, self.delta, self.most, kind)
        else:
            of_one = epsilon, 0.0 if kind == "pure" else self.delta
        return encoder_for(name, self.local.d, *of_one, self.clip, options)

    # What is promised ----------------------------------------------------------------------------------------------

    @property
    def round_guarantee(self) -> Guarantee:
        """What one report of a device promises."""
        return Guarantee(math.inf) if self.encoder is None else self.encoder.guarantee

    @property
    def set_aside(self) -> Guarantee:
        """What a device's ledger sets aside for all its rounds: epsilons and deltas add up."""
        return basic_composition(self.round_guarantee, self.most) if self.encoder is not None else Guarantee(math.inf)

    @property
    def total(self) -> Guarantee:
        """What all reports of one device promise together, if they are drawn without a seed."""
        return self._after(self.most)

    @property
    def guarantee(self) -> Guarantee:
        """What a device that took part so far has been promised; nothing, if it was a simulation."""
        if self.seed is not None:
            return NO_GUARANTEE
        return self._after(self._times())

    @property
    def central(self) -> Guarantee:
        """What all rounds promise to whoever sees their reports shuffled; without a shuffler, the devices' own."""
        if self.encoder is None or not self.shuffled:
            return self.total
        crowd = self.participants if self.participants is not None else self.devices
        if crowd is None and self._rota is not None:
            crowd = self._rota.participants
        if crowd is None:
            raise ParameterError(
                "how many reports are shuffled is not known yet: say devices and participants, or run it"
            )
        return shuffled_total(self.encoder.mechanism, crowd, self.most, self.delta)

    def _times(self) -> int:
        """In how many rounds so far the most frequent device took part."""
        if self._accounts is None:
            return self.done if self.devices is None else most_rounds(self.devices, self.participants, self.done)
        return int(self._accounts.paid.max())

    def _after(self, times: int) -> Guarantee:
        if times == 0:
            return Guarantee(0.0)
        if self.encoder is None:
            return Guarantee(math.inf)
        return together(self.encoder.mechanism, times, self.delta)

    @property
    def weights(self) -> Numbers | None:
        """The share p_k that each device has in the mean update, if not all are alike; of fewer, their shares of it."""
        return None if self._copies is None else self._copies / self._copies.sum()

    # Training ------------------------------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        """What a device must know to take part."""
        return Task(self.local, self.encoder, self.clip, self.rounds, self.most)

    def run(self, devices: Devices, *, test: tuple[Any, Any] | None = None) -> "Federation":
        """All rounds that are left. `test` is public data: inputs and labels whose accuracy the history shows."""
        self._refuse_beyond()
        left = self.rounds - self.done
        with progress("Training", left, unit="rounds") as advance:
            for _ in range(left):
                self.step(devices, test=test)
                advance(1)
        return self

    def step(self, devices: Devices, *, test: tuple[Any, Any] | None = None) -> Numbers:
        """One round of simulated devices; gives the estimated mean update."""
        if not isinstance(devices, Devices):
            raise DomainError("devices must be learn.federated.Devices(inputs, labels, members)")
        self._refuse_beyond()
        who = self.chosen(devices)
        stream = self._stream.spawn("round", str(self.done), "batches")
        task = self.task
        parts = self.local.chunks(devices, who)
        return self.receive(
            (task.update(self.parameters, devices, part, self.done, stream) for part in parts), who=who, test=test
        )

    def receive(
        self,
        updates: Iterable[Numbers],
        *,
        who: NDArray[np.int64] | None = None,
        test: tuple[Any, Any] | None = None,
    ) -> Numbers:
        """The second half of a round: updates, in tables with a row a device, are clipped, reported and averaged.

        `who` are the devices' numbers, from 0; all of them, if left out. Where they have weights it matters.
        """
        self._refuse_beyond()
        stream, tally, total, count = self._stream.spawn("round", str(self.done)), None, np.zeros(self.local.d), 0
        copies = self._counted(who)
        for number, whole in enumerate(updates):
            part = clipped(whole, self.clip)
            counts = None if copies is None else copies[count : count + len(part)]
            count += len(part)
            if self.encoder is None:
                total += part.sum(axis=0) if counts is None else counts @ part
                continue
            seed = None if self.seed is None else int(stream.spawn("reports", str(number)).below(1 << 62, 1)[0])
            reports = self.encoder.randomize(part, seed=seed)
            counted = self.encoder.tally(reports) if counts is None else weighted_tally(self.encoder, reports, counts)
            tally = counted if tally is None else tally + counted
        if copies is not None and count != len(copies):
            raise ParameterError(f"{len(copies):,} devices were to report: give an update of each, in their order")
        if self.encoder is None or tally is None:
            return self._move(total / max(count if copies is None else int(copies.sum()), 1), count, test)
        return self._move(self.encoder.estimate(tally).value, count, test)

    def absorb(
        self,
        reports: NDArray[Any] | Tally,
        *,
        who: NDArray[np.int64] | None = None,
        test: tuple[Any, Any] | None = None,
    ) -> Numbers:
        """One round of real devices: their reports, or a tally of these; gives the estimated mean update.

        Devices with weights send reports, and `who` are their numbers, from 0; all of them in order, if left out.
        """
        self._refuse_beyond()
        if self.encoder is None:
            raise ReportError("without a reporter nothing is reported: make the federation with one")
        copies = self._counted(who)
        if copies is None:
            tally = reports if isinstance(reports, Tally) else self.encoder.tally(reports)
            return self._move(self.encoder.estimate(tally).value, tally.n, test)
        if isinstance(reports, Tally):
            raise ReportError("a tally has forgotten who sent what, and devices have weights: give the reports")
        tally = weighted_tally(self.encoder, reports, copies)
        return self._move(self.encoder.estimate(tally).value, len(copies), test)

    def _counted(self, who: Any) -> Copies | None:
        """How often the report of each of these devices counts, if they have weights."""
        if self._copies is None or who is None:
            return self._copies
        chosen = np.asarray(who)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or len(np.unique(chosen)) != len(chosen):
            raise ParameterError("who must be the numbers of the devices that reported, each once")
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < len(self._copies):
            raise ParameterError(f"there are weights for {len(self._copies):,} devices: count them from 0")
        return self._copies[chosen]

    def chosen(self, devices: Devices) -> NDArray[np.int64]:
        """The devices of this round, after each has paid for it: the first half of a round."""
        if self.devices not in (None, len(devices)):
            raise ParameterError(f"this federation was planned for {self.devices} devices")
        if self._copies is not None and len(self._copies) != len(devices):
            raise ParameterError(f"there are weights for {len(self._copies):,} devices: give one for each of these")
        if self._rota is None:
            self._rota = Rota(len(devices), self.participants, self.rounds, self._stream.spawn("rota"))
            if self.encoder is not None:
                self._accounts = Accounts(len(devices), self.set_aside.epsilon, self.set_aside.delta)
                self._accounts.reserve(self.round_guarantee, periods=self.most)
        who = self._rota.round(self.done)
        if self._accounts is not None:
            if len(self._accounts.paid) != len(devices):
                raise ParameterError("the devices are not those of the rounds before")
            self._accounts.charge(who)
        return who

    def _move(self, update: Numbers, reports: int, test: tuple[Any, Any] | None) -> Numbers:
        self._speed = self.momentum * self._speed + update
        self.parameters = self.parameters + self.server_rate * self._speed
        self.done += 1
        if 2 * self.done > self.rounds:
            self._sum, self._summed = self._sum + self.parameters, self._summed + 1
        row: dict[str, Any] = {"round": self.done, "devices": reports, "reported": self._times()}
        if test is not None:
            row |= {"accuracy": self.score(*test), "loss": self.loss(*test)}
        self._past.append(row)
        return update

    def _refuse_beyond(self) -> None:
        if self.done < self.rounds:
            return
        raise BudgetError(
            f"all {self.rounds} rounds are done, and each device has promised {self.total}: its budget is spent. Use "
            "the model as it is; for more rounds agree on a new federation, with a budget of its own"
        )

    # The model -----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> nn.Module:
        """The model so far; with `average`, its parameters are their mean over the second half of all rounds."""
        averaged = self.average and self._summed
        return copy.deepcopy(self.local.loaded(self._sum / self._summed if averaged else self.parameters))

    def _output(self, inputs: Any) -> torch.Tensor:
        rows = torch.as_tensor(inputs)
        with torch.no_grad():
            return self.model(rows.to(next(self.local.model.parameters()).dtype))

    def predict(self, inputs: Any) -> NDArray[np.int64]:
        """The class of each record."""
        return decided(self._output(inputs)).numpy()

    def score(self, inputs: Any, labels: Any) -> float:
        """The share of records whose class is right."""
        outputs, known = self._output(inputs), whole_labels(labels)
        check_labels(known, outputs.shape[-1])
        return float((decided(outputs) == known).double().mean())

    def loss(self, inputs: Any, labels: Any) -> float:
        """The mean cross entropy."""
        outputs, known = self._output(inputs), whole_labels(labels)
        check_labels(known, outputs.shape[-1])
        return float(loss(outputs.double(), known))

    # What happened -------------------------------------------------------------------------------------------------

    @property
    def history(self) -> TextTable:
        """A row a round: how many reported, how the model did on public data, and what a device has spent by then."""
        spent = {times: self._after(times) for times in {row["reported"] for row in self._past}}
        columns: dict[str, list[Any]] = {"round": [row["round"] for row in self._past]}
        columns["devices"] = [row["devices"] for row in self._past]
        for name in ("accuracy", "loss"):
            if any(name in row for row in self._past):
                columns[name] = [row.get(name, math.nan) for row in self._past]
        columns["epsilon"] = [spent[row["reported"]].epsilon for row in self._past]
        columns["delta"] = [spent[row["reported"]].delta for row in self._past]
        return TextTable(columns)

    def plot(self, path: str | Path | None = None) -> "Figure":
        """The learning curve: accuracy on public data by round, and the budget that is spent."""
        from dither.errors import require

        columns = self.history.columns
        if "accuracy" not in columns:
            raise ParameterError(
                "there is no curve without public data: federation.run(devices, test=(inputs, labels))"
            )
        figure = require("matplotlib.figure", "plot").Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.subplots()
        axes.plot(columns["round"], columns["accuracy"], color=COLOURS[0], linewidth=2)
        axes.set(xlabel="round", ylabel="accuracy on public data", ylim=(0, 1))
        axes.set_title(f"{self._noise}: {self.total}", loc="left", fontsize=10)
        tidy(axes)
        return saved(figure, path)

    def explain(self) -> str:
        """In words: who sends what, what is promised, and how much of the update the noise leaves."""
        lines = [
            f"{self.rounds:,} rounds; in each, a device takes {self.local.steps} steps of SGD on batches of "
            f"{self.local.batch} and reports its whole update: {self.local.d:,} numbers, of norm {self.clip:g} at most."
        ]
        if self.encoder is None:
            return "\n".join([*lines, "Updates are sent as they are: there is no privacy."])
        lines += [
            f"Reports are made by {self._noise}; one promises {self.round_guarantee}.",
            f"A device reports in {self.most:,} rounds at most. Together they promise {self.total}; its ledger sets "
            f"aside {self.set_aside}.",
        ]
        if self.seed is not None:
            lines.append("This is a simulation from a seed: its own reports protect nobody.")
        if self.shuffled and (self.devices or self._rota):
            lines.append(f"To whoever sees the reports in no order: {self.central}.")
        if self._copies is not None:
            lines.append(
                f"The {len(self._copies):,} devices have public weights, and each keeps its promise whatever its own "
                f"is; the noise of the mean is that of {effective_reports(self._copies):,.0f} that count alike."
            )
        error = self.encoder.error()
        lines.append(
            f"A report misses an update of norm {self.clip:g} by a squared distance of {error:.3g}. Over "
            f"{error / self.clip**2:,.0f} devices the noise of the mean is about as long as an update: have many more."
        )
        return "\n".join(lines)

    @property
    def _noise(self) -> str:
        return "no noise" if self.encoder is None else self.encoder.name

    def __repr__(self) -> str:
        return f"Federation({self._noise}, round {self.done} of {self.rounds}, {self.total})"


def _positive(name: str, number: float) -> float:
    found = checked_real(name, number)
    if not (math.isfinite(found) and found > 0):
        raise ParameterError(f"{name} must be a finite number above 0")
    return found
