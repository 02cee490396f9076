"""`nightscreen erase` and `purge`: one person removed, and what is too old; both say it in numbers.

`privacy.erasure` and `privacy.purging` decide what is found and removed; the output
holds no identifier.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import JsonOption, YesOption, command
from nightscreen.cli.journal_context import opened_journal
from nightscreen.cli.output import lagos_time, naira, print_json
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.journal import Journal
    from nightscreen.privacy.erasure import Found

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")]
_BVN = re.compile(r"[0-9]{11}")


@command("erase --customer-id CUST-0000004")
def erase(
    customer_id: Annotated[
        str,
        typer.Option(
            help="As the file has it, leading zeros included; - reads one a line from standard "
            "input."
        ),
    ] = "",
    batch: Annotated[str, typer.Option(help="Batch name the customer is meant in.")] = "",
    bvn: Annotated[
        str,
        typer.Option(help="Erase every row with this BVN; - reads one a line from standard input."),
    ] = "",
    list_: Annotated[
        bool, typer.Option("--list", help="Show what was erased and purged, in numbers.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json_output: JsonOption = False,
) -> None:
    """Remove one person from the journal and from every past output."""
    if list_:
        _print_audit(json_output=json_output)
        return
    if not customer_id and not bvn:
        raise UsageError("say who is to be erased: --customer-id as the file has it, or --bvn")
    if batch and not customer_id:
        raise UsageError("--batch narrows --customer-id; a BVN is erased everywhere")
    if dry_run:
        _print_found(customer_id, bvn, batch, json_output=json_output)
        return
    if "-" in (customer_id, bvn):
        _erase_listed(customer_id, bvn, batch, yes=yes, json_output=json_output)
        return
    with opened_journal() as journal:
        found = _look(journal, customer_id, bvn, batch)
        if yes and found.files.whole:
            typer.echo(_about_whole(found.files.whole), err=True)
        _confirm(_would_erase(found), yes=yes)
        done = _erase_one(journal, found)
    if json_output:
        print_json(done)
        return
    for line in _erased(done):
        typer.echo(line)


def _erase_listed(customer_id: str, bvn: str, batch: str, *, yes: bool, json_output: bool) -> None:
    """Erase everybody named on standard input, so that no identifier is in a command's history.

    Raises:
        UsageError: it names nobody, or too much is left open.
        InputError: nothing is held of some of them; the others are erased.
    """
    if customer_id and bvn:
        raise UsageError("standard input names either customers or BVNs: give one of the two as -")
    if not yes:
        raise UsageError("standard input is the list, so nobody can be asked: add --yes")
    named = list(dict.fromkeys(line.strip() for line in sys.stdin if line.strip()))
    if not named:
        raise UsageError("standard input names nobody; give one identifier a line")
    if bvn and any(_BVN.fullmatch(identifier) is None for identifier in named):
        raise UsageError("standard input holds a line that is no BVN of 11 digits; nothing erased")
    from nightscreen.journal.erasure import leave_no_trace

    done: list[dict[str, Any]] = []
    failed: list[str] = []
    with opened_journal() as journal:
        for number, identifier in enumerate(named, start=1):
            customer, of_bvn = ("", identifier) if bvn else (identifier, "")
            try:
                found = _look(journal, customer, of_bvn, batch)
                done.append(_erase_one(journal, found, more=True))
            except InputError as error:
                failed.append(f"line {number}: {error}")
        emptied = leave_no_trace(journal)
    if json_output:
        print_json(
            {"erased": [{**each, "log_emptied": emptied} for each in done], "failed": failed}
        )
    else:
        rows = sum(int(erased["rows"]) for erased in done)
        typer.echo(f"{len(done):,} of {len(named):,} erased, {rows:,} rows.")
        for line in [*_log_line({"log_emptied": emptied}), *failed]:
            typer.echo(line)
    if failed:
        raise typer.Exit(2)


def _erase_one(journal: Journal, found: Found, *, more: bool = False) -> dict[str, Any]:
    from nightscreen.journal.audit import Audit
    from nightscreen.privacy.erasure import erase as erase_person

    done = erase_person(journal, found, more=more)
    went = {"rows": done["rows"], "answers": done["answers"]}
    Audit(journal).write_by_command("customer erased", **went)
    return {**done, "desk_entries": found.held.entries}


def _look(journal: Journal, customer_id: str, bvn: str, batch: str) -> Found:
    """Find whom a command names; what an earlier erasure left unfinished is finished first."""
    if bvn and _BVN.fullmatch(bvn) is None:
        raise UsageError("--bvn takes the 11 digits of a BVN")
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.journal.customers import Customers
    from nightscreen.privacy.erasure import look, mend
    from nightscreen.privacy.person import Whom

    mend(journal)
    whom = Whom(customer_id=customer_id, batch=batch, bvn=bvn)
    inbox = settings_of_command().inbox
    return look(journal, Customers.of(journal), whom, inbox=inbox)


def _print_found(customer_id: str, bvn: str, batch: str, *, json_output: bool) -> None:
    """Say what an erasure would remove, and remove nothing."""
    if "-" in (customer_id, bvn):
        raise UsageError("--dry-run looks for one person: name them instead of -")
    with opened_journal() as journal:
        found = _look(journal, customer_id, bvn, batch)
    if json_output:
        print_json(found.document() | {"dry_run": True})
    else:
        typer.echo(_would_erase(found))


def _would_erase(found: Found) -> str:
    held, files = found.held, found.files
    goes = (
        f"This erases {files.rows:,} rows of {len(files.runs):,} runs, {held.answers:,} answers "
        f"and {held.states:,} states and reviews; it cannot be undone."
    )
    lines = [goes, *([_about_whole(files.whole)] if files.whole else [])]
    if files.unread:
        lines.append(f"{len(files.unread):,} files that nobody can read go whole.")
    return "\n".join(lines)


def _about_whole(places: Sequence[str]) -> str:
    """Return which files go whole, before they do."""
    about = (
        f"{len(places):,} files that name this person are removed whole. What reviewers wrote into "
        "a workbook goes with it: import it first, with nightscreen review import."
    )
    return "\n".join([about, *(f"  {place}" for place in places)])


def _erased(done: Mapping[str, Any]) -> list[str]:
    counts = (done["answers"], done["states"], done["rows"], done["files"])
    went = "Erased: {:,} answers, {:,} states and reviews, {:,} rows; {:,} files rewritten."
    lines = [
        went.format(*counts),
        f"{done['calls']:,} calls stay without a pseudonym: {naira(done['cost'])} still add up.",
    ]
    if done["shared_with"]:
        lines.append(
            f"{done['shared_with']:,} other customers share an identifier with this person: those "
            "answers went too and are asked again when needed; their rows stay."
        )
    if done["removed_whole"]:
        number = len(done["removed_whole"])
        lines.append(
            f"{number:,} files went whole: workbooks, whose rows are in decisions.csv, and files "
            "as they were dropped."
        )
    if done["removed_unread"]:
        number = len(done["removed_unread"])
        lines.append(f"{number:,} files that nobody can read went whole: they may have held them.")
    if done["absent_folders"]:
        lines.append(
            f"{done['absent_folders']:,} runs have no folder here any more: erase the person from "
            "wherever their outputs were moved to."
        )
    lines.append("Backups, exports and copies made earlier are not reached; see docs/retention.md.")
    return [*lines, *_log_line(done)]


def _log_line(done: Mapping[str, Any]) -> list[str]:
    if done["log_emptied"]:
        return []
    return ["The journal's log is in use and may hold old pages: run nightscreen purge after it."]


@command("purge --dry-run")
def purge(
    older_than: Annotated[
        int | None,
        typer.Option(min=1, help="Days that replace every period of the settings."),
    ] = None,
    dry_run: DryRunOption = False,
    hold: Annotated[str, typer.Option(help="Put this run under legal hold.")] = "",
    reason: Annotated[str, typer.Option(help="Why it is held; no personal data.")] = "",
    release: Annotated[str, typer.Option(help="End the legal hold of this run.")] = "",
    yes: YesOption = False,
    json_output: JsonOption = False,
) -> None:
    """Remove what is older than its retention period; legal holds go first."""
    if hold or release:
        _change_hold(hold, release, reason, json_output=json_output)
        return
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.privacy.purging import due
    from nightscreen.privacy.purging import purge as purge_due

    with opened_journal() as journal:
        found = due(journal, settings_of_command().retention, older_than=older_than)
        document = found.document()
        if older_than is not None and found.anything and not dry_run:
            _confirm("\n".join([*_would_purge(document), "This cannot be undone."]), yes=yes)
        if not dry_run:
            document = purge_due(journal, found)
    if json_output:
        print_json(document | {"dry_run": dry_run})
        return
    for line in _would_purge(document) if dry_run else _purged(document):
        typer.echo(line)


def _change_hold(hold: str, release: str, reason: str, *, json_output: bool) -> None:
    from nightscreen.privacy.purging import hold as hold_run
    from nightscreen.privacy.purging import release as release_run

    if hold and release:
        raise UsageError("give --hold or --release, not both")
    if hold and not reason.strip():
        raise UsageError("say with --reason why the run is held; no personal data")
    with opened_journal() as journal:
        if hold:
            hold_run(journal, hold, reason)
        else:
            release_run(journal, release)
    if json_output:
        print_json({"held": hold or None, "released": release or None})
        return
    typer.echo(f"Run {hold} is under legal hold." if hold else f"The hold of {release} has ended.")


def _would_purge(document: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{file['run_id']}  {file['kind']:<10} {file['age_days']:>5} days  "
        f"{', '.join(file['files'])}"
        for file in document["files"]
    ]
    return [*(lines or ["No file is older than its period."]), *_journal_lines(document)]


def _purged(document: Mapping[str, Any]) -> list[str]:
    first = f"{document['removed_files']:,} files removed."
    return [first, *_journal_lines(document), *_log_line(document)]


def _journal_lines(document: Mapping[str, Any]) -> list[str]:
    journal = document["journal"]
    if journal["waits_for"]:
        lines = [f"Journal: nothing goes, it waits for {journal['waits_for']}."]
    else:
        counts = (journal["answers"], journal["states"], journal["calls"], naira(journal["cost"]))
        goes = "Journal: {:,} answers, {:,} states and reviews; {:,} calls keep time and cost, {}."
        lines = [goes.format(*counts)]
    if document["desk_audit"]:
        lines.append(f"Audit of the desk: {document['desk_audit']:,} entries.")
    lines += [f"Kept, under legal hold: {run_id}" for run_id in document["held_runs"]]
    return lines + [f"Kept, under way: {run_id}" for run_id in document["live_runs"]]


def _confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal before anything is removed.

    Raises:
        UsageError: nobody is there to ask, or the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to confirm: add --yes; nothing was removed")
    sys.stderr.write(f"{question}\n")
    if not typer.confirm("Go on?", err=True):
        raise UsageError("nothing was removed")


def _print_audit(*, json_output: bool) -> None:
    from nightscreen.journal.erasure import Erasures

    with opened_journal() as journal:
        lines = [
            {
                "kind": entry.kind,
                "at": instant_text(entry.begun_at),
                "finished_at": instant_text(entry.finished_at),
                "answers": entry.answers,
                "calls": entry.calls,
                "states": entry.states,
                "sightings": entry.sightings,
                "rows": entry.file_rows,
                "files": entry.files,
                "cost": naira_text(entry.cost_micro),
            }
            for entry in Erasures.of(journal).audit()
        ]
    if json_output:
        print_json({"erasures": lines})
        return
    if lines:
        typer.echo("Begun, in Lagos   what was removed")
    for line in lines:
        ended = "" if line["finished_at"] else "  cut short: erase that person again"
        typer.echo(
            f"{lagos_time(str(line['at']))}  {line['kind']:<9} {line['answers']:>8,} answers "
            f"{line['calls']:>8,} calls {line['rows']:>6,} rows {line['files']:>5,} files  "
            f"{naira(str(line['cost']))}{ended}"
        )
    if not lines:
        typer.echo("Nothing was erased or purged yet.")
