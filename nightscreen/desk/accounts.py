"""Users of the desk, their roles, passwords and sessions, in an SQLite file of its own.

Its own file, so that a night's commits never wait for a page. Secrets are kept as digests only:
passwords by argon2, links and sessions by SHA-256. What a page allows is asked by `User.may`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

from nightscreen.files.person import same_person, user_name
from nightscreen.files.private_files import make_private_folder
from nightscreen.journal.audit_chain import AUDIT_SCHEMA, ENDS_SCHEMA
from nightscreen.journal.desk_file import DESK_FILE, upload_of
from nightscreen.schemas.clock import MICROS, Clock, system_clock
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.approvals import Approval

LINK_S = 24 * 3600
IDLE_S = 2 * 3600
"""A session without a request for this long has ended."""
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
_STRANGERS_AT_ONCE = 3
"""Of the few threads that make pages, sign-ins from unknown devices hold no more than these."""
_TOKEN_BYTES = 32


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
    Role.APPROVER: _ANALYST | {"approvals", "approve", "policy"},
    Role.AUDITOR: frozenset({"runs", "people", "approvals", "audit", "money"}),
    Role.PRIVACY: frozenset({"runs", "people", "contest"}),
    Role.ADMINISTRATOR: frozenset({"users"}),
}
"""What each role may do or see."""
_EVERYTHING: Final = frozenset().union(*ALLOWED.values())
RIGHTS: Final = ("money", "policy", "override", "export")
"""What can be given to or taken from a user whatever the roles say."""
SECOND_PERSON: Final = frozenset({"approve", "policy", "override"})
"""Rights by which somebody agrees to what another asked for; they sleep until another confirms."""
UNTIL_CONFIRMED: Final = 2**62
RESET_SLEEP_S: Final = 24 * 3600
"""So long the rights of a user sleep who was reset at the host; others see it meanwhile."""
SHOWN_S: Final = 7 * 24 * 3600
"""So long everybody is shown that rights were given without a second person."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS users (
  name TEXT PRIMARY KEY COLLATE NOCASE, roles TEXT NOT NULL, rights TEXT NOT NULL,
  password TEXT, created_at INTEGER NOT NULL, branches TEXT NOT NULL DEFAULT '[]',
  second BLOB, second_new BLOB, second_step INTEGER NOT NULL DEFAULT 0,
  asleep_until INTEGER NOT NULL DEFAULT 0, link_known_to TEXT NOT NULL DEFAULT '[]',
  alone_at INTEGER, alone_by TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS two_approvers (since INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS links (
  digest TEXT PRIMARY KEY, name TEXT COLLATE NOCASE, until INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (
  digest TEXT PRIMARY KEY, name TEXT NOT NULL COLLATE NOCASE, began_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL, half INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS failures (
  name TEXT NOT NULL, at INTEGER NOT NULL, source TEXT NOT NULL DEFAULT '',
  known INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS devices (
  digest TEXT NOT NULL, name TEXT NOT NULL COLLATE NOCASE, at INTEGER NOT NULL,
  PRIMARY KEY (digest, name));
CREATE TABLE IF NOT EXISTS uploads (
  id TEXT PRIMARY KEY, user TEXT NOT NULL, at INTEGER NOT NULL, name TEXT NOT NULL,
  digest TEXT NOT NULL, bytes INTEGER NOT NULL, state TEXT NOT NULL, choices TEXT NOT NULL,
  run_id TEXT NOT NULL);
"""
_DECLARED: Final = _SCHEMA + AUDIT_SCHEMA + ENDS_SCHEMA
_VERSION: Final = int.from_bytes(hashlib.sha256(_DECLARED.encode()).digest()[:3])
"""Of the desk's file: a digest of its declared schema."""


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
        if what in self.rights:
            return self.rights[what]
        return any(what in ALLOWED[role] for role in self.roles)

    @property
    def held(self) -> frozenset[str]:
        """Return all that roles and rights allow."""
        return frozenset(each for each in _EVERYTHING if self.holds(each))

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
        home: where state is kept.
        clock: the present instant.
    """

    def __init__(self, home: Path, clock: Clock = system_clock) -> None:
        make_private_folder(home)
        self.path = home / DESK_FILE
        self.clock = clock
        self._hasher = PasswordHasher()
        self._one_at_a_time = threading.Semaphore(2)
        """Each hash takes 64 MiB: many sign-ins at once wait for one another."""
        self._strangers = threading.Semaphore(_STRANGERS_AT_ONCE)
        self._nobody = ""
        self.path.touch(mode=0o600)
        self.path.chmod(0o600)
        with closing(sqlite3.connect(self.path)) as connection:
            (written,) = connection.execute("PRAGMA user_version").fetchone()
            if written not in (0, _VERSION):
                raise UsageError(
                    f"{self.path} was made by another version of nightscreen: use that version, or "
                    "move the file away; its users, sessions and audit go with it"
                )
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.executescript(_DECLARED)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give a connection whose work is committed whole or not at all."""
        with closing(sqlite3.connect(self.path, timeout=10, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def empty_log(self) -> None:
        """Leave nothing of what was changed in the file's own log."""
        with closing(sqlite3.connect(self.path, timeout=10)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:  # noqa: ANN401 - what SQLite stores
        """Return what a query finds."""
        with closing(sqlite3.connect(self.path, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(sql, values).fetchall()

    # --- users ---

    def users(self) -> list[User]:
        """Return every user by name."""
        return [self._user(row) for row in self.rows("SELECT * FROM users ORDER BY name")]

    def find(self, name: str) -> User | None:
        """Return a user, or None."""
        rows = self.rows("SELECT * FROM users WHERE name = ?", name)
        return self._user(rows[0]) if rows else None

    def _user(self, row: sqlite3.Row) -> User:
        return User(
            row["name"],
            tuple(Role(each) for each in json.loads(row["roles"])),
            json.loads(row["rights"]),
            row["password"] is not None,
            tuple(json.loads(row["branches"])),
            row["second"] is not None,
            row["asleep_until"],
            row["asleep_until"] > self.clock(),
            tuple(json.loads(row["link_known_to"])),
            row["alone_at"],
            row["alone_by"],
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
        with self.transaction() as connection:
            try:
                connection.execute(
                    "INSERT INTO users (name, roles, rights, created_at) VALUES (?, ?, '{}', ?)",
                    (name, json.dumps(sorted(set(roles))), self.clock()),
                )
            except sqlite3.IntegrityError:
                raise UsageError(f"there is a user {name} already; change it with: role") from None
        self._put_to_sleep(self._known(name), by)
        return self.link(name)

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
        if (after.held - user.held) & SECOND_PERSON:
            self._put_to_sleep(after, by, of_before=user.link_known_to)
        with self.transaction() as connection:
            connection.execute(
                "UPDATE users SET roles = ?, rights = ?, branches = ? WHERE name = ?",
                (json.dumps(wanted), json.dumps(merged), json.dumps(limits), user.name),
            )
            # two who change at once may each have been the other's reason that somebody is left
            users = map(self._user, connection.execute("SELECT * FROM users").fetchall())
            _require_left(user, after, list(users))
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
        with self.transaction() as connection:
            connection.execute(
                "UPDATE users SET password = NULL, second_new = NULL WHERE name = ?", (user.name,)
            )
            connection.execute("DELETE FROM sessions WHERE name = ?", (user.name,))
            connection.execute("DELETE FROM devices WHERE name = ?", (user.name,))
        self._put_to_sleep(user, by, is_reset=True)
        return self.link(user.name)

    # --- rights by which somebody agrees to what another asked for ---

    def needs_two(self) -> bool:
        """Tell whether there are, or ever were, two who may approve; two are needed from then on.

        A second one who goes, is reset or loses the right leaves nobody to decide alone.
        """
        if self.rows("SELECT 1 FROM two_approvers"):
            return True
        now_two = sum(each.has_password and each.holds("approve") for each in self.users()) > 1
        if now_two:
            with self.transaction() as connection:
                connection.execute("INSERT INTO two_approvers VALUES (?)", (self.clock(),))
        return now_two

    def _put_to_sleep(
        self, user: User, by: str, *, of_before: Collection[str] = (), is_reset: bool = False
    ) -> None:
        """Have the rights to approve sleep of a user who was made, raised or reset.

        Until there are two approvers they stay awake: somebody has to make the second one. That,
        and whatever is done at the host, is shown to everybody for a while.

        Args:
            user: with the rights that it is to have.
            by: the user of the desk who did it; empty for the command line.
            of_before: who could have signed in as the user before.
            is_reset: the password is set anew.
        """
        now, who = self.clock(), by or user_name()
        maker = self.find(who)
        known = {*of_before, who, *(maker.link_known_to if maker else ())}
        approvers = [e for e in self.users() if e.name != user.name and e.holds("approve")]
        alone = len(approvers) <= 1 and not self.needs_two()
        holds = bool(user.held & SECOND_PERSON)
        until = user.asleep_until
        if is_reset and not by:  # somebody lost what signs in, maybe the last who could confirm
            until = max(until, now + RESET_SLEEP_S * MICROS)
        elif not alone:
            until = UNTIL_CONFIRMED
        shown = holds and (alone or not by)
        with self.transaction() as connection:
            connection.execute(
                "UPDATE users SET asleep_until = ?, link_known_to = ?,"
                " alone_at = coalesce(?, alone_at), alone_by = coalesce(?, alone_by)"
                " WHERE name = ?",
                (
                    until if holds else 0,
                    json.dumps([] if alone and holds and by else sorted(known)),
                    now if shown else None,
                    who if shown else None,
                    user.name,
                ),
            )

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
            connection.execute(
                "UPDATE users SET asleep_until = 0, link_known_to = '[]' WHERE name = ?",
                (user.name,),
            )

    def made_alone(self) -> list[User]:
        """Return who got rights to approve or override without a second person of late."""
        since = self.clock() - SHOWN_S * MICROS
        return [e for e in self.users() if e.alone_at is not None and e.alone_at > since]

    def _known(self, name: str) -> User:
        user = self.find(name)
        if user is None:
            raise UsageError(f"there is no user {name!r} at the desk")
        return user

    def may_decide(self, user: User, asked_by: Collection[str]) -> bool:
        """Tell whether a user may approve what somebody asked for.

        Nobody approves their own request once there were two who may approve.
        """
        own = any(same_person(user.name, name) for name in asked_by)
        return not own or not self.needs_two()

    def who_asked(self, approval: Approval, run: RunRecord) -> list[str]:
        """Return who asked for a run's spending: who uploaded its file, and who resumed it last.

        A file that was not uploaded was asked for by whoever, or whatever, started its run.
        """
        uploaded = self.rows(
            "SELECT user FROM uploads WHERE id = ? OR run_id = ?",
            upload_of(self.path.parent, run),
            run.run_id,
        )
        resumed = self.rows(
            "SELECT user FROM audit WHERE run_id = ? AND action = 'run resumed' AND at <= ?"
            " ORDER BY id DESC LIMIT 1",
            run.run_id,
            approval.asked_at,
        )
        asked_by = uploaded[0]["user"] if uploaded else approval.asked_by
        return [asked_by, *(row["user"] for row in resumed)]

    # --- links that set a password ---

    def link(self, name: str | None = None) -> str:
        """Return the token of a new link for a user, or for the first one; earlier ones end."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self.transaction() as connection:
            connection.execute("DELETE FROM links WHERE name IS ?", (name,))
            until = self.clock() + LINK_S * MICROS
            connection.execute("INSERT INTO links VALUES (?, ?, ?)", (_digest(token), name, until))
        return token

    def first_link(self) -> str | None:
        """Return the token of the link that makes the first user; None where there are users."""
        return None if self.rows("SELECT 1 FROM users LIMIT 1") else self.link()

    def link_for(self, token: str) -> tuple[bool, str | None]:
        """Return whether a link still holds, and for which user; None is the first one."""
        rows = self.rows(
            "SELECT name FROM links WHERE digest = ? AND until > ?", _digest(token), self.clock()
        )
        return (True, rows[0]["name"]) if rows else (False, None)

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
            used = connection.execute("DELETE FROM links WHERE digest = ?", (_digest(token),))
            there_are = connection.execute("SELECT 1 FROM users LIMIT 1").fetchone()
            if not used.rowcount or (whose is None and there_are):
                raise UsageError(_LINK_ENDED)
            if whose is None:
                every = json.dumps(sorted(Role))
                connection.execute(
                    "INSERT INTO users (name, roles, rights, password, created_at)"
                    " VALUES (?, ?, '{}', ?, ?)",
                    (name, every, hashed, self.clock()),
                )
            else:
                connection.execute("UPDATE users SET password = ? WHERE name = ?", (hashed, name))
                connection.execute("DELETE FROM sessions WHERE name = ?", (name,))
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
        digest, since = _digest(device), self.clock() - DEVICE_S * MICROS
        known = self.rows(
            "SELECT 1 FROM devices WHERE digest = ? AND name = ? AND at > ?", digest, name, since
        )
        return (
            SignInSource(digest, known=True)
            if known
            else SignInSource(_digest(address), known=False)
        )

    def remember_device(self, name: str, device: str) -> str:
        """Make a browser's device known for a user; return the word that the browser is to keep.

        A word that was not made here is never taken over: somebody else may know it.
        """
        now = self.clock()
        with self.transaction() as connection:
            connection.execute("DELETE FROM devices WHERE at <= ?", (now - DEVICE_S * MICROS,))
            ours = "SELECT 1 FROM devices WHERE digest = ?"
            if connection.execute(ours, (_digest(device),)).fetchone() is None:
                device = secrets.token_urlsafe(_TOKEN_BYTES)
            row = (_digest(device), name, now)
            connection.execute("INSERT OR REPLACE INTO devices VALUES (?, ?, ?)", row)
        return device

    @contextmanager
    def room_for(self, source: SignInSource) -> Iterator[bool]:
        """Tell whether a password from a source may be looked at now; hold its place meanwhile."""
        is_room = source.known or self._strangers.acquire(blocking=False)
        try:
            yield is_room
        finally:
            if is_room and not source.known:
                self._strangers.release()

    def is_throttled(self, name: str, source: SignInSource = AT_THE_HOST) -> bool:
        """Tell whether too many wrong passwords came of late for another one to be looked at."""
        with self.transaction() as connection:
            return _is_throttled(connection, _digest(name.casefold()), source, self.clock())

    def check(self, name: str, password: str, source: SignInSource = AT_THE_HOST) -> User | None:
        """Return the user of a name and password; None counts as a failure.

        An unknown name takes as long as a known one. A try counts as a failure until it is known to
        be none, so that many at once are held up as well.
        """
        rows = self.rows("SELECT * FROM users WHERE name = ?", name[:LONGEST_NAME])
        stored = rows[0]["password"] if rows else None
        with self._one_at_a_time:
            attempt = self.begin_attempt(name, source)
            if attempt is None:
                return None
            if not self._nobody:
                self._nobody = self._hasher.hash(secrets.token_urlsafe(_TOKEN_BYTES))
            try:
                self._hasher.verify(stored or self._nobody, password[:LONGEST_PASSWORD])
            except VerificationError:
                return None
            if stored is None:
                return None
            self.forgive_attempt(attempt)
        return self._user(rows[0])

    def begin_attempt(self, name: str, source: SignInSource = AT_THE_HOST) -> int | None:
        """Count an attempt under a name as a failure until it is forgiven; None where held up."""
        key, now = _digest(name.casefold()), self.clock()
        with self.transaction() as connection:
            connection.execute("DELETE FROM failures WHERE at <= ?", (now - FAILURES_S * MICROS,))
            if _is_throttled(connection, key, source, now):
                return None
            row = (key, now, source.key, source.known)
            made = connection.execute(
                "INSERT INTO failures (name, at, source, known) VALUES (?, ?, ?, ?)", row
            )
            return made.lastrowid

    def forgive_attempt(self, attempt: int) -> None:
        """Count an attempt no longer: it was a good one."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM failures WHERE rowid = ?", (attempt,))

    # --- the second factor: what is sealed in it is `second_factor`'s own ---

    def set_second(self, name: str, *, own: bytes | None = None, new: bytes | None = None) -> None:
        """Keep a user's sealed secret, or one offered but not confirmed yet; none removes both."""
        said = "second_new = ?" if new is not None else "second_new = NULL, second = ?"
        value = own if new is None else new
        with self.transaction() as connection:
            connection.execute(f"UPDATE users SET {said} WHERE name = ?", (value, name))  # noqa: S608 - words of ours

    def use_step(self, name: str, step: int) -> bool:
        """Tell whether the code of a step of time was not used yet; from now on it was."""
        with self.transaction() as connection:
            used = connection.execute(
                "UPDATE users SET second_step = ? WHERE name = ? AND second_step < ?",
                (step, name, step),
            )
        return used.rowcount == 1

    # --- sessions ---

    def sign_in(self, user: User, *, half: bool = False) -> str:
        """Begin a session and return its token; half of one waits for the second factor."""
        token, now = secrets.token_urlsafe(_TOKEN_BYTES), self.clock()
        with self.transaction() as connection:
            connection.execute(
                "DELETE FROM sessions WHERE began_at <= ?", (now - SESSION_S * MICROS,)
            )
            # who saw an earlier offer of a second factor has nothing of the next one
            connection.execute("UPDATE users SET second_new = NULL WHERE name = ?", (user.name,))
            row = (_digest(token), user.name, now, now, half)
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)
        return token

    def session(self, token: str) -> User | None:
        """Return whose session a token is, as the user's roles are now; None where it has ended."""
        digest, now = _digest(token), self.clock()
        rows = self.rows(
            "SELECT users.*, seen_at FROM sessions JOIN users USING (name)"
            " WHERE digest = ? AND seen_at > ? AND began_at > ? AND password IS NOT NULL"
            " AND NOT half",
            digest,
            now - IDLE_S * MICROS,
            now - SESSION_S * MICROS,
        )
        if not rows:
            return None
        if now - rows[0]["seen_at"] > 60 * MICROS:
            with self.transaction() as connection:
                connection.execute(
                    "UPDATE sessions SET seen_at = ? WHERE digest = ?", (now, digest)
                )
        return self._user(rows[0])

    def half_session(self, token: str) -> User | None:
        """Return who knew the password of late and owes the second factor yet."""
        rows = self.rows(
            "SELECT users.* FROM sessions JOIN users USING (name)"
            " WHERE digest = ? AND began_at > ? AND password IS NOT NULL AND half",
            _digest(token),
            self.clock() - HALF_S * MICROS,
        )
        return self._user(rows[0]) if rows else None

    def end_others(self, name: str, token: str) -> None:
        """End every session of a user but one: they were begun without what is needed now."""
        with self.transaction() as connection:
            connection.execute(
                "DELETE FROM sessions WHERE name = ? AND digest <> ?", (name, _digest(token))
            )

    def sign_out(self, token: str) -> None:
        """End a session."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE digest = ?", (_digest(token),))


_LINK_ENDED = (
    "This link was used already or has ended. Ask an administrator for another: "
    "nightscreen desk user reset NAME."
)


def _is_throttled(connection: sqlite3.Connection, key: str, source: SignInSource, now: int) -> bool:
    row = connection.execute(
        "SELECT total(name = :name AND source = :source) AS both, total(name = :name) AS name,"
        " total(source = :source) AS source FROM failures WHERE known = :known AND at > :since",
        {
            "name": key,
            "source": source.key,
            "known": source.known,
            "since": now - FAILURES_S * MICROS,
        },
    ).fetchone()
    elsewhere = row["name"] >= FAILURES_OF_NAME or row["source"] >= FAILURES_OF_ADDRESS
    return bool(row["both"] >= FAILURES or (elsewhere and not source.known))


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
