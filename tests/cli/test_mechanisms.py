"""The `dither` command: it prints what the library computes, and answers a mistake by one line, not by a traceback."""

import json
import re
from fractions import Fraction
from importlib.metadata import version

import numpy as np
import pytest

import dither
from cli.cases import printed, run, words
from dither.core.exact import log_above
from dither.mechanisms import load


def test_version():
    assert printed("--version").strip() == f"dither, version {dither.__version__}"
    assert version("dither") == dither.__version__


def test_help_names_every_command_in_the_order_of_the_way():
    text = printed("--help")
    way = ["infer", "plan", "randomize", "tally", "merge", "estimate", "query"]
    others = ["mechanisms", "certify", "audit", "amplify", "compare", "demo", "example"]
    names = [line.split()[0] for line in text.splitlines() if line.startswith("  ") and not line.startswith("  -")]
    assert [name for name in names if name in (*way, *others)] == [*way, *others]
    for command in (*way, *others):
        assert printed(command, "--help").startswith(f"Usage: main {command}")


def test_mechanisms_lists_the_registry():
    text = printed("mechanisms")
    for name, cls in dither.registry.items():
        assert name in text
        assert cls.family in text
    assert "k, epsilon, delta=0.0" in text
    assert "weights" not in text
    assert "asked" not in text


def test_mechanisms_as_json():
    rows = json.loads(printed("mechanisms", "--json"))
    assert [row["mechanism"] for row in rows] == list(dither.registry)
    assert rows[0] == {
        "mechanism": "GRR",
        "for": "categorical",
        "parameters": "k, epsilon, delta=0.0",
        "what it is": "Randomized response over k categories.",
    }


# Certificates -------------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_certify_everything():
    rows = [line.split() for line in printed("certify").splitlines()]
    for name, cls in dither.registry.items():
        assert sum(row[:1] == [name] for row in rows) == len(cls.examples)
    bounds = {row[0] for row in rows if "bound" in row}
    # Noise in several dimensions.
    assert bounds == {"BallGaussian", "Gaussian"}


@pytest.mark.wide
def test_certify_everything_as_json():
    facts = json.loads(printed("certify", "--json"))
    made = [cls(**example) for cls in dither.registry.values() for example in cls.examples]
    assert [fact["fingerprint"] for fact in facts] == [mechanism.fingerprint for mechanism in made]
    for fact, mechanism in zip(facts, made, strict=True):
        promise = dither.privacy.certify(mechanism)
        assert (fact["epsilon"], fact["delta"], fact["established"]) == (
            promise.epsilon,
            promise.delta,
            promise.established,
        )
        assert integers(fact["integers"]) == mechanism.weights
        assert fact["bytes a report"] == mechanism.dtype.itemsize
        if mechanism.delta == 0:
            assert log_above(Fraction(fact["largest likelihood ratio"])) == fact["epsilon"]


def integers(texts):
    """Texts as integers, lists as tuples."""
    return tuple(integers(text) if isinstance(text, list) else int(text) for text in texts)


@pytest.mark.parametrize(
    ("arguments", "mechanism"),
    [
        (
            ("Sampled", 'base=["Duchi","GRR(k=5)"]', "d=2", "epsilon=1"),
            dither.Sampled(("Duchi", "GRR(k=5)"), 2, None, 1.0),
        ),
        (
            ("Personalised", "base=Duchi", 'groups={"a":1.0,"b":2.0}'),
            dither.Personalised("Duchi", {"a": 1.0, "b": 2.0}),
        ),
    ],
)
def test_several_values_are_written_as_json(arguments, mechanism):
    (fact,) = json.loads(printed("certify", *arguments, "--json"))
    assert fact["fingerprint"] == mechanism.fingerprint
    again = load({**fact["parameters"], "weights": integers(fact["integers"])})
    assert again == mechanism


def test_what_is_too_long_to_read_is_cut():
    text = printed("certify", "Gaussian", "epsilon=1", "delta=1e-6")
    assert "188 in all (--json)" in " ".join(text.split())
    text = printed("certify", "Sampled", "base=Piecewise", "d=1000", "m=10", "epsilon=1")
    assert "about 2^5129" in text
    assert "about 2.71828182846" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_json_certificate_is_enough_to_make_the_mechanism():
    (fact,) = json.loads(printed("certify", "Unary", "k=7", "epsilon=0.5", "kind=symmetric", "--json"))
    again = load({**fact["parameters"], "weights": [int(weight) for weight in fact["integers"]]})
    assert again == dither.Unary(7, 0.5, kind="symmetric")
    assert again.fingerprint == fact["fingerprint"]


@pytest.mark.parametrize(
    ("arguments", "mechanism"),
    [
        (("GRR", "k=1000", "epsilon=1"), dither.GRR(1000, 1.0)),
        (("grr", "epsilon=1", "k=1000"), dither.GRR(1000, 1.0)),
        (("GRR", "k=1e6", "epsilon=0.1"), dither.GRR(10**6, 0.1)),
        (("LocalHash", "k=50", "epsilon=1", "delta=1e-6"), dither.LocalHash(50, 1.0, 1e-6)),
        (("LocalHash", "k=50", "epsilon=1", "cohorts=None", "g=3"), dither.LocalHash(50, 1.0, g=3)),
        (("Unary", "k=5", "epsilon=1", "q=0.25"), dither.Unary(5, 1.0, q=0.25)),
        (("SubsetSelection", "k=1000", "epsilon=1"), dither.SubsetSelection(1000, 1.0)),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_certify_one(arguments, mechanism):
    text = words(printed("certify", *arguments))
    promise = dither.privacy.certify(mechanism)
    assert f" epsilon {promise.epsilon!r} " in text
    assert f" delta {promise.delta!r} " in text
    assert f" established {promise.established} " in text
    assert mechanism.fingerprint in text.replace(" ", "")
    (fact,) = json.loads(printed("certify", "--json", *arguments))
    assert fact["fingerprint"] == mechanism.fingerprint


def test_huge_alphabets_are_named_by_their_size():
    (fact,) = json.loads(printed("certify", "SubsetSelection", "k=1000", "epsilon=1", "--json"))
    assert re.fullmatch(r"about 2\^\d+", fact["outputs"])
    assert fact["inputs"] == "1000"


# Mistakes -----------------------------------------------------------------------------------------------------------

MISTAKES = {
    "unknown mechanism": ("certify", "Nope"),
    "unknown mechanism with parameters": ("certify", "Nope", "k=4"),
    "unknown key": ("certify", "GRR", "k=4", "epsilon=1", "colour=2"),
    "no value": ("certify", "GRR", "k=4", "epsilon"),
    "a key that is not for users": ("certify", "GRR", "k=4", "epsilon=1", "weights=3"),
    "missing parameter": ("certify", "GRR", "k=4"),
    "no parameters": ("certify", "GRR"),
    "text for a number": ("certify", "GRR", "k=four", "epsilon=1"),
    "fraction for a count": ("certify", "GRR", "k=4.5", "epsilon=1"),
    "empty value": ("certify", "GRR", "k=", "epsilon=1"),
    "NaN epsilon": ("certify", "GRR", "k=4", "epsilon=nan"),
    "infinite epsilon": ("certify", "GRR", "k=4", "epsilon=inf"),
    "zero epsilon": ("certify", "GRR", "k=4", "epsilon=0"),
    "negative epsilon": ("certify", "GRR", "k=4", "epsilon=-1"),
    "NaN delta": ("certify", "GRR", "k=4", "epsilon=1", "delta=nan"),
    "too large a delta": ("certify", "GRR", "k=4", "epsilon=1", "delta=1"),
    "one category": ("certify", "GRR", "k=1", "epsilon=1"),
    "too many categories": ("certify", "Hadamard", "k=1e20", "epsilon=1"),
    "unknown kind": ("certify", "Unary", "k=4", "epsilon=1", "kind=best"),
    "mistake with --json": ("certify", "GRR", "k=4", "epsilon=nan", "--json"),
}


@pytest.mark.parametrize("arguments", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered_by_one_line(arguments):
    result = run(*arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)  # not an exception of the library, which would be a traceback
    assert result.stdout == ""
    assert re.fullmatch(r"Error: .+\n", result.stderr)


@pytest.mark.parametrize(
    "arguments", [("frobnicate",), ("demo", "--seed", "x"), ("demo", "--epsilon", "many"), ("--what",)]
)
def test_a_mistake_in_the_command_itself(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert "Error: " in result.stderr
    assert "Traceback" not in result.output


def test_messages_say_what_to_do():
    assert ", ".join(dither.registry) in run("certify", "Nope").stderr
    assert "GRR takes k, epsilon, delta=0.0" in run("certify", "GRR", "k=4").stderr
    for unknown in ("colour=2", "weights=3", "colour"):
        assert (
            "write parameters as KEY=VALUE; GRR takes k, eps"
            in run("certify", "GRR", "k=4", "epsilon=1", unknown).stderr
        )
    assert "epsilon must be a finite number above 0" in run("certify", "GRR", "k=4", "epsilon=nan").stderr


# Compare ---------------------------------------------------------------------------------------------------------


def test_compare_ranks_and_breaks_even():
    text = printed(
        "compare", "Duchi", "Piecewise", "Laplace", "--epsilon", "1", "--users", "1000", "--values", "uniform"
    )
    places = [text.index(name) for name in ("Piecewise", "Duchi", "Laplace")]
    assert places == sorted(places)
    assert "No mechanism with epsilon 1" in words(text)
    text = printed("compare", "SquareWave:naive", "Piecewise", "--epsilon", "1", "--values", "beta(5, 2)")
    assert "SquareWave:naive wins below" in words(text)
    text = printed("compare", "GRR(k=4)", "LocalHash(k=4)", "--epsilon", "1", "--tolerance", "0.05")
    assert "within 0.05" in text


def test_compare_as_json():
    found = json.loads(
        printed("compare", "Duchi", "Piecewise", "--epsilon", "1", "--users", "1000", "--values", "uniform", "--json")
    )
    assert [row["mechanism"] for row in found["mechanisms"]] == ["Piecewise", "Duchi"]
    assert found["mechanisms"][0]["rmse"] < found["mechanisms"][1]["rmse"]
    assert (found["epsilon"], found["users"]) == (1.0, 1000)
    assert found["break even"]
    alone = json.loads(printed("compare", "GRR(k=4)", "--epsilon", "1", "--json"))
    assert alone["break even"] is None


@pytest.mark.parametrize("arguments", [["Nothing"], ["GRR"], ["Duchi", "GRR(k=4)"], ["GRR(k=4):naive"]], ids=str)
def test_compare_says_what_is_wrong(arguments):
    result = run("compare", *arguments, "--epsilon", "1")
    assert result.exit_code == 1
    assert "Error: " in result.output


def test_compare_reads_a_file(tmp_path):
    path = tmp_path / "users.csv"
    path.write_text("age,risk\n0.5,0.02\n0.9,-0.03\n0.7,0.04\n")
    both = ("Split(base='SquareWave', d=2):naive", "Split(base='Piecewise', d=2)")
    found = json.loads(printed("compare", *both, "--epsilon", "2", "--values", str(path), "--json"))
    users = np.array([[0.5, 0.02], [0.9, -0.03], [0.7, 0.04]])
    wave = dither.utility.deviation(dither.Split("SquareWave", 2, 2.0), users, reports=10_000, estimator="naive")
    assert found["mechanisms"][1]["rmse"] == pytest.approx(wave.rmse)
    assert len(found["break even of dimensions"]) == 2
    assert "until" in printed("compare", *both, "--epsilon", "2", "--values", str(path))
    one = printed("compare", "Duchi", "Piecewise", "--epsilon", "1", "--values", str(path), "--column", "age", "--json")
    errors = {row["mechanism"]: row["rmse"] for row in json.loads(one)["mechanisms"]}
    assert errors["Piecewise"] == pytest.approx(
        dither.utility.deviation(dither.Piecewise(1.0), users[:, 0], reports=10_000).rmse
    )
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("job\n0\n3\n3\n1\n")
    shares = json.loads(printed("compare", "GRR(k=4)", "--epsilon", "1", "--values", str(jobs), "--json"))
    known = dither.utility.deviation(dither.GRR(k=4, epsilon=1.0), [0, 3, 3, 1], reports=10_000)
    assert shares["mechanisms"][0]["maximum 95%"] == pytest.approx(known.maximum(0.95))


def test_compare_refuses_a_file_without_quoting_it(tmp_path):
    path = tmp_path / "users.csv"
    path.write_text("age\n0.5\n987654\n")
    for arguments, reason in (
        (["Duchi", "--values", str(path)], "does not hold what these mechanisms take"),
        (["GRR(k=4)", "--values", str(path)], "encode categories"),
        (["Split(base='Duchi', d=2)", "--values", str(path)], "name them"),
        (["Duchi", "--values", str(tmp_path / "none.csv")], "cannot be read"),
        (["Duchi", "--column", "age"], "columns of a file"),
        (["Collision(d=4, s=2)", "--values", str(path)], "worst users"),
    ):
        result = run("compare", *arguments, "--epsilon", "1")
        assert result.exit_code == 1
        assert reason in words(result.output), arguments
        assert "987654" not in result.output
        assert "--invalid" not in result.output


def test_compare_behind_a_shuffler():
    arguments = ("GRR(k=4)", "Unary(k=4)", "--central", "0.5", "--delta", "1e-6", "--users", "2000")
    found = json.loads(printed("compare", *arguments, "--json"))
    for row in found["mechanisms"]:
        assert row["local epsilon"] > 0.5
        assert row["rmse without a shuffler"] == pytest.approx(row["gain"] * row["rmse"])
    assert "shuffled reports of each keep epsilon 0.5" in words(printed("compare", *arguments))
    for wrong in (
        ["--central", "0.5"],
        ["--central", "0.5", "--epsilon", "1"],
        [],
        ["--central", "0.5", "--delta", "1e-6", "--tolerance", "0.1"],
    ):
        assert run("compare", "GRR(k=4)", *wrong).exit_code == 1


# Amplify and audit -------------------------------------------------------------------------------------------------


def test_amplify_a_mechanism_and_any():
    shown = run("amplify", "Collision", "d=16", "s=2", "epsilon=1", "--users", "100000")
    assert "own" in shown.output
    assert "100,000 reports, shuffled: epsilon 0.0" in shown.output
    facts = json.loads(run("amplify", "--epsilon", "1", "--users", "1000000", "--json").output)
    assert facts["epsilon"] == facts["bounds"]["blanket"] == pytest.approx(0.00351, abs=1e-5)
    assert facts["bounds"]["own"] is None


def test_amplify_shows_the_worst_data_set_known():
    shown = run("amplify", "Collision", "d=256", "s=4", "epsilon=1", "--users", "100000")
    assert "On the worst data set known it is 0.00919" in shown.output
    facts = json.loads(run("amplify", "GRR", "k=3", "epsilon=1", "--users", "10000", "--json").output)
    assert 1 <= facts["bounds"]["own"] / facts["lower"] < 1.001


def test_amplify_backwards():
    shown = run("amplify", "Collision", "d=256", "s=8", "--central", "0.1", "--users", "100000")
    assert "a local epsilon of 4.211, shuffled, keep 0.1" in shown.output
    facts = json.loads(run("amplify", "--epsilon", "4", "--central", "0.1", "--users", "100000", "--json").output)
    assert facts["largest local epsilon"][2] == pytest.approx(3.708, abs=1e-3)
    assert facts["users needed"][0] is None
    assert facts["users needed"][1:] == pytest.approx([268_028, 136_467], rel=1e-4)
    refused = run("amplify", "--central", "0.1")
    assert refused.exit_code == 1
    assert "give --users" in refused.output


def test_amplify_says_where_nothing_is_gained():
    shown = run("amplify", "--epsilon", "1", "--users", "3")
    assert "too few" in shown.stderr
    assert "3 reports, shuffled: epsilon 1 (exact)" in shown.stdout


@pytest.mark.parametrize(
    "arguments", [["--users", "100"], ["GRR", "k=3", "epsilon=1", "--epsilon", "1", "--users", "9"]]
)
def test_amplify_wants_a_mechanism_or_an_epsilon(arguments):
    refused = run("amplify", *arguments)
    assert refused.exit_code == 1
    assert "name a mechanism" in refused.output


@pytest.mark.wide
def test_amplify_draws(tmp_path):
    target = tmp_path / "amplification.png"
    run("amplify", "--epsilon", "1", "--users", "1000", "--plot", str(target))
    assert target.stat().st_size > 10_000


def test_audit_one_and_all():
    shown = run("audit", "GRR", "k=3", "epsilon=1", "--trials", "20000", "--seed", "1")
    assert "the certificate stands" in shown.output
    (facts,) = json.loads(run("audit", "GRR", "k=3", "epsilon=1", "--trials", "20000", "--seed", "1", "--json").output)
    assert facts["passed"]
    assert 0.7 < facts["epsilon"] <= facts["certificate"]["epsilon"] == 1.0


def test_audit_fails_where_a_certificate_is_refuted(monkeypatch):
    real = dither.GRR._fill

    def shows(self, reports, values, tape, rows):
        real(self, reports, values, tape, rows)
        reports["value"] = np.where(values == 0, 0, reports["value"])

    monkeypatch.setattr(dither.GRR, "_fill", shows)
    shown = run("audit", "GRR", "k=3", "epsilon=1", "--trials", "20000", "--seed", "1")
    assert shown.exit_code == 1
    assert "REFUTED" in shown.output
