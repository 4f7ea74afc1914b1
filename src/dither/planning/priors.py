"""Priors: what is known about the users before anything is collected, in the attributes' own units.

`plan(..., prior={"income": "normal(40_000, 15_000)"})` plans for users like these instead of the worst ones. A prior
changes what is chosen and predicted; it never changes what a report promises, and an estimate is unbiased whether
the prior was right or not. It must come from public knowledge, never from the data that is to be protected.

For a number: values, a pair (values, weights), a pair (counts, edges) as `numpy.histogram` returns it, or a name:
`"uniform"`, `"beta(5, 2)"` over the domain, `"normal(40_000, 15_000)"` in its units. For categories: values,
`"uniform"` or `"zipf(1.1)"` in the order of the labels. For both: a mapping from value or label to share. For texts:
values, a mapping from text to share, or `"zipf(1.0, 50_000)"`, an exponent and a number of words. For keys:
the vectors of some users, in any form of a column, or a pair (vectors, weights).

**Several attributes.** A prior is about one attribute. What is asked about two at once, a product or a number in
groups, is predicted for users whose attributes have these priors and nothing to do with each other.
"""

import re
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from dither.core.checks import real_array
from dither.core.domains import CATEGORIES, UnitInterval
from dither.errors import DomainError, ParameterError
from dither.planning.table_streams import is_column
from dither.questions.question import Question
from dither.schema import MOST_LABELS, Schema
from dither.utility.population import Population, population

_ZIPF = re.compile(r"zipf\((?P<exponent>[0-9]*\.?[0-9]+)(?:,(?P<words>[0-9]{1,7}))?\)")
_WORDS = 100_000  # different ones, where nobody says how many
_NORMAL = re.compile(r"normal\((.+),(.+)\)")
_MOST_POINTS = 4000  # kinds of users, where several attributes are looked at together


def checked_mapping(given: Mapping[str, Any] | None, usage: str) -> dict[str, Any]:
    """A mapping as a dictionary; an empty one if there is none."""
    if given is not None and not isinstance(given, Mapping):
        raise ParameterError(usage)
    return dict(given or {})


def known_users(
    schema: Schema, asked: tuple[Question, ...], prior: Mapping[str, Any] | None
) -> dict[Question, Population]:
    """For each question the users that its attribute's prior describes; one object for equal descriptions."""
    prior = checked_mapping(
        prior, 'prior maps names of attributes to what is known, as in prior={"age": "normal(40, 15)"}'
    )
    _refuse_unknown(schema, prior)
    _refuse_unused(asked, prior)
    made: dict[Any, Population] = {}
    known = {}
    for each in asked:
        if not each.has_prior or not all(name in prior for name in each.names):
            continue
        if len(each.columns) > 1:
            if each.together not in made:
                made[each.together] = _unrelated(each, prior)
            known[each] = made[each.together]
        else:
            about = prior[each.name]
            # Questions that one report answers are about the same values.
            key = (each.statistic, each.attribute, about) if isinstance(about, str) else each.together
            if key not in made:
                made[key] = _users_like(each, about)
            known[each] = made[key]
    return known


def _refuse_unused(asked: tuple[Question, ...], prior: dict[str, Any]) -> None:
    """A prior of an attribute that only ranges, tables or conditions are asked of: they are predicted without it."""
    used = {name for each in asked if each.has_prior for name in each.names}
    for each in asked:
        unused = [name for name in each.names if name in prior and name not in used]
        if unused:
            raise ParameterError(
                f"the prior of attribute {unused[0]} would change nothing: it is asked by {each} alone, whose error "
                "is predicted for any data; leave that prior out"
            )


def _refuse_unknown(schema: Schema, prior: Mapping[str, Any]) -> None:
    """Refuse what is said of no attribute."""
    unknown = [name for name in prior if name not in schema]
    if unknown:
        raise ParameterError(f"prior speaks of {unknown[0]}, which is no attribute; there are {', '.join(schema)}")


def _users_like(question: Question, prior: Any) -> Population:
    """What a mechanism for this question is given by users like these, and how often."""
    try:
        return _users(question, prior)
    except (ParameterError, DomainError) as error:
        reason = str(error)
    raise ParameterError(
        f"the prior of attribute {question.name}: {reason.removeprefix(f'attribute {question.name}, ')}"
    )


def _unrelated(question: Question, prior: Mapping[str, Any]) -> Population:
    """Users with the priors of all its attributes, which have nothing to do with each other."""
    columns: Any = question.columns  # each a question about one attribute
    each_of = [_users_like(column, prior[column.name]) for column in columns]
    labelled = [column.domain.kind == CATEGORIES for column in columns]
    few = [_merged(users) if labels else users for users, labels in zip(each_of, labelled, strict=True)]
    left = _MOST_POINTS / prod(len(users.values) for users, labels in zip(few, labelled, strict=True) if labels)
    points = max(1, int(left ** (1 / max(1, labelled.count(False)))))
    few = [users if labels else _thinned(users, points) for users, labels in zip(few, labelled, strict=True)]
    grids = np.meshgrid(*(np.arange(len(users.values)) for users in few), indexing="ij")
    values = [users.values[grid.reshape(-1)] for users, grid in zip(few, grids, strict=True)]
    weights = np.prod([users.weights[grid.reshape(-1)] for users, grid in zip(few, grids, strict=True)], axis=0)
    return Population(question.join(values), weights)


def _merged(users: Population) -> Population:
    """Each category once."""
    shares = np.bincount(users.values, weights=users.weights).astype(np.float64)
    held = np.flatnonzero(shares)
    return Population(held, shares[held])


def _thinned(users: Population, count: int) -> Population:
    """At most so many numbers that stand for all: the means of groups of equal weight."""
    if len(users.values) <= count:
        return users
    order = np.argsort(users.values, kind="stable")
    values, weights = users.values[order], users.weights[order]
    ends = np.cumsum(weights)
    group = np.minimum(((ends - weights / 2) / ends[-1] * count).astype(np.int64), count - 1)
    total = np.bincount(group, weights=weights, minlength=count).astype(np.float64)
    sums = np.bincount(group, weights=weights * values, minlength=count)
    kept = total > 0
    return Population(sums[kept] / total[kept], total[kept].astype(np.float64))


def _advice(question: Question) -> str:
    attribute = question.attribute
    if attribute.kind == "keyvalue":
        return "give the vectors of some users, as a list of dictionaries, or a pair (vectors, weights)"
    if attribute.kind == "text":
        return 'give texts, a mapping from text to share, or "zipf(1.0, 50_000)": an exponent and a number of words'
    if attribute.kind == "categorical":
        return 'give values, a mapping from label to share, "uniform" or "zipf(1.1)"'
    middle, spread = attribute.centre, attribute.half_width / 3
    return (
        'give values, a pair (values, weights), a mapping from value to share, a histogram (counts, edges), "uniform", '
        '"beta(5, 2)" over the domain, '
        f'or in its own units "normal({middle:g}, {spread:g})", whose second number, the spread, is above 0'
    )


def _users(question: Question, prior: Any) -> Population:
    attribute = question.attribute
    if isinstance(prior, str):
        try:
            return _named(question, prior)
        except (ParameterError, DomainError):
            raise ParameterError(_advice(question)) from None
    if isinstance(prior, Mapping):
        values, weights = list(prior), list(prior.values())
        if attribute.kind == "keyvalue":
            raise ParameterError(_advice(question))
        if attribute.kind == "categorical" and not set(values) <= set(attribute.labels):
            raise ParameterError("one of its labels is not a label of the attribute")
    elif isinstance(prior, tuple) and len(prior) == 2 and all(map(is_column, prior)):
        values, weights = prior
        edges = real_array(weights)
        if attribute.kind in ("numeric", "ordinal") and edges is not None and len(edges) == len(values) + 1:
            edges = (edges - attribute.centre) / attribute.half_width  # a histogram, in units
            return _in_units(question, population(UnitInterval(), (values, edges)))
    elif is_column(prior):
        values, weights = prior, None
    else:
        raise ParameterError(_advice(question))
    encoded = question.encode(values)
    return population(question.domain, encoded, weights)


def _named(question: Question, text: str) -> Population:
    attribute = question.attribute
    if attribute.kind == "keyvalue":
        raise ParameterError(_advice(question))
    if attribute.kind == "text":
        return _zipf_words(question, text)
    if attribute.kind == "categorical" or (text.startswith("zipf") and question.shape):
        return population(question.domain, text)
    normal = _NORMAL.fullmatch(text.strip().lower().replace(" ", ""))
    if normal:
        try:
            mean, spread = (float(number.replace("_", "")) for number in normal.groups())
        except ValueError:
            mean = spread = float("nan")
        text = f"normal({(mean - attribute.centre) / attribute.half_width!r}, {spread / attribute.half_width!r})"
    return _in_units(question, population(UnitInterval(), text))


def _zipf_words(question: Question, text: str) -> Population:
    """Words of which only the shares are known: they are words without codes."""
    domain: Any = question.domain
    said = _ZIPF.fullmatch(text.strip().lower().replace(" ", "").replace("_", ""))
    if said is None or not 1 <= int(said["words"] or _WORDS) <= MOST_LABELS:
        raise ParameterError(_advice(question))
    shares = np.arange(1, int(said["words"] or _WORDS) + 1) ** -float(said["exponent"])
    return Population(np.zeros(len(shares), dtype=domain.dtype), shares / shares.sum())


def _in_units(question: Question, users: Population) -> Population:
    """Numbers from -1 to 1 as values of the attribute, and from there as what its mechanism takes."""
    attribute = question.attribute
    values = np.clip(attribute.numeric().decode(users.values), attribute.low, attribute.high)
    if attribute.kind == "ordinal":
        values = np.rint(values)
    return Population(question.encode(values), users.weights)
