"""Words that nobody listed: recall, F1 and false discoveries of `top(word, K)` against published searches.

    python benchmarks/text.py                      the table: 50,000 English words of up to ten letters (wordfreq)
    python benchmarks/text.py --false --runs 120   false discoveries and intervals alone, over more collections
    python benchmarks/text.py --server             how long 10^7 reports take, from reports to the list
    python benchmarks/text.py --client             how long a report takes, from texts to reports

Words are drawn from wordfreq's shares (`benchmarks/text_rivals.py`), so the truth of a run is what its users hold. Ours
has a plan, reports that are really made (seeded) and a tally; nothing about the words is known to it but the alphabet
and the length. The lists of 20 and of 100 words are two questions of one plan, from the same reports. `known` is ours
with a dictionary, as in Text(known=...): 50,000 words in the order of another corpus (symspellpy's), `shuffled` the
same in a random order. The rivals always list K words; ours lists those that stand out, and a false discovery is one
whose share is not above the stated one. `foreseen` is the recall that the plan predicts for a prior with these shares.
The dictionary bound knows all words, asks everybody about them, and takes the K largest estimates.
"""

import argparse
import resource
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dither
import text_rivals as rivals

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MOST = 100
_OTHER_SEEDS = 1000  # than those of the table


def planned(n: int, epsilon: float, tops: Sequence[int], prior: Any = None, known: Sequence[str] = ()) -> dither.Plan:
    """A plan for so many users, and lists of these lengths."""
    schema = dither.Schema({"word": dither.Text(longest=rivals.LONGEST, alphabet=LETTERS, known=list(known))})
    told = None if prior is None else {"word": prior}
    return dither.plan(schema, epsilon=epsilon, users=n, ask=[f"top(word, {most})" for most in tops], prior=told)


def reports_of(plan: dither.Plan, words: Sequence[str], counts: NDArray[np.int64], seed: int) -> Any:
    """The reports of users of whom counts[i] hold words[i], from their codes."""
    (part,) = plan.parts
    encoded = plan.schema["word"].encode(list(words))
    return part.mechanism.randomize(np.repeat(encoded, counts), seed=seed)


def listed(plan: dither.Plan, reports: Any) -> list[Any]:
    """What is estimated from them, a list for each question."""
    (part,) = plan.parts
    asked, mechanism = part.questions, part.mechanism
    own = mechanism.estimate(mechanism.tally(reports), asked[0].reading_of(mechanism))
    return [question.decode(question.select(own, place, len(asked))) for place, question in enumerate(asked)]


def table(options: argparse.Namespace) -> None:
    """A row for each number of users, epsilon and K."""
    words, shares = rivals.english_words()
    law = dict(zip(words, shares.tolist(), strict=True))
    ranked = rivals.dictionary()
    ways = {"ours": [], "known": ranked, "shuffled": np.random.default_rng(0).permutation(ranked).tolist()}
    heads = ["users", "epsilon", "K", "foreseen", "recall", "F1", "false", "known", "shuffled", "PEM", "its F1"]
    heads += ["TreeHist", "bound", "ours / PEM", "ours / bound"]
    print("|", " | ".join(heads), "|\n|", " | ".join(["---:"] * len(heads)), "|")
    for n in options.users:
        for epsilon in options.epsilon:
            scores: dict[tuple[str, int], list[tuple[float, ...]]] = {}
            for run in range(options.runs):
                counts = rivals.users(shares, n, run)
                truth = dict(zip(words, (counts / n).tolist(), strict=True))
                for name, known in ways.items():
                    plan = planned(n, epsilon, options.top, known=known)
                    for most, found in zip(
                        options.top, listed(plan, reports_of(plan, words, counts, run)), strict=True
                    ):
                        own = list(found.labels)
                        false = sum(truth.get(word, 0.0) <= found.stated_share for word in own) / max(len(own), 1)
                        score = *rivals.recall_and_f1(own, words, counts, most), false
                        scores.setdefault((name, most), []).append(score)
                for most in options.top:
                    for name, rival in rivals.PUBLISHED.items():
                        own = rival(words, counts, n, epsilon, most, run)
                        scores.setdefault((name, most), []).append(rivals.recall_and_f1(own, words, counts, most))
            for most in options.top:
                mean = {name: np.mean(each, axis=0) for (name, k), each in scores.items() if k == most}
                told = planned(n, epsilon, [most], law).prediction.lists[f"top(word, {most})"]["recall"]
                ours, pem, tree, bound = (mean[name] for name in ("ours", *rivals.PUBLISHED))
                numbers = [told, *ours, mean["known"][0], mean["shuffled"][0], pem[0], pem[1], tree[0], bound[0]]
                ratios = [f"{ours[0] / other:.2f}" if other else "-" for other in (pem[0], bound[0])]
                cells = [f"{n:,}", f"{epsilon:g}", most, *(f"{number:.3f}" for number in numbers), *ratios]
                print("|", *(f"{cell} |" for cell in cells), flush=True)


def false_discoveries(options: argparse.Namespace) -> None:
    """The part of a list that is false and how many collections have an interval that misses, with other seeds."""
    words, shares = rivals.english_words()
    print("| users | epsilon | collections | words listed | false | its standard error | intervals missed |")
    print("|" + " ---: |" * 7)
    for n in options.users:
        for epsilon in options.epsilon:
            plan, false, missed, lengths = planned(n, epsilon, [MOST]), [], 0, []
            for run in range(_OTHER_SEEDS, _OTHER_SEEDS + options.runs):
                counts = rivals.users(shares, n, run)
                truth = dict(zip(words, (counts / n).tolist(), strict=True))
                (found,) = listed(plan, reports_of(plan, words, counts, run))
                held = np.array([truth.get(word, 0.0) for word in found.labels])
                false.append(float((held <= found.stated_share).mean()) if held.size else 0.0)
                lengths.append(held.size)
                low, high = found.interval(0.95) if held.size else (held, held)
                missed += bool(((held < low) | (held > high)).any())
            error = np.std(false, ddof=1) / np.sqrt(options.runs)
            cells = [f"{n:,}", f"{epsilon:g}", options.runs, f"{np.mean(lengths):.1f}", f"{np.mean(false):.3f}"]
            print("|", *(f"{cell} |" for cell in [*cells, f"{error:.3f}", missed]), flush=True)


def server(options: argparse.Namespace) -> None:
    """From reports to the list."""
    words, shares = rivals.english_words()
    print("| users | epsilon | tally, s | list, s | peak of memory, GB | before, GB |\n|" + " ---: |" * 6)
    for n in options.users[-1:]:
        for epsilon in options.epsilon:
            plan = planned(n, epsilon, [MOST])
            mechanism = plan.parts[0].mechanism
            encoded = plan.schema["word"].encode(words)
            counts = rivals.users(shares, n, 0)
            parts = np.array_split(np.repeat(np.arange(len(words)), counts), 20)  # what devices do takes no memory here
            reports = np.concatenate([mechanism.randomize(encoded[part], seed=i) for i, part in enumerate(parts)])
            del parts
            before, began = _peak(), time.perf_counter()
            tally = mechanism.tally(reports)
            counted = time.perf_counter()
            question = plan.parts[0].questions[0]
            mechanism.estimate(tally, question.reading_of(mechanism))
            times = counted - began, time.perf_counter() - counted
            cells = [f"{n:,}", f"{epsilon:g}", *(f"{each:.2f}" for each in times), f"{_peak():.2f}", f"{before:.2f}"]
            print("|", *(f"{cell} |" for cell in cells), flush=True)


def client(options: argparse.Namespace) -> None:
    """From a column of texts to reports."""
    words, shares = rivals.english_words()
    print("| users | epsilon | from texts, microseconds a report | all different |\n|" + " ---: |" * 4)
    n = min(10**6, options.users[-1])
    texts = [word for word, count in zip(words, rivals.users(shares, n, 0).tolist(), strict=True) for _ in range(count)]
    rng = np.random.default_rng(0)
    letters = rng.integers(ord("a"), ord("z") + 1, (n, rivals.LONGEST), dtype=np.uint8)
    different = letters.view(f"S{rivals.LONGEST}")[:, 0].astype(str).tolist()
    for epsilon in options.epsilon:
        plan, times = planned(n, epsilon, [MOST]), []
        for column in (texts, different):
            began = time.perf_counter()
            plan.randomize({"word": column})
            times.append((time.perf_counter() - began) / n * 1e6)
        print(
            "|", *(f"{cell} |" for cell in [f"{n:,}", f"{epsilon:g}", *(f"{each:.2f}" for each in times)]), flush=True
        )


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Print recall, F1 and false discoveries; or what the server and the client cost."""
    parser = rivals.parser_of_searches(main.__doc__)
    parser.add_argument("--false", dest="false_discoveries", action="store_true")
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--client", action="store_true")
    options = parser.parse_args()
    shown = {server: options.server, client: options.client, false_discoveries: options.false_discoveries}
    next((show for show, asked in shown.items() if asked), table)(options)


if __name__ == "__main__":
    main()
