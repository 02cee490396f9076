"""`nightscreen journal`: what the journal knows of calls and money."""

from __future__ import annotations

import json
import sys

import typer

from cli.opened import opened_journal
from cli.summary import naira
from schemas.money import naira_text
from storage.clock import instant_text


def in_doubt(*, json_output: bool) -> None:
    """Print every call that may have been charged without our knowing."""
    with opened_journal() as journal:
        calls = [
            {
                "call_id": row.call_id,
                "pseudonym": bytes(row.subject).hex(),
                "check": row.check,
                "run_id": row.run_id,
                "at": instant_text(row.sent_at or row.intent_at),
                "trouble": row.trouble,
                "attempt": row.attempt,
                "exposure": naira_text(row.reserved_micro),
            }
            for row in journal.runs.in_doubt()
        ]
        exposure = naira_text(sum(row.reserved_micro for row in journal.runs.in_doubt()))
    if json_output:
        document = {"calls": calls, "count": len(calls), "exposure": exposure}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    for call in calls:
        typer.echo(
            f"{call['pseudonym']}  {call['check']:<13} {call['run_id']}  {call['at']}  "
            f"{call['trouble']:<11} {naira(call['exposure'])}"
        )
    typer.echo(f"{len(calls):,} calls in doubt, up to {naira(exposure)}")


def spend(*, json_output: bool) -> None:
    """Print spending by day and check."""
    with opened_journal() as journal:
        days = [
            {
                "day": day,
                "check": check,
                "calls": spent.calls,
                "spent": naira_text(spent.spent_micro),
                "in_doubt": naira_text(spent.reserved_micro),
            }
            for day, check, spent in journal.money.by_day()
        ]
    if json_output:
        sys.stdout.write(json.dumps({"days": days}, indent=2) + "\n")
        return
    for each in days:
        typer.echo(
            f"{each['day']}  {each['check']:<13} {each['calls']:>9,} calls  "
            f"{naira(each['spent']):>16}  in doubt {naira(each['in_doubt'])}"
        )
    if not days:
        typer.echo("Nothing was spent yet.")


def verify(*, json_output: bool) -> int:
    """Check database, seals and money; return 0 where all is well, else 1."""
    from storage.journal.verify import verify_journal

    with opened_journal() as journal:
        findings = verify_journal(journal)
    if json_output:
        sys.stdout.write(json.dumps({"ok": not findings, "findings": findings}, indent=2) + "\n")
    elif findings:
        for finding in findings:
            typer.echo(finding)
    else:
        typer.echo("The journal is sound: the database, every seal, and the money adds up.")
    return 1 if findings else 0
