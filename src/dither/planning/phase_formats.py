"""What a file holds of the phases of a plan (`planning.phases`)."""

from typing import Annotated, Any

import msgspec

from dither.core.decoding import MOST_WHOLE

Users = Annotated[int, msgspec.Meta(ge=1, le=MOST_WHOLE)]


class PhasesFormat(msgspec.Struct, forbid_unknown_fields=True):
    users: Annotated[list[Users], msgspec.Meta(min_length=2, max_length=2)]
    ask: list[str] = []
    options: dict[str, Any] = {}


class AfterFormat(msgspec.Struct, forbid_unknown_fields=True):
    plan: dict[str, Any]
    tally: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
