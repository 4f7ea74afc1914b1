"""`dither doctor`: what this installation has, and what would have to be installed for the rest.

Nobody has to know which package does what. What belongs to an extra is read from the metadata that the package was
installed with, which pip reads too: there is no second list. What an extra is *for* stands here, since metadata has no
room for it.

A missing extra is no illness. The exit code is 1 only if the base is not sound: one of its packages is missing or too
old, or four reports cannot be made and counted; or if an extra that was named on the command line is not complete. The
packages of a named extra are imported as well, because one may be there and still not work beside the others.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path

import click

import dither
from dither.cli.common import facts, json_option, show, tell
from dither.errors import DitherError, ParameterError

PURPOSES = {
    "fast": "records and reports in files (CSV, Parquet, Arrow, DuckDB); estimates, audits; compiled tallies",
    "pandas": "results as data frames",
    "plot": "figures by Estimate.plot()",
    "query": "conditions in the words of SQL: dither query",
    "demo": "flights to try it on: dither demo, dither example, the tutorial",
    "seal": "reports that only the collector can open",
    "serve": "a collector or a shuffler over HTTP: dither serve, dither shuffle",
    "postgres": "several collectors on one PostgreSQL",
    "spark": "reports on a cluster: --engine spark",
    "learn": "models trained on private gradients: dither train, dither.learn",
    "federated": "federated learning with Flower",
    "papers": "figures and claims of papers: dither reproduce",
}
DEVELOPMENT = ("docs", "dev", "bench")  # of use in a checkout only
_MODULES = {"scikit-learn": "sklearn", "lazy-loader": "lazy_loader"}  # where it is not the name of the package
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^\]]*)\])?\s*\(?([^;)]*)\)?\s*(?:;\s*(.*))?")
_CONDITION = re.compile(r"(<=|>=|==|!=|~=|<|>)\s*([\w.*+!-]+)")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_PLATFORM = re.compile(r"sys_platform\s*(==|!=)\s*['\"](\w+)['\"]")
_SEPARATORS = re.compile(r"[-_.]+")


@dataclass(frozen=True)
class Requirement:
    """A line of the metadata: a package, the versions that will do, and the extras of it that are meant.

    >>> Requirement.parsed("uvloop>=0.21; sys_platform != 'nowhere' and extra == 'serve'")
    ('serve', Requirement(name='uvloop', versions='>=0.21', extras=()))
    """

    name: str
    versions: str
    extras: tuple[str, ...] = ()

    @classmethod
    def parsed(cls, line: str) -> "tuple[str, Requirement] | None":
        """With the extra that it belongs to, "" for the base; None where it is for another platform, or unreadable."""
        found = _REQUIREMENT.fullmatch(line.strip())
        if found is None:
            return None
        name, extras, versions, marker = (part or "" for part in found.groups())
        for sign, system in _PLATFORM.findall(marker):
            if (sys.platform == system) != (sign == "=="):
                return None
        home = _EXTRA.search(marker)
        parts = tuple(part.strip() for part in extras.split(",") if part.strip())
        return home[1] if home else "", cls(_plain(name), versions.strip(), parts)


@dataclass(frozen=True)
class Package:
    """A package that something needs, and what is there of it."""

    requirement: Requirement
    version: str | None
    problem: str = ""

    @property
    def sound(self) -> bool:
        return not self.problem

    @classmethod
    def found(cls, requirement: Requirement, *, imported: bool) -> "Package":
        """Its version, by its metadata; and whether it can be `imported`, which may take seconds."""
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            return cls(requirement, None, f"{requirement.name} is missing")
        if not satisfies(version, requirement.versions):
            wanted = requirement.versions.replace(",", ", ")
            return cls(requirement, version, f"{requirement.name} is {version}, and should be {wanted}")
        lacking = _lacking(requirement)
        if lacking:
            return cls(requirement, version, f"{lacking[0]}, of {requirement.name}[{','.join(requirement.extras)}]")
        if imported:
            module = _MODULES.get(requirement.name, requirement.name)
            try:
                import_module(module)
            except Exception as error:
                return cls(requirement, version, f"{requirement.name} {version} cannot be imported: {_first(error)}")
        return cls(requirement, version)


@dataclass(frozen=True)
class Program:
    """Something that is no Python package, and what it is for."""

    name: str
    purpose: str
    version: str | None
    problem: str = ""


@click.command()
@click.argument("extras", nargs=-1, metavar="[EXTRA]...")
@json_option()
def doctor(extras: Sequence[str], as_json: bool) -> None:
    """Look at this installation: what is there, and what each missing extra is for.

    An extra that is named must be complete, and its packages must import: for scripts and containers. Without a name,
    extras may be missing. The exit code is 1 if something that is needed is not there.

    \b
    dither doctor
    dither doctor serve postgres
    dither doctor --json
    """
    from dither.display.table import TextTable

    needed = requirements()
    unknown = [extra for extra in extras if extra not in needed or not extra]
    if unknown:
        raise ParameterError(f"no extra has this name; there are {', '.join(PURPOSES)}")
    base = [Package.found(each, imported=True) for each in needed[""]]
    looked_at = {extra: _packages(extra, needed, extras) for extra in PURPOSES if extra in needed}
    looked_at |= {extra: _packages(extra, needed, extras) for extra in extras}
    programs = list(found_programs())
    trial = first_report()
    wrong = [each.problem for each in base if not each.sound] + ([trial] if trial else [])
    wrong += [each.problem for extra in extras for each in looked_at[extra] if not each.sound]
    if as_json:
        facts(
            {
                **installation(),
                "sound": not wrong,
                "problems": list(dict.fromkeys(wrong)),
                "base": {each.requirement.name: each.version for each in base},
                "extras": {extra: _facts(extra, packages) for extra, packages in looked_at.items()},
                "programs": {each.name: {"version": each.version, "for": each.purpose} for each in programs},
            }
        )
    else:
        known = installation()
        versions = ", ".join(f"{each.requirement.name} {each.version or 'missing'}" for each in base)
        show(
            f"dither {known['dither']}, Python {known['python']} on {known['platform']}, {known['cores']} cores",
            f"Base: {versions}.",
            TextTable(_extra_columns(looked_at)),
            TextTable(
                {
                    "program": [each.name for each in programs],
                    "state": [each.problem or each.version or "not found" for each in programs],
                    "for": [each.purpose for each in programs],
                }
            ),
        )
        missing = next((extra for extra, found in looked_at.items() if not all(each.sound for each in found)), None)
        if missing and not wrong:
            tell(f"an extra is installed by its name: pip install 'dither[{missing}]'")
    if wrong:
        for problem in dict.fromkeys(wrong):
            tell(f"wrong: {problem}")
        which = f"dither[{','.join(extras)}]" if extras else "dither"
        raise DitherError(f"something that is needed is not there: pip install --upgrade '{which}'")
    if not as_json:
        tell("All that is needed is there: reports were made, counted and estimated.")


# What is declared ---------------------------------------------------------------------------------------------------


def requirements() -> dict[str, list[Requirement]]:
    """Every extra with all packages that it brings, those of extras within it too; the base under ""."""
    lines: dict[str, list[Requirement]] = {"": []}
    for line in metadata.requires("dither") or []:
        parsed = Requirement.parsed(line)
        if parsed is not None:
            lines.setdefault(parsed[0], []).append(parsed[1])
    return {extra: list(_flat(extra, lines)) for extra in lines}


def _flat(extra: str, lines: Mapping[str, Sequence[Requirement]]) -> Iterator[Requirement]:
    for requirement in lines[extra]:
        if requirement.name == "dither":
            for part in requirement.extras:
                yield from _flat(part, lines)
        else:
            yield requirement


def _lacking(requirement: Requirement) -> list[str]:
    """What is missing of the extras of another package; lines for some Pythons only are passed over."""
    problems = []
    for line in metadata.requires(requirement.name) or [] if requirement.extras else []:
        parsed = Requirement.parsed(line)
        if parsed is not None and parsed[0] in requirement.extras and "python" not in line.partition(";")[2]:
            problems.append(Package.found(parsed[1], imported=False).problem)
    return [problem for problem in problems if problem]


def satisfies(version: str, wanted: str) -> bool:
    """Whether a release is within bounds. Of pre-releases and local builds only the numbers count.

    >>> [satisfies("2.13.0+cpu", "==2.13.0"), satisfies("1.10", ">=1.9,<2"), satisfies("2.0.1", "<2")]
    [True, True, False]
    """
    have = _numbers(version)
    for sign, bound in _CONDITION.findall(wanted):
        least = _numbers(bound)
        size = max(len(have), len(least))
        left, right = (numbers + (0,) * (size - len(numbers)) for numbers in (have, least))
        within = left[: len(least) - 1] == least[:-1] and left >= right
        if not {"<=": left <= right, ">=": left >= right, "==": left == right, "!=": left != right, "<": left < right,
                ">": left > right, "~=": within}[sign]:  # fmt: skip
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(?:\d+!)?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, found[1].split("."))) if found else ()


def _plain(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()


# What is found ------------------------------------------------------------------------------------------------------


def installation() -> dict[str, object]:
    """What everybody is asked for who reports a problem."""
    from dither.core.parallel import threads
    from dither.kernels import compiled

    return {
        "dither": dither.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": threads(),
        "compiled loops": compiled(),
    }


def _packages(extra: str, needed: Mapping[str, Sequence[Requirement]], named: Iterable[str]) -> list[Package]:
    return [Package.found(each, imported=extra in named) for each in needed[extra]]


def first_report() -> str:
    """Nothing, or what went wrong when four reports were made, counted and estimated."""
    try:
        from dither.mechanisms import GRR

        mechanism = GRR(k=2, epsilon=1.0)
        estimate = mechanism.estimate(mechanism.tally(mechanism.randomize([0, 1, 0, 1])))
        return "" if estimate.n == 4 else "four reports were not counted as four"
    except Exception as error:
        return f"no report can be made: {_first(error)}"


def found_programs() -> Iterator[Program]:
    """Programs that some parts use."""
    from dither.engines.spark_session import JAVA, java

    path, version = java()
    old = f"Java {version}, and Spark needs {JAVA}" if version is not None and version < JAVA else ""
    yield Program("Java", f"Spark ({JAVA} or newer)", str(version) if path and version else None, old)
    yield _asked("node", ["--version"], "the browser's client, from a checkout")
    yield _asked("chromium", ["--version"], "tests of the report, from a checkout")
    server = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)), "postgres")
    yield _asked("PostgreSQL", ["--version"], "a store for several collectors; may be on another machine", str(server))


def _asked(name: str, arguments: list[str], purpose: str, program: str | None = None) -> Program:
    """A program with the number that it tells itself."""
    path = shutil.which(program or name)
    if path is None:
        return Program(name, purpose, None)
    try:
        told = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=20, check=True).stdout  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return Program(name, purpose, None, f"{os.path.basename(path)} does not run")
    number = re.search(r"\d+(?:\.\d+)*", told)
    return Program(name, purpose, number[0] if number else "of unknown version")


# What is shown ------------------------------------------------------------------------------------------------------


def _extra_columns(looked_at: Mapping[str, Sequence[Package]]) -> dict[str, list[str]]:
    return {
        "extra": list(looked_at),
        "state": [_state(packages) for packages in looked_at.values()],
        "for": [PURPOSES.get(extra, "work on dither itself, in a checkout") for extra in looked_at],
    }


def _state(packages: Sequence[Package]) -> str:
    """As in "complete", "missing" and "lacks scipy"."""
    lacking = list(dict.fromkeys(each.problem.removesuffix(" is missing") for each in packages if not each.sound))
    if not lacking:
        return "complete"
    if not any(each.sound for each in packages):
        return "missing"
    return f"lacks {lacking[0]}" + (f" and {len(lacking) - 1} more" if len(lacking) > 1 else "")


def _facts(extra: str, packages: Sequence[Package]) -> dict[str, object]:
    return {
        "complete": all(each.sound for each in packages),
        "for": PURPOSES.get(extra, ""),
        "packages": {each.requirement.name: each.version for each in packages},
        "problems": [each.problem for each in packages if not each.sound],
    }


def _first(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}{f', {lines[0]}' if lines else ''}"
