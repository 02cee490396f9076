"""`nightscreen review import` and `nightscreen runs release`: what people decided comes back in.

`results.reviews` interprets a returned row; `report.anomaly_check` says what is
plausible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from nightscreen.cli.journal_context import opened_journal
from nightscreen.cli.output import print_json

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.results.reviews import Judged, Taken
    from nightscreen.schemas.decisions import ReviewFinding

MOST_TOLD = 50


def import_reviews(file: Path, *, days: int, partial: bool, json_output: bool) -> int:
    """Take a returned decision list in and return the exit status: 2 where any row is mistaken.

    Raises:
        InputError: the file is no decision list, or there is no journal.
        UsageError: a row overrides, and the desk has users: one of them decides there.
    """
    from nightscreen.cli.deciding import require_no_desk
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.files.person import user_name
    from nightscreen.journal.audit import Audit
    from nightscreen.journal.customers import Customers
    from nightscreen.journal.reviews import Reviews
    from nightscreen.policy.declarations import read_declarations
    from nightscreen.results.decision_files import read_returned
    from nightscreen.results.notices import rewrite_reviewed
    from nightscreen.results.reviews import Judge, take_in

    rows = read_returned(file)
    settings = settings_of_command()
    with opened_journal() as journal:
        reviews = Reviews.of(journal)
        judge = Judge(
            Customers.of(journal), reviews, journal.pseudonyms, now=journal.clock(), days=days
        )
        judged = judge.judge(rows)
        if any(review.overrides for found in judged.reviews.values() for review in found):
            require_no_desk(settings, "/decisions")
        above, account = settings.override_above, user_name()
        taken = take_in(journal, judged, above=above, partial=partial, imported_by=account)
        if taken.saved:
            rewrite_reviewed(journal, judged.runs, read_declarations(settings))
            runs = sorted(judged.runs)
            Audit(journal).write_by_command("reviews imported", rows=taken.saved, runs=runs)
    document = _document(judged, len(rows), taken)
    if json_output:
        print_json(document)
    else:
        _print_result(document, judged)
    return 2 if judged.mistakes else 0


def _document(judged: Judged, rows: int, taken: Taken) -> dict[str, Any]:
    reviews = [review for found in judged.reviews.values() for review in found]
    if not any(taken):
        reviews = []
    return {
        "rows": rows,
        "imported": taken.saved,
        "waiting_for_second_person": taken.waiting,
        "overrides": sum(review.overrides for review in reviews),
        "already_known": judged.known,
        "mistakes": [_finding(finding) for finding in judged.mistakes],
        "notices": [_finding(finding) for finding in judged.findings if not finding.refused],
    }


def _finding(found: ReviewFinding) -> dict[str, Any]:
    return {
        "line": found.line,
        "sheet": found.sheet or None,
        "column": found.column,
        "code": found.code,
        "hint": found.hint,
    }


def _print_result(document: dict[str, Any], judged: Judged) -> None:
    for finding in judged.findings[:MOST_TOLD]:
        place = f"{finding.sheet}, row {finding.line}" if finding.sheet else f"line {finding.line}"
        word = "" if finding.refused else "notice: "
        typer.echo(f"{place}: {finding.column}: {word}{finding.hint}", err=True)
    more = len(judged.findings) - MOST_TOLD
    if more > 0:
        typer.echo(f"and {more:,} more; --json lists all", err=True)
    mistakes = len(judged.mistakes)
    typer.echo(
        f"{document['rows']:,} reviewed rows: {document['imported']:,} imported "
        f"({document['overrides']:,} of them override), {document['already_known']:,} known "
        f"already, {mistakes:,} mistaken."
    )
    if document["waiting_for_second_person"]:
        typer.echo(
            f"{document['waiting_for_second_person']:,} more wait for a second person, who "
            "confirms them at the desk under Decisions (NIGHTSCREEN_OVERRIDE_ABOVE)."
        )
    elif mistakes and not document["imported"]:
        typer.echo("Nothing was imported; correct these rows, or import the others with --partial.")


def release_run(run_id: str, *, reason: str, json_output: bool) -> None:
    """Release a run that was held for an implausible night.

    Raises:
        InputError: there is no such run, it is not held, or no reason was given.
    """
    from nightscreen.journal.reviews import Reviews
    from nightscreen.report.anomaly_check import release

    with opened_journal() as journal:
        report = release(journal, Reviews.of(journal), run_id, reason)
    document = {
        "run_id": run_id,
        "publishable": report["publishable"],
        "held": report["held"],
        "released": report["released"],
    }
    if json_output:
        print_json(document)
        return
    typer.echo(f"Run {run_id} is released. It had been held because:")
    for held_reason in report["held"]:
        typer.echo(f"  {held_reason}")
