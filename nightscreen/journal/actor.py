"""Actors: who decides something, and whether they may. Command line, desk and inbox share the rule.

A signed-in user of the desk needs a right. A command or a dropped file cannot prove who sent it, so
both may decide only as long as the desk has no users.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from sqlalchemy import select

from nightscreen.journal.audit import Audit, named_by_account, same_person, user_name
from nightscreen.journal.schema import records
from nightscreen.schemas.errors import NotAllowedError
from nightscreen.schemas.users import User

if TYPE_CHECKING:
    from collections.abc import Collection

    from nightscreen.config.settings import Settings
    from nightscreen.journal.storage import Storage


class UseCase(NamedTuple):
    """A kind of decision: the right it needs, and the desk's page for it."""

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
    """Return whether the desk has any user; the data key is not needed."""
    found = select(records.c.key).where(records.c.kind == User.kind).limit(1)
    return bool(journal.database.fetch(found))


@dataclass(frozen=True, slots=True)
class Actor:
    """A person or command that decides."""

    name: str  # the name in records and the audit
    # the rights of a signed-in user; None for a command or a dropped file
    rights: frozenset[str] | None = None
    alone: bool = True  # no other user could approve the actor's own request
    desk_url: str = ""  # the desk's address
    account: str = ""  # the machine's account of a command or a dropped file; empty at the desk

    @classmethod
    def by_command(cls, settings: Settings, named: str = "") -> Self:
        """Return the actor of a command or a dropped file, by the machine's account.

        If the command names a person, the actor's name has both the person and the account.
        """
        account = user_name()
        name = named_by_account(named) if named else account
        return cls(name, desk_url=settings.desk_url.rstrip("/"), account=account)

    def require(
        self, journal: Storage, case: UseCase, *, run_id: str = "", customer_id: str = ""
    ) -> None:
        """Refuse an actor who may not decide this.

        Raises:
            NotAllowedError: the user lacks the right, or it is no user and the desk has users.
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
        """Return whether the actor is one of some people, however their names are written."""
        return any(same_person(self.name, name) for name in names if name)

    def require_other(self, names: Collection[str], sentence: str) -> None:
        """Refuse an actor who is one of the people whose decision needs a second person.

        Raises:
            NotAllowedError: the actor is one of them; its text is the sentence.
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
        """Write an action of the actor into the audit."""
        if self.rights is None:
            detail["by_command"] = True
            if self.name != self.account:
                detail["named"] = self.name
        who = self.account or self.name
        Audit(journal).write(who, action, run_id=run_id, customer_id=customer_id, **detail)
