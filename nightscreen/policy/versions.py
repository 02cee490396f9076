"""Versions of the policy: proposed by one person, approved by another, in force from then on.

A version is a record of the journal with the whole text. A run without a policy file decides by the
version approved last when it began or, if there is none, by the default policy.
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
    """Return the version approved last as of an instant; None if there is none."""
    return last_approved(Records(journal, PolicyVersion).all(state=PolicyState.APPROVED), at)


def last_approved(candidates: Sequence[PolicyVersion], at: int) -> PolicyVersion | None:
    """Return the version approved last as of an instant, among some versions."""
    approved = [version for version in candidates if version.state == PolicyState.APPROVED]
    earlier = reversed([version for version in approved if version.decided_at <= at])
    return max(earlier, key=lambda version: version.decided_at, default=None)


def policy_in_force(journal: Journal, at: int) -> Policy:
    """Return the policy of runs that began at an instant and have no policy file.

    Raises:
        PolicyError: it was approved under earlier rules and is not valid by the current ones.
    """
    return sound_policy(*_text_of(version_in_force(journal, at)))


def text_in_force(journal: Journal) -> str:
    """Return the text of the policy that is in force now."""
    return _text_of(version_in_force(journal, journal.clock()))[0]


def label_in_force(journal: Journal) -> tuple[str, str]:
    """Return label and version of the policy in force now, even if it is no longer valid."""
    current = version_in_force(journal, journal.clock())
    if current is None:
        default = read_policy(read_text(None))
        return default.label, default.version
    return current.policy, current.version


def _text_of(version: PolicyVersion | None) -> tuple[str, str, str]:
    """Return a version's text, its name for people, and the command that shows its issues."""
    if version is None:
        return read_text(None), _DEFAULT, f"nightscreen policy check {DEFAULT_POLICY}"
    return version.text, version.policy, f"nightscreen policy show {version.policy} > policy.toml"


def approval_of(journal: Journal, policy: str, at: int) -> PolicyVersion | None:
    """Return the version as which a policy was approved last; None if nobody has."""
    return last_approved([each for each in versions(journal) if each.policy == policy], at)


def read_policy(text: str) -> Policy:
    """Return the policy of a text that was checked before; its conditions are not checked again.

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
    """Save a proposed policy, which has no effect until it is approved.

    `seen` is the policy in force that it was made from, if any.

    Raises:
        InputError: the name is missing, the policy is in force or proposed already, or another was
            put in force meanwhile.
        PolicyError: it has issues.
    """
    by, note = " ".join(by.split()), note.strip()
    if not by:
        raise InputError("--by is empty: name the person who proposes the policy")
    policy = sound_policy(text, "the policy", "nightscreen policy check FILE")
    current, version = label_in_force(journal)
    if seen and seen != current:
        raise InputError(
            f"{current} was put in force meanwhile; see what it changes, and propose again"
        )
    # A default policy without approval may be proposed unchanged, to have it signed off; but a form
    # that was filled in over it and changes nothing is a mistake.
    approved = version_in_force(journal, journal.clock()) is not None
    if policy.label == current and (approved or seen):
        raise InputError(f"{policy.label} is in force already: nothing in it is changed")
    if policy.label != current and (policy.name, policy.version) == (
        current.rpartition("@")[0],
        version,
    ):
        raise InputError(
            f"version {policy.version} is in force with other rules; give yours another version"
        )
    store = Records(journal, PolicyVersion)
    if any(version.policy == policy.label for version in store.all(state=PolicyState.PROPOSED)):
        raise InputError(f"{policy.label} is proposed already and waits for approval")
    now = journal.clock()
    proposal = PolicyVersion(
        key=f"{to_instant(now).astimezone(LAGOS):%Y%m%d}-{secrets.token_hex(4)}",
        at=now,
        policy=policy.label,
        version=policy.version,
        text=text,
        replaces=current,
        proposed_by=by,
        note=note,
    )
    store.add([proposal])
    return proposal


def decide_version(
    journal: Journal,
    actor: Actor,
    key: str,
    decision: Literal[PolicyState.APPROVED, PolicyState.REFUSED],
    *,
    reason: str = "",
) -> PolicyVersion:
    """Approve or refuse a proposal; an approved one is in force for runs that begin later.

    A proposer may refuse their own proposal, which withdraws it, but never approve it.

    Raises:
        NotAllowedError: the actor has no right to it, or approves their own proposal.
        InputError: it no longer waits, or the policy that it replaces is no longer in force.
        PolicyError: it has issues by the current rules for policies.
    """
    store = Records(journal, PolicyVersion)
    with _ONE_AT_A_TIME:
        proposal = store.find(key)
        if proposal is None or proposal.state != PolicyState.PROPOSED:
            raise InputError("this proposal does not wait any more: somebody has decided about it")
        own = actor.is_one_of([proposal.proposed_by])
        approves = decision is PolicyState.APPROVED
        if approves or not own:
            actor.require(journal, POLICY)
        if approves:
            _require_approvable(journal, proposal, actor)
        now = journal.clock()
        change = {
            "decision": decision,
            "decided_by": actor.name,
            "decided_at": now,
            "reason": reason,
        }
        decided = proposal.model_copy(update=change)
        if not store.replace(decided, proposal, now):
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


def _require_approvable(journal: Journal, proposal: PolicyVersion, actor: Actor) -> None:
    actor.require_other(
        [proposal.proposed_by], "You proposed this yourself; somebody else must approve it."
    )
    current, _ = label_in_force(journal)
    if current != proposal.replaces:
        raise InputError(
            f"this was proposed to replace {proposal.replaces}, and {current} is in force by now: "
            "refuse it, and ask for a new proposal"
        )
    sound_policy(proposal.text, proposal.policy, f"nightscreen policy show {proposal.policy}")
