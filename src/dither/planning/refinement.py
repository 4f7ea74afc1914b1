"""Refining the results of a plan: means of different attributes learn from each other, frequencies among themselves.

In units of half their domain, means of different attributes are many numbers of which much is alike: most lie away
from the ends, and their errors are known. `auto` shrinks them together (`dither.refine.shrink`); the fewer they are,
the less it does. Frequencies of a question are refined on their own, and so are statistics of keys. The values of a
*distribution* have an order, which says more about them than that they are many: they are smoothed. What is derived
from these stays as it is: a mean among the few who hold a key is not known of every key. So do the answers to ranges,
which are a posterior already. Which of these it is, a question knows.
"""

from dataclasses import replace

import numpy as np

from dither.core.estimate import MEAN, Estimate, refinements
from dither.questions.question import Question
from dither.refine import auto


def refine_estimates(found: dict[Question, Estimate], method: str) -> dict[Question, Estimate]:
    """Every estimate, refined; those that lack reports, and those that are derived, stay as they are."""
    apply = refinements.find(method)
    known = {question: estimate for question, estimate in found.items() if estimate.n}
    pooled = {question: each for question, each in known.items() if question.pooled} if apply is auto else {}
    better = _shrunk_together(pooled) if len(pooled) > 1 else {}
    alone = {
        question: question.refine(each, apply, apply is auto)
        for question, each in known.items()
        if question not in better
    }
    refined = {**found, **alone, **better}
    for question in sorted(refined, key=lambda each: len(each.names)):  # tables agree with shares that agree already
        refined[question] = question.agreed(refined[question], refined)
    return refined


def _shrunk_together(means: dict[Question, Estimate]) -> dict[Question, Estimate]:
    first = next(iter(means.values()))
    value = np.array([float(each.value) for each in means.values()])
    stderr = np.array([float(each.stderr) for each in means.values()])
    whole = auto(replace(first, value=value, stderr=stderr, bounds=MEAN, labels=None, notes=(), bias=None))
    return {
        question: replace(
            each,
            value=whole.value[place],
            stderr=whole.stderr[place],
            notes=(*each.notes, *whole.notes),
            original=each,
            rule=None if whole.rule is None else whole.rule.of(np.array([place])),
        )
        for place, (question, each) in enumerate(means.items())
    }
