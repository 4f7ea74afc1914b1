"""How a ranking is asked for: `top(films, 10)` of keys, `top(word, 20, 0.001)` of words.

Behind the name of the attribute come numbers, which may be left out; names may hold commas themselves.
"""

from typing import Any

from dither.errors import ParameterError
from dither.questions.question import Question
from dither.schema import Schema


def name_and_numbers(schema: Schema, inside: str) -> tuple[str, tuple[str, ...]]:
    """The longest name of an attribute in what stands between the brackets, and what comes behind it.

    >>> from dither.schema import KeyValue
    >>> schema = Schema({"films": KeyValue(keys=4, size=2)})
    >>> name_and_numbers(schema, " films , 3"), name_and_numbers(schema, "songs, 3")
    (('films', ('3',)), ('songs, 3', ()))
    """
    parts = inside.split(",")
    for end in range(len(parts), 0, -1):
        name = ",".join(parts[:end]).strip()
        if name in schema:
            return name, tuple(part.strip() for part in parts[end:])
    return inside.strip(), ()


def means_the_same(question: Question[Any], text: str) -> bool:
    """Whether a text asks for this ranking: spaces do not matter, and a missing number is the usual one."""
    statistic, bracket, rest = text.strip().partition("(")
    if statistic.strip() != question.statistic or not bracket or not rest.endswith(")"):
        return False
    try:
        return question.read(Schema({question.name: question.attribute}), rest.removesuffix(")")) == question
    except ParameterError:  # it asks for what there is not
        return False
