"""Signing in: users, links that set passwords, the second factor, sessions, failed attempts.

Users are sealed records of the journal; passwords are stored only as argon2 hashes. Links, sessions
and known devices are signed tokens that the journal does not store; raising a user's `epoch`
invalidates all links and sessions of that user. `User.may` says what a user is allowed to do.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError
from pyotp import TOTP
from sqlalchemy import delete, insert, or_, select

from nightscreen.journal.audit import same_person, user_name
from nightscreen.journal.database import Turn
from nightscreen.journal.records import Records
from nightscreen.journal.schema import failures, put_meta, read_meta
from nightscreen.operations.consent_links import read_signed, signed
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import NotAllowedError, UsageError
from nightscreen.schemas.users import SECOND_PERSON, UNTIL_CONFIRMED, Role, User

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from sqlalchemy import Connection

    from nightscreen.journal import Journal

LINK_S = 24 * 3600
IDLE_S = 2 * 3600  # a session without a request for this long has ended
SEEN_EVERY_S = 60  # at most so often a browser gets a new token for its session
SESSION_S = 12 * 3600  # no session outlives a working day
HALF_S = 15 * 60  # time after the password to give or set up the second factor
PASSWORD_LENGTHS = range(8, 1025)
LONGEST_NAME = 60
FAILURES_S = 15 * 60  # period in which wrong passwords are counted
FAILURES = 5  # limit for one name from one known device, or from one address
FAILURES_OF_NAME = 10  # limit for one name from all unknown devices
FAILURES_OF_ADDRESS = 100  # limit for one address with any names
DEVICE_S = 180 * 24 * 3600  # how long a browser is known after a sign-in
_USERS_OF_DEVICE: Final = 10
STEP_S: Final = 30  # how long a code of an authenticator is shown (RFC 6238)
_AROUND: Final = (-1, 0, 1)  # accepted steps relative to now, because clocks of phones differ
RESET_SLEEP_S: Final = 24 * 3600
"""How long the rights of a user who was reset at the host are suspended; others see this."""
SHOWN_S: Final = 7 * 24 * 3600  # how long all see that rights were given without a second person
_STRANGERS_AT_ONCE = 3
"""How many of the few threads that make pages may work on sign-ins from unknown devices."""
_TWO_APPROVERS: Final = "two_approvers"  # name in `meta` of the instant since when there were two
_SLOW: Final = (
    "Too many failed attempts; try again in 15 minutes, or sign in from a browser that you have "
    "signed in from before."
)
_BUSY: Final = "Many people sign in at this moment. Try again in a few seconds."
_LINK_ENDED: Final = (
    "This link was used already or has expired. Ask an administrator for another: "
    "nightscreen desk user reset NAME."
)


class ThrottledError(Exception):
    """Too many failures: no password or code is checked now. The message says when again."""


class SignInSource(NamedTuple):
    """Where somebody tries to sign in from."""

    key: str  # the device or the address, as a digest
    # the name has signed in from this device before: what others try does not count
    known: bool


class Accounts:
    """Reads and writes the users of a journal, and signs them in."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.clock = journal.clock
        self._kept = Records(journal, User)
        self._hasher = PasswordHasher()
        # each hash takes 64 MiB: many sign-ins at once wait for one another
        self._one_at_a_time = threading.Semaphore(2)
        self.strangers = threading.Semaphore(_STRANGERS_AT_ONCE)
        self._nobody = ""

    # --- users ---

    def users(self) -> list[User]:
        """Return every user by name."""
        return sorted(map(self._as_now, self._kept.all()), key=lambda each: each.key)

    def find(self, name: str) -> User | None:
        """Return a user, however the name is written, or None."""
        user = self._kept.find(name.casefold())
        return None if user is None else self._as_now(user)

    def _as_now(self, user: User) -> User:
        return user.model_copy(update={"asleep": user.asleep_until > self.clock()})

    def _known(self, name: str) -> User:
        user = self.find(name)
        if user is None:
            raise UsageError(f"there is no user {name!r} at the desk")
        return user

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection, dict[str, User]]]:
        """Give a transaction, one at a time, and the users there are, by key."""
        with self._journal.database.recording(Turn.DESK) as connection:
            found = map(self._as_now, self._kept.read(connection))
            yield connection, {each.key: each for each in found}

    def set(self, name: str, *, ends_sessions: bool = False, **values: object) -> User:
        """Change values of a user and return the changed user.

        With `ends_sessions`, the user's sessions and links end in every browser.

        Raises:
            UsageError: there is no such user.
        """
        key = self._known(name).key
        with self._writing() as (connection, users):
            epoch = {"epoch": users[key].epoch + 1} if ends_sessions else {}
            return self._update(connection, users[key], **values, **epoch)

    def _update(self, connection: Connection, user: User, **values: object) -> User:
        after = user.model_copy(update=values)
        self._kept.update(connection, [after], self.clock())
        return self._as_now(after)

    def add(self, name: str, roles: Collection[Role], *, by: str = "") -> str:
        """Make a user and return the token of the link by which the password is set.

        `by` is the user of the desk who adds; empty for the command line.

        Raises:
            UsageError: the name is taken or cannot be one, or no role was given.
        """
        user = self._new(name, roles)
        if not roles:
            raise UsageError("--role: give at least one of " + ", ".join(Role))
        user = user.model_copy(update=self._asleep(user, by))
        with self._writing() as (connection, users):
            if user.key in users:
                raise UsageError(f"there is a user {user.name} already; change it under Users")
            self._kept.insert(connection, [user])
        return self.link(user.name)

    def _new(self, name: str, roles: Collection[Role]) -> User:
        name, given = _sound_word(name, "a name", "it stands in the audit"), sorted(set(roles))
        return User(key=name.casefold(), at=self.clock(), name=name, roles=tuple(given))

    def change(
        self,
        name: str,
        roles: Collection[Role],
        rights: dict[str, bool] | None = None,
        branches: Collection[str] | None = None,
        *,
        by: str = "",
        shown: str = "",
    ) -> User:
        """Give a user other roles, rights beside them, and branches; None leaves what there is.

        Args:
            name: whose.
            roles: all that the user is to have; none leaves them as they are.
            rights: those that are given (True) or taken (False) now.
            branches: whose customers alone the user sees; empty for all.
            by: the user of the desk who changes it; empty for the command line.
            shown: the user's `access` on the form; empty if nothing was shown.

        Raises:
            UsageError: there is no such user, somebody else changed it meanwhile, nobody would be
                left who can add users or approve, or somebody adds to their own rights.
        """
        user, why = self._known(name), "write it as the lender's file has it"
        sees = [_sound_word(each, "a branch", why) for each in branches or () if each.strip()]
        values: dict[str, Any] = {
            "roles": tuple(sorted(map(Role, roles))) or user.roles,
            "rights": user.rights | (rights or {}),
            "branches": user.branches if branches is None else tuple(dict.fromkeys(sees)),
        }
        after = user.model_copy(update=values)
        more = after.held - user.held
        before, now = ({e.casefold() for e in each.branches} for each in (user, after))
        is_raised = more or (before and not (now and now <= before))
        if is_raised and same_person(by or user_name(), user.name) and self.needs_two():
            raise UsageError("nobody adds to their own rights: another administrator does")
        if more & SECOND_PERSON:
            values |= self._asleep(after, by)
        with self._writing() as (connection, users):
            landed = any(getattr(users[user.key], each) != getattr(user, each) for each in values)
            if landed or shown not in {"", user.access}:
                raise UsageError(f"{user.name} was changed meanwhile; look again, then change it")
            others = [e for e in users.values() if e.name != user.name and e.password]
            for what, role in (("users", Role.ADMINISTRATOR), ("approve", Role.APPROVER)):
                leaves = user.holds(what) and not after.holds(what)
                if leaves and not any(each.may(what) for each in others):
                    raise UsageError(f"{user.name} is the only {role}; make another one first")
            changed = self._update(connection, users[user.key], **values)
        self.needs_two()
        return changed

    def reset(self, name: str, *, by: str = "") -> str:
        """End a user's password and sessions; return the token of a link that sets another.

        `by` is the user of the desk who resets; empty for the command line.

        Raises:
            UsageError: there is no such user.
        """
        sleeps = self._asleep(self._known(name), by, is_reset=True)
        self.set(name, ends_sessions=True, password="", **sleeps)
        return self.link(name)

    # --- rights by which somebody agrees to what another asked for ---

    def needs_two(self) -> bool:
        """Return whether there are, or ever were, two approvers; two are needed from then on.

        So nobody can decide alone after a second approver leaves, is reset or loses the right.
        """
        with self._journal.database.reading() as connection:
            if read_meta(connection, _TWO_APPROVERS):
                return True
        now_two = sum(bool(e.password) and e.holds("approve") for e in self.users()) > 1
        if now_two:
            with self._writing() as (connection, _):
                put_meta(connection, _TWO_APPROVERS, str(self.clock()))
        return now_two

    def _asleep(self, user: User, by: str, *, is_reset: bool = False) -> dict[str, Any]:
        """Return the values that suspend the approval rights of a user added, raised or reset.

        Until there are two approvers, rights are not suspended: somebody has to add the second one.
        This, and whatever is done at the host, is shown to everybody for a while.

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
        return {
            "asleep_until": until if holds else 0,
            "link_known_to": () if alone and holds and by else tuple(sorted(known)),
            **({"alone_at": now, "alone_by": who} if holds and (alone or not by) else {}),
        }

    def unconfirmed(self, by: User) -> list[User]:
        """Return the users whose rights are suspended and whom this approver may confirm."""
        return [each for each in self.users() if _may_confirm(each, by)]

    def confirm(self, name: str, by: User) -> None:
        """Restore a user's rights, because an approver knows that this is the person who signed in.

        Raises:
            NotAllowedError: the rights do not wait, or this approver could have signed in as the
                user.
        """
        if not _may_confirm(self._known(name), by):
            raise NotAllowedError(
                f"{by.name} cannot confirm the rights of {name}: an approver does who neither saw "
                "the link nor gave the rights, once the user has signed in.",
                needs="a second person",
            )
        self.set(name, asleep_until=0, link_known_to=())

    def made_alone(self) -> list[User]:
        """Return who recently got rights to approve or override without a second person."""
        since = self.clock() - SHOWN_S * MICROS
        return [e for e in self.users() if e.alone_at is not None and e.alone_at > since]

    # --- links that set a password ---

    def _sign(self, what: str, /, **said: object) -> str:
        return signed(self._journal, f"desk {what}", said)

    def _read(self, what: str, token: str) -> dict[str, Any]:
        """Return the contents of a token; nothing if it is not ours."""
        return read_signed(self._journal, f"desk {what}", token) or {}

    def link(self, name: str | None = None) -> str:
        """Return the token of a new link for a user, or for the first one."""
        user = None if name is None else self._known(name)
        whose = {} if user is None else {"user": user.key, "epoch": user.epoch}
        return self._sign("link", until=self.clock() + LINK_S * MICROS, **whose)

    def first_link(self) -> str | None:
        """Return the token of the link that makes the first user; None if there are users."""
        return None if self.users() else self.link()

    def link_for(self, token: str) -> User | None:
        """Return whose link it is; None for the first user, who is made by it.

        Raises:
            UsageError: the link was used or has expired.
        """
        said = self._read("link", token)
        if "user" in said:
            user = self.find(said["user"])
            fits = user is not None and user.epoch == said["epoch"]
        else:
            user, fits = None, not self.users()
        if said.get("until", 0) <= self.clock() or not fits:
            raise UsageError(_LINK_ENDED)
        return user

    def use_link(self, token: str, name: str, password: str) -> User:
        """Set a password by a link; the link of the first user makes it, with every role.

        Raises:
            UsageError: the link was used or has expired, or name or password is not acceptable.
        """
        whose = self.link_for(token)
        if len(password) not in PASSWORD_LENGTHS:
            least = PASSWORD_LENGTHS.start
            raise UsageError(f"a password has at least {least} characters; choose a longer one")
        with self._one_at_a_time:
            hashed = self._hasher.hash(password)
        user = whose or self._new(name, list(Role))
        with self._writing() as (connection, users):
            kept = users[user.key] if whose else user  # roles may have changed meanwhile
            if kept.epoch != user.epoch or (whose is None and users):
                raise UsageError(_LINK_ENDED)
            if whose is None:
                self._kept.insert(connection, [user])
            self._update(connection, kept, password=hashed, epoch=kept.epoch + 1)
        self.needs_two()  # from the second approver's first sign-in on
        return self._known(user.name)

    # --- signing in ---

    def source(self, name: str, device: str, address: str) -> SignInSource:
        """Return where somebody tries to sign in from: a device known for the name, or an address.

        `device` is the token that the browser was given at an earlier sign-in; it may be empty.
        """
        user, said = self.find(name), self._read("device", device)
        mark, at = said.get("users", {}).get(name.casefold(), ("", 0))
        is_recent = at > self.clock() - DEVICE_S * MICROS
        known = user is not None and is_recent and mark == _mark(user)
        return SignInSource(_digest(said["word"] if known else address), known)

    def device(self, user: User, device: str) -> str:
        """Return a token that makes a browser known for one more user.

        Its random word stays the same, because wrong passwords are counted by it.
        """
        said = self._read("device", device)
        before = said.get("users", {})
        before.pop(user.key, None)
        kept = dict(list(before.items())[1 - _USERS_OF_DEVICE :])
        users = kept | {user.key: [_mark(user), self.clock()]}
        return self._sign("device", word=said.get("word") or secrets.token_urlsafe(), users=users)

    def check(self, name: str, password: str, source: SignInSource) -> User | None:
        """Return the user of a name and password; None counts as a failure.

        An unknown name takes as long as a known one.

        Raises:
            ThrottledError: too many wrong ones came, or too many strangers sign in at once.
        """
        user = self.find(name)
        stored = "" if user is None else user.password

        def verify() -> bool:
            if not self._nobody:
                self._nobody = self._hasher.hash(secrets.token_urlsafe())
            with suppress(VerificationError):
                longest = PASSWORD_LENGTHS.stop - 1
                self._hasher.verify(stored or self._nobody, password[:longest])
                return bool(stored)
            return False

        with ExitStack() as held:
            if not source.known:
                if not self.strangers.acquire(blocking=False):
                    raise ThrottledError(_BUSY)
                held.callback(self.strangers.release)
            held.enter_context(self._one_at_a_time)
            return user if self._attempt(name, source, verify) else None

    def _attempt(self, name: str, source: SignInSource, verify: Callable[[], bool]) -> bool:
        """Return whether what was typed under a name is right.

        It counts as a failure until it is known to be right, so that many at once are limited too.
        """
        key, kept = _digest(name.casefold()), failures.c
        with self._journal.database.recording(Turn.DESK) as connection:
            since = self.clock() - FAILURES_S * MICROS
            connection.execute(delete(failures).where(kept.at <= since))
            if _is_throttled(connection, key, source):
                raise ThrottledError(_SLOW)
            row = {"name": key, "at": self.clock(), "source": source.key, "known": source.known}
            made = connection.execute(insert(failures).values(row).returning(kept.failure_id))
            attempt = made.scalar_one()
        if not verify():
            return False
        with self._journal.database.recording(Turn.DESK) as connection:
            connection.execute(delete(failures).where(kept.failure_id == attempt))
        return True

    def code_counts(self, user: User, secret: str, code: str, source: SignInSource) -> bool:
        """Return whether a code of an authenticator is valid for a user; each is valid once.

        The authenticator has the user's own secret, or the one that is offered.

        Raises:
            ThrottledError: too many wrong ones came.
        """
        now = self.clock() // MICROS // STEP_S
        typed = "".join(code.split()).encode("utf-8", "replace")

        def verify() -> bool:
            shown = ((now + each, TOTP(secret).generate_otp(now + each)) for each in _AROUND)
            steps = [step for step, code in shown if hmac.compare_digest(code.encode(), typed)]
            if not steps:
                return False
            with self._writing() as (connection, users):
                before = users[user.key].second_step
                self._update(connection, users[user.key], second_step=max(before, steps[0]))
            return before < steps[0]

        return bool(secret) and self._attempt(f"second factor of {user.name}", source, verify)

    # --- sessions ---

    def sign_in(self, user: User, *, half: bool = False, began: int | None = None) -> str:
        """Return the token of a session, a new one if no beginning is given.

        A half session waits for the second factor.
        """
        now = self.clock()
        times = {"began": now if began is None else began, "seen": now}
        return self._sign("session", user=user.key, epoch=user.epoch, half=half, **times)

    def session(self, token: str, *, half: bool = False) -> tuple[User, str] | None:
        """Return the current user of a session, and the token to keep from now on.

        None if the session has ended. A half session still waits for the second factor.
        """
        said, now = self._read("session", token), self.clock()
        user = self.find(said["user"]) if said.get("half") is half else None
        if user is None or not user.password or user.epoch != said["epoch"]:
            return None
        idle_s, since_s = ((now - said[name]) // MICROS for name in ("seen", "began"))
        if idle_s >= IDLE_S or since_s >= (HALF_S if half else SESSION_S):
            return None
        if idle_s > SEEN_EVERY_S:
            token = self.sign_in(user, half=half, began=said["began"])
        return user, token


def _mark(user: User) -> str:
    """Return a value that changes with the user's password, after which no device is known."""
    return _digest(user.password)[:16]


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


def _may_confirm(user: User, by: User) -> bool:
    knew = any(same_person(each, by.name) for each in user.link_known_to)
    ready = user.waits_for_approver and bool(user.password)
    return ready and user.name != by.name and by.may("approve") and not knew


def _sound_word(text: str, what: str, why: str) -> str:
    """Return a name without spaces around it."""
    text = " ".join(text.split())
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise UsageError(f"{what} has 1 to {LONGEST_NAME} letters; {why}")
    return text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
