"""Users of the desk: roles, passwords, second factor and sessions, in tables of the journal.

Secrets are kept as digests only, passwords by argon2, links and sessions by SHA-256; that of a
second factor lies sealed under the data key. What a page allows is asked by `User.may`. A user is
found by the name in small letters.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError
from pyotp import TOTP, random_base32
from sqlalchemy import delete, insert, or_, select, update

from nightscreen.files.person import same_person, user_name
from nightscreen.journal.engine import Turn, reading, recording
from nightscreen.journal.schema import (
    SECOND_FACTOR,
    devices,
    failures,
    links,
    meta,
    put_meta,
    sessions,
    users,
)
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import JournalBusyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection, Row, Select, Update

    from nightscreen.journal.storage import Storage

LINK_S = 24 * 3600
IDLE_S = 2 * 3600
"""A session without a request for this long has ended."""
SEEN_EVERY_S = 60
"""How often at most it is written down that a session goes on."""
SESSION_S = 12 * 3600
"""No session outlives a working day."""
HALF_S = 15 * 60
"""So long after the password the second factor may be given, or set up."""
SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 1024
LONGEST_NAME = 60
FAILURES_S = 15 * 60
"""Within this time wrong passwords are counted."""
FAILURES = 5
"""So many under one name from one known device, or from one address, are too many there."""
FAILURES_OF_NAME = 10
"""So many under one name, from whatever unknown devices, are too many from any of them."""
FAILURES_OF_ADDRESS = 100
"""So many from one address, under whatever names, are too many from unknown devices there."""
DEVICE_S = 180 * 24 * 3600
"""A device is known for so long after a sign-in."""
STEP_S: Final = 30
"""How long a code of an authenticator is shown (RFC 6238)."""
_AROUND: Final = (-1, 0, 1)
"""Steps beside the present one whose codes count: clocks of phones differ."""
_STRANGERS_AT_ONCE = 3
"""Of the few threads that make pages, sign-ins from unknown devices hold no more than these."""
_TOKEN_BYTES = 32
_TWO_APPROVERS: Final = "two_approvers"
"""Name in `meta` of the instant since when there were two."""
_SLOW: Final = (
    "Too many failed attempts; try again in 15 minutes, or sign in from a browser that you have "
    "signed in from before."
)
_BUSY: Final = "Many people sign in at this moment. Try again in a few seconds."
_LINK_ENDED: Final = (
    "This link was used already or has expired. Ask an administrator for another: "
    "nightscreen desk user reset NAME."
)


class HeldUpError(Exception):
    """A password or a code is not looked at now; says when it will be."""


class Role(StrEnum):
    """What a user is there for; roles add up."""

    ANALYST = "analyst"
    APPROVER = "approver"
    AUDITOR = "auditor"
    PRIVACY = "privacy"
    ADMINISTRATOR = "administrator"


_ANALYST = frozenset(
    {"runs", "people", "screen", "review", "contest", "propose", "override", "export", "money"}
)
ALLOWED: Final[dict[Role, frozenset[str]]] = {
    Role.ANALYST: _ANALYST,
    Role.APPROVER: _ANALYST | {"approvals", "approve", "policy", "sign"},
    Role.AUDITOR: frozenset({"runs", "people", "approvals", "audit", "money"}),
    Role.PRIVACY: frozenset({"runs", "people", "contest"}),
    Role.ADMINISTRATOR: frozenset({"users"}),
}
"""What each role may do or see."""
_EVERYTHING: Final = frozenset({"settle"}).union(*ALLOWED.values())
RIGHTS: Final = ("money", "policy", "override", "sign", "export")
"""What can be given to or taken from a user whatever the roles say."""
SECOND_PERSON: Final = frozenset({"approve", "policy", "override"})
"""Rights by which somebody agrees to what another asked for; they sleep until another confirms."""
UNTIL_CONFIRMED: Final = 2**62
RESET_SLEEP_S: Final = 24 * 3600
"""So long the rights of a user sleep who was reset at the host; others see it meanwhile."""
SHOWN_S: Final = 7 * 24 * 3600
"""So long everybody is shown that rights were given without a second person."""


@dataclass(frozen=True, slots=True)
class User:
    """Who is signed in.

    Attributes:
        name: as it was given when the user was made.
        roles: what the user is there for.
        rights: rights given (True) or taken (False) beside the roles.
        has_password: a password was set; until then only a link signs in.
        branches: whose customers alone the user sees; empty for all.
        has_second: a second factor is set up, and asked for beside the password.
        asleep_until: until when the rights of `SECOND_PERSON` sleep; 0 where they are awake,
            `UNTIL_CONFIRMED` where an approver must confirm them.
        asleep: they sleep now.
        link_known_to: who could sign in as this user, or gave the rights: none of them confirms.
        alone_at: when somebody gave such rights without a second person; None where nobody did.
        alone_by: who that was.
    """

    name: str
    roles: tuple[Role, ...]
    rights: dict[str, bool]
    has_password: bool = True
    branches: tuple[str, ...] = ()
    has_second: bool = False
    asleep_until: int = 0
    asleep: bool = False
    link_known_to: tuple[str, ...] = ()
    alone_at: int | None = None
    alone_by: str = ""

    def must_have_second(self, wanted: str) -> bool:
        """Tell whether the setting DESK_SECOND_FACTOR wants a second factor of the user."""
        words = wanted.split(",")
        return "all" in words or any(role in words for role in self.roles)

    def may(self, what: str) -> bool:
        """Tell whether the user may do or see something now."""
        return self.holds(what) and not (self.asleep and what in SECOND_PERSON)

    def holds(self, what: str) -> bool:
        """Tell whether roles and rights allow something, also where that sleeps."""
        if what == "take out":  # what holds no customer: whoever reads the page, unless forbidden
            return self.rights.get("export") is not False
        if what == "settle":  # an auditor sees money and changes nothing
            return self.holds("money") and not set(self.roles) <= {Role.AUDITOR}
        if what in self.rights:
            return self.rights[what]
        return any(what in ALLOWED[role] for role in self.roles)

    @property
    def held(self) -> frozenset[str]:
        """Return all that roles and rights allow."""
        return frozenset(each for each in _EVERYTHING if self.holds(each))

    @property
    def awake(self) -> frozenset[str]:
        """Return all that the user may do or see now."""
        return self.held - (SECOND_PERSON if self.asleep else frozenset())

    @property
    def waits_for_approver(self) -> bool:
        """Tell whether an approver has to confirm the rights, however long that takes."""
        return self.asleep_until == UNTIL_CONFIRMED


@dataclass(frozen=True, slots=True)
class SignInSource:
    """Where somebody tries to sign in from.

    Attributes:
        key: the device or the address, as a digest.
        known: the name has signed in from this device before; what others try does not count.
    """

    key: str
    known: bool


AT_THE_HOST: Final = SignInSource("host", known=True)
"""A command typed on the desk's own machine."""


class Accounts:
    """Reads and writes users, links and sessions.

    Args:
        journal: an open journal.
    """

    def __init__(self, journal: Storage) -> None:
        self._journal = journal
        self.clock = journal.clock
        self._hasher = PasswordHasher()
        self._one_at_a_time = threading.Semaphore(2)
        """Each hash takes 64 MiB: many sign-ins at once wait for one another."""
        self.strangers = threading.Semaphore(_STRANGERS_AT_ONCE)
        self._nobody = ""

    def transaction(self) -> AbstractContextManager[Connection]:
        """Give a connection whose work is committed whole or not at all, one at a time."""
        return recording(self._journal.engine, Turn.DESK)

    def rows(self, query: Select[Any]) -> Sequence[Row[Any]]:
        """Return what a query finds."""
        with reading(self._journal.engine) as connection:
            return connection.execute(query).all()

    # --- users ---

    def users(self) -> list[User]:
        """Return every user by name."""
        return [self._user(row) for row in self.rows(select(users).order_by(users.c.key))]

    def find(self, name: str) -> User | None:
        """Return a user, or None."""
        row = self._row(name)
        return None if row is None else self._user(row)

    def _row(self, name: str) -> Row[Any] | None:
        return next(iter(self.rows(select(users).where(users.c.key == key_of(name)))), None)

    def _user(self, row: Row[Any]) -> User:
        return User(
            row.name,
            tuple(map(Role, json.loads(row.roles))),
            json.loads(row.rights),
            has_password=row.password is not None,
            branches=tuple(json.loads(row.branches)),
            has_second=row.second is not None,
            asleep_until=row.asleep_until,
            asleep=row.asleep_until > self.clock(),
            link_known_to=tuple(json.loads(row.link_known_to)),
            alone_at=row.alone_at,
            alone_by=row.alone_by,
        )

    def add(self, name: str, roles: Collection[Role], *, by: str = "") -> str:
        """Make a user and return the token of the link by which the password is set.

        Args:
            name: of the new user.
            roles: what the user is there for.
            by: the user of the desk who adds; empty for the command line.

        Raises:
            UsageError: the name is taken or cannot be one, or no role was given.
        """
        name = _sound_name(name)
        if not roles:
            raise UsageError("--role: give at least one of " + ", ".join(Role))
        row = self._new(name, roles) | self._asleep(User(name, tuple(roles), {}), by)
        with self.transaction() as connection:
            known = select(users.c.key).where(users.c.key == key_of(name))
            if connection.execute(known).first() is not None:
                raise UsageError(f"there is a user {name} already; change it under Users")
            connection.execute(insert(users), row)
        return self.link(name)

    def _new(
        self, name: str, roles: Collection[Role], password: str | None = None
    ) -> dict[str, Any]:
        return {
            "key": key_of(name),
            "name": name,
            "roles": json.dumps(sorted(set(roles))),
            "rights": "{}",
            "branches": "[]",
            "password": password,
            "created_at": self.clock(),
            "second_step": 0,
            "asleep_until": 0,
            "link_known_to": "[]",
            "alone_at": None,
            "alone_by": "",
        }

    def change(
        self,
        name: str,
        roles: Collection[Role],
        rights: dict[str, bool] | None = None,
        branches: Collection[str] | None = None,
        *,
        by: str = "",
    ) -> User:
        """Give a user other roles, rights beside them, and branches; None leaves what there is.

        Args:
            name: whose.
            roles: all that the user is to have; none leaves them as they are.
            rights: those that are given (True) or taken (False) now.
            branches: whose customers alone the user sees; empty for all.
            by: the user of the desk who changes it; empty for the command line.

        Raises:
            UsageError: there is no such user, nobody would be left who can add users or approve,
                or somebody adds to their own rights.
        """
        user = self._known(name)
        wanted = sorted(set(roles)) or list(user.roles)
        merged = {**user.rights, **(rights or {})}
        limits = user.branches if branches is None else tuple(_sound_branches(branches))
        after = replace(user, roles=tuple(map(Role, wanted)), rights=merged, branches=tuple(limits))
        _require_left(user, after, self.users())
        if (
            same_person(by or user_name(), user.name)
            and _is_raised(user, after)
            and self.needs_two()
        ):
            raise UsageError("nobody adds to their own rights: another administrator does")
        given = {"roles": wanted, "rights": merged, "branches": limits}
        values: dict[str, Any] = {column: json.dumps(value) for column, value in given.items()}
        if (after.held - user.held) & SECOND_PERSON:
            values |= self._asleep(after, by)
        with self.transaction() as connection:
            connection.execute(_of(user.name).values(values))
            # two who change at once may each have been the other's reason that somebody is left
            left = connection.execute(select(users)).all()
            _require_left(user, after, list(map(self._user, left)))
        self.needs_two()
        return self._known(name)

    def reset(self, name: str, *, by: str = "") -> str:
        """End a user's password and sessions; return the token of a link that sets another.

        Args:
            name: whose.
            by: the user of the desk who resets; empty for the command line.

        Raises:
            UsageError: there is no such user.
        """
        user = self._known(name)
        values = {"password": None, "second_new": None, **self._asleep(user, by, is_reset=True)}
        with self.transaction() as connection:
            connection.execute(_of(user.name).values(values))
            for table in (sessions, devices):
                connection.execute(delete(table).where(table.c.user == key_of(user.name)))
        return self.link(user.name)

    # --- rights by which somebody agrees to what another asked for ---

    def needs_two(self) -> bool:
        """Tell whether there are, or ever were, two who may approve; two are needed from then on.

        A second one who goes, is reset or loses the right leaves nobody to decide alone.
        """
        if self.rows(select(meta).where(meta.c.name == _TWO_APPROVERS)):
            return True
        now_two = sum(each.has_password and each.holds("approve") for each in self.users()) > 1
        if now_two:
            with self.transaction() as connection:
                put_meta(connection, _TWO_APPROVERS, str(self.clock()))
        return now_two

    def _asleep(self, user: User, by: str, *, is_reset: bool = False) -> dict[str, Any]:
        """Return the columns by which rights to approve sleep of a user made, raised or reset.

        Until there are two approvers they stay awake: somebody has to make the second one. That,
        and whatever is done at the host, is shown to everybody for a while.

        Args:
            user: with the rights that it is to have.
            by: the user of the desk who did it; empty for the command line.
            is_reset: the password is set anew; else who could sign in before still can.
        """
        now, who = self.clock(), by or user_name()
        maker = self.find(who)
        before = () if is_reset else user.link_known_to
        known = {*before, who, *(maker.link_known_to if maker else ())}
        approvers = [e for e in self.users() if e.name != user.name and e.holds("approve")]
        alone = len(approvers) <= 1 and not self.needs_two()
        holds = bool(user.held & SECOND_PERSON)
        until = user.asleep_until
        if is_reset and not by:  # somebody lost what signs in, maybe the last who could confirm
            until = max(until, now + RESET_SLEEP_S * MICROS)
        elif not alone:
            until = UNTIL_CONFIRMED
        is_shown = holds and (alone or not by)
        return {
            "asleep_until": until if holds else 0,
            "link_known_to": json.dumps([] if alone and holds and by else sorted(known)),
            **({"alone_at": now, "alone_by": who} if is_shown else {}),
        }

    def unconfirmed(self, by: User) -> list[User]:
        """Return the users whose rights sleep and whom this approver may confirm."""
        return [each for each in self.users() if self._may_confirm(each, by)]

    def _may_confirm(self, user: User, by: User) -> bool:
        knew = any(same_person(each, by.name) for each in user.link_known_to)
        ready = user.waits_for_approver and user.has_password
        return ready and user.name != by.name and by.may("approve") and not knew

    def confirm(self, name: str, by: User) -> None:
        """Wake the rights of a user: an approver knows that it is this person who signed in.

        Raises:
            UsageError: the rights do not wait, or this approver could have signed in as the user.
        """
        user = self._known(name)
        if not self._may_confirm(user, by):
            raise UsageError(
                f"{by.name} cannot confirm the rights of {name}: an approver does who neither saw "
                "the link nor gave the rights, once the user has signed in"
            )
        with self.transaction() as connection:
            connection.execute(_of(user.name).values(asleep_until=0, link_known_to="[]"))

    def made_alone(self) -> list[User]:
        """Return who got rights to approve or override without a second person of late."""
        since = self._since(SHOWN_S)
        return [e for e in self.users() if e.alone_at is not None and e.alone_at > since]

    def _known(self, name: str) -> User:
        user = self.find(name)
        if user is None:
            raise UsageError(f"there is no user {name!r} at the desk")
        return user

    # --- links that set a password ---

    def link(self, name: str | None = None) -> str:
        """Return the token of a new link for a user, or for the first one; earlier ones end."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        until = self.clock() + LINK_S * MICROS
        with self.transaction() as connection:
            connection.execute(delete(links).where(links.c.user.is_not_distinct_from(name)))
            row = {"digest": _digest(token), "user": name, "until": until}
            connection.execute(insert(links), row)
        return token

    def first_link(self) -> str | None:
        """Return the token of the link that makes the first user; None where there are users."""
        return None if self.rows(select(users.c.key).limit(1)) else self.link()

    def link_for(self, token: str) -> tuple[bool, str | None]:
        """Return whether a link still holds, and for which user; None is the first one."""
        held = (links.c.digest == _digest(token)) & (links.c.until > self.clock())
        rows = self.rows(select(links.c.user).where(held))
        return (True, rows[0].user) if rows else (False, None)

    def use_link(self, token: str, name: str, password: str) -> User:
        """Set a password by a link; the link of the first user makes it, with every role.

        Raises:
            UsageError: the link was used or has ended, or name or password will not do.
        """
        sound, whose = self.link_for(token)
        if not sound:
            raise UsageError(_LINK_ENDED)
        name = _sound_name(name) if whose is None else whose
        _require_sound(password)
        with self._one_at_a_time:
            hashed = self._hasher.hash(password)
        with self.transaction() as connection:
            used = connection.execute(delete(links).where(links.c.digest == _digest(token)))
            there_are = connection.execute(select(users.c.key).limit(1)).first()
            if not used.rowcount or (whose is None and there_are):
                raise UsageError(_LINK_ENDED)
            if whose is None:
                connection.execute(insert(users), self._new(name, list(Role), hashed))
            else:
                connection.execute(_of(name).values(password=hashed))
                connection.execute(delete(sessions).where(sessions.c.user == key_of(name)))
        self.needs_two()  # from the second approver's first sign-in on
        return self._known(name)

    # --- signing in ---

    def source(self, name: str, device: str, address: str) -> SignInSource:
        """Return where somebody tries to sign in from: a device known for the name, or an address.

        Args:
            name: as it was typed.
            device: the word that the browser was given at an earlier sign-in; may be empty.
            address: of the browser.
        """
        digest, kept = _digest(device), devices.c
        query = select(kept.at).where(kept.digest == digest, kept.user == key_of(name))
        known = self.rows(query.where(kept.at > self._since(DEVICE_S)))
        return SignInSource(digest if known else _digest(address), known=bool(known))

    def _since(self, seconds: int) -> int:
        return self.clock() - seconds * MICROS

    def check(self, name: str, password: str, source: SignInSource = AT_THE_HOST) -> User | None:
        """Return the user of a name and password; None counts as a failure.

        An unknown name takes as long as a known one.

        Raises:
            HeldUpError: too many wrong ones came, or too many strangers sign in at once.
        """
        row = self._row(name[:LONGEST_NAME])
        stored = None if row is None else row.password

        def verify() -> bool:
            if not self._nobody:
                self._nobody = self._hasher.hash(secrets.token_urlsafe(_TOKEN_BYTES))
            with suppress(VerificationError):
                self._hasher.verify(stored or self._nobody, password[:LONGEST_PASSWORD])
                return stored is not None
            return False

        if not (source.known or self.strangers.acquire(blocking=False)):
            raise HeldUpError(_BUSY)
        try:
            with self._one_at_a_time:
                sound = self._attempt(name, source, verify)
        finally:
            if not source.known:
                self.strangers.release()
        return self._user(row) if row is not None and sound else None

    def _attempt(self, name: str, source: SignInSource, verify: Callable[[], bool]) -> bool:
        """Tell whether what was typed under a name is right.

        It counts as a failure until it is known to be none, so that many at once are held up too.

        Raises:
            HeldUpError: too many wrong ones came before.
        """
        key, kept, since = _digest(key_of(name)), failures.c, self._since(FAILURES_S)
        with self.transaction() as connection:
            connection.execute(delete(failures).where(kept.at <= since))
            if _is_throttled(connection, key, source):
                raise HeldUpError(_SLOW)
            row = {"name": key, "at": self.clock(), "source": source.key, "known": source.known}
            made = connection.execute(insert(failures).values(row).returning(kept.failure_id))
            attempt = made.scalar_one()
        if not verify():
            return False
        with self.transaction() as connection:
            connection.execute(delete(failures).where(kept.failure_id == attempt))
        return True

    # --- the second factor ---

    def offered_secret(self, user: User) -> str:
        """Return the secret a user is to put into an authenticator, the same until confirmed."""
        secret = self._secret(user.name, offered=True)
        if not secret:
            secret = random_base32()
            sealed = self._journal.sealer.seal(secret.encode(), _context(user.name))
            with self.transaction() as connection:
                connection.execute(_of(user.name).values(second_new=sealed))
        return secret

    def _secret(self, name: str, *, offered: bool = False) -> str:
        row = self._row(name)
        sealed = None if row is None else row.second_new if offered else row.second
        if sealed is None:
            return ""
        return self._journal.sealer.open(bytes(sealed), _context(name)).decode()

    def confirm_second(self, user: User, code: str, source: SignInSource) -> bool:
        """Take the offered secret for the user's own, where a code of it counts.

        Raises:
            HeldUpError: as `check_second`.
        """
        if not self._counts(user.name, self._secret(user.name, offered=True), code, source):
            return False
        with self.transaction() as connection:
            own = {"second": users.c.second_new, "second_new": None}
            connection.execute(_of(user.name).values(own))
        return True

    def check_second(self, user: User, code: str, source: SignInSource) -> bool:
        """Tell whether a code of the user's authenticator counts; it counts once.

        Raises:
            HeldUpError: too many wrong ones came.
        """
        return self._counts(user.name, self._secret(user.name), code, source)

    def _counts(self, name: str, secret: str, code: str, source: SignInSource) -> bool:
        now = self.clock() // MICROS // STEP_S
        typed = "".join(code.split()).encode("utf-8", "replace")

        def verify() -> bool:
            if not secret:
                return False
            shown = ((now + each, TOTP(secret).generate_otp(now + each)) for each in _AROUND)
            steps = [step for step, code in shown if hmac.compare_digest(code.encode(), typed)]
            return bool(steps) and self._use_step(name, steps[0])

        return self._attempt(f"second factor of {name}", source, verify)

    def _use_step(self, name: str, step: int) -> bool:
        """Tell whether the code of a step of time was not used yet; from now on it was."""
        with self.transaction() as connection:
            earlier = _of(name).where(users.c.second_step < step)
            return connection.execute(earlier.values(second_step=step)).rowcount == 1

    def remove_second(self, name: str) -> None:
        """Remove a user's second factor, and one that was offered."""
        with self.transaction() as connection:
            connection.execute(_of(name).values(second=None, second_new=None))

    # --- sessions ---

    def sign_in(self, user: User, *, half: bool = False) -> str:
        """Begin a session and return its token; half of one waits for the second factor."""
        token, now = secrets.token_urlsafe(_TOKEN_BYTES), self.clock()
        with self.transaction() as connection:
            over = sessions.c.began_at <= self._since(SESSION_S)
            connection.execute(delete(sessions).where(over))
            # who saw an earlier offer of a second factor has nothing of the next one
            connection.execute(_of(user.name).values(second_new=None))
            row = {"digest": _digest(token), "user": key_of(user.name), "half": half}
            connection.execute(insert(sessions), {**row, "began_at": now, "seen_at": now})
        return token

    def remember_device(self, name: str, device: str) -> str:
        """Make a browser's device known for a user; return the word that the browser is to keep.

        A word that was not made here is never taken over: somebody else may know it.
        """
        kept = devices.c
        with self.transaction() as connection:
            connection.execute(delete(devices).where(kept.at <= self._since(DEVICE_S)))
            ours = select(kept.at).where(kept.digest == _digest(device)).limit(1)
            if connection.execute(ours).first() is None:
                device = secrets.token_urlsafe(_TOKEN_BYTES)
            row = {"digest": _digest(device), "user": key_of(name)}
            connection.execute(delete(devices).filter_by(**row))
            connection.execute(insert(devices), {**row, "at": self.clock()})
        return device

    def session(self, token: str, *, half: bool = False) -> User | None:
        """Return whose session a token is, as the user's roles are now; None where it has ended.

        Args:
            token: as the browser sends it.
            half: one that waits for the second factor yet.
        """
        kept, lasts = sessions.c, HALF_S if half else SESSION_S
        rows = self.rows(
            select(users, kept.seen_at)
            .join(sessions, users.c.key == kept.user)
            .where(
                kept.digest == _digest(token), kept.half.is_(half), users.c.password.is_not(None)
            )
            .where(kept.seen_at > self._since(IDLE_S), kept.began_at > self._since(lasts))
        )
        if not rows:
            return None
        if not half and rows[0].seen_at < self._since(SEEN_EVERY_S):
            # a busy journal keeps nobody from a page: the next one notes it
            with suppress(JournalBusyError), self.transaction() as connection:
                mine = update(sessions).where(kept.digest == _digest(token))
                connection.execute(mine.values(seen_at=self.clock()))
        return self._user(rows[0])

    def end_others(self, name: str, token: str) -> None:
        """End every session of a user but one: they were begun without what is needed now."""
        with self.transaction() as connection:
            mine = (sessions.c.user == key_of(name)) & (sessions.c.digest != _digest(token))
            connection.execute(delete(sessions).where(mine))

    def sign_out(self, token: str) -> None:
        """End a session."""
        with self.transaction() as connection:
            connection.execute(delete(sessions).where(sessions.c.digest == _digest(token)))


def key_of(name: str) -> str:
    """Return what a user is found by, however the name is written."""
    return name.casefold()


def _of(name: str) -> Update:
    return update(users).where(users.c.key == key_of(name))


def _context(name: str) -> bytes:
    return SECOND_FACTOR.context(key_of(name))


def _is_throttled(connection: Connection, key: str, source: SignInSource) -> bool:
    kept = failures.c
    mine = or_(kept.name == key, kept.source == source.key)
    query = select(kept.name, kept.source).where(kept.known.is_(source.known), mine)
    found = connection.execute(query).all()
    of_name = [row for row in found if row.name == key]
    both = sum(row.source == source.key for row in of_name)
    of_address = sum(row.source == source.key for row in found)
    elsewhere = len(of_name) >= FAILURES_OF_NAME or of_address >= FAILURES_OF_ADDRESS
    return both >= FAILURES or (elsewhere and not source.known)


def _require_left(user: User, after: User, users: Collection[User]) -> None:
    """Hold a change against what somebody must be left to do.

    Raises:
        UsageError: nobody else can do it.
    """
    others = [each for each in users if each.name != user.name and each.has_password]
    for what, role in (("users", Role.ADMINISTRATOR), ("approve", Role.APPROVER)):
        leaves = user.holds(what) and not after.holds(what)
        if leaves and not any(each.may(what) for each in others):
            raise UsageError(f"{user.name} is the only {role}; make another one first")


def _is_raised(before: User, after: User) -> bool:
    """Tell whether a user may do or see more than before."""
    limits = {each.casefold() for each in before.branches}
    wider = limits and not (after.branches and {e.casefold() for e in after.branches} <= limits)
    return bool(wider or after.held - before.held)


def _sound_name(name: str) -> str:
    """Return a name without blanks round it.

    Raises:
        UsageError: it cannot be one.
    """
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(f"a name has 1 to {LONGEST_NAME} letters; it stands in the audit")
    return name


def _sound_branches(given: Collection[str]) -> list[str]:
    """Return branches without blanks round them, each once.

    Raises:
        UsageError: one of them cannot be the name of a branch.
    """
    found = list(dict.fromkeys(plain for each in given if (plain := " ".join(each.split()))))
    if any(len(each) > LONGEST_NAME or not each.isprintable() for each in found):
        raise UsageError(f"a branch has 1 to {LONGEST_NAME} letters, as the lender's file has it")
    return found


def _require_sound(password: str) -> None:
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise UsageError(
            f"a password has at least {SHORTEST_PASSWORD} characters; choose a longer one"
        )


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
