"""`nightscreen contest`: customers' objections, their clocks, and asking once more.

The rules are in `privacy.contests`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.common_options import (
    CustomerArgument,  # noqa: TC001 - Typer reads the annotation when it runs
    JsonOption,  # noqa: TC001 - Typer reads the annotation when it runs
)
from nightscreen.cli.journal_context import opened_journal
from nightscreen.cli.output import lagos_time, print_json
from nightscreen.files.person import named_by_account
from nightscreen.schemas.contests import ContestAbout, ContestOutcome
from nightscreen.schemas.errors import NightscreenError
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.journal import Journal
    from nightscreen.schemas.contests import Contest

contest_app = typer.Typer(
    help="Customers who contest a decision, or how their data are handled.", no_args_is_help=True
)
_STOPPED = 3
"""Exit status of a run that was stopped or waits for approval: it is resumed with its input."""
IdArgument = Annotated[str, typer.Argument(metavar="CONTEST_ID", help="Id of the contest.")]


@contest_app.command(
    "open",
    epilog="Example: nightscreen contest open CUST-0000004 --by 'Ada Eze' "
    "--said 'The loan was settled in May'",
)
def open_(
    customer_id: CustomerArgument,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who takes it down.")],
    said: Annotated[str, typer.Option(metavar="TEXT", help="What the customer says.")],
    batch: Annotated[str, typer.Option(help="Batch name, where several know the customer.")] = "",
    is_complex: Annotated[
        bool, typer.Option("--complex", help="The longer clock counts: it needs looking into.")
    ] = False,
    data_protection: Annotated[
        bool,
        typer.Option("--data-protection", help="It is about the customer's data, not a decision."),
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Write down that a customer contests; notices and offers to them pause meanwhile."""
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.desk.audit import write_by_command
    from nightscreen.privacy.contests import open_contest

    about = ContestAbout.DATA_PROTECTION if data_protection else ContestAbout.DECISION
    with opened_journal() as journal:
        made = open_contest(
            journal,
            settings_of_command().contest,
            customer_id,
            by=named_by_account(by),
            said=said,
            batch=batch,
            about=about,
            is_complex=is_complex,
        )
        write_by_command(
            journal, "contest recorded", customer_id=customer_id, contest=made.key, named=by
        )
        _show(journal, made, json_output=json_output)


@contest_app.command(
    "answer",
    epilog="Example: nightscreen contest answer 20260301-a1b2c3d4 --by 'Ngozi Bello' "
    "--outcome changed --decision approve --answer 'The loan is settled, we approve.'",
)
def answer(
    contest_id: IdArgument,
    by: Annotated[
        str, typer.Option(metavar="NAME", help="Who answers: nobody who decided before.")
    ],
    outcome: Annotated[ContestOutcome, typer.Option(help="What happens to the decision.")],
    text: Annotated[
        str, typer.Option("--answer", metavar="TEXT", help="The answer to the customer.")
    ],
    decision: Annotated[
        str, typer.Option(help="The new decision: approve, review or decline.")
    ] = "",
    json_output: JsonOption = False,
) -> None:
    """Answer a contest; a changed decision counts as a review by the person who answers.

    Where the desk has users, one of them answers there.
    """
    from nightscreen.cli.deciding import require_no_desk
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.desk.audit import write_by_command
    from nightscreen.privacy.contests import answer_contest
    from nightscreen.schemas.errors import InputError

    if decision not in ("", Decision.APPROVE, Decision.REVIEW, Decision.DECLINE):
        raise InputError("--decision must be approve, review or decline")
    settings = settings_of_command()
    require_no_desk(settings, "/contests")
    with opened_journal() as journal:
        answered = answer_contest(
            journal,
            contest_id,
            by=named_by_account(by),
            answer=text,
            outcome=outcome,
            decision=Decision(decision) if decision else None,
            above=settings.override_above,
        )
        write_by_command(
            journal,
            "contest answered",
            customer_id=answered.customer_id,
            contest=contest_id,
            outcome=outcome.value,
            decision=decision,
            named=by,
        )
        _show(journal, answered, json_output=json_output)


@contest_app.command(
    "ask-again",
    epilog="Example: nightscreen contest ask-again 20260301-a1b2c3d4 --check karma --by 'Ada Eze'",
)
def ask_again_(
    contest_id: IdArgument,
    check: Annotated[str, typer.Option(help="The check that is asked once more.")],
    by: Annotated[str, typer.Option(metavar="NAME", help="Who asks.")],
    json_output: JsonOption = False,
) -> None:
    """Ask one check of the customer once more, whatever the age of its answer, under a cap."""
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.screen import screen_file
    from nightscreen.privacy.contests import ask_again

    settings = settings_of_command()
    with opened_journal() as journal:
        parameters = ask_again(journal, settings, contest_id, check, by=named_by_account(by))
    try:
        status = screen_file(parameters.model_dump(exclude_defaults=True), json_output=json_output)
    except NightscreenError:
        Path(parameters.input).unlink(missing_ok=True)
        raise
    if status != _STOPPED:
        Path(parameters.input).unlink(missing_ok=True)
    raise typer.Exit(status)


@contest_app.command("list", epilog="Example: nightscreen contest list --json")
def list_(
    everything: Annotated[
        bool, typer.Option("--all", help="Those that are answered too, last.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """List the open contests, the next due first."""
    from nightscreen.privacy.contests import list_contests

    with opened_journal() as journal:
        found = list_contests(journal, answered=everything)
    if json_output:
        document = {"contests": found}
        print_json(document)
        return
    for contest in found:
        typer.echo(contest_line(contest))
    if not found:
        typer.echo("No contest is open.")


def contest_line(contest: Mapping[str, Any]) -> str:
    """Return a contest in one line, as the list and `explain` show it."""
    about = contest["about"].replace("_", " ")
    if contest["state"] == "open":
        clock = f"due {lagos_time(contest['due_at'])}{', OVERDUE' * contest['overdue']}"
    else:
        clock = (
            f"answered {lagos_time(contest['answered_at'])} by {contest['answered_by']}: "
            f"{contest['outcome']}{', late' * contest['overdue']}"
        )
    return (
        f"{contest['contest_id']}  {contest['customer_id']} in {contest['batch']}  {about}, "
        f"opened {lagos_time(contest['opened_at'])}, {clock}"
    )


def _show(journal: Journal, contest: Contest, *, json_output: bool) -> None:
    from nightscreen.privacy.contests import contest_document

    document = contest_document(contest, journal.clock())
    if json_output:
        print_json(document)
    else:
        typer.echo(contest_line(document))
