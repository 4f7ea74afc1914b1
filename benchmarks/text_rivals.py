"""Heavy hitters over words that nobody listed: what others published, for `benchmarks/text.py` to compare with.

Every rival takes (words, counts, n, epsilon, most, seed), where counts[i] of the n users hold words[i], and returns
a list of at most `most` words, the most frequent first. `words` is the truth that is drawn from; nobody but the
dictionary bound is told which words there are. A word is up to ten letters from a to z, written with 27 symbols (an
end, and the letters) in 5 bits each. Bit strings that are no words take part in a search, and are struck off its list.

- **PEM**, the prefix extending method (Wang, Li and Jha, "Locally differentially private heavy hitter identification"):
  users in g groups of equal size, group i asked for the first s_i = gamma + ceil(i (m - gamma) / g) of m bits by
  optimal local hashing (OLH), gamma = ceil(log2 K); the K best prefixes of one group are extended by all continuations
  for the next; the last group gives the list. Its authors' rule is as few groups as computation allows. How many
  candidates that is they leave open: here a round tests up to 2^20 of them.
- **TreeHist** (Bassily, Nissim, Stemmer and Thakurta 2017): half of the budget asks a random level for its prefix, the
  other half asks everybody for the word; both by one sign of a Hadamard row (one bit). Nodes whose estimate is above a
  threshold are extended by a letter, and what is left is ranked by the second half. The theorem's threshold (147 sqrt(n
  log d log n) / epsilon) finds nothing below 10^9 users; that of its experiments, 15 sqrt(n) at epsilon 2.22, is 2.4
  standard deviations of an estimate with ten levels, and so it is here at every epsilon.
- **The dictionary bound**: everybody is asked about the known words, by `dither.ProjectiveGeometry`, whose error is the
  smallest known, less than 1% above the least possible here. Reports are really made and tallied.

**What was checked, and what is from memory.** Of PEM, against the sample that its first author published (vvv214/
LDP_Protocols, `pem/pem.py`) and against pure-ldp's: equal groups with prefixes that grow by equal steps, a local hash
for each, the K best extended by all continuations, the list from the last group alone, and steps as large as
computation allows. The sample begins with floor(log2 K) + 1 bits, and has a group for these: one group more than here,
so that each has fewer users. That the paper's own rule is gamma = ceil(log2 K) and no group for it is from memory. Of
TreeHist, against pure-ldp's: half of the budget for a random level and half for the word, a letter a level. That its
authors used one sign of a Hadamard row, the theorem's constant 147, and 15 sqrt(n) at epsilon 2.22 are from memory of
the paper, whose text was not at hand.

**How PEM and TreeHist are drawn.** Not report by report. With a hash function of its own in every report, a candidate
that c of a group's N users hold is supported by Bin(c, p) + Bin(N - c, q) reports, and the candidates independently, if
hash values are independent: that law is drawn from. It is exact for PEM with OLH. For TreeHist it leaves out the
collisions of its count sketch, which do it no good.

**Implementations.** pure-ldp has both. Its local hashing counts every string of the domain for every report, 27^10 of
them, so that only its sketches come to an end; `pure_ldp_pem` and `pure_ldp_treehist` run them as its own experiments
do, a call a user. Its candidates are made of the alphabet alone, and padding is not part of it, so that a shorter word
than the longest could never be found: the end symbol is put into the alphabet. Its sketches ask NumPy for an array of
the shape None, which newer ones refuse; they get the number that older ones made of it.
"""

import argparse
import math
import random
import re
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither import ProjectiveGeometry

LETTERS = "_abcdefghijklmnopqrstuvwxyz"  # the first one is the end of a word
LONGEST = 10
BITS = 5  # of a symbol
MOST_CANDIDATES = 1 << 20
SKETCH = (128, 1024)  # hash functions and buckets, of pure-ldp's
_TREEHIST_DEVIATIONS = 2.4

Counts = NDArray[np.int64]
Codes = NDArray[np.uint64]
Rival = Callable[[Sequence[str], Counts, int, float, int, int], list[str]]


def english_words(size: int = 50_000, longest: int = LONGEST) -> tuple[list[str], NDArray[np.float64]]:
    """The most frequent English words of up to so many letters a to z, and their shares, which sum to one."""
    frequencies: dict[str, float] = import_module("wordfreq").get_frequency_dict("en")
    plain = re.compile(f"[a-z]{{1,{longest}}}")
    kept = sorted((-share, word) for word, share in frequencies.items() if plain.fullmatch(word))[:size]
    shares = np.array([-share for share, _ in kept])
    return [word for _, word in kept], shares / shares.sum()


def dictionary(size: int = 50_000, longest: int = LONGEST) -> list[str]:
    """Words of up to so many letters in the order of another corpus: symspellpy's list, after Google's books."""
    path = import_module("importlib.resources").files("symspellpy") / "frequency_dictionary_en_82_765.txt"
    words = (line.split()[0].lstrip("\ufeff") for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    return [word for word in words if re.fullmatch(f"[a-z]{{1,{longest}}}", word)][:size]


def users(shares: NDArray[np.float64], n: int, seed: int) -> Counts:
    """How many of n users drawn from these shares hold each word."""
    return np.random.default_rng([seed, n]).multinomial(n, shares)


def recall_and_f1(found: Sequence[str], words: Sequence[str], counts: Counts, most: int) -> tuple[float, float]:
    """Of the `most` words that most users hold: the share that was found, and the F1 score of the list.

    >>> recall_and_f1(["a", "b", "x"], ["a", "b", "c", "d"], np.array([9, 8, 7, 6]), 4)
    (0.5, 0.5714285714285714)
    """
    truth = {words[place] for place in np.argsort(-counts, kind="stable")[:most]}
    hits = len(truth & set(found))
    return hits / most, 2 * hits / (most + len(found)) if found else 0.0


# As published -----------------------------------------------------------------------------------------------------


def pem(words: Sequence[str], counts: Counts, n: int, epsilon: float, most: int, seed: int) -> list[str]:
    """The prefix extending method, with as few groups as 2^20 candidates a round allow."""
    return pem_in_groups(words, counts, epsilon, most, seed, fewest_groups(most))


def fewest_groups(most: int, candidates: int = MOST_CANDIDATES) -> int:
    """How many groups PEM needs, if a round may test so many candidates.

    >>> fewest_groups(20), fewest_groups(100)
    (3, 4)
    """
    start, bits = math.ceil(math.log2(most)), BITS * LONGEST
    return math.ceil((bits - start) / math.floor(math.log2(candidates / most)))


def pem_in_groups(words: Sequence[str], counts: Counts, epsilon: float, most: int, seed: int, groups: int) -> list[str]:
    """The prefix extending method with so many groups."""
    rng, start, bits = np.random.default_rng(seed), math.ceil(math.log2(most)), BITS * LONGEST
    p, q = olh(epsilon)
    codes, rest = encoded(words), counts.astype(np.int64)
    length, best = start, np.arange(1 << start, dtype=np.uint64)
    for group in range(1, groups + 1):
        asked = rng.multivariate_hypergeometric(rest, int(rest.sum()) // (groups - group + 1), method="marginals")
        rest = rest - asked
        step = start + math.ceil(group * (bits - start) / groups) - length
        length += step
        candidates = ((best[:, None] << np.uint64(step)) + np.arange(1 << step, dtype=np.uint64)).ravel()
        holders = holding(candidates, codes >> np.uint64(bits - length), asked)
        support = rng.binomial(holders, p) + rng.binomial(int(asked.sum()) - holders, q)
        best = candidates[np.argsort(-support, kind="stable")[:most]]
    return [word for code in best if (word := decoded(code)) is not None]


def treehist(words: Sequence[str], counts: Counts, n: int, epsilon: float, most: int, seed: int) -> list[str]:
    """TreeHist, a letter a level, with the threshold of its authors' experiments."""
    rng, codes = np.random.default_rng(seed), encoded(words)
    p = 1 / (1 + math.exp(-epsilon / 2))  # that a sign is told as it is, with half of the budget
    level_of_users = multinomial_rows(rng, counts, LONGEST)
    kept = np.zeros(1, dtype=np.uint64)
    for level in range(LONGEST):
        candidates = ((kept[:, None] << np.uint64(BITS)) + np.arange(len(LETTERS), dtype=np.uint64)).ravel()
        asked, prefixes = level_of_users[level], codes >> np.uint64(BITS * (LONGEST - 1 - level))
        holders, total = holding(candidates, prefixes, asked), int(asked.sum())
        agreeing = rng.binomial(holders, p) + rng.binomial(total - holders, 0.5)
        deviations = (2 * agreeing - total) / math.sqrt(total)
        order = np.argsort(-deviations, kind="stable")[: MOST_CANDIDATES // len(LETTERS)]
        kept = candidates[order[deviations[order] > _TREEHIST_DEVIATIONS]]
    kept = np.array([code for code in kept if decoded(code) is not None], dtype=np.uint64)
    holders = holding(kept, codes, counts)
    agreeing = rng.binomial(holders, p) + rng.binomial(n - holders, 0.5)
    best = kept[np.argsort(-agreeing, kind="stable")[:most]]
    return [word for code in best if (word := decoded(code)) is not None]


def known_dictionary(words: Sequence[str], counts: Counts, n: int, epsilon: float, most: int, seed: int) -> list[str]:
    """The words with the largest estimates, where everybody is asked about all of them: what cannot be beaten."""
    mechanism = ProjectiveGeometry(k=len(words), epsilon=epsilon)
    tally = mechanism.tally(mechanism.randomize(np.repeat(np.arange(len(words)), counts), seed=seed))
    order = np.argsort(-mechanism.estimate(tally).value, kind="stable")[:most]
    return [words[int(place)] for place in order]


# What they have in common -----------------------------------------------------------------------------------------


def olh(epsilon: float) -> tuple[float, float]:
    """How likely a report of optimal local hashing supports its own value, and any other."""
    buckets = round(math.exp(epsilon)) + 1
    return math.exp(epsilon) / (math.exp(epsilon) + buckets - 1), 1 / buckets


def encoded(words: Sequence[str]) -> Codes:
    """Each word as a number of 50 bits, its first letter in the highest ones."""
    return np.array([_code(word) for word in words], dtype=np.uint64)


def _code(word: str) -> int:
    code = 0
    for symbol in word.ljust(LONGEST, LETTERS[0]):
        code = (code << BITS) + LETTERS.index(symbol)
    return code


def decoded(code: Any) -> str | None:
    """The word with this number; None if it is none: a symbol too high, or a letter after the end.

    >>> decoded(_code("the")), decoded(31)
    ('the', None)
    """
    places = [int(code) >> BITS * place & (1 << BITS) - 1 for place in reversed(range(LONGEST))]
    if max(places) >= len(LETTERS):
        return None
    text = "".join(LETTERS[place] for place in places).rstrip(LETTERS[0])
    return text if text and LETTERS[0] not in text else None


def holding(candidates: Codes, values: Codes, counts: Counts) -> Counts:
    """How many users hold each candidate, of whom counts[i] hold values[i]; values may come several times."""
    order = np.argsort(candidates, kind="stable")
    place = np.searchsorted(candidates[order], values)
    place[place == len(candidates)] = 0
    there = candidates[order][place] == values if len(candidates) else np.zeros(len(values), dtype=bool)
    held = np.zeros(len(candidates), dtype=np.int64)
    np.add.at(held, order[place[there]], counts[there])
    return held


def multinomial_rows(rng: np.random.Generator, counts: Counts, parts: int) -> Counts:
    """Each user in one of so many parts, drawn at random: for each part (rows) how many users hold each value."""
    return rng.multinomial(counts, np.full(parts, 1 / parts)).T


# pure-ldp ---------------------------------------------------------------------------------------------------------


def pure_ldp_pem(words: Sequence[str], counts: Counts, n: int, epsilon: float, most: int, seed: int) -> list[str]:
    """PEM of pure-ldp: a letter a group, the first one with two, each by a count-mean sketch."""
    return _pure_ldp("PEM", words, counts, epsilon, most, seed, start_length=1)


def pure_ldp_treehist(words: Sequence[str], counts: Counts, n: int, epsilon: float, most: int, seed: int) -> list[str]:
    """TreeHist of pure-ldp, which keeps the K best nodes of a level, each by a count-mean sketch."""
    return _pure_ldp("TreeHist", words, counts, epsilon, most, seed)


class _OlderNumpy:
    """NumPy, with arrays of the shape None."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: int | None) -> NDArray[np.float64]:
        """Zeros of this shape; a number, where it is None."""
        return np.zeros(() if shape is None else shape)


def _pure_ldp(
    name: str, words: Sequence[str], counts: Counts, epsilon: float, most: int, seed: int, **own: Any
) -> list[str]:
    oracles, hitters = (import_module(f"pure_ldp.{room}") for room in ("frequency_oracles", "heavy_hitters"))
    vars(import_module("pure_ldp.core._freq_oracle_server"))["np"] = _OlderNumpy()
    random.seed(seed)
    np.random.seed(seed)  # it draws from NumPy's old generator
    fo_server = oracles.CMSServer(epsilon, *SKETCH)
    fo_client = oracles.CMSClient(epsilon, fo_server.get_hash_funcs(), SKETCH[1])
    both = {
        "epsilon": epsilon,
        "max_string_length": LONGEST,
        "fragment_length": 1,
        "alphabet": list(LETTERS),
        "index_mapper": lambda text: text,
        **own,
    }
    client = getattr(hitters, f"{name}Client")(fo_client=fo_client, **both)
    server = getattr(hitters, f"{name}Server")(fo_server=fo_server, **both)
    for word, users_ in zip(words, counts.tolist(), strict=True):
        padded = word.ljust(LONGEST, LETTERS[0])
        for _ in range(users_):
            server.aggregate(client.privatise(padded))
    found, estimates = server.find_heavy_hitters(k=most)
    ranked = [text for _, text in sorted(zip(estimates, found, strict=True), reverse=True)]
    texts = (text.rstrip(LETTERS[0]) for text in ranked)
    return [text for text in texts if text and LETTERS[0] not in text]


PUBLISHED: dict[str, Rival] = {"PEM": pem, "TreeHist": treehist, "known dictionary": known_dictionary}
PEERS: dict[str, Rival] = {"pure-ldp PEM": pure_ldp_pem, "pure-ldp TreeHist": pure_ldp_treehist}


def parser_of_searches(description: str | None) -> argparse.ArgumentParser:
    """Options of a comparison: how many users, which epsilons, how long a list, how often."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--users", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--top", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--runs", type=int, default=5)
    return parser


def main() -> None:
    """Print recall and F1 of the rivals."""
    parser = parser_of_searches(main.__doc__)
    parser.add_argument("--peers", action="store_true", help="those of pure-ldp too: a minute for 10^6 users")
    options = parser.parse_args()
    words, shares = english_words()
    rivals = {**PUBLISHED, **(PEERS if options.peers else {})}
    print("| rival | users | epsilon | K | recall | F1 | s |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for n in options.users:
        for epsilon in options.epsilon:
            for most in options.top:
                for name, rival in rivals.items():
                    began, scores = time.perf_counter(), []
                    for run in range(options.runs):
                        counts = users(shares, n, run)
                        found = rival(words, counts, n, epsilon, most, run)
                        scores.append(recall_and_f1(found, words, counts, most))
                    numbers = *np.mean(scores, axis=0), (time.perf_counter() - began) / options.runs
                    cells = [name, f"{n:,}", f"{epsilon:g}", most, *(f"{number:.3f}" for number in numbers)]
                    print("|", *(f"{cell} |" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
