"""Users of the desk, and the rights of each role.

`desk/accounts.py` adds, changes and signs in users.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final

from pydantic import Field

from nightscreen.schemas.records import Ground, JournalRecord


class Role(StrEnum):
    """A user's role; the rights of several roles add up."""

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
"""The rights of each role."""
_EVERYTHING: Final = frozenset({"settle"}).union(*ALLOWED.values())
RIGHTS: Final = ("money", "policy", "override", "sign", "export")
"""Rights that can be given to or taken from a user, whatever the roles."""
SECOND_PERSON: Final = frozenset({"approve", "policy", "override"})
"""Rights to agree to another user's request; they sleep until an approver confirms them."""
UNTIL_CONFIRMED: Final = 2**62  # an instant that never comes and fits into 64 bits


class User(JournalRecord, kind="user", ground=Ground.APPROVALS, waiting={""}):
    """A user of the desk; `key` is the name in lower case; retained whatever its age.

    Attributes:
        name: as entered when the user was added.
        roles: the user's roles.
        rights: rights given (True) or taken (False) in addition to the roles.
        branches: the user sees only customers of these branches; empty for all.
        password: a digest by argon2; empty until the user sets one with a link.
        second: the secret of the second factor; empty if none is set up.
        second_step: the time step of the last accepted code.
        epoch: raised when the user's sessions and links are ended.
        asleep_until: until when the rights of `SECOND_PERSON` sleep; 0 if they are awake,
            `UNTIL_CONFIRMED` if an approver must confirm them.
        asleep: they sleep now.
        link_known_to: who saw this user's link or gave the rights; none of them may confirm.
        alone_at: when such rights were given without a second person, if they were.
        alone_by: who gave them.
    """

    batch: str = ""
    name: str
    roles: tuple[Role, ...]
    rights: dict[str, bool] = Field(default_factory=dict)
    branches: tuple[str, ...] = ()
    password: str = Field("", repr=False)
    second: str = Field("", repr=False)
    second_step: int = 0
    epoch: int = 0
    asleep_until: int = 0
    asleep: bool = Field(default=False, exclude=True)
    link_known_to: tuple[str, ...] = ()
    alone_at: int | None = None
    alone_by: str = ""

    @property
    def access(self) -> str:
        """Return a digest of roles, rights and branches."""
        text = self.model_dump_json(include={"roles", "rights", "branches"})
        return hashlib.sha256(text.encode()).hexdigest()

    def must_have_second(self, setting: str) -> bool:
        """Return whether the setting DESK_SECOND_FACTOR requires a second factor of the user."""
        required = setting.split(",")
        return "all" in required or any(role in required for role in self.roles)

    def may(self, right: str) -> bool:
        """Return whether the user has a right now."""
        return self.holds(right) and not (self.asleep and right in SECOND_PERSON)

    def holds(self, right: str) -> bool:
        """Return whether the user has a right, even if it sleeps."""
        if right == "take out":  # lists without customers: all who see the page, unless taken away
            return self.rights.get("export") is not False
        if right == "settle":  # an auditor sees money and changes nothing
            return self.holds("money") and not set(self.roles) <= {Role.AUDITOR}
        if right in self.rights:
            return self.rights[right]
        return any(right in ALLOWED[role] for role in self.roles)

    @property
    def held(self) -> frozenset[str]:
        """Return all rights of the user, sleeping ones included."""
        return frozenset(right for right in _EVERYTHING if self.holds(right))

    @property
    def awake(self) -> frozenset[str]:
        """Return all rights that the user has now."""
        return self.held - (SECOND_PERSON if self.asleep else frozenset())

    @property
    def waits_for_approver(self) -> bool:
        """Return whether an approver must confirm the rights."""
        return self.asleep_until == UNTIL_CONFIRMED
