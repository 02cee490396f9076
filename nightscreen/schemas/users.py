"""Users of the desk: what each role allows, and who sleeps until another confirms.

How users are made, changed and signed in is in `desk/accounts.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import Field

from nightscreen.schemas.records import Ground, JournalRecord


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
UNTIL_CONFIRMED: Final = 2**62  # an instant that never comes, and that 64 bits hold


class User(JournalRecord, kind="user", ground=Ground.APPROVALS, waiting={""}):
    """A user of the desk, found by `key`: the name in small letters; kept whatever its age.

    Attributes:
        name: as it was given when the user was made.
        roles: what the user is there for.
        rights: rights given (True) or taken (False) beside the roles.
        branches: whose customers alone the user sees; empty for all.
        password: a digest by argon2; empty until one was set by a link.
        second: the secret of the second factor; empty where none is set up.
        second_step: the step of time of the last code that counted.
        epoch: raised by whatever ends the user's sessions and links.
        asleep_until: until when the rights of `SECOND_PERSON` sleep; 0 where they are awake,
            `UNTIL_CONFIRMED` where an approver must confirm them.
        asleep: they sleep now.
        link_known_to: who could sign in as this user, or gave the rights: none of them confirms.
        alone_at: when somebody gave such rights without a second person; None where nobody did.
        alone_by: who that was.
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
