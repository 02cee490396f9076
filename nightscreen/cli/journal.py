"""`nightscreen journal`: calls in doubt, corrections by invoice, checks, backups and keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nightscreen.cli.command import Result, command, group
from nightscreen.cli.context import opened_journal, settings_of_command
from nightscreen.config.settings import read_settings
from nightscreen.journal.actor import Actor
from nightscreen.journal.calls import CRASHED
from nightscreen.journal.copying import back_up, read_passphrase
from nightscreen.journal.copying import restore as restore_journal
from nightscreen.journal.keyset import LINKS_LAST, read_key, rotate_link_key
from nightscreen.journal.keyset import rotate_key as rotate
from nightscreen.journal.settling import settle_call
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.money import naira_text, typed_micro

app = group("journal", "The journal of paid calls.")
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the copy.")]
PassphraseOption = Annotated[
    Path | None,
    typer.Option(
        help="File whose first line is the passphrase of the data key; - is standard input."
    ),
]


@command("journal in-doubt", of=app, view="in-doubt")
def in_doubt() -> dict[str, Any]:
    """List calls with unknown charge status."""
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
    return {"calls": calls, "count": len(calls), "exposure": exposure}


@command("journal settle 4711 --cost 25", of=app, view="settled")
def settle(
    call: Annotated[
        int, typer.Argument(metavar="CALL", help="Number of the call, from the report.")
    ],
    cost: Annotated[
        str, typer.Option(metavar="NAIRA", help="What the service's invoice says it cost.")
    ],
) -> dict[str, Any]:
    """Enter the invoiced cost of a call whose cost is disputed or unknown.

    Both values are kept. Where the desk has users, one of them enters it, on its page Money.
    """
    try:
        cost_micro = typed_micro(cost)
    except ValueError:
        raise UsageError("--cost: write naira such as 25 or 17.50") from None
    settings = settings_of_command()
    with opened_journal(settings) as journal:
        settled = settle_call(journal, Actor.by_command(settings), call, cost_micro)
    return {"run_id": settled.run_id, **settled.document()}


@command("journal verify", of=app, view="verified")
def verify() -> Result:
    """Check the journal: the database, the seals, the sums, and the desk's audit."""
    from nightscreen.journal.verify import verify_journal  # loads the tables

    with opened_journal() as journal:
        findings = verify_journal(journal)
    return Result({"ok": not findings, "findings": findings}, 1 if findings else 0)


@command("journal reread --json", of=app, view="reread")
def reread() -> Result:
    """Read again saved answers that could not be read, once the response rules were corrected.

    Free, makes no calls. The next run uses the answers that can now be read.
    """
    from nightscreen.calling.rereading import reread as read_again
    from nightscreen.client.response_rules import load_response_rules

    settings = settings_of_command()
    own = settings.own_table("manners")
    rules = load_response_rules(own)
    with opened_journal(settings) as journal:
        by_check = read_again(journal, rules)
    checks = {
        check: {
            "kept": counts.kept,
            "read": counts.read,
            "left": counts.kept - counts.read,
            "left_cost": naira_text(counts.left_cost_micro),
            "answers": dict(sorted(counts.answers.items())),
        }
        for check, counts in sorted(by_check.items())
    }
    kept, read = (
        sum(getattr(counts, name) for counts in by_check.values()) for name in ("kept", "read")
    )
    file = None if own is None else str(own)
    document = {"kept": kept, "read": read, "left": kept - read, "table": file, "checks": checks}
    return Result(document, more={"file": file})


@command("journal backup backups/2026-03-01", of=app, view="backup")
def backup(folder: FolderArgument, passphrase_file: PassphraseOption = None) -> dict[str, Any]:
    """Back up the journal while runs continue; a passphrase adds its data key, sealed."""
    passphrase = read_passphrase(passphrase_file)
    with opened_journal() as journal:
        back_up(journal, folder, passphrase=passphrase)
        key = "sealed" if passphrase else "absent"
        return {"folder": str(folder), "journal_id": journal.journal_id, "key": key}


@command("journal restore backups/2026-03-01", of=app, view="restored")
def restore(folder: FolderArgument, passphrase_file: PassphraseOption = None) -> dict[str, Any]:
    """Restore a backup as the journal of the settings, if there is none."""
    settings = read_settings()
    restore_journal(
        folder,
        settings.home,
        url=settings.journal_url,
        configured=settings.data_key.get_secret_value(),
        passphrase=read_passphrase(passphrase_file),
    )
    return {"restored": str(folder)}


@command("journal rotate-key", of=app, view="rotated")
def rotate_key(
    new_key: Annotated[
        Path | None, typer.Option(help="File with the new key, if you set the key yourself.")
    ] = None,
    links: Annotated[
        bool,
        typer.Option("--links", help="Replace the key that signs links to customers instead."),
    ] = False,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="With --links: end every link already given out.")
    ] = False,
) -> Result:
    """Seal under a new key from now on; data sealed before can still be opened."""
    if at_once and not links:
        raise UsageError("--at-once ends links: give it with --links")
    if links:
        with opened_journal() as journal:
            rotate_link_key(journal, at_once=at_once)
        document = {"links_out": "ended" if at_once else "go on"}
        return Result(document, more={"days": LINKS_LAST.days})
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
        waiting = rotate(journal, configured=configured, new=new)
        return Result({"waiting_for": waiting}, more={"is_set": bool(configured)})
