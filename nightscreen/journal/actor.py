"""Who decides something, and the one rule on who may; the command line, desk and inbox all ask it.

A user of the desk is signed in and decides by a right. Of a command or a dropped file nothing
proves the name that it bears, so both decide only as long as the desk has no users.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from sqlalchemy import select

from nightscreen.files.person import named_by_account, same_person, user_name
from nightscreen.journal.audit import Audit
from nightscreen.journal.schema import records
from nightscreen.schemas.errors import NotAllowedError
from nightscreen.schemas.users import User

if TYPE_CHECKING:
    from collections.abc import Collection

    from nightscreen.config.settings import Settings
    from nightscreen.journal.storage import Storage


class UseCase(NamedTuple):
    """What is decided: the right that it takes, and the page of the desk where that is done."""

    right: str
    page: str


SPENDING: Final = UseCase("approve", "/approvals")
REVIEW: Final = UseCase("review", "/decisions")
OVERRIDE: Final = UseCase("override", "/decisions")
CONTEST: Final = UseCase("contest", "/contests")
POLICY: Final = UseCase("policy", "/policy")
CONFIRM: Final = UseCase("approve", "/runs/{run_id}")
RELEASE: Final = UseCase("approve", "/runs/{run_id}")
ACTION: Final = UseCase("review", "/customers/{customer_id}")
SETTLE: Final = UseCase("settle", "/money")


def has_users(journal: Storage) -> bool:
    """Tell whether anybody was made a user of the desk; the key is not needed."""
    found = select(records.c.key).where(records.c.kind == User.kind).limit(1)
    return bool(journal.database.fetch(found))


@dataclass(frozen=True, slots=True)
class Actor:
    """Who decides."""

    name: str  # as records and the audit have it
    # what a user who is signed in may; None for a command or a dropped file
    rights: frozenset[str] | None = None
    alone: bool = True  # nobody else could agree to what the actor asked for
    desk_url: str = ""  # where the desk is reached
    account: str = ""  # the machine's account of a command or a dropped file; empty at the desk

    @classmethod
    def by_command(cls, settings: Settings, named: str = "") -> Self:
        """Return whoever typed a command or dropped a file, by the machine's account.

        Where a command names a person, the account stands beside the name.
        """
        account = user_name()
        name = named_by_account(named) if named else account
        return cls(name, desk_url=settings.desk_url.rstrip("/"), account=account)

    def require(
        self, journal: Storage, case: UseCase, *, run_id: str = "", customer_id: str = ""
    ) -> None:
        """Refuse who may not decide this.

        Raises:
            NotAllowedError: a user lacks the right, or it is no user and the desk has some.
        """
        if self.rights is not None:
            if case.right not in self.rights:
                raise NotAllowedError("Your roles do not allow this.", needs=case.right)
        elif has_users(journal):
            page = case.page.format(run_id=run_id, customer_id=customer_id)
            raise NotAllowedError(
                "the desk has users, so one of them decides, signed in: open "
                f"{self.desk_url}{page} at the desk",
                needs=case.right,
            )

    def is_one_of(self, names: Collection[str]) -> bool:
        """Tell whether the actor is one of some people, however the names are written."""
        return any(same_person(self.name, name) for name in names if name)

    def require_other(self, names: Collection[str], sentence: str) -> None:
        """Refuse who is one of those whom somebody else is to agree with.

        Raises:
            NotAllowedError: with the sentence.
        """
        if self.is_one_of(names):
            raise NotAllowedError(sentence, needs="a second person")

    def note(
        self,
        journal: Storage,
        action: str,
        *,
        run_id: str = "",
        customer_id: str = "",
        **detail: object,
    ) -> None:
        """Write into the audit what the actor did."""
        if self.rights is None:
            detail["by_command"] = True
            if self.name != self.account:
                detail["named"] = self.name
        who = self.account or self.name
        Audit(journal).write(who, action, run_id=run_id, customer_id=customer_id, **detail)
