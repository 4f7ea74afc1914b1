"""`dither statement`: for the people asked, on the terminal, as a notice and as a page."""

import json

import dither
from cli.cases import done, facts, refused, run

TOLD = (
    *("--collector", "The town", "--purpose", "a map", "--contact", "a@b.org", "--keep-reports", "30d"),
    *("--keep-results", "10y", "--connection", "nothing is kept"),
)


def test_on_the_terminal(plan):
    found = done("statement", plan)
    made = dither.Plan.read(plan)
    assert found.stdout == made.statement().text() + "\n"
    assert made.fingerprint in found.stdout
    assert "[to be filled in: who collects]" in found.stdout.replace("\n", " ")
    told = found.stderr.splitlines()
    assert told[0] == "to be filled in, by these options or by hand:"
    options = [line.split()[0] for line in told[1:-1]]
    assert options == ["--collector", "--purpose", "--contact", "--keep-reports", "--keep-results", "--connection"]
    assert told[-1] == f"next: dither statement {plan} ... -o statement.md --html statement.html"
    assert all(option in done("statement", "--help").stdout for option in options)


def test_files(plan, tmp_path):
    notice, page = tmp_path / "notice.md", tmp_path / "page.html"
    found = done("statement", plan, *TOLD, "-o", notice, "--html", page)
    assert found.stdout == ""
    assert "to be filled in" not in found.stderr + notice.read_text() + page.read_text()
    assert found.stderr.startswith(f"wrote {notice}, for plan ")
    for text in (notice.read_text(), page.read_text()):
        assert "Reports: 30 days." in text
        assert "The town" in text
        assert dither.Plan.read(plan).fingerprint in text
    done("statement", plan, "-o", tmp_path / "x.txt")
    assert (tmp_path / "x.txt").read_text() == done("statement", plan).stdout
    assert done("statement", plan, "-o", "-").stdout == dither.Plan.read(plan).statement().markdown()


def test_for_machines(plan):
    found = facts("statement", plan, "--collector", "The town", "--shuffler", "Mixer")
    assert found["plan"] == dither.Plan.read(plan).fingerprint
    assert found["epsilon"] == dither.Plan.read(plan).guarantee.epsilon
    assert "collector" not in found["to be filled in"]
    assert "keep_reports" in found["to be filled in"]
    assert "Mixer" in json.dumps(found)


def test_what_is_refused(plan, tmp_path):
    assert "statement.md" in refused("statement", plan, "-o", tmp_path / "x.doc")
    assert "is read by this command" in refused("statement", plan, "-o", plan)
    assert "cannot be read" in refused("statement", tmp_path / "nope.json")
    assert run("statement").exit_code == 2


def test_labels_cannot_give_orders_to_a_terminal(tmp_path):
    schema = dither.Schema({"job": dither.Categorical(["\x1b[2Jnurse", "other"])})
    dither.plan(schema, 4.0, users=100_000).save(tmp_path / "plan.json")
    assert "\x1b" not in done("statement", tmp_path / "plan.json").stdout
