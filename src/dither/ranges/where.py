"""Queries in the words of SQL: what could stand behind WHERE, as a mapping for `Queries.of`.

`age between 20 and 40 and job in ('nurse', 'driver')`. A query is a box: a set of values for each attribute that it
restricts. So what is read here is exactly what makes a box:

- conditions on one attribute: `=`, `<>`, `<`, `<=`, `>`, `>=` from either side, `between`, `in`, with `not` or without;
- `and` between conditions; on the same attribute they intersect;
- `or` between conditions on the *same* attribute, which is again a set of its values. Between different attributes
  it is no box, and refused: two queries, and the one that satisfies both, give the answer by addition.

`not` is moved inwards first (not (A or B) is not A and not B). Of whole numbers, `age > 20.5` begins at 21. Of
continuous ones `<` and `<=` are the same for answers about ranges, which cannot tell them apart. An end may
lie just beyond the values (`age < 100` where they end at 99), and no further: it would be a slip, such as thousands in
place of units.

**Text is never run.** sqlglot cuts it into words. Only the few words above, names, numbers and quoted texts may pass,
and they are written anew with every name in quotes before sqlglot parses them: its grammar of functions, types and
commands, parts of which take exponential time, is out of reach, and an attribute may be called `date` or `show`.
Nesting is limited, and so is the length, far above any list of values: the time is linear in it.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from dither.core.checks import is_real
from dither.errors import ParameterError, require
from dither.ranges.axes import GRAMMAR, AnyOf, Axes, Axis, Pieces, complement, listed, union, value_text

LONGEST = 2_000_000  # characters: a hundred thousand conditions
DEEPEST = 20  # brackets, or signs, inside each other

_ALLOWED = (
    "a query joins conditions on attributes by and; each compares one attribute with values by =, <>, <, <=, >, >=, "
    "between or in, and those on the same attribute may be joined by or"
)
_SYMBOLS = {
    "EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=",
    "L_PAREN": "(", "R_PAREN": ")", "COMMA": ",", "DOT": ".", "DASH": "-", "PLUS": "+",
    "AND": "and", "OR": "or", "NOT": "not", "IN": "in", "BETWEEN": "between",
}  # fmt: skip
_BEFORE_BRACKETS = {"=", "<>", "<", "<=", ">", ">=", "(", ",", "-", "+", *GRAMMAR}
_NAMED = {
    "a test for null (every user has a value)": ("is", "isnull", "notnull", "null", "is not"),
    "a pattern": ("like", "ilike", "rlike", "glob", "similar to", "regexp", "~", "escape"),
    "arithmetic": ("*", "/", "%", "||", "|", "&", "^", "//", "div"),
    "a subquery": ("select", "exists", "from", "any", "all", "some", "union", "with"),
    "a placeholder": ("?", ":", "@", "$", "{", "}"),
    "true or false": ("true", "false"),
    "a second statement": (";",),
}
_UNSUPPORTED = {word: what for what, words in _NAMED.items() for word in words}
_MIRRORED = {"LT": "GT", "LTE": "GTE", "GT": "LT", "GTE": "LTE", "EQ": "EQ", "NEQ": "NEQ"}

Box = dict[int, Pieces]


def parse(axes: Axes, text: str) -> Mapping[Any, Any]:
    """One query from text, as a mapping for `Queries.of`.

    >>> from dither.schema import Categorical, Ordinal, Schema
    >>> schema = Schema({"age": Ordinal(0, 99), "job": Categorical(["nurse", "driver", "other"])})
    >>> parse(Axes.of_schema(schema), "20 <= age and age < 41 and job <> 'other'")
    {'age': (20, 40), 'job': ['nurse', 'driver']}
    >>> parse(Axes.of_schema(schema), "age < 20 or age > 60")
    {'age': AnyOf(ranges=((None, 19), (61, None)))}
    """
    box = parse_box(axes, text)
    return {axes.key(j): _wanted(axes[j], box[j]) for j in sorted(box)}


def parse_box(axes: Axes, text: str) -> Box:
    """One query from text, as the pieces of each attribute that it restricts.

    Of continuous attributes that are `exact` an end is so to the last bit: values up to 30 and 30 itself end at the
    next number above 30. So `<` and `<=` differ, for users whose values are exactly there.
    """
    if not isinstance(text, str):
        raise ParameterError(f"a query is a text, as in 'age between 20 and 40', not {type(text).__name__}")
    if len(text) > LONGEST:
        raise ParameterError(f"the text of a query has at most {LONGEST:,} characters, not {len(text):,}")
    try:
        box = _box(axes, _parsed(_written_anew(axes, text)), negated=False)
    except RecursionError:
        raise _too_deep() from None
    for j, pieces in box.items():
        if not pieces or all(axes[j].narrow(*piece) for piece in pieces):
            raise ParameterError(f"no value of {axes.names[j]} satisfies all conditions on it: {value_text(text)}")
    return box


def _refused(what: str) -> ParameterError:
    return ParameterError(f"{what} is not supported: {_ALLOWED}")


def _too_deep() -> ParameterError:
    return ParameterError(f"the query has too many brackets or signs inside each other: at most {DEEPEST} are read")


# Words ---------------------------------------------------------------------------------------------------------


def _written_anew(axes: Axes, text: str) -> str:
    """The same query with all names in quotes; words that have no place in one are refused."""
    words: list[str] = []
    depth = signs = 0
    for token in _tokens(text):
        word = _word(axes, token)
        if word == "(" and words and words[-1] not in _BEFORE_BRACKETS:
            raise _refused(f"the function {words[-1]}(...)" if words[-1][0] == '"' else f"a bracket after {words[-1]}")
        depth += (word == "(") - (word == ")")
        signs = signs + 1 if word in ("not", "-", "+") else 0
        if max(depth, signs) > DEEPEST:
            raise _too_deep()
        if words and words[-1] == ".":
            words[-1] = _fraction(word)
        else:
            words.append(word)
    if not words:
        raise ParameterError("the text of the query is empty; write a condition, as in 'age between 20 and 40'")
    return " ".join(words)


def _fraction(word: str) -> str:
    """What follows a dot: digits, as in .5, which sqlglot cuts in two."""
    if not word[0].isdigit():
        raise _refused(f"the name of a table (before .{word})")
    return "0." + word


def _tokens(text: str) -> list[Any]:
    tokens = _guarded(lambda: require("sqlglot", "query").tokenize("( " + text))
    return tokens[1:]  # the bracket only stands there so that no first word is taken for a command


def _word(axes: Axes, token: Any) -> str:
    kind, text = token.token_type.name, token.text
    if kind in _SYMBOLS:
        return _SYMBOLS[kind]
    if kind == "STRING":
        return "'" + text.replace("'", "''") + "'"
    if kind == "NUMBER":
        return text
    if kind in ("VAR", "IDENTIFIER") or axes.called(text):
        return '"' + text.replace('"', '""') + '"'
    what = _UNSUPPORTED.get(text.lower())
    raise _refused(f"{what} ({text})" if what else value_text(text))


def _guarded(work: Callable[[], Any]) -> Any:
    """What sqlglot makes of a text; whatever it stumbles over, the text is what is wrong."""
    try:
        return work()
    except (RecursionError, ImportError):
        raise
    except Exception:  # its own errors, which quote the query as it was written anew, and those that it did not foresee
        raise ParameterError(
            f"the query cannot be read as SQL: {_ALLOWED}. Texts stand in 'single quotes', names with spaces in "
            '"double quotes"'
        ) from None


def _parsed(text: str) -> Any:
    sqlglot = require("sqlglot", "query")
    return _guarded(lambda: sqlglot.parse_one(text, into=sqlglot.exp.Condition))


# From the tree of the text to a box ----------------------------------------------------------------------------


def _box(axes: Axes, node: Any, negated: bool) -> Box:
    """The values of each attribute for which the condition holds, or does not hold if it is negated."""
    node = _bare(node)
    kind = type(node).__name__
    if kind == "Not":
        return _box(axes, node.this, not negated)
    if kind not in ("And", "Or"):
        j, pieces = _condition(axes, node)
        return {j: complement(pieces, axes[j].ends) if negated else pieces}
    boxes = [_box(axes, part, negated) for part in _parts(node, kind)]
    return _all_of(axes, boxes) if (kind == "And") != negated else _one_of(axes, boxes)


def _bare(node: Any) -> Any:
    while type(node).__name__ == "Paren":
        node = node.this
    return node


def _parts(node: Any, kind: str) -> list[Any]:
    """What a chain of and, or of or, joins: long chains are deep trees, so without recursion."""
    parts, left = [], [node]
    while left:
        here = _bare(left.pop())
        if type(here).__name__ == kind:
            left += [here.expression, here.this]
        else:
            parts.append(here)
    return parts


def _all_of(axes: Axes, boxes: list[Box]) -> Box:
    """Values that are in every box: those that no complement holds."""
    outside: Box = {}
    for box in boxes:
        for j, pieces in box.items():
            outside.setdefault(j, []).extend(complement(pieces, axes[j].ends))
    return {j: complement(union(pieces), axes[j].ends) for j, pieces in outside.items()}


def _one_of(axes: Axes, boxes: list[Box]) -> Box:
    found = {j for box in boxes for j in box}
    if len(found) > 1:
        raise ParameterError(
            f"or between different attributes ({listed([axes.names[j] for j in sorted(found)])}) is not supported: "
            f"{_ALLOWED}. Ask for A, B, and A and B: the share of A or B is A + B - (A and B)"
        )
    return {j: union([piece for box in boxes for piece in box[j]]) for j in found}


# One condition -------------------------------------------------------------------------------------------------


def _condition(axes: Axes, node: Any) -> tuple[int, Pieces]:
    """The attribute of one condition, and the values for which it holds."""
    kind = type(node).__name__
    if kind == "Between" and not node.args.get("symmetric"):
        j = _attribute(axes, node.this, node)
        return j, _between(axes[j], _value(axes[j], node.args["low"]), _value(axes[j], node.args["high"]))
    if kind == "In" and node.args.get("expressions"):
        j = _attribute(axes, node.this, node)
        return j, union([axes[j].point(_value(axes[j], each)) for each in node.args["expressions"]])
    if kind in _MIRRORED:
        return _comparison(axes, node, kind)
    if kind == "In":
        raise _refused(f"{_text(node)} (in takes values in brackets)")
    raise _strange(node)


def _comparison(axes: Axes, node: Any, kind: str) -> tuple[int, Pieces]:
    left, right = _bare(node.this), _bare(node.expression)
    for side in (left, right):
        if type(side).__name__ in _MIRRORED:
            raise _refused(f"a chain of comparisons ({_text(node)}; write it as two, joined by and)")
    if type(left).__name__ != "Column" and type(right).__name__ == "Column":
        left, right, kind = right, left, _MIRRORED[kind]
    j = _attribute(axes, left, node)
    return j, _compared(axes[j], kind, _value(axes[j], right))


def _attribute(axes: Axes, node: Any, whole: Any) -> int:
    node = _bare(node)
    if type(node).__name__ == "Literal":
        raise _refused(f"a condition without an attribute ({_text(whole)})")
    if type(node).__name__ != "Column":
        raise _strange(node)
    found = axes.called(node.name)
    if len(found) > 1:
        names = listed([axes.names[j] for j in found])
        raise ParameterError(f"{value_text(node.name)} may be any of {names}; write it as the attribute is written")
    return found[0] if found else axes.index(node.name)


def _value(axis: Axis, node: Any) -> Any:
    """A number or a text that an attribute is compared with."""
    node, sign = _bare(node), 1
    while type(node).__name__ == "Neg":
        node, sign = _bare(node.this), -sign
    kind = type(node).__name__
    if kind == "Column":
        raise _refused(f"comparing {axis.name} with {_text(node)} (a text stands in 'single quotes')")
    if kind != "Literal":
        raise _strange(node)
    if node.is_string:
        if sign < 0:
            raise _refused(f"arithmetic ({_text(node)} with a sign)")
        return node.this
    return sign * _read_number(node.this)


def _read_number(text: str) -> int | float:
    try:
        return int(text) if text.isdecimal() and len(text) < 20 else float(text)
    except ValueError:
        raise ParameterError(f"{value_text(text)} is not a number") from None


def _compared(axis: Axis, kind: str, value: Any) -> Pieces:
    """The values of an attribute that are less, equal, ... ."""
    if kind in ("EQ", "NEQ"):
        equal = [axis.point(value)]
        return equal if kind == "EQ" else complement(equal, axis.ends)
    if axis.labelled:
        raise ParameterError(f"{axis.name}: labels have no order; compare them by =, <>, in or not in")
    first, last = axis.ends
    edge = _edge(axis, value, above=kind in ("LTE", "GT"))
    return union([(first, edge) if kind in ("LT", "LTE") else (edge, last)])


def _between(axis: Axis, low: Any, high: Any) -> Pieces:
    if axis.labelled:
        raise ParameterError(f"{axis.name}: labels have no order; compare them by =, <>, in or not in")
    start, stop = _edge(axis, low, above=False), _edge(axis, high, above=True)
    if low > high:
        raise ParameterError(
            f"{axis.name}: between {value_text(low)} and {value_text(high)} is reversed; give the lower end first"
        )
    return union([(start, stop)])


def _edge(axis: Axis, value: Any, above: bool) -> Any:
    """Where the values that are at least `value` begin, or those above it; between the ends of all."""
    first, last = axis.ends
    if not is_real(value):
        raise ParameterError(f"{axis.name}: {value_text(value)} is a text; write numbers without quotes")
    edge = float(value)
    if math.isfinite(edge) and axis.whole:
        edge = math.floor(value) + 1 if above else math.ceil(value)
    if not first <= edge <= last:
        raise axis.outside(value)
    exact = (axis.exact and axis.continuous) or not (axis.continuous or axis.whole)
    return min(math.nextafter(edge, math.inf), last) if exact and above else edge


def _strange(node: Any) -> ParameterError:
    """The refusal of a part that no query has, by its name."""
    kind = type(node).__name__
    if kind in ("Add", "Sub", "Mul", "Div", "Mod"):
        return _refused(f"arithmetic ({_text(node)})")
    if kind in ("Column", "Literal", "Neg"):
        return _refused(f"{_text(node)} alone, which is no condition,")
    return _refused(_text(node))


def _text(node: Any) -> str:
    """A part of the query, for a message."""
    text = str(_guarded(node.sql))
    return text if len(text) <= 60 else text[:57] + "..."


def _wanted(axis: Axis, pieces: Pieces) -> Any:
    """Pieces as `Queries.of` takes them."""
    if axis.labelled:
        chosen = [label for start, stop in pieces for label in axis.labels[start:stop]]
        return chosen if len(chosen) > 1 else chosen[0]
    first, last = axis.ends
    if axis.whole and all(stop - start == 1 for start, stop in pieces):
        return [start for start, _ in pieces] if len(pieces) > 1 else pieces[0][0]
    pieces = [piece for piece in pieces if not axis.narrow(*piece)]
    ranges = [(None if a == first else a, None if b == last else axis.before(b)) for a, b in pieces]
    return AnyOf(tuple(ranges)) if len(ranges) > 1 else ranges[0]
