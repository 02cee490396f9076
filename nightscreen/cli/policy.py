"""`nightscreen policy`: a policy's issues, what it would have decided, which one is in force.

Checking and versions belong to `policy`, replaying to `results/backtest`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import Result, command, group
from nightscreen.cli.context import opened_journal, settings_of_command
from nightscreen.journal import journal_of
from nightscreen.journal.actor import POLICY, Actor
from nightscreen.journal.opening import journal_exists
from nightscreen.policy.load import check_policy, load_policy, read_text
from nightscreen.policy.versions import decide_version, read_policy, text_in_force, versions
from nightscreen.policy.versions import propose as write_proposal
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.contests import PolicyState
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from nightscreen.policy.load import Checked
    from nightscreen.results.outcomes import LoanPerformance
    from nightscreen.schemas.contests import PolicyVersion

_VERSION = {"key", "policy", "version", "replaces", "proposed_by", "note", "decided_by", "reason"}

app = group("policy", "Decision rules: check, backtest, propose, approve.")
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="TOML file with the rules.")]


@command("policy check mine.toml", of=app, view="policy-check")
def check(file: FileArgument) -> Result:
    """Name every issue of a policy at its place, or say its rules in words."""
    checked = check_policy(read_text(file))
    rules = [] if checked.policy is None else checked.policy.in_words()
    status = 2 if checked.policy is None else 0
    return Result(
        _check_document(file, checked), status, more={"policy_": checked.policy, "in_words": rules}
    )


def _check_document(file: Path, checked: Checked) -> dict[str, Any]:
    policy = checked.policy
    return {
        "file": str(file),
        "ok": policy is not None,
        "policy": None if policy is None else policy.label,
        "version": None if policy is None else policy.version,
        "issues": [
            {"line": issue.line, "rule": issue.rule or None, "message": issue.message}
            for issue in checked.issues
        ],
        "rules": [] if policy is None else [rule.model_dump(mode="json") for rule in policy.rules],
    }


@command("policy backtest --policy mine.toml out/20260301-220000-a1b2c3", of=app, view="backtest")
def backtest(
    policy: Annotated[Path, typer.Option(help="TOML file with the rules.")],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR...", help="Folders of past runs.")],
    output: Annotated[
        Path | None, typer.Option(help="Folder for the list of customers who would move.")
    ] = None,
    than: Annotated[
        Path | None,
        typer.Option(help="Compare with this policy, and not with what was recorded."),
    ] = None,
) -> Result:
    """Say what a policy would have decided over past runs; nothing is asked, nothing spent."""
    from nightscreen.results.backtest import FILE, listed_backtest, past_run
    from nightscreen.results.backtest import backtest as replay
    from nightscreen.results.outcomes import verdict_in_words

    rules, other = load_policy(policy), None if than is None else load_policy(than)
    past, paid = [past_run(folder) for folder in runs], _paid()
    if output is None:
        found = replay(past, rules, than=other, paid=paid)
    else:
        found = listed_backtest(output, past, rules, than=other, paid=paid)
    files = [] if output is None else [str(output / FILE)]
    more = {"verdict_in_words": verdict_in_words}
    return Result({**found.document(), "files": files}, more=more)


def _paid() -> LoanPerformance | None:
    """Return what the journal knows of loans; None if there is no journal, or none is known."""
    from nightscreen.results.outcomes import LoanPerformance

    settings = settings_of_command()
    if not journal_exists(settings.home, settings.journal_url):
        return None
    with journal_of(settings) as journal:
        return LoanPerformance.of(journal, settings.bad_loan)


@command("policy approve acme@0123456789ab --by 'Ngozi Bello'", of=app, view="policy-version")
def approve(
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="The version that waits, as NAME@DIGEST.")
    ],
    by: Annotated[str, typer.Option(help="Who approves it; nobody approves their own proposal.")],
    note: Annotated[str, typer.Option(help="Why, or where the minutes are.")] = "",
) -> dict[str, Any]:
    """Put a proposed policy in force for every run that begins after and names no file.

    Where the desk has users, one of them approves it there.
    """
    if not by.strip():
        raise InputError("--by is empty: name the person who approves the policy")
    settings = settings_of_command()
    actor = Actor.by_command(settings, by)
    with journal_of(settings) as journal:
        actor.require(journal, POLICY)
        waiting = [each for each in versions(journal) if each.state is PolicyState.PROPOSED]
        found = next((each for each in waiting if version in {each.policy, each.key}), None)
        if found is None:
            raise InputError(
                f"no version {version} waits for approval; propose one with: nightscreen policy "
                "propose FILE --by NAME"
            )
        decided = decide_version(journal, actor, found.key, PolicyState.APPROVED, reason=note)
    return _version_document(decided)


@command(
    "policy propose mine.toml --by 'Ada Eze' --note 'as agreed in May'",
    of=app,
    view="policy-version",
)
def propose(
    file: FileArgument,
    by: Annotated[str, typer.Option(help="Who proposes it.")],
    note: Annotated[str, typer.Option(help="Why the policy should change.")] = "",
) -> dict[str, Any]:
    """Propose a policy to be put in force; somebody else approves it."""
    if not by.strip():
        raise InputError("--by is empty: name the person who proposes the policy")
    text = read_text(file)
    settings = settings_of_command()
    actor = Actor.by_command(settings, by)
    with journal_of(settings) as journal:
        made = write_proposal(journal, text, by=actor.name, note=note)
        about = {"policy": made.policy, "version": made.version, "note": note}
        actor.note(journal, "policy proposed", **about)
    return _version_document(made)


def _version_document(version: PolicyVersion) -> dict[str, Any]:
    """Return a version without its text."""
    found = version.model_dump(include=_VERSION) | {"state": version.state}
    times = {"proposed_at": version.at, "decided_at": version.decided_at or None}
    return found | {name: instant_text(at) for name, at in times.items()}


@command("policy show", of=app, view="policy-text")
def show(
    policy: Annotated[
        str, typer.Argument(metavar="[NAME@DIGEST]", help="A version; default: the one in force.")
    ] = "",
) -> dict[str, Any]:
    """Print a policy as a file has it: the one in force, or a version that was proposed."""
    with opened_journal() as journal:
        text = text_in_force(journal)
        if policy:
            found = (each.text for each in versions(journal) if each.policy == policy)
            text = next(found, "")
    if not text:
        raise InputError(f"there is no version {policy}")
    return {"policy": read_policy(text).label, "text": text}
