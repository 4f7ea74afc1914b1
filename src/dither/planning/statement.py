"""A statement for the people who are asked: in plain words, for a privacy officer to put into a notice.

It says what is asked, what is sent, what that reveals at most, whom that depends on, for how long what is kept, and
what withdrawing means. Every sentence is true of the plan that it names by its hash, under the conditions at its end:
the numbers are those of the plan's certificate, rounded up. What no plan can know (who collects, what for, for how long
reports are kept) is given, or is left as a blank that is clearly marked, and listed.

`Statement` is a plain value, which is text, Markdown or a page (`page.statement_page`).
"""

import html
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dither.core.atomic_write import write_text
from dither.core.exact import upward
from dither.core.guarantee import Guarantee
from dither.core.registry import Registry
from dither.errors import ParameterError
from dither.planning.budgets import regions_in_words
from dither.planning.groups import BUDGET
from dither.planning.rounds_in_words import CONDITION, KEPT_ON_DEVICE, rounds_stated, same_times_stated
from dither.privacy.promise import chance_of_guess, promise_in_words
from dither.privacy.shuffle import bounds

if TYPE_CHECKING:
    from dither.planning.plans import Plan

TITLE = "What you are asked, and what your reports reveal"
FACTS = {
    "collector": "who collects",
    "purpose": "what the results are for",
    "contact": "whom to ask, and how",
    "keep_reports": "for how long reports are kept",
    "keep_results": "for how long sums and results are kept",
    "connection": "what is kept about the connection, such as network addresses and times, and for how long",
}
KINDS = (".md", ".txt", ".html")
BLANK = re.compile(r"\[to be filled in: [^\[\]]*\]")
SHUFFLER = "who mixes the reports"
SHUFFLED_DELTA = 1e-6  # that is stated with a shuffler
WEAK = 0.99  # how often a guess may be right before the promise is called weak

_UNITS = {"d": "day", "w": "week", "m": "month", "y": "year"}
_DURATION = re.compile(r"([0-9]+) ?([dwmy])")
_MARKS = re.compile(r"([\\`*_\[\]#])")
_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")  # obeyed instead of shown
_pages: Registry[Callable[["Statement"], str]] = Registry("page", {"statement_page": "dither.page.statement_page"})


class Section(NamedTuple):
    """A heading, what stands under it, a list, and what stands behind that."""

    heading: str
    paragraphs: tuple[str, ...]
    items: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()

    def shown(self) -> "Section":
        """Without letters that a terminal or a page obeys, such as one that turns the direction of what follows.

        Names and labels may hold them, and would change how the sentences around them are read.
        """
        told = (tuple(_COMMANDS.sub("\ufffd", " ".join(line.split())) for line in lines) for lines in self[1:])
        return Section(self.heading, *told)


@dataclass(frozen=True)
class Statement:
    """What the people who are asked should know, in plain words."""

    title: str
    sections: tuple[Section, ...]
    guarantee: Guarantee
    plan: str  # its hash
    blanks: Mapping[str, str]  # what is still to be filled in: the argument that does, and what it is

    def text(self, width: int = 80) -> str:
        """Plain text, for a terminal or a letter."""
        lines = [self.title, "=" * len(self.title)]
        for section in self.sections:
            lines += ["", section.heading, "-" * len(section.heading)]
            lines += [each for told in section.paragraphs for each in (*textwrap.wrap(told, width), "")]
            for item in section.items:
                lines += textwrap.wrap(item, width, initial_indent="  - ", subsequent_indent="    ")
            lines += [""] if section.items else []
            lines += [each for told in section.closing for each in (*textwrap.wrap(told, width), "")]
            lines.pop()
        return "\n".join(lines)

    def markdown(self) -> str:
        """Markdown, for a notice; names and labels cannot add any marks of their own."""
        parts = [f"# {_plain(self.title)}"]
        for section in self.sections:
            parts.append(f"## {_plain(section.heading)}")
            parts += map(_plain, section.paragraphs)
            parts += ["\n".join(f"- {_plain(item)}" for item in section.items)] if section.items else []
            parts += map(_plain, section.closing)
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """One page, which needs nothing beside it."""
        return _pages["statement_page"](self)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "plan": self.plan,
            "title": self.title,
            **self.guarantee.to_dict(),
            "sections": [
                {"heading": heading, "paragraphs": [*paragraphs], "items": [*items], "closing": [*closing]}
                for heading, paragraphs, items, closing in self.sections
            ],
            "to be filled in": dict(self.blanks),
        }

    def save(self, path: str | Path) -> None:
        """Write it to a file, by its ending: .md, .txt or .html."""
        write_text(path, self.written(path))

    def written(self, path: str | Path) -> str:
        """What `save` writes to a file of this name."""
        ways = {".md": self.markdown, ".txt": lambda: self.text() + "\n", ".html": self.html}
        kind = Path(path).suffix.lower()
        if kind not in ways:
            raise ParameterError(f"a statement is written as {', '.join(KINDS)}: name the file so, as in statement.md")
        return ways[kind]()

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return self.markdown()


def _plain(text: str) -> str:
    """A text in which Markdown finds no marks; a sign, or a number with a dot, would make a list of its line."""
    escaped = html.escape(_MARKS.sub(r"\\\1", " ".join(text.split())), quote=False).replace("~", "&#126;")
    return re.sub(r"^(\d*)([-+.)])", r"\1\\\2", escaped)


# What is said --------------------------------------------------------------------------------------------------------


def statement_of(plan: "Plan", shuffler: str | None = None, **given: str | None) -> Statement:
    """The statement of a plan; `given` are `FACTS`."""
    told = {name: _in_words(name, given.get(name)) for name in FACTS}
    blanks = {name: what for name, what in FACTS.items() if not _said(given.get(name))}
    if plan.crowd is not None and not _said(shuffler):
        blanks["shuffler"] = SHUFFLER
        shuffler = f"[to be filled in: {SHUFFLER}]"
    sections = (
        Section("In short", tuple(_short(plan, told))),
        _asked(plan),
        *_in_the_clear(plan),
        _computed(plan),
        Section("What is sent", tuple(_sent(plan, told))),
        Section("What it reveals at most", tuple(_revealed(plan))),
        Section("Whom it depends on", tuple(_trusted(plan, told, shuffler))),
        Section("What is kept, and for how long", tuple(_kept(plan, told))),
        Section("What withdrawing means", tuple(_withdrawn(told))),
        _conditions(plan),
    )
    shown = tuple(section.shown() for section in sections)
    return Statement(TITLE, shown, plan.guarantee, plan.fingerprint, blanks)


def _said(fact: str | None) -> bool:
    return bool(fact and fact.strip())


def _in_words(name: str, fact: str | None) -> str:
    """A fact as it is told: 30d is 30 days; one that is not given is a blank."""
    if fact is None or not _said(fact):
        return f"[to be filled in: {FACTS[name]}]"
    told = " ".join(fact.split())
    span = _DURATION.fullmatch(told) if name.startswith("keep_") else None
    return told if span is None else f"{int(span[1]):,} {_UNITS[span[2]]}{'s' * (int(span[1]) != 1)}"


def _short(plan: "Plan", told: Mapping[str, str]) -> Iterator[str]:
    yield f"Who collects: {told['collector']}. What the results are for: {told['purpose']}."
    yield (
        "What is wanted are numbers about many people together. Your answers stay on your device. What leaves it are "
        "reports, in which chance has a hand; from those of many people such numbers can be computed."
    )
    yield f"How much yours can tell about you: {_guess(plan.guarantee)}"
    yield from same_times_stated(plan)


def _guess(guarantee: Guarantee) -> str:
    """The game of guessing."""
    _, guess, *_ = promise_in_words(guarantee)
    return guess.removeprefix("What that means: ")


def _asked(plan: "Plan") -> Section:
    asked = plan.asked_about
    missing = "; ".join(f"{name} {attribute.stand_in([None])}" for name, attribute in asked.items())
    return Section(
        "What is asked",
        ("Your device looks at these answers, and at no others:",),
        tuple(f"{name}: {attribute.in_words}." for name, attribute in asked.items()),
        (
            "Who has no answer reports too, since silence would tell something. A missing answer counts as: "
            f"{missing}. An answer that does not fit is replaced by one that does, on the device, and nobody is told.",
        ),
    )


def _in_the_clear(plan: "Plan") -> tuple[Section, ...]:
    """What a report says openly, and what people choose."""
    if not plan.groups:
        return ()
    closing = [
        "This is not hidden by anything, and the promise below is not about it: whoever sees your report knows it. It "
        "puts you into a group; within the group, the promise holds.",
    ]
    if BUDGET in plan.public:
        offered = "; ".join(f"{label}: {asked.guarantee}" for label, asked in plan.budgets.items())
        closing.append(
            f"You choose the budget, and with it how much your reports can tell: {offered}. A smaller epsilon tells "
            "less. Your choice is seen by whoever sees your report: choose before you think of your answers, so that "
            "it does not give them away."
        )
        closing += [
            f"Choose {label} only if your {regions_in_words(regions)}: with this choice your report says so openly."
            for label, regions in plan.regions.items()
            if regions
        ]
    return (
        Section(
            "What every report says openly",
            ("Your reports carry these facts as they are:",),
            tuple(f"{name}: {attribute.in_words}." for name, attribute in plan.public.items()),
            tuple(closing),
        ),
    )


def _computed(plan: "Plan") -> Section:
    found = [each.sought for question in plan.questions for each in (question, *question.beside)]
    found += [part.table.sought for part in plan.parts if part.table is not None]
    groups = f", and about those with the same {' and '.join(plan.public)}" if plan.groups else ""
    return Section(
        "What can be computed from it",
        (f"From the reports of many people, about all of them together{groups}:",),
        tuple(f"{sought}." for sought in dict.fromkeys(found)),
    )


def _sent(plan: "Plan", told: Mapping[str, str]) -> Iterator[str]:
    yield from rounds_stated(plan)
    for label, asked in plan.budgets.items():
        yield from _drawn(asked, f"Who chooses {label}: " if label else "")
    sizes = sorted(part.mechanism.dtype.itemsize for part in plan.parts)
    bytes_ = f"{sizes[0]:,}" if sizes[0] == sizes[-1] else f"{sizes[0]:,} to {sizes[-1]:,}"
    without = "no name and no time" if plan.remembers else "no name, no number of a person or a device, and no time"
    if plan.groups:
        without += f" beyond what it says openly ({', '.join(plan.public)})"
    group = ", of which group," if plan.groups else ""
    yield (
        f"A report is {bytes_} byte{'s' * (bytes_ != '1')} that chance had a hand in, and a tag that says which "
        f"plan{group} and which question it belongs to. It holds {without}."
    )
    yield (
        "Reports travel over a network, which shows where they come from and when. That is not part of them, and the "
        f"promise below is not about it: {told['connection']}."
    )
    delta = plan.guarantee.delta
    if delta:
        yield (
            "For any other answers that you might have, the probability that your device sends reports which those "
            f"answers could not have led to is at most {upward(delta)} ({_odds(delta)})."
        )
    else:
        others = "any others" if plan.schedule.moments_hidden else "any others that change at the same times"
        yield f"All that your device can send, it could also have sent had your answers been {others}."
    yield from _kept_responses(plan)


def _drawn(plan: "Plan", who: str) -> Iterator[str]:
    """Which questions a device answers, of one budget."""
    count, drawn = len(plan.parts), plan.questions_per_user
    if drawn < count:
        uneven = ", some more often than others" if len({part.weight for part in plan.parts}) > 1 else ""
        about = "one" if drawn == 1 else f"{drawn:,}"
        yield who + (
            f"Of {count:,} questions, or groups of questions, your device draws {about} by chance{uneven}, without "
            f"looking at your answers, and reports about {'that one' if drawn == 1 else 'those'} only. Which was drawn "
            "is no secret: a report shows it."
        )
    elif count > 1:
        when = " in a round" if plan.schedule.repeats else ""
        yield f"{who}Your device sends {count:,} reports{when}: one about each question, or group of questions."
    elif not plan.schedule.repeats:
        yield f"{who}Your device sends one report."


def _kept_responses(plan: "Plan") -> Iterator[str]:
    """What it means that a device may be asked again."""
    for part in plan.parts:
        if part.mechanism.remembers and not plan.schedule.repeats:
            yield (
                f"About {part.name} you may be asked again and again. Your device draws a first response by chance, "
                "keeps it, and makes every report from it with new chance. So many reports reveal no more than the "
                f"first response does: {part.mechanism.guarantee}, for all of them together; a single one: "
                f"{part.mechanism.report_guarantee}. That is so as long as the answer stays the same: each new answer "
                "needs a new first response, which costs as much again. Reports that are made from one first response "
                "are alike, or show the same hash function: whoever collects them may recognise that they come from "
                "one device; they do not say whose it is."
            )


def _odds(delta: float) -> str:
    """A probability as odds that are not below it."""
    return f"one in {int(1 / delta):,}" if delta < 1 else "always"


def _revealed(plan: "Plan") -> Iterator[str]:
    factor, _, holds, terms = promise_in_words(plan.guarantee)
    yield factor
    yield f"What that means: {_guess(plan.guarantee)}"
    yield from same_times_stated(plan)
    if len(plan.budgets) > 1:
        yield "That is so for the largest budget. For the others:"
        yield from (
            f"Who chooses {label}: {_guess(asked.guarantee)}"
            for label, asked in plan.budgets.items()
            if asked.guarantee != plan.guarantee
        )
    if chance_of_guess(plan.guarantee) > WEAK:
        yield "This promise is weak: it allows that who sees your reports is nearly always right."
    if plan.groups:
        yield f"It is not about what your report says openly: {', '.join(plan.public)}."
    if plan.questions_per_user > 1 or len(plan.asked_about) > 1:
        yield "This is about all your answers at once, and about all that your device reports with this plan together."
    for name, attribute in plan.asked_about.items():
        if attribute.kind == "keyvalue":
            yield (
                f"Of {name} it covers all of them at once: which you have, how many, the number of each, and whether "
                "you have any."
            )
    yield holds
    yield (
        "It does not hide that you take part. And what is learnt about many people may hold for you, too, whether you "
        "report or not: that is what the collection is for."
    )
    yield terms


def _trusted(plan: "Plan", told: Mapping[str, str], shuffler: str | None) -> Iterator[str]:
    yield (
        "You need not trust whoever collects. The promise holds against the collector, against whoever gets the "
        "reports from there, lawfully or not, and against all of them together: they may share all that they have, and "
        "there is nobody who must not collude. It depends on your device alone, which must make the reports as the "
        "plan says."
    )
    if not _said(shuffler):
        return
    name = " ".join(str(shuffler).split())
    yield (
        f"Reports pass through a shuffler, {name}, before they reach the collector ({told['collector']}). It takes off "
        "who sent what, and mixes the reports of all. This protects you further, on top of the promise above, if the "
        "shuffler and the collector do not collude: if the shuffler tells nobody who sent what. If they collude, the "
        "promise above still holds."
    )
    yield from _planned_crowd(plan) if plan.crowd else _crowd(plan)


def _planned_crowd(plan: "Plan") -> Iterator[str]:
    """What was planned for: a smallest batch, and what it promises."""
    crowd = plan.crowd
    assert crowd is not None
    yield (
        f"It forwards the reports of at least {crowd.batch:,} people at a time. To all who see these"
        f"{', in all rounds,' if plan.schedule.repeats else ''} and not who sent what, and if all of its people report "
        f"as the plan says: {_guess(crowd.guarantee)} In the terms of the field: {crowd.guarantee}."
    )


def _asked_alike(plan: "Plan") -> "Plan":
    """What the people of a group are asked; where they choose budgets, by the largest."""
    return max(plan.budgets.values(), key=lambda each: each.guarantee.epsilon)


def _crowd(plan: "Plan") -> Iterator[str]:
    """What hiding in a crowd adds, where a number is known for all that a user reports."""
    users = min((group.users for group in plan.groups), default=plan.users)
    who = f"{users:,} people"
    if plan.groups:
        who = f"the {users:,} people of the smallest group"
        yield "A report shows its group, so you are hidden among the people of your group alone."
    if plan.guarantee.delta or users < 2 or plan.schedule.repeats or plan.remembers:
        yield "How much further is not stated here: no number is known for all that this plan has a device report."
        return
    known = [each for each in bounds(_asked_alike(plan), users, SHUFFLED_DELTA).values() if each is not None]
    if not known:
        yield f"For {who} and this plan no number is known that says how much further."
        return
    best = min(known, key=lambda guarantee: guarantee.epsilon)
    yield (
        f"If {who} report, as planned, and all of them as the plan says: {_guess(best)} In the terms "
        f"of the field: {best}."
    )


def _kept(plan: "Plan", told: Mapping[str, str]) -> Iterator[str]:
    yield "Your answers: nobody but you has them. They are not collected, so they are not kept."
    yield f"Reports: {told['keep_reports']}."
    yield (
        "Sums over all reports, which say how many reports were of which kind and not whose, and the results that are "
        f"computed from them: {told['keep_results']}."
    )
    if plan.schedule.repeats:
        yield KEPT_ON_DEVICE
    if any(part.mechanism.remembers for part in plan.parts):
        yield (
            "Your device keeps the first responses that are told of above for as long as it reports. If they are "
            "removed, it draws new ones, and what its reports reveal adds up."
        )


def _withdrawn(told: Mapping[str, str]) -> Iterator[str]:
    yield "If you stop, your device sends no more reports."
    yield (
        "A report that is counted is part of a sum, and cannot be taken out of it: a sum does not say which reports "
        "are in it. While reports are kept, one can be deleted, and the sum be made anew without it, if it is known "
        "which is yours; the report itself does not say so."
    )
    yield (
        "Your answers themselves never left your device, so there is nothing of them to give back or to delete. What "
        "your reports can reveal stays within the promise above for ever, whatever becomes of them."
    )
    yield f"Questions, and whom to tell that you withdraw: {told['contact']}."


def _waits(plan: "Plan") -> Iterator[str]:
    if plan.crowd is not None:
        yield (
            "What is said of the shuffler holds if it mixes single reports, tells nobody who sent what, and forwards "
            f"the reports of no fewer than {plan.crowd.batch:,} people at a time"
            + (", those of each once a round, mixed anew in every round." if plan.schedule.repeats else ".")
        )


def _conditions(plan: "Plan") -> Section:
    again = (
        CONDITION
        if plan.schedule.repeats
        else "A device keeps its first responses, and makes every report from them."
        if any(part.mechanism.remembers for part in plan.parts)
        else "A device reports once with this plan; asked again, it repeats what it has sent (a ledger does)."
    )
    budget = f"epsilon {upward(plan.epsilon)}" + (f", delta {upward(plan.delta)}" if plan.delta else "")
    return Section(
        "What must hold for this to be true",
        ("This is for whoever answers for the collection.",),
        (
            "Reports are made on the devices of the people who are asked, with the plan whose hash stands below.",
            "Chance is that of the device, and is kept secret: reports that are simulated from a seed promise nothing.",
            again,
            *_waits(plan),
            *(
                [
                    "What a report says openly is public already, and is not worked out from anybody's answers"
                    + (", but for the regions that people choose to tell." if plan.narrowed else ".")
                ]
                if plan.groups
                else []
            ),
            "Other collections about the same answers are told of too: what they reveal adds up.",
            "What is said of the connection, and of how long what is kept, is done.",
        ),
        (
            f"The plan declares {budget} for all that a person reports; its certificate, computed from the whole "
            f"numbers that devices draw with, says {plan.guarantee}.",
            f"The hash of the plan is {plan.fingerprint}.",
        ),
    )
