"""`nightscreen policy`: a policy's issues, what it would have decided, which one is in force.

Checking and versions belong to `policy`, replaying to `results/backtest`; here they are
reported.
"""

import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import group
from nightscreen.cli.output import print_json
from nightscreen.schemas.errors import InputError, PolicyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.journal import Journal
    from nightscreen.policy.load import Checked
    from nightscreen.results.outcomes import PaidAfterwards
    from nightscreen.schemas.contests import PolicyVersion
    from nightscreen.schemas.policy import Policy

MOST_POLICIES = 2
_MOST_REASONS = 15
_VERSION = {"key", "policy", "version", "replaces", "proposed_by", "note", "decided_by", "reason"}

policy_app = group("Decision rules: check, backtest, propose, approve.")


@policy_app.command(epilog="Example: nightscreen policy check mine.toml")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML file with the rules.")],
    json_output: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Name every issue of a policy at its place, or say its rules in words."""
    from nightscreen.policy.file import read_text
    from nightscreen.policy.load import check_policy

    checked = check_policy(read_text(file))
    if json_output:
        print_json(check_document(file, checked))
    elif checked.policy is not None:
        print_policy(checked.policy)
    else:
        for issue in checked.issues:
            rule = f" {issue.rule}:" if issue.rule else ""
            typer.echo(f"{file.name}:{issue.line}:{rule} {issue.message}")
        number = len(checked.issues)
        typer.echo(f"{number} issue{'s' if number > 1 else ''}; nothing was changed")
    if checked.policy is None:
        raise typer.Exit(2)


def check_document(file: Path, checked: "Checked") -> dict[str, Any]:
    """Return what a check found, as JSON has it."""
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


def print_policy(policy: "Policy") -> None:
    """Print a policy's rules in their order, in words."""
    typer.echo(f"{policy.label}, version {policy.version}: {len(policy.rules)} rules, no issues")
    if policy.allow_sensitive:
        typer.echo("It may decide by gender, marital status or state of origin.")
    for number, rule in enumerate(policy.in_words(), start=1):
        typer.echo(f"{number:>3}. {rule.code}: {rule.effect} where {rule.condition}")
        typer.echo(f"     {rule.team}")
    typer.echo(
        "Decline goes before review, review before approve. A row with evidence missing is never "
        "approved: it is undecided."
    )


@policy_app.command(
    epilog="Example: nightscreen policy backtest --policy mine.toml out/20260301-220000-a1b2c3"
)
def backtest(
    policy: Annotated[
        list[Path], typer.Option(help="TOML file with the rules; give it twice to compare two.")
    ],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR...", help="Folders of past runs.")],
    output: Annotated[
        Path | None, typer.Option(help="Folder for the list of customers who would move.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Say what a policy would have decided over past runs; nothing is asked, nothing spent."""
    from nightscreen.policy.load import load_policy
    from nightscreen.results.backtest import backtest as replay
    from nightscreen.results.backtest import past_run

    if len(policy) > MOST_POLICIES:
        raise PolicyError("give --policy once or twice: two policies can be compared at a time")
    policies = [load_policy(path) for path in policy]
    found = replay([past_run(folder) for folder in runs], policies, output, _paid()).document()
    found["files"] = policy_files(output)
    if json_output:
        print_json(found)
    else:
        print_backtest(found)


def _paid() -> "PaidAfterwards | None":
    """Return what the journal knows of loans.

    None if there is no journal, or no version is known.
    """
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.journal_context import made_journal
    from nightscreen.journal.opening import journal_exists
    from nightscreen.results.outcomes import PaidAfterwards

    settings = settings_of_command()
    if not journal_exists(settings.home, settings.journal_url):
        return None
    with made_journal(settings) as journal:
        return PaidAfterwards.of(journal, settings.bad_loan)


@policy_app.command(
    epilog="Example: nightscreen policy approve acme@0123456789ab --by 'Ngozi Bello'"
)
def approve(
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="The version that waits, as NAME@DIGEST.")
    ],
    by: Annotated[str, typer.Option(help="Who approves it; nobody approves their own proposal.")],
    note: Annotated[str, typer.Option(help="Why, or where the minutes are.")] = "",
    json_output: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Put a proposed policy in force for every run that begins after and names no file.

    Where the desk has users, one of them approves it there.
    """
    from nightscreen.cli.deciding import require_no_desk
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.journal_context import made_journal
    from nightscreen.files.person import named_by_account
    from nightscreen.policy.versions import decide_version, read_policy, versions
    from nightscreen.schemas.contests import PolicyState

    if not by.strip():
        raise InputError("--by is empty: name the person who approves the policy")
    settings = settings_of_command()
    require_no_desk(settings, "/policy")
    with made_journal(settings) as journal:
        waiting = [each for each in versions(journal) if each.state is PolicyState.PROPOSED]
        found = next((each for each in waiting if version in {each.policy, each.key}), None)
        if found is None:
            raise InputError(
                f"no version {version} waits for approval; propose one with: nightscreen policy "
                "propose FILE --by NAME"
            )
        name = named_by_account(by)
        decided = decide_version(journal, found.key, PolicyState.APPROVED, by=name, reason=note)
        policy = read_policy(decided.text)
        _write_into_audit(journal, "policy approved", policy, by=name, note=note)
    if json_output:
        print_json(version_document(decided))
    else:
        typer.echo(
            f"{decided.policy}, version {decided.version}: approved by {name}, in force for every "
            "run that begins from now on"
        )


@policy_app.command(
    epilog="Example: nightscreen policy propose mine.toml --by 'Ada Eze' --note 'as agreed in May'"
)
def propose(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML file with the rules.")],
    by: Annotated[str, typer.Option(help="Who proposes it.")],
    note: Annotated[str, typer.Option(help="Why the policy should change.")] = "",
    json_output: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Propose a policy to be put in force; somebody else approves it."""
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.journal_context import made_journal
    from nightscreen.files.person import named_by_account
    from nightscreen.policy.file import read_text
    from nightscreen.policy.versions import propose as write_proposal
    from nightscreen.policy.versions import read_policy

    if not by.strip():
        raise InputError("--by is empty: name the person who proposes the policy")
    text = read_text(file)
    with made_journal(settings_of_command()) as journal:
        made = write_proposal(journal, text, by=named_by_account(by), note=note)
        _write_into_audit(journal, "policy proposed", read_policy(text), by=by, note=note)
    if json_output:
        print_json(version_document(made))
    else:
        typer.echo(
            f"{made.policy}, version {made.version}: proposed to replace {made.replaces}; "
            "it waits for approval by somebody else, at the desk under Policy, or without a desk "
            f"with: nightscreen policy approve {made.policy} --by NAME"
        )


def _write_into_audit(
    journal: "Journal", action: str, policy: "Policy", *, by: str, note: str
) -> None:
    from nightscreen.journal.audit import Audit

    Audit(journal).write_by_command(
        action, policy=policy.label, version=policy.version, named=by, note=note
    )


def version_document(version: "PolicyVersion") -> dict[str, Any]:
    """Return a version as JSON has it, without its text."""
    from nightscreen.schemas.clock import instant_text

    found = version.model_dump(include=_VERSION) | {"state": version.state}
    times = {"proposed_at": version.at, "decided_at": version.decided_at or None}
    return found | {name: instant_text(at) for name, at in times.items()}


@policy_app.command(epilog="Example: nightscreen policy show")
def show(
    policy: Annotated[
        str, typer.Argument(metavar="[NAME@DIGEST]", help="A version; default: the one in force.")
    ] = "",
) -> None:
    """Print a policy as a file has it: the one in force, or a version that was proposed."""
    from nightscreen.cli.journal_context import opened_journal
    from nightscreen.policy.versions import text_in_force, versions

    with opened_journal() as journal:
        if not policy:
            text: str | None = text_in_force(journal)
        else:
            text = next((e.text for e in versions(journal) if e.policy == policy), None)
    if text is None:
        raise InputError(f"there is no version {policy}")
    sys.stdout.write(text)


def policy_files(output: Path | None) -> list[str]:
    """Return the files a backtest wrote."""
    from nightscreen.results.backtest import CSV, PARQUET

    return [] if output is None else [str(output / name) for name in (PARQUET, CSV)]


def print_backtest(found: "Mapping[str, Any]") -> None:
    """Print what a backtest found, for people."""
    rows = sum(run["rows"] for run in found["runs"])
    typer.echo(f"{rows:,} rows of {len(found['runs'])} run(s) decided again; nothing was asked.")
    for run in found["runs"]:
        if run["purpose"] is None:
            typer.echo(f"  {run['run_id']} does not say its purpose; rules that name it stay open")
    for replayed in found["policies"]:
        typer.echo(f"\nFrom what was recorded to {replayed['policy']}:")
        _print_moves(replayed)
        _print_paid(replayed, "what was recorded", replayed["policy"])
    if found["between"] is not None:
        first, second = (replayed["policy"] for replayed in found["policies"])
        typer.echo(f"\nFrom {first} to {second}:")
        _print_moves(found["between"])
        _print_paid(found["between"], first, second)
    for file in found["files"]:
        typer.echo(f"  list      {file}")


def _print_moves(moves: "Mapping[str, Any]") -> None:
    typer.echo(f"  {'moved':<24}{_weight(moves['moved'])}")
    for cell in moves["matrix"]:
        way = f"{cell['from']} to {cell['to']}" if cell["from"] != cell["to"] else cell["to"]
        same = " (as before)" if cell["from"] == cell["to"] else ""
        typer.echo(f"  {way:<24}{_weight(cell)}{same}")
    _print_reasons(moves["why"])


def _print_paid(moves: "Mapping[str, Any]", before: str, after: str) -> None:
    from nightscreen.cli.outcomes import print_paid

    if moves["outcomes"] is not None:
        print_paid(moves["outcomes"], (before, after))


def _print_reasons(why: "Sequence[Mapping[str, Any]]") -> None:
    for move in why[:_MOST_REASONS]:
        way = f"{move['from']} to {move['to']}"
        typer.echo(f"    because {move['reason']:<30} {way:<24}{_weight(move)}")
    if len(why) > _MOST_REASONS:
        typer.echo(f"    and {len(why) - _MOST_REASONS} more kinds; see them with --json")


def _weight(cell: "Mapping[str, Any]") -> str:
    unknown = cell["exposure_unknown_rows"]
    more = f" and {unknown:,} of unknown exposure" if unknown else ""
    return f"{cell['rows']:>10,} rows  ₦{Decimal(cell['exposure']):>18,.2f}{more}"
