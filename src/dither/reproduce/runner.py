"""Measures what is asked for: on several cores, with what is known already taken from the cache.

Measurements are made repetition by repetition, so that a run that is stopped has looked everywhere about equally
often. Each goes to the cache as soon as it is known. Workers are new processes that load the paper again: nothing is
pickled but names and coordinates.
"""

import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from typing import NamedTuple

from dither.display.progress import Advance, progress
from dither.reproduce import fingerprints, papers
from dither.reproduce.datasets import MissingDataError
from dither.reproduce.experiments import Experiment, Scale
from dither.reproduce.measured import Coordinates, Measured, Number
from dither.reproduce.results_cache import KeptMeasurement, ResultsCache


class MeasurementTask(NamedTuple):
    """One measurement that is asked for."""

    paper: str
    experiment: str
    setting: Coordinates
    size: Coordinates
    repetition: int
    key: str


@dataclass(frozen=True)
class Run:
    """What came of a run: the numbers by experiment, what is missing and why, and what it took."""

    measured: Mapping[str, Measured]
    missing: Mapping[str, str] = field(default_factory=dict)  # data that are not here, by what is said about them
    done: int = 0
    reused: int = 0
    left: int = 0


def measure_selections(
    selections: Sequence[papers.Selection], scale: Scale, cache: ResultsCache, *, jobs: int = 1, minutes: float = 0
) -> Run:
    """Measure all that some figures and claims need; with `minutes`, start nothing after so many."""
    wanted = [(each.paper.number, experiment) for each in selections for experiment in each.experiments]
    tasks, missing = _tasks(wanted, scale)
    known = {experiment.name: cache.read(experiment.name) for _, experiment in wanted}
    open_tasks = [task for task in tasks if task.key not in known[task.experiment]]
    deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
    done = 0
    with progress("Measuring", len(tasks), unit="measurements") as advance:
        advance(len(tasks) - len(open_tasks))
        for task, result in _results(open_tasks, jobs, deadline, advance):
            cache.append(task.experiment, task.key, result)
            known[task.experiment][task.key] = result
            done += 1
    gathered = {
        experiment.name: _gathered(experiment, scale, tasks, known[experiment.name]) for _, experiment in wanted
    }
    found = {name: numbers for name, numbers in gathered.items() if len(numbers)}
    return Run(found, missing, done, len(tasks) - len(open_tasks), len(open_tasks) - done)


def _tasks(wanted: Iterable[tuple[str, Experiment]], scale: Scale) -> tuple[list[MeasurementTask], dict[str, str]]:
    """All measurements, repetition by repetition; those whose data are not here are left out, and said."""
    tasks: list[MeasurementTask] = []
    missing: dict[str, str] = {}
    for paper, experiment in wanted:
        size = experiment.size.get(scale, {})
        for setting in experiment.at(scale):
            try:
                key = fingerprints.measurement_key(experiment, setting, size)
            except MissingDataError as error:
                missing[str(error)] = f"{missing.get(str(error), '')} {experiment.name}".strip()
                continue
            repetitions = range(experiment.repetitions[scale])
            tasks += [
                MeasurementTask(paper, experiment.name, setting, size, each, f"{key}-{each}") for each in repetitions
            ]
    return sorted(tasks, key=lambda task: task.repetition), missing


def _results(
    tasks: Sequence[MeasurementTask], jobs: int, deadline: float, advance: Advance
) -> Iterator[tuple[MeasurementTask, KeptMeasurement]]:
    if jobs == 1 or len(tasks) <= 1:
        for task in tasks:
            if time.monotonic() > deadline:
                return
            yield task, measure_task(task)
            advance(1)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process a core
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        waiting, running = list(reversed(tasks)), {}
        try:
            while running or (waiting and time.monotonic() <= deadline):
                while waiting and len(running) < 2 * jobs and time.monotonic() <= deadline:
                    task = waiting.pop()
                    running[pool.submit(measure_task, task)] = task
                ready: set[Future[KeptMeasurement]] = wait(running, return_when=FIRST_COMPLETED).done
                for future in ready:
                    yield running.pop(future), future.result()
                    advance(1)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def measure_task(task: MeasurementTask) -> KeptMeasurement:
    """One measurement, in whatever process this is."""
    paper = papers.load_paper(task.paper)
    experiment = next(each for each in paper.experiments if each.name == task.experiment)
    start = time.process_time()
    seed = experiment.seed(task.setting, task.repetition)
    found = experiment.measure({**task.setting, **task.size}, seed)
    numbers = tuple(Number({**task.setting, **each.where}, each.value) for each in found)
    return KeptMeasurement(numbers, time.process_time() - start)


def _gathered(
    experiment: Experiment, scale: Scale, tasks: Sequence[MeasurementTask], known: Mapping[str, KeptMeasurement]
) -> Measured:
    """Means over what is known, in the order of the settings."""
    order = {str(dict(setting)): place for place, setting in enumerate(experiment.settings)}
    own = [task for task in tasks if task.experiment == experiment.name]
    there = sorted(
        (task for task in own if task.key in known), key=lambda task: (order[str(dict(task.setting))], task.repetition)
    )
    results = [known[task.key] for task in there]
    seconds = sum(result.seconds for result in results)
    size = ", ".join(f"{name} {value}" for name, value in experiment.size.get(scale, {}).items())
    notes = {
        "experiment": experiment.name,
        "scale": f"{scale}{f' ({size})' if size else ''}",
        "measurements": f"{len(results)} of {len(own)}, {seconds / 60:.1f} minutes of one core",
        "command": f"dither reproduce {experiment.name.split('.')[0]} --{scale}",
    }
    return Measured.of((each for result in results for each in result.numbers), notes)
