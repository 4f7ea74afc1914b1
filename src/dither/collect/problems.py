"""Problem documents: what went wrong, in a form that programs read too (`application/problem+json`, RFC 9457).

Every refusal of the service is one of these. `type` is a word that stays the same for programs, `title` says it in
general, `detail` what to do in this case. None of them quotes what was sent.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

CONTENT_TYPE = b"application/problem+json"
_TYPES = "tag:dither,2026:problem:"


class Problem(NamedTuple):
    """A kind of problem: its status, and what it is in general."""

    status: int
    title: str


PROBLEMS: Mapping[str, Problem] = {
    "malformed": Problem(400, "These bytes are no batch of reports"),
    "bad-request": Problem(400, "The request was not understood"),
    "no-key": Problem(400, "The request has no idempotency key"),
    "no-token": Problem(401, "A token is needed"),
    "bad-token": Problem(401, "This token is not known here"),
    "expired-token": Problem(401, "This token has expired"),
    "revoked-token": Problem(401, "This token was revoked"),
    "wrong-role": Problem(403, "This token is for something else"),
    "unknown-plan": Problem(404, "No such plan is collected here"),
    "not-found": Problem(404, "There is nothing here"),
    "method": Problem(405, "This method is not allowed here"),
    "timeout": Problem(408, "The request took too long to arrive"),
    "conflict": Problem(409, "This idempotency key was used for another batch"),
    "closed": Problem(410, "This campaign takes no reports any more"),
    "too-large": Problem(413, "The request is too large"),
    "content-type": Problem(415, "This content type is not taken here"),
    "unknown-version": Problem(422, "This batch is of another version of the format"),
    "another-plan": Problem(422, "This batch was made for another plan"),
    "another-round": Problem(422, "This batch is of a round that the plan does not have"),
    "truncated": Problem(422, "This batch is not whole"),
    "trailing-bytes": Problem(422, "This batch goes on behind its end"),
    "rejected": Problem(422, "No report of this batch is acceptable"),
    "shuffler-needed": Problem(422, "Reports of this plan go through a shuffler"),
    "unknown-key": Problem(422, "This report is sealed to a key that is not in use"),
    "few-users": Problem(422, "A message of many users has too few of them"),
    "refused": Problem(422, "This cannot be answered"),
    "rate": Problem(429, "Too many requests"),
    "failure": Problem(500, "The service failed"),
    "collector": Problem(503, "The collector does not answer"),
    "busy": Problem(503, "The service is busy"),
    "store": Problem(503, "Nothing can be stored at the moment"),
}


def document(kind: str, detail: str, **more: Any) -> tuple[int, bytes]:
    """The status and the body of a problem.

    >>> document("no-key", "send the header Idempotency-Key")[0]
    400
    """
    problem = PROBLEMS[kind]
    told = {"type": _TYPES + kind, "title": problem.title, "status": problem.status, "detail": detail, **more}
    return problem.status, json.dumps(told).encode()


class ProblemError(Exception):
    """Ends a request with a problem document; what is given beside becomes a member of it."""

    def __init__(self, kind: str, detail: str, **more: Any) -> None:
        self.kind, self.detail, self.more = kind, detail, more
        super().__init__(kind)
