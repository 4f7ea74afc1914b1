"""What a search for words could still win: a second phase, and sums of prefixes, in the normal law without reports.

    python benchmarks/text_limits.py               both, for 50,000 English words (wordfreq)
    python benchmarks/text_limits.py --phases      one phase against two that are made for each other
    python benchmarks/text_limits.py --sums        evidence of prefixes for the words that begin with them

Estimates are drawn as the truth and a normal error, whose variance is the mechanism's. So this says what an idea is
worth before anybody builds it (docs/decisions/0053-words.md), and a row takes seconds.

**Phases.** All words of up to four letters are candidates, as in `HeavyHitters`, where all reports tell about them.
In two phases a share of the users is asked so. The others are told the candidates that are left, and answer "one of
these, or another word" by the best mechanism known for that: candidates have hyperplanes of a projective space of M
points over GF(q), w points each, and w more points stand for all other words. So everybody favours w of M + w points,
and as most users have another word, their noise is less than if all words were alike: at epsilon 2 the variance is
.5 of that of the first phase if nearly nobody has a candidate, .66 if a fifth of the users have. Words that are sure
after the first phase are not asked about again. The list is tested by the second phase alone, with weights by what the
first one tells (a word's weight is its chance to be listed by both together), so it holds as a list of one phase does.

**Sums.** Words of five to seven letters begin with four letters that other users were asked about. Compared are: own
evidence alone; weighed by the share of the prefix (`prefix_search`); the largest value that agrees with the sum, as
constrained least squares give it for words that stand out (the share of a prefix is at least that of its words); and
both evidences averaged as if nobody else began so. Each has the threshold at which as many words are false as the
weighted test lists, worked out from the draws themselves: that favours the last two, of which no guarantee is known.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import text_rivals as rivals

Floats = NDArray[np.float64]

FALSE, PARTS, STATED = 0.05, 10, 0.25
FIELDS = (2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 25)
SPLIT, EXPECTED = 0.3, 20  # the part of the reports that weighs tests, for a list of so many words
SURE = 5.5  # standard errors of the first phase
MOST_ASKED = 3000  # candidates of the second phase
FIRST = 4  # letters
PREFIXES = 459  # that are extended
SEARCHES = ((10**6, 1.0, 20), (10**5, 2.0, 20), (10**5, 4.0, 100), (10**6, 2.0, 100))


def variance(epsilon: float) -> float:
    """Of one report about a rare word, among any number of words."""
    return 4 * np.exp(epsilon) / (np.exp(epsilon) - 1) ** 2


def variance_of_candidates(epsilon: float, held: float) -> float:
    """Of one report about a rare candidate or another word, if this share of the users holds candidates."""
    return min(_of_field(epsilon, held, q) for q in FIELDS)


def _of_field(epsilon: float, held: float, q: int) -> float:
    high, on = np.exp(epsilon), 1 / q  # weight of a favoured point; the part of the points that is on a hyperplane
    total = on * high + 1
    own, other = on * high / total, (on**2 * high + on - on**2) / total  # supports a word: its holder, another's
    none, stray = on / total, on * high / total  # supports it: another word's holder; is told by one, "another word"
    pull = (other - none) / (stray - none)  # by which reports of another word make up for those of other candidates

    def spread(supports: float, strays: float) -> float:
        return supports + pull**2 * strays - (supports + pull * strays) ** 2

    return ((1 - held) * spread(none, stray) + held * spread(other, none)) / (own - other) ** 2


def candidates_of(words: list[str], shares: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The shares of all words of up to four letters, most of which nobody has, and how many rivals each has."""
    lengths = np.array([len(word) for word in words])
    truth, rivals_of = [], []
    for length in range(1, FIRST + 1):
        own = np.zeros(26**length)
        own[: (lengths == length).sum()] = shares[lengths == length]
        truth.append(own)
        rivals_of.append(np.full(26**length, 26**length))
    return np.concatenate(truth), np.concatenate(rivals_of)


def longest_list(false: Floats) -> NDArray[np.intp]:
    """The places of the longest list of which at most a part is false."""
    order = np.argsort(false)
    enough = np.flatnonzero(false[order] <= FALSE * np.arange(1, len(order) + 1))
    return order[: enough[-1] + 1] if len(enough) else order[:0]


def in_one_phase(truth: Floats, number: NDArray[np.int64], n: int, epsilon: float, rng: np.random.Generator):
    """Places that are listed, with the values they have."""
    error = np.sqrt(variance(epsilon) / n)
    z = truth / error + rng.normal(size=len(truth))
    near = np.minimum(number, 1 / (STATED * error))
    listed = longest_list(PARTS * (number * ndtr(-z) + near * ndtr(STATED - z)))
    return listed, z[listed]


def in_two_phases(
    truth: Floats, number: NDArray[np.int64], n: int, epsilon: float, rng: np.random.Generator, first: float, most: int
):
    """The same, if a first part of the users tells the candidates, at most so many, of which the others are asked."""
    early = np.sqrt(variance(epsilon) / (first * n))
    z = truth / early + rng.normal(size=len(truth))
    sure = np.flatnonzero(z > SURE)
    ranked = np.argsort(np.log(number) - z * np.abs(z) / 2)
    asked = ranked[~np.isin(ranked, sure)][:most]
    late = np.sqrt(variance_of_candidates(epsilon, truth[asked].sum()) / ((1 - first) * n))
    again = truth[asked] / late + rng.normal(size=len(asked))
    precision = 1 / early**2 + 1 / late**2
    limit = -ndtri(FALSE * (len(sure) + 5) / PARTS / number[asked]) / np.sqrt(precision)
    weights = ndtr(-late * (limit * precision - z[asked] / early))
    false = np.concatenate([ndtr(-again) * weights.sum() / weights, PARTS * number[sure] * ndtr(-z[sure])])
    both = (z[asked] / early + again / late) / precision
    places, values = np.concatenate([asked, sure]), np.concatenate([both, z[sure] * early])
    listed = longest_list(false)
    return places[listed], values[listed]


def in_two_parts(truth: Floats, number: NDArray[np.int64], n: int, epsilon: float, rng: np.random.Generator):
    """The same reports in two parts: three tenths of them say how the tests of the others are weighed."""
    early, late = np.sqrt(variance(epsilon) / (SPLIT * n)), np.sqrt(variance(epsilon) / ((1 - SPLIT) * n))
    z, again = (truth / error + rng.normal(size=len(truth)) for error in (early, late))
    precision = 1 / early**2 + 1 / late**2
    limit = -ndtri(FALSE * EXPECTED / PARTS / number) / np.sqrt(precision)
    weights = ndtr(-late * (limit * precision - z / early))
    listed = longest_list(ndtr(-again) * weights.sum() / np.maximum(weights, 1e-300))
    return listed, ((z / early + again / late) / precision)[listed]


def phases(options: argparse.Namespace) -> None:
    """Recall of one phase and of two."""
    truth, number = candidates_of(*rivals.english_words())
    heads = ["one phase", "in two parts", "two phases, 40% first", "25% first"]
    print("| users | epsilon | K |", *(f"{head} | false |" for head in heads), "\n|" + " ---: |" * 11)
    for n, epsilon, most in SEARCHES:
        top, stated = np.argsort(-truth)[:most], STATED * np.sqrt(variance(epsilon) / n)
        ways = [
            lambda rng, n=n, epsilon=epsilon: in_one_phase(truth, number, n, epsilon, rng),
            lambda rng, n=n, epsilon=epsilon: in_two_parts(truth, number, n, epsilon, rng),
        ]
        for first in (0.4, 0.25):
            ways.append(
                lambda rng, n=n, epsilon=epsilon, first=first: in_two_phases(
                    truth, number, n, epsilon, rng, first, MOST_ASKED
                )
            )
        cells = []
        for way in ways:
            rng, scores = np.random.default_rng(1), []
            for _ in range(options.runs):
                places, values = way(rng)
                places = places[np.argsort(-values)][:most]
                scores.append((np.isin(top, places).mean(), (truth[places] <= stated).mean() if len(places) else 0.0))
            cells += np.mean(scores, axis=0).tolist()
        print("|", *(f"{cell} |" for cell in [f"{n:,}", f"{epsilon:g}", most, *(f"{each:.3f}" for each in cells)]))


def sums(options: argparse.Namespace) -> None:
    """How many words of five to seven letters each way finds, of those that are in the top 300."""
    words, shares = rivals.english_words()
    goes_on = [word[:FIRST] for word in words if len(word) > FIRST]
    names, prefix_of = np.unique(goes_on, return_inverse=True)
    long = np.array([len(word) > FIRST for word in words])
    behind = np.zeros(26**FIRST)
    behind[: len(names)] = np.bincount(prefix_of, weights=shares[long])
    tested = np.array([len(word) <= 7 for word in words])[long]
    place = np.flatnonzero(long)
    endings = 26 + 26**2 + 26**3
    print("| users | epsilon | own evidence | weighed by the prefix | least squares | averaged |\n|" + " ---: |" * 6)
    for n, epsilon in ((10**6, 4.0), (10**7, 2.0), (10**7, 4.0)):
        early, late = np.sqrt(variance(epsilon) / (n / 4)), np.sqrt(variance(epsilon) / (3 * n / 4))
        scores, rng = [], np.random.default_rng(2)
        for _ in range(options.runs):
            told = behind + early * rng.normal(size=len(behind))
            kept = np.argpartition(-told, PREFIXES)[:PREFIXES]
            row = np.full(len(behind), -1)
            row[kept] = np.arange(PREFIXES)
            truth = np.zeros((PREFIXES, endings))
            mine = tested & (row[prefix_of] >= 0)
            column = np.zeros(len(prefix_of), dtype=np.intp)
            for each in np.unique(prefix_of[mine]):
                own = np.flatnonzero(mine & (prefix_of == each))
                column[own] = np.arange(len(own))
            truth[row[prefix_of[mine]], column[mine]] = shares[place[mine]]
            wanted = np.zeros(truth.shape, dtype=bool)
            common = mine & (place < 300)
            wanted[row[prefix_of[common]], column[common]] = True
            value = truth + late * rng.normal(size=truth.shape)
            prefix = np.maximum(told[kept], early)[:, None]
            z = value / late
            statistics = {
                "own": z,
                "weighed": z**2 / 2 * np.sign(z) + np.log(prefix / prefix.mean()),
                "squares": _consistent(value, told[kept], early, late) / late,
                "averaged": (value / late**2 + prefix / early**2) / (1 / late**2 + 1 / early**2),
            }
            nobody = truth == 0
            scores.append([])
            for statistic in statistics.values():
                limit = -np.partition(-statistic[nobody], 1)[:2].mean()  # between the best false word and the second
                scores[-1].append((statistic[wanted] > limit).sum())
        print("|", *(f"{cell} |" for cell in [f"{n:,}", f"{epsilon:g}", *np.mean(scores, axis=0).round(1).tolist()]))


def _consistent(value: Floats, told: Floats, early: float, late: float) -> Floats:
    """Values of words that stand out, made to add up to no more than their prefix has, by least squares."""
    found = np.maximum(value, 0.0)
    for row, (own, whole) in enumerate(zip(found, told, strict=True)):
        out = own > 3 * late
        excess = own[out].sum() - whole
        if excess > 0:  # shared by variances: of the prefix, and of as many words
            own[out] = np.maximum(own[out] - excess * late**2 / (early**2 + out.sum() * late**2), 0.0)
        found[row] = own
    return found


def main() -> None:
    """Print what ideas are worth."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--phases", action="store_true")
    parser.add_argument("--sums", action="store_true")
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()
    every = not (options.phases or options.sums)
    for asked, show in ((options.phases, phases), (options.sums, sums)):
        if asked or every:
            show(options)


if __name__ == "__main__":
    main()
