"""The second factor: codes of an authenticator (RFC 6238), beside the password.

A secret lies sealed under the data key. A code counts once, and wrong ones are held up as wrong
passwords are. Who must have one the settings say.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b32encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from nightscreen.desk.accounts import DEVICE_S, key_of
from nightscreen.desk.context import COOKIE, DEVICE_COOKIE, DeskError, local_address
from nightscreen.journal.schema import SECOND_FACTOR
from nightscreen.schemas.clock import MICROS
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.desk.accounts import Accounts, SignInSource, User
    from nightscreen.desk.context import Context
    from nightscreen.journal import Journal

DIGITS: Final = 6
STEP_S: Final = 30
_AROUND: Final = (-1, 0, 1)
"""Steps beside the present one whose codes count: clocks of phones differ."""
_SECRET_BYTES: Final = 20
"""As long as the digest of SHA-1, which RFC 4226 recommends."""
_SLOW: Final = "Too many wrong codes came of late. Wait a quarter of an hour, then try again."
_WRONG: Final = "This code does not count: it is wrong, too old, or was used already."


def code_at(secret: bytes, step: int, digits: int = DIGITS) -> str:
    """Return the code of a step of time (RFC 6238 with SHA-1, RFC 4226 section 5.3)."""
    digest = hmac.digest(secret, step.to_bytes(8, "big"), "sha1")
    start = digest[-1] & 0xF
    number = int.from_bytes(digest[start : start + 4], "big") & 0x7FFF_FFFF
    return str(number % 10**digits).zfill(digits)


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """Keeps the secrets of users and holds codes against them.

    Attributes:
        accounts: reads and writes users.
        journal: whose key seals them.
    """

    accounts: Accounts
    journal: Journal

    def offered(self, user: User) -> str:
        """Return the secret a user is to put into an authenticator, the same until confirmed."""
        kept = self._secret(user, offered=True)
        if kept is None:
            kept = secrets.token_bytes(_SECRET_BYTES)
            sealed = self.journal.sealer.seal(kept, _context(user.name))
            self.accounts.set_second(user.name, new=sealed)
        return b32encode(kept).decode()

    def confirm(self, user: User, code: str, source: SignInSource) -> bool:
        """Take the offered secret for the user's own, where a code of it counts."""
        secret = self._secret(user, offered=True)
        if secret is None or not self._counts(user, secret, code, source):
            return False
        sealed = self.journal.sealer.seal(secret, _context(user.name))
        self.accounts.set_second(user.name, own=sealed)
        return True

    def check(self, user: User, code: str, source: SignInSource) -> bool:
        """Tell whether a code counts; it counts once."""
        secret = self._secret(user, offered=False)
        return secret is not None and self._counts(user, secret, code, source)

    def _counts(self, user: User, secret: bytes, code: str, source: SignInSource) -> bool:
        code = "".join(code.split())
        now = self.accounts.clock() // MICROS // STEP_S
        attempt = self.accounts.begin_attempt(throttled_as(user.name), source)
        if attempt is None:
            return False
        given = code.encode("utf-8", "replace")
        steps = [now + each for each in _AROUND]
        fitting = [
            step for step in steps if hmac.compare_digest(code_at(secret, step).encode(), given)
        ]
        if not fitting or not self.accounts.use_step(user.name, fitting[0]):
            return False
        self.accounts.forgive_attempt(attempt)
        return True

    def _secret(self, user: User, *, offered: bool) -> bytes | None:
        sealed = self.accounts.second_of(user.name, offered=offered)
        return None if sealed is None else self.journal.sealer.open(sealed, _context(user.name))


def throttled_as(name: str) -> str:
    """Return the name under which wrong codes of a user are counted."""
    return f"second factor of {name}"


def _context(name: str) -> bytes:
    return SECOND_FACTOR.context(key_of(name))


def second_factor(context: Context) -> Response:
    """Ask for a code at the sign-in, or let a user set the second factor up or remove it."""
    half = None if context.user else context.accounts.half_session(_cookie(context))
    user = context.user or half
    if user is None:
        return onward("/sign-in")
    if context.request.method == "GET":
        return _page(context, user)
    code, does = context.text("code", 20), context.text("do")
    factor = SecondFactor(context.accounts, context.journal)
    audit = context.audit
    if user.has_second and does == "set up":
        raise DeskError(409, "Your second factor is set up already. Remove it first.")
    source = context.source(user.name)
    if context.accounts.is_throttled(throttled_as(user.name), source):
        audit.write(user.name, "second factor throttled")
        return _page(context, user, 429, error=_SLOW)
    sets_up = not user.has_second
    if not (factor.confirm if sets_up else factor.check)(user, code, source):
        audit.write(user.name, "second factor failed")
        return _page(context, user, 401, error=_WRONG)
    if sets_up:
        context.accounts.end_others(user.name, _cookie(context))
        audit.write(user.name, "second factor set up")
    if context.user is None:
        return let_in(context, user, local_address(context.text("to", 2000)))
    if not sets_up and does == "remove":
        if user.must_have_second(context.settings.desk_second_factor):
            raise DeskError(409, "The settings want a second factor of you; it stays.")
        context.accounts.set_second(user.name)
        audit.write(user.name, "second factor removed", name=user.name)
    return onward("/second-factor")


def let_in(context: Context, user: User, to: str) -> Response:
    """Begin the session of a user of whom nothing more is wanted."""
    accounts = context.accounts
    accounts.sign_out(_cookie(context))
    context.audit.write(user.name, "signed in")
    response = onward(to)
    context.set_cookie(response, COOKIE, accounts.sign_in(user))
    device = accounts.remember_device(user.name, context.cookie(DEVICE_COOKIE))
    context.set_cookie(response, DEVICE_COOKIE, device, DEVICE_S)
    return response


def ask_for_code(context: Context, user: User, to: str) -> Response:
    """Send a user who knew the password on to the second factor; nothing else opens meanwhile."""
    response = onward("/second-factor" + (f"?to={quote(to)}" if to != "/" else ""))
    context.set_cookie(response, COOKIE, context.accounts.sign_in(user, half=True))
    return response


def _cookie(context: Context) -> str:
    return context.cookie(COOKIE)


def _page(context: Context, user: User, status: int = 200, *, error: str = "") -> Response:
    secret = ""
    if not user.has_second:
        secret = SecondFactor(context.accounts, context.journal).offered(user)
    label = quote(f"nightscreen:{user.name}")
    return context.page(
        "second_factor",
        status,
        whose=user,
        wanted=user.must_have_second(context.settings.desk_second_factor),
        secret=secret,
        otpauth=f"otpauth://totp/{label}?secret={secret}&issuer=nightscreen"
        f"&algorithm=SHA1&digits={DIGITS}&period={STEP_S}",
        to=local_address(context.text("to", 2000) or context.asked_first("to")),
        error=error,
    )
