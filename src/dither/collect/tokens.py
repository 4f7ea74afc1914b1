"""Tokens: who may send reports, and who may read results.

A token is a long random text that somebody holds; the store has its SHA-256, so whoever reads the store cannot use it.
A random text needs no slow hash: there is nothing to guess. A token is for one role (`client`, `analyst` or
`shuffler`), for one campaign or for all. It may expire, and it can be revoked, which collectors know within a second. A
campaign with a token for clients takes reports from those alone, also when all of them were revoked; without one it
takes them from everybody. Results need an analyst's token always.

Comparing takes the same time whatever was sent: every digest that is known is compared, each in constant time.
"""

import hashlib
import hmac
from collections.abc import Iterable

from dither.collect.store import REVOKED, Token
from dither.core.randomness import token as random_text
from dither.errors import ParameterError

SHORTEST = 16  # characters of a token that somebody chose
_NAME_LETTERS = 12


def new_token() -> str:
    """A token of 256 random bits."""
    return random_text(32)


def token_digest(text: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(text.encode()).digest()


def token_name(digest: bytes) -> str:
    """What a token is called in lists and in the log of queries."""
    return digest.hex()[:_NAME_LETTERS]


def checked_token(text: str) -> str:
    """A token from a file, long enough."""
    if len(text) < SHORTEST or not text.isascii() or not text.isprintable() or " " in text:
        raise ParameterError(f"a token is {SHORTEST} or more letters and digits on a line of its own")
    return text


class TokenBook:
    """The tokens that are known at this time."""

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self.tokens = tuple(tokens)
        self._needed = {(token.role, token.campaign) for token in self.tokens}

    def needs(self, role: str, campaign: int) -> bool:
        """Whether only those with a token for a role may do what it is for: as soon as there is such a token."""
        return (role, campaign) in self._needed or (role, None) in self._needed

    def refusal(self, authorization: bytes | None, role: str, campaign: int, now: float) -> tuple[str, bytes | None]:
        """Why a request with this header may not do it, as a kind of problem, or nothing; and whose token it is."""
        if authorization is None or authorization[:7].lower() != b"bearer ":
            return "no-token", None
        digest = hashlib.sha256(authorization[7:].strip()).digest()
        found = None
        for token in self.tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        if found is None:
            return "bad-token", None
        if found.expires == REVOKED:
            return "revoked-token", digest
        if found.expires is not None and now >= found.expires:
            return "expired-token", digest
        if found.role != role or found.campaign not in (None, campaign):
            return "wrong-role", digest
        return "", digest
