"""Versions of the policy: proposed by one person, approved by another, in force from then on.

A version is a record of the journal with its whole text. A run that names no policy file decides by
the version that was approved last when it began, and by the default policy where there is none.
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

from pydantic import ValidationError

from nightscreen.journal.actor import POLICY, Actor
from nightscreen.journal.records import Records
from nightscreen.policy.load import DEFAULT_POLICY, parse, read_text, sound_policy
from nightscreen.schemas.clock import LAGOS, to_instant
from nightscreen.schemas.contests import PolicyState, PolicyVersion
from nightscreen.schemas.errors import InputError, PolicyError
from nightscreen.schemas.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from nightscreen.journal import Journal

_ONE_AT_A_TIME = threading.Lock()
"""Two proposals that replace the same policy are never both approved."""
_DEFAULT = "the default policy"


def versions(journal: Journal) -> list[PolicyVersion]:
    """Return every version that was ever proposed, oldest first."""
    return Records(journal, PolicyVersion).all()


def version_in_force(journal: Journal, at: int) -> PolicyVersion | None:
    """Return the version that was approved last at an instant; None if none was by then."""
    return last_approved(Records(journal, PolicyVersion).all(state=PolicyState.APPROVED), at)


def last_approved(found: Sequence[PolicyVersion], at: int) -> PolicyVersion | None:
    """Return the one of some versions that was approved last at an instant."""
    approved = [version for version in found if version.state == PolicyState.APPROVED]
    by_then = reversed([version for version in approved if version.decided_at <= at])
    return max(by_then, key=lambda version: version.decided_at, default=None)


def policy_in_force(journal: Journal, at: int) -> Policy:
    """Return the policy of runs that began at an instant and name no policy file.

    Raises:
        PolicyError: it was approved under earlier rules for policies and is none by today's.
    """
    return sound_policy(*_text_of(version_in_force(journal, at)))


def text_in_force(journal: Journal) -> str:
    """Return the text of the policy that is in force now."""
    return _text_of(version_in_force(journal, journal.clock()))[0]


def label_in_force(journal: Journal) -> tuple[str, str]:
    """Return label and version of the policy in force now, also of one that reads as none today."""
    found = version_in_force(journal, journal.clock())
    if found is None:
        default = read_policy(read_text(None))
        return default.label, default.version
    return found.policy, found.version


def _text_of(found: PolicyVersion | None) -> tuple[str, str, str]:
    """Return a text, its name for people, and the command that shows its issues."""
    if found is None:
        return read_text(None), _DEFAULT, f"nightscreen policy check {DEFAULT_POLICY}"
    return found.text, found.policy, f"nightscreen policy show {found.policy} > policy.toml"


def approval_of(journal: Journal, policy: str, at: int) -> PolicyVersion | None:
    """Return the version as which a policy was approved last; None if nobody has yet."""
    return last_approved([each for each in versions(journal) if each.policy == policy], at)


def read_policy(text: str) -> Policy:
    """Return the policy of a text that was checked before, without checking conditions again.

    Raises:
        PolicyError: it was checked under earlier rules for policies and is none by today's.
    """
    try:
        return Policy.model_validate(parse(text).document)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise PolicyError(
            f"it was approved under earlier rules for policies and is none by today's: see {place}"
        ) from None


def propose(journal: Journal, text: str, *, by: str, note: str, seen: str = "") -> PolicyVersion:
    """Write down a policy that somebody wants in force; nothing decides by it yet.

    `seen` is the policy that it was made from, where that was the one in force.

    Raises:
        InputError: the name is missing, it is in force or waits already, or another was put in
            force meanwhile.
        PolicyError: it has issues.
    """
    by, note = " ".join(by.split()), note.strip()
    if not by:
        raise InputError("--by is empty: name the person who proposes the policy")
    policy = sound_policy(text, "the policy", "nightscreen policy check FILE")
    present, version = label_in_force(journal)
    if seen and seen != present:
        raise InputError(
            f"{present} was put in force meanwhile; see what it changes, and propose again"
        )
    # A default policy that nobody approved yet may be proposed as it is, to have it signed off; a
    # form filled in over it that changes nothing is a slip.
    approved = version_in_force(journal, journal.clock()) is not None
    if policy.label == present and (approved or seen):
        raise InputError(f"{policy.label} is in force already: nothing in it is changed")
    if policy.label != present and (policy.name, policy.version) == (
        present.rpartition("@")[0],
        version,
    ):
        raise InputError(
            f"version {policy.version} is in force with other rules; give yours another version"
        )
    store = Records(journal, PolicyVersion)
    if any(version.policy == policy.label for version in store.all(state=PolicyState.PROPOSED)):
        raise InputError(f"{policy.label} is proposed already and waits for approval")
    now = journal.clock()
    made = PolicyVersion(
        key=f"{to_instant(now).astimezone(LAGOS):%Y%m%d}-{secrets.token_hex(4)}",
        at=now,
        policy=policy.label,
        version=policy.version,
        text=text,
        replaces=present,
        proposed_by=by,
        note=note,
    )
    store.add([made])
    return made


def decide_version(
    journal: Journal,
    actor: Actor,
    key: str,
    decision: Literal[PolicyState.APPROVED, PolicyState.REFUSED],
    *,
    reason: str = "",
) -> PolicyVersion:
    """Approve or refuse what was proposed; what is approved is in force for runs that begin after.

    A proposer may refuse their own proposal, which takes it back, and never approve it.

    Raises:
        NotAllowedError: the actor has no right to it, or proposed what is to be approved.
        InputError: it does not wait, or the policy that it was to replace is not in force any more.
        PolicyError: it has issues by today's rules for policies.
    """
    store = Records(journal, PolicyVersion)
    with _ONE_AT_A_TIME:
        found = store.find(key)
        if found is None or found.state != PolicyState.PROPOSED:
            raise InputError("this proposal does not wait any more: somebody has decided about it")
        own = actor.is_one_of([found.proposed_by])
        approves = decision is PolicyState.APPROVED
        if approves or not own:
            actor.require(journal, POLICY)
        if approves:
            _require_approvable(journal, found, actor)
        now = journal.clock()
        change = {
            "decision": decision,
            "decided_by": actor.name,
            "decided_at": now,
            "reason": reason,
        }
        decided = found.model_copy(update=change)
        if not store.replace(decided, found, now):
            raise InputError("this proposal does not wait any more: somebody has decided about it")
    actor.note(
        journal,
        "policy approved" if approves else "proposal taken back" if own else "policy refused",
        policy=decided.policy,
        version=decided.version,
        replaces=decided.replaces,
        proposed_by=decided.proposed_by,
        reason=decided.reason,
    )
    return decided


def _require_approvable(journal: Journal, found: PolicyVersion, actor: Actor) -> None:
    actor.require_other(
        [found.proposed_by], "You proposed this yourself; somebody else must approve it."
    )
    present, _ = label_in_force(journal)
    if present != found.replaces:
        raise InputError(
            f"this was proposed to replace {found.replaces}, and {present} is in force by now: "
            "refuse it, and ask for a new proposal"
        )
    sound_policy(found.text, found.policy, f"nightscreen policy show {found.policy}")
