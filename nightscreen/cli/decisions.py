"""`nightscreen policy`, and what is imported afterwards: `review`, `notices`, `outcomes`.

`policy`, `results` and `operations.loan_book` hold the rules.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import Result, command, group, show
from nightscreen.cli.context import opened_journal, settings_of_command
from nightscreen.cli.output import about, say
from nightscreen.journal import journal_of
from nightscreen.journal.actor import POLICY, Actor
from nightscreen.journal.opening import journal_exists
from nightscreen.operations.loan_book import import_outcomes
from nightscreen.policy.load import check_policy, load_policy, read_text
from nightscreen.policy.versions import decide_version, read_policy, text_in_force, versions
from nightscreen.policy.versions import propose as write_proposal
from nightscreen.results.notices import import_sent
from nightscreen.results.outcomes import LoanPerformance, known_outcomes, outcomes_report
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.contests import PolicyState
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nightscreen.policy.load import Checked
    from nightscreen.schemas.contests import PolicyVersion

_VERSION = {"key", "policy", "version", "replaces", "proposed_by", "note", "decided_by", "reason"}

policies = group("policy", "Decision rules: check, backtest, propose, approve.")
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="TOML file with the rules.")]


@command("policy check mine.toml", of=policies, view="policy-check")
def check(file: FileArgument) -> Result:
    """List every issue of a policy with its line, or its rules in words."""
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


@command(
    "policy backtest --policy mine.toml out/20260301-220000-a1b2c3", of=policies, view="backtest"
)
def backtest(
    policy: Annotated[Path, typer.Option(help="TOML file with the rules.")],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR...", help="Folders of past runs.")],
    output: Annotated[
        Path | None, typer.Option(help="Folder for the list of customers who would move.")
    ] = None,
    than: Annotated[
        Path | None,
        typer.Option(help="Compare with this policy instead of the recorded decisions."),
    ] = None,
) -> Result:
    """Show what a policy would have decided in past runs; free, makes no calls."""
    from nightscreen.results.backtest import FILE, listed_backtest, past_run
    from nightscreen.results.backtest import backtest as replay
    from nightscreen.results.outcomes import verdict_in_words

    rules, other = load_policy(policy), None if than is None else load_policy(than)
    past, performance = [past_run(folder) for folder in runs], _loan_performance()
    if output is None:
        compared = replay(past, rules, than=other, paid=performance)
    else:
        compared = listed_backtest(output, past, rules, than=other, paid=performance)
    files = [] if output is None else [str(output / FILE)]
    more = {"verdict_in_words": verdict_in_words}
    return Result({**compared.document(), "files": files}, more=more)


def _loan_performance() -> LoanPerformance | None:
    """Return how loans were repaid; None without a journal or without known loans."""
    settings = settings_of_command()
    if not journal_exists(settings.home, settings.journal_url):
        return None
    with journal_of(settings) as journal:
        return LoanPerformance.of(journal, settings.bad_loan)


@command("policy approve acme@0123456789ab --by 'Ngozi Bello'", of=policies, view="policy-version")
def approve(
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="The version that waits, as NAME@DIGEST.")
    ],
    by: Annotated[str, typer.Option(help="Who approves it; not the person who proposed it.")],
    note: Annotated[str, typer.Option(help="Why, or where the minutes are.")] = "",
) -> dict[str, Any]:
    """Put a proposed policy in force for every later run that names no policy file.

    Where the desk has users, one of them approves it there.
    """
    if not by.strip():
        raise InputError("--by is empty: name the person who approves the policy")
    settings = settings_of_command()
    actor = Actor.by_command(settings, by)
    with journal_of(settings) as journal:
        actor.require(journal, POLICY)
        proposed = [each for each in versions(journal) if each.state is PolicyState.PROPOSED]
        chosen = next((each for each in proposed if version in {each.policy, each.key}), None)
        if chosen is None:
            raise InputError(
                f"no version {version} waits for approval; propose one with: nightscreen policy "
                "propose FILE --by NAME"
            )
        decided = decide_version(journal, actor, chosen.key, PolicyState.APPROVED, reason=note)
    return _version_document(decided)


@command(
    "policy propose mine.toml --by 'Ada Eze' --note 'as agreed in May'",
    of=policies,
    view="policy-version",
)
def propose(
    file: FileArgument,
    by: Annotated[str, typer.Option(help="Who proposes it.")],
    note: Annotated[str, typer.Option(help="Why the policy should change.")] = "",
) -> dict[str, Any]:
    """Propose a policy to be put in force; another person approves it."""
    if not by.strip():
        raise InputError("--by is empty: name the person who proposes the policy")
    text = read_text(file)
    settings = settings_of_command()
    actor = Actor.by_command(settings, by)
    with journal_of(settings) as journal:
        proposal = write_proposal(journal, text, by=actor.name, note=note)
        about = {"policy": proposal.policy, "version": proposal.version, "note": note}
        actor.note(journal, "policy proposed", **about)
    return _version_document(proposal)


def _version_document(version: PolicyVersion) -> dict[str, Any]:
    fields = version.model_dump(include=_VERSION) | {"state": version.state}
    times = {"proposed_at": version.at, "decided_at": version.decided_at or None}
    return fields | {name: instant_text(at) for name, at in times.items()}


@command("policy show", of=policies, view="policy-text")
def show_text(
    policy: Annotated[
        str, typer.Argument(metavar="[NAME@DIGEST]", help="A version; default: the one in force.")
    ] = "",
) -> dict[str, Any]:
    """Print a policy's TOML: the one in force, or a version that was proposed."""
    with opened_journal() as journal:
        text = text_in_force(journal)
        if policy:
            texts = (each.text for each in versions(journal) if each.policy == policy)
            text = next(texts, "")
    if not text:
        raise InputError(f"there is no version {policy}")
    return {"policy": read_policy(text).label, "text": text}


# --- imports ---

reviews = group("review", "Reviewed decision lists.")
notices = group("notices", "Notices of decisions to customers.")
outcomes = group("outcomes", "How the loans you decided on were repaid.")
_MOST_SHOWN = 50  # a choice: mistakes, about a screenful; `--json` lists all


def _say_mistakes(mistakes: Sequence[Mapping[str, Any]]) -> None:
    """List the mistakes of a file on stderr, with their lines."""
    for mistake in mistakes[:_MOST_SHOWN]:
        sheet = mistake.get("sheet")
        place = f"{sheet}, row {mistake['line']}" if sheet else f"line {mistake['line']}"
        say(f"{place}: {mistake['column']}: {mistake['hint']}")
    if len(mistakes) > _MOST_SHOWN:
        say(f"and {len(mistakes) - _MOST_SHOWN:,} more; --json lists all")


def _view_with_mistakes(view: str) -> Callable[[dict[str, Any]], None]:
    """Return a function that lists the mistakes on stderr, then prints the view."""

    def show_import(document: dict[str, Any]) -> None:
        _say_mistakes(document["mistakes"])
        show(view, document, {})

    return show_import


@command("review import decisions.xlsx", of=reviews, view=_view_with_mistakes("reviews-imported"))
def import_reviewed(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The list, as CSV or XLSX.")],
    days: Annotated[int, typer.Option(min=1, max=365, help="How long a review is valid.")] = 30,
    partial: Annotated[
        bool, typer.Option("--partial", help="Import the correct rows even if others are not.")
    ] = False,
) -> Result:
    """Import a reviewed list; each row is checked. Exit status 2 if a row has a mistake."""
    from nightscreen.results.decision_files import read_returned  # loads the workbook reader
    from nightscreen.results.reviews import import_reviews

    rows = read_returned(file)
    settings = settings_of_command()
    with opened_journal(settings) as journal:
        actor = Actor.by_command(settings)
        imported = import_reviews(journal, actor, rows, settings, days=days, partial=partial)
    names = ("line", "column", "code", "hint")
    mistakes = [
        {**{name: getattr(each, name) for name in names}, "sheet": each.sheet or None}
        for each in imported.mistakes
    ]
    document = {
        "rows": len(rows),
        "imported": imported.saved,
        "waiting_for_second_person": imported.waiting,
        "overrides": len(imported.overrides) if imported.saved or imported.waiting else 0,
        "already_known": imported.known,
        "mistakes": mistakes,
    }
    return Result(document, 2 if imported.mistakes else 0)


@command("notices import notices.csv", of=notices, view=_view_with_mistakes("notices-imported"))
def import_notices(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="notices.csv, filled in.")],
) -> Result:
    """Import when (told_at) and how (told_how) notices were sent."""
    with opened_journal() as journal:
        added, known, mistakes = import_sent(journal, file)
    document = {
        "imported": added,
        "already_known": known,
        "mistakes": [mistake._asdict() for mistake in mistakes],
    }
    return Result(document, 2 if mistakes else 0)


@command("outcomes import loan-book.csv", of=outcomes, view="person-run")
def import_loans(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="One row per loan and day.")],
    mapping: Annotated[
        str,
        typer.Option(metavar="FILE", help="TOML file that renames, merges or defaults columns."),
    ] = "",
    output: Annotated[
        Path | None, typer.Option(help="Where the quarantine goes; default: the setting OUTPUT.")
    ] = None,
) -> Result:
    """Import a loan book; a loan's later day replaces an earlier one."""
    settings = settings_of_command()
    folder = output or Path(settings.output)
    with opened_journal(settings) as journal:
        path = Path(mapping) if mapping else None
        report = import_outcomes(journal, file, mapping=path, output=folder)
    return Result(report, more=about(report, folder))


@command("outcomes report --json", of=outcomes, view="outcomes")
def repaid(
    batch: Annotated[str, typer.Option(help="Only loans that this batch name decided on.")] = "",
) -> dict[str, Any]:
    """Report repayment by decision, reason, policy and month; what each rule caught and cost."""
    settings = settings_of_command()
    with opened_journal(settings) as journal:
        known = known_outcomes(journal)
        return {"outcomes": outcomes_report(known, settings.bad_loan, batch=batch or None)}
