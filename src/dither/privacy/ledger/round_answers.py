"""What a device sends in the rounds of a plan, and what it keeps for that (`core.schedule` has the three modes).

For each part of the plan that the device answers, the ledger keeps a `RoundAnswer`. All that is looked at to decide
whether something is sent is public: the number of the round, the draws, and which rounds were asked for before.

- `one`: the round that was drawn at the first contact. Asked in it, the device reports; asked in any other, it sends
  nothing. Asked again in its round, it repeats itself.
- `fresh`: in a later round than any before, a fresh draw of questions and fresh reports. Otherwise what was sent last.
- `kept`: in a later round than any before, a report from the kept response. If the value is another than the response
  was made for, and there are responses left, a new one is drawn first. Within a round the value is looked at once.

Rounds go forward. So no round gives two different reports, and one that was missed stays missed.
"""

from collections.abc import Callable, Mapping

import msgspec

from dither.core.randomness import Stream
from dither.core.schedule import FRESH, ONE, Schedule
from dither.privacy.ledger.prompt import Prompt, canonical
from dither.privacy.ledger.store import Answer

ROUNDS = "rounds"  # the kind of such a reservation: all rounds of a plan together

Digest = Callable[[str, bytes], bytes]  # of a part and what its response was made for


class RoundAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The last report to a question, or the one that will be made, and the response that it is made from."""

    number: int  # of its round
    report: bytes = b""
    response: bytes = b""
    made_for: bytes = b""  # a digest
    responses: int = 0  # drawn so far

    def stored(self) -> Answer:
        """As the file of a ledger holds it: charged as soon as there is a report, once for all rounds."""
        return Answer(1 if self.report else 0, b"", msgspec.msgpack.encode(self))

    @classmethod
    def read(cls, answer: Answer) -> "RoundAnswer":
        """The inverse."""
        return msgspec.msgpack.decode(answer.report, type=cls)


def answered(
    schedule: Schedule, before: Mapping[str, RoundAnswer], prompt: Prompt, number: int, digest: Digest
) -> dict[str, RoundAnswer]:
    """What is kept once the round with this number has been asked for."""
    if schedule.mode == ONE:
        turn = int(Stream.secure().below(schedule.rounds, 1)[0])
        after = dict(before or {part: RoundAnswer(turn) for part in prompt.drawn})
        due = [part for part, answer in after.items() if answer.number == number and not answer.report]
        return {**after, **{part: RoundAnswer(number, prompt.fresh(part)) for part in due}}
    if before and number <= max(answer.number for answer in before.values()):
        return dict(before)
    if schedule.mode == FRESH:
        return {**before, **{part: RoundAnswer(number, prompt.fresh(part)) for part in prompt.drawn}}
    kept = before or {part: RoundAnswer(-1) for part in prompt.drawn}
    return {part: _from_memory(schedule, answer, prompt, part, number, digest) for part, answer in kept.items()}


def _from_memory(
    schedule: Schedule, answer: RoundAnswer, prompt: Prompt, part: str, number: int, digest: Digest
) -> RoundAnswer:
    made_for = digest(part, canonical(prompt.values[part]))
    changed = made_for != answer.made_for and answer.responses < schedule.responses
    response = prompt.response(part) if changed else answer.response
    drawn = answer.responses + changed
    return RoundAnswer(number, prompt.said(part, response), response, made_for if changed else answer.made_for, drawn)


def sent(schedule: Schedule, answers: Mapping[str, RoundAnswer], number: int) -> dict[str, bytes]:
    """The reports that are sent in the round with this number; none from a device that drew another."""
    if not answers:
        return {}
    last = number if schedule.mode == ONE else max(answer.number for answer in answers.values())
    return {part: answer.report for part, answer in answers.items() if answer.number == last and answer.report}
