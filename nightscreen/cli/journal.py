"""`nightscreen journal`: what the journal knows of calls and money."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from nightscreen.cli.common_options import first_line
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.journal_context import opened_journal
from nightscreen.cli.output import lagos_time, print_json
from nightscreen.cli.summary import naira
from nightscreen.config.settings import read_settings
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.money import naira_text, naira_words, typed_micro

if TYPE_CHECKING:
    from pathlib import Path


def in_doubt(*, json_output: bool) -> None:
    """Print every call that may have been charged without our knowing."""
    from nightscreen.journal.calls import CRASHED

    with opened_journal() as journal:
        rows = journal.runs.in_doubt()
        calls = [
            {
                "call_id": row.call_id,
                "pseudonym": bytes(row.subject).hex(),
                "check": row.check,
                "run_id": row.run_id,
                "at": instant_text(row.sent_at or row.intent_at),
                "trouble": row.trouble or CRASHED,
                "attempt": row.attempt,
                "exposure": naira_text(row.reserved_micro),
            }
            for row in rows
        ]
        exposure = naira_text(sum(row.reserved_micro for row in rows))
    if json_output:
        document = {"calls": calls, "count": len(calls), "exposure": exposure}
        print_json(document)
        return
    for call in calls:
        typer.echo(
            f"{call['call_id']:>9}  {call['pseudonym']}  {call['check']:<13} {call['run_id']}  "
            f"sent {lagos_time(str(call['at']))} in Lagos  "
            f"{call['trouble']:<11} {naira(str(call['exposure']))}"
        )
    typer.echo(f"{len(calls):,} calls in doubt, up to {naira(exposure)}")


def settle(call_id: int, cost: str, *, json_output: bool) -> None:
    """Enter what the service's invoice says of a call whose cost is disputed or unknown.

    Raises:
        UsageError: it is no amount, or a second person has to confirm it at the desk.
        InputError: there is nothing to settle about the call.
    """
    from nightscreen.cli.deciding import require_no_desk
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.files.person import user_name
    from nightscreen.journal.audit import Audit
    from nightscreen.journal.disputes import enter_invoice, needs_second

    try:
        cost_micro = typed_micro(cost)
    except ValueError:
        raise UsageError("--cost: write naira such as 25 or 17.50") from None
    with opened_journal() as journal:
        if needs_second(journal, call_id, cost_micro):  # less than was reserved
            require_no_desk(settings_of_command(), "/money")
        journal.calls.recover()
        done = enter_invoice(journal, call_id, cost_micro, by=user_name())
        Audit(journal).write_by_command("cost settled", run_id=done.run_id, **done.document())
    if json_output:
        print_json({"run_id": done.run_id, **done.document()})
        return
    before = "not known" if done.before_micro is None else naira_words(done.before_micro)
    typer.echo(
        f"Call {call_id} counts as {naira_words(cost_micro)}, as the invoice says; before it was "
        f"{before}. Both are kept."
    )


def verify(*, json_output: bool) -> int:
    """Check database, seals, money and the desk's audit; return 0 where all is well, else 1."""
    from nightscreen.journal.verify import verify_journal

    with opened_journal() as journal:
        findings = verify_journal(journal)
    if json_output:
        print_json({"ok": not findings, "findings": findings})
    elif findings:
        for finding in findings:
            typer.echo(finding)
    else:
        typer.echo(
            "The journal is sound: the database, every seal, the audit, and the money adds up."
        )
    return 1 if findings else 0


def read_again(*, json_output: bool) -> None:
    """Read kept bodies again that could not be read; print what became of them, by check."""
    from nightscreen.calling.rereading import reread
    from nightscreen.client.response_rules import load_response_rules

    own = settings_of_command().own_table("manners")
    manners = load_response_rules(own)
    with opened_journal() as journal:
        found = reread(journal, manners)
    kept, read = (
        sum(getattr(counts, name) for counts in found.values()) for name in ("kept", "read")
    )
    if json_output:
        document = {
            "kept": kept,
            "read": read,
            "left": kept - read,
            "table": None if own is None else str(own),
            "checks": {
                check: {
                    "kept": counts.kept,
                    "read": counts.read,
                    "left": counts.kept - counts.read,
                    "left_cost": naira_text(counts.left_cost_micro),
                    "answers": dict(sorted(counts.answers.items())),
                }
                for check, counts in sorted(found.items())
            },
        }
        print_json(document)
        return
    for check, counts in sorted(found.items()):
        words = ", ".join(f"{number:,} {word}" for word, number in sorted(counts.answers.items()))
        detail = f" ({words})" if words else ""
        typer.echo(
            f"{check:<13} {counts.kept:>7,} kept  {counts.read:>7,} read{detail}"
            f"  {counts.kept - counts.read:>7,} still not readable, for which "
            f"{naira(naira_text(counts.left_cost_micro))} was paid"
        )
    typer.echo(f"Read with the table {own or 'of the package'}; nothing was asked or paid.")
    if not kept:
        typer.echo("No answer is kept that could not be read.")
    elif read:
        typer.echo("The next run uses what is still fresh: run again, or resume with --run.")


def back_up(folder: Path, passphrase_file: Path | None, *, json_output: bool) -> None:
    """Copy the journal into a new folder while runs go on, its key only sealed."""
    from nightscreen.journal.copying import back_up as copy_journal

    passphrase = first_line(passphrase_file, "--passphrase-file")
    with opened_journal() as journal:
        copy_journal(journal, folder, passphrase=passphrase)
        key = "sealed" if passphrase else "absent"
        document = {"folder": str(folder), "journal_id": journal.journal_id, "key": key}
    if json_output:
        print_json(document)
        return
    typer.echo(f"The journal is in {folder}.")
    if passphrase:
        typer.echo("Its data key is sealed to the passphrase: without that nothing can be read.")
    else:
        typer.echo(
            "Its data key is not: keep a copy of it somewhere else, nothing can be read without it."
        )


def rotate_links(*, at_once: bool, json_output: bool) -> None:
    """Sign links with a new key from now on."""
    from nightscreen.journal.keyset import LINKS_LAST, rotate_link_key

    with opened_journal() as journal:
        rotate_link_key(journal, at_once=at_once)
    if json_output:
        print_json({"links_out": "ended" if at_once else "go on"})
    elif at_once:
        typer.echo("Links are signed with a new key; every link that was out has ended.")
    else:
        typer.echo(
            "Links are signed with a new key; those that are out go on until they end, for "
            f"{LINKS_LAST.days} days at most."
        )


def restore(folder: Path, passphrase_file: Path | None, *, json_output: bool) -> None:
    """Restore a backup as the journal of the settings, if there is none."""
    from nightscreen.journal.copying import restore as restore_journal

    settings = read_settings()
    key = settings.data_key.get_secret_value()
    restore_journal(
        folder,
        settings.home,
        url=settings.journal_url,
        configured=key,
        passphrase=first_line(passphrase_file, "--passphrase-file"),
    )
    if json_output:
        print_json({"restored": str(folder)})
        return
    typer.echo(f"Restored {folder}. Check it: nightscreen journal verify")


def rotate_key(new_key: Path | None, *, json_output: bool) -> None:
    """Add a data key, and wrap all of them by a new key of the lender."""
    from nightscreen.files.keys import read_key
    from nightscreen.journal.keyset import rotate_key as rotate

    configured = read_settings().data_key.get_secret_value()
    if configured and new_key is None:
        raise UsageError(
            "the data key comes from NIGHTSCREEN_DATA_KEY: name a file that holds the new one with "
            "--new-key (make it with: openssl rand -base64 32)"
        )
    new = None if new_key is None else read_key(new_key)
    if new_key is not None and new is None:
        raise UsageError(f"there is no key file {new_key}")
    with opened_journal() as journal:
        done = rotate(journal, configured=configured, new=new)
    if json_output:
        print_json(asdict(done))
        return
    typer.echo("The key was rotated: what is sealed from now on needs the new one.")
    if configured:
        typer.echo(
            "Set NIGHTSCREEN_DATA_KEY to the new key everywhere. The old one opens the journal "
            "until it is first opened with the new one."
        )
    elif done.waiting_for:
        typer.echo(f"The old key opens the journal too until {', '.join(done.waiting_for)} ends.")
    typer.echo("Backups made before need the old key.")
