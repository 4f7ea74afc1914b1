"""What works where nothing but the base was installed: `python tests/smoke.py` in a fresh environment.

`make release` runs it on the wheel, and CI on each system; so it needs neither pytest nor anything of an extra. It
goes from a schema to an estimate, in Python and by the command, and sees that a refusal names what to install. It
prints what it has looked at, and fails with the first thing that is wrong.
"""

import json
import subprocess
import sys
import tempfile
from importlib import metadata, resources
from importlib.util import find_spec
from pathlib import Path

SCHEMA = """
[income]
kind = "numeric"
low = 0
high = 200000
[job]
kind = "categorical"
labels = ["nurse", "driver", "teacher", "other"]
"""
FILES = ["py.typed", "__init__.pyi", "engines/spark-log4j2.properties", "page/page.css"]
JOBS = ["nurse", "driver", "teacher", "other"]


def main() -> None:
    """All of it, in an empty folder."""
    import dither

    check("the version of the package and of its metadata", metadata.version("dither") == dither.__version__)
    home = resources.files("dither")
    check("the files that go with the code", all((home / name).is_file() for name in FILES))
    with tempfile.TemporaryDirectory() as folder:
        schema, plan, tally = (Path(folder) / name for name in ("schema.toml", "plan.json", "all.tally"))
        schema.write_text(SCHEMA, encoding="utf-8")
        told = command("plan", schema, "--epsilon", 2, "--users", 20000, "-o", plan)
        check("dither plan", told.returncode == 0 and plan.exists(), told)
        made = dither.Plan.from_json(plan.read_text(encoding="utf-8"))
        people = {"income": [1000.0 * (i % 100) for i in range(20000)], "job": [JOBS[i % 4] for i in range(20000)]}
        reports = made.randomize(people)
        counted = made.tally(reports)
        check("a plan, 20,000 reports and their tally", counted is not None)
        check("bytes on the wire, and back", len(made.unpack(made.pack(reports))) == len(reports))
        tally.write_bytes(counted.to_bytes())
        told = command("estimate", plan, tally, "--refine", "none", "--json")
        check_estimate(told)
        told = command("estimate", plan, tally, "--chart", "--refine", "none")
        check("dither estimate --chart", told.returncode == 0 and "nurse" in told.stdout, told)
        for refine in ("auto", "none"):
            told = command("estimate", plan, tally, "--refine", refine)
            check(f"dither estimate --refine {refine} works, or says what to install", works_or_names(told), told)
    for words in (["doctor"], ["mechanisms"], ["certify", "GRR", "k=4", "epsilon=1"], ["--help"]):
        told = command(*words)
        check(f"dither {words[0]}", told.returncode == 0, told)
    if find_spec("pyarrow") is None:
        told = command("randomize", "plan.json", "people.csv", "-o", "reports.parquet")
        check("a refusal without a traceback", told.returncode == 1 and "Traceback" not in told.stderr, told)
        with tempfile.TemporaryDirectory() as folder:
            told = command("demo", "-o", Path(folder) / "demo")
        check("dither demo names its extra", "pip install 'dither[demo]'" in told.stderr, told)
    print(f"dither {dither.__version__} works on Python {sys.version.split()[0]}, {sys.platform}")


def command(*words: object) -> "subprocess.CompletedProcess[str]":
    """The command of this environment."""
    given = [sys.executable, "-m", "dither", *map(str, words)]
    return subprocess.run(given, capture_output=True, text=True, encoding="utf-8", check=False)


def works_or_names(told: "subprocess.CompletedProcess[str]") -> bool:
    """It is done, or refused by one line with the extra in it."""
    last = (told.stderr.splitlines() or [""])[-1]
    return told.returncode == 0 or (last.startswith("Error: this needs ") and "pip install 'dither[" in last)


def check_estimate(told: "subprocess.CompletedProcess[str]") -> None:
    """Numbers without a refinement need nothing but the base."""
    check("dither estimate", told.returncode == 0, told)
    facts = json.loads(told.stdout)
    check("an estimate of each question", {"mean(income)", "histogram(job)"} <= set(json.dumps(facts).split('"')))


def check(what: str, passed: bool, told: "subprocess.CompletedProcess[str] | None" = None) -> None:
    """Say that something is as it should be, or end."""
    if not passed:
        sys.exit(f"wrong: {what}\n{told.stdout}\n{told.stderr}" if told else f"wrong: {what}")
    print(f"fine: {what}")


if __name__ == "__main__":
    main()
