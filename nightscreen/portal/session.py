"""What the portal knows about a browser: a random word in a cookie, and the last message it showed.

The word ties a redirect to the browser that started it; it identifies no person. Both are signed,
because the message becomes part of a page, and a word that somebody else set must not count.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from typing import TYPE_CHECKING, Any

from nightscreen.operations.consents.links import Signing
from nightscreen.schemas.clock import MICROS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from nightscreen.journal import Journal
    from nightscreen.portal.config import PortalConfig

WORD_S = 3600
TOLD_S = 900
_WORD = re.compile(r"[A-Za-z0-9_-]{22}")
_WORD_BYTES = 16


class Browsers:
    """Reads and sets cookies."""

    def __init__(self, journal: Journal, place: PortalConfig) -> None:
        prefix = "__Host-" if place.is_secure else ""
        self._word = f"{prefix}nightscreen"
        self._told = f"{prefix}nightscreen-told"
        self._secure = place.is_secure
        self._clock = journal.clock
        self._tellings = Signing(journal, "told")
        self._words = Signing(journal, "browser")

    def word(self, request: Request) -> str | None:
        """Return the word that identifies this browser; None if it sent no valid one."""
        word = self._words.verified(request.cookies.get(self._word, ""))
        return word if word and _WORD.fullmatch(word) else None

    def word_or_new(self, request: Request) -> str:
        """Return the browser's word, or one it does not have yet."""
        return self.word(request) or secrets.token_urlsafe(_WORD_BYTES)

    def remember(self, response: Response, word: str) -> None:
        """Have a browser keep its word for an hour from now."""
        self._set(response, self._word, self._words.sign(word), WORD_S)

    def set_message(self, response: Response, message: dict[str, Any]) -> None:
        """Have a browser keep what the next page is to say."""
        plain = json.dumps({**message, "at": self._clock()}, sort_keys=True).encode()
        signed = self._tellings.sign(base64.urlsafe_b64encode(plain).decode("ascii"))
        self._set(response, self._told, signed, TOLD_S)

    def last_message(self, request: Request) -> dict[str, Any] | None:
        """Return the last message shown to this browser; None if there was none."""
        text = self._tellings.verified(request.cookies.get(self._told, ""))
        if text is None:
            return None
        message: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text))
        return message if self._clock() - message.pop("at") < TOLD_S * MICROS else None

    def _set(self, response: Response, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            name,
            value,
            max_age=seconds,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="lax",
        )
