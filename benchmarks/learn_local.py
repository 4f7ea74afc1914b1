"""Models under local differential privacy on the Adult and the KDD census data, beside non-private ones.

    python benchmarks/learn_local.py                       # Adult, all attributes, and a few of them
    DITHER_THEMIS=... python benchmarks/learn_local.py --data census

Misclassification on the test set (002 section 6.2, Figure 9), mean over seeds with its standard error. All mechanisms
use the same algorithm and the same rule for its settings, `learn.LogisticRegression` as it is by default; a seed is the
same order of users for all. Reports are as private as (epsilon, delta) says; Hypercube, SampledDuchi and UnitVector
keep delta = 0 anyway, or gain nothing from one.

Domains are public: labels are those of the codebook, and numbers have the ends that stand below. Money is capped, since
noise grows with the width of a domain: a capital gain above 10,000 counts as 10,000. Non-private models see the same
encoding.
"""

import argparse
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression as Reference

from datasets import HOW, People, adult, census
from dither import Categorical, Numeric, Schema
from dither.display.table import TextTable
from dither.learn.encoding import Encoder
from dither.learn.linear import LogisticRegression
from dither.learn.vector_reporter import ranked

EPSILONS = (1.0, 2.0, 4.0, 8.0)
MECHANISMS = ("Gaussian", "Hypercube", "SampledDuchi", "Piecewise", "UnitVector", "auto")

ENDS: dict[str, dict[str, tuple[float, float]]] = {
    "adult": {
        "age": (17, 75),
        "fnlwgt": (0, 1_000_000),
        "education-num": (4, 16),
        "capital-gain": (0, 10_000),
        "capital-loss": (0, 2_500),
        "hours-per-week": (10, 70),
    },
    "census": {
        "c0": (0, 90),  # age
        "c5": (0, 2_000),  # wage per hour
        "c16": (0, 10_000),  # capital gains
        "c17": (0, 2_500),  # capital losses
        "c18": (0, 10_000),  # dividends
        "c24": (0, 20_000),  # instance weight
        "c30": (0, 6),  # persons worked for employer
        "c39": (0, 52),  # weeks worked in the year
    },
}
FEW = {
    "adult": (
        "age",
        "education-num",
        "marital-status",
        "occupation",
        "sex",
        "capital-gain",
        "capital-loss",
        "hours-per-week",
    ),
    "census": ("c0", "c4", "c9", "c12", "c16", "c17", "c18", "c39"),  # the same questions; c4 education, c9 occupation
}


def encoder_of(people: People, data: str, names: Any) -> Encoder:
    """The public domains of these attributes."""
    attributes: dict[str, Any] = {}
    for name in names:
        if name in ENDS[data]:
            attributes[name] = Numeric(*ENDS[data][name])
            continue
        labels = sorted({str(word) for part in (people.train, people.test) for word in np.unique(part[name])})
        if len(labels) > 1:
            attributes[name] = Categorical(labels)
    return Encoder(Schema(attributes))


def measured(
    train: Any, labels: Any, test: Any, truth: Any, encoder: Encoder, name: str, budget: tuple[float, float], seeds: int
) -> str:
    """Mean misclassification over seeds, with its standard error."""
    missed = []
    for seed in range(seeds):
        made = LogisticRegression(*budget, mechanism=name, seed=seed, encoder=encoder)
        missed.append(1 - made.fit(train, labels).score(test, truth))
    return f"{np.mean(missed):.2%} ± {np.std(missed, ddof=1) / len(missed) ** 0.5:.2%}"


def compared(
    people: People, data: str, names: Any, seeds: int, mechanisms: Any, epsilons: Any, delta: float
) -> TextTable:
    """Misclassification of every mechanism at every epsilon."""
    encoder = encoder_of(people, data, names)
    train, test = (encoder.transform(part, "substitute") for part in (people.train, people.test))
    truth = people.test_labels
    reference = Reference(max_iter=3000).fit(train, people.train_labels)
    print(
        f"\n{data}: {len(names)} attributes, d = {encoder.d}, {len(train):,} users; non-private "
        f"{1 - reference.score(test, truth):.2%}, majority {min(truth.mean(), 1 - truth.mean()):.2%}"
    )
    rows: dict[str, list[Any]] = {"mechanism": [], **{f"epsilon {epsilon:g}": [] for epsilon in epsilons}}
    known: dict[tuple[str, float], str] = {}
    for mechanism in mechanisms:
        rows["mechanism"].append(mechanism)
        for epsilon in epsilons:
            name = mechanism
            if mechanism == "auto":
                name = ranked(encoder.d + 1, epsilon, delta, clip=1.0, norm="linf")[0][0]
            if (name, epsilon) not in known:
                known[name, epsilon] = measured(
                    train, people.train_labels, test, truth, encoder, name, (epsilon, delta), seeds
                )
            rows[f"epsilon {epsilon:g}"].append(known[name, epsilon])
            print(f"  {mechanism:14} epsilon {epsilon:g}: {known[name, epsilon]}  ({name})", flush=True)
    return TextTable(rows)


def main() -> None:
    """The tables of docs/local-models.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=tuple(ENDS), default="adult")
    parser.add_argument("--attributes", choices=("few", "all", "both"), default="both")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--mechanisms", nargs="*", default=MECHANISMS)
    parser.add_argument("--epsilons", type=float, nargs="*", default=EPSILONS)
    chosen = parser.parse_args()
    people = {"adult": adult, "census": census}[chosen.data]()
    if people is None:
        raise SystemExit(f"the data is not there: {HOW[chosen.data]}")
    sets = {"few": FEW[chosen.data], "all": tuple(people.train)}
    for name, attributes in sets.items():
        if chosen.attributes in (name, "both"):
            table = compared(
                people, chosen.data, attributes, chosen.seeds, chosen.mechanisms, chosen.epsilons, chosen.delta
            )
            print(table)


if __name__ == "__main__":
    main()
