"""`nightscreen explain`, `subject-access`, `erase`, `purge` and `privacy`.

`privacy/` decides what is found, shown and removed. Erasures and purges print numbers only.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import CustomerArgument, Result, YesOption, command, group
from nightscreen.cli.context import opened_journal, settings_of_command
from nightscreen.cli.output import say, view
from nightscreen.config.declarations import read_declarations
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.journal.audit import NEWEST, Audit, AuditQuery
from nightscreen.journal.erasure import scrub_database
from nightscreen.privacy import erasure, purging
from nightscreen.privacy.erasure import ErasureTarget
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.processing_record import assessment_page, processing_record, record_page
from nightscreen.schemas.errors import InputError, UsageError

if TYPE_CHECKING:
    from nightscreen.journal import Journal
    from nightscreen.privacy.erasure import ErasureScope


_HELD = ("rows", "lists", "quarantine", "lookups", "answers", "changes")


@command("explain CUST-0000004 --batch borrowers", view="explain")
def explain(
    customer_id: CustomerArgument,
    batch: Annotated[str, typer.Option(help="Batch name, if the customer is in several.")] = "",
) -> dict[str, Any]:
    """Explain one customer's decision: rules, evidence, lookups, consent, cost and reviews."""
    from nightscreen.operations.cashflow import CashFlow, explain_cash_flow
    from nightscreen.privacy.explaining import explain as explain_decision

    settings = settings_of_command()
    declared = read_declarations(settings)
    with opened_journal(settings) as journal:
        cash_flow = explain_cash_flow(journal, CashFlow.of(settings), customer_id)
        document: dict[str, Any] = {"customer_id": customer_id}
        try:
            people = lookup_subject(journal, customer_id, batch=batch)
        except InputError:
            if cash_flow is None or batch:
                raise
        else:
            document = explain_decision(journal, people[0], declared)
            document["other_batches"] = [person.batch for person in people[1:]]
        Audit(journal).write_by_command("customer seen", customer_id=customer_id)
    return {**document, "cash_flow": cash_flow}


@command("subject-access CUST-0000004 --output access", view="subject-access")
def subject_access(
    customer_id: CustomerArgument,
    output: Annotated[Path, typer.Option(help="Folder for the HTML file and the JSON file.")],
) -> dict[str, Any]:
    """Export all data held about one customer, other people's data removed."""
    from nightscreen.privacy.subject_access import access_page, gather

    settings = settings_of_command()
    declared = read_declarations(settings)
    with opened_journal(settings) as journal:
        people = lookup_subject(journal, customer_id)
        document = gather(journal, people, settings.retention, declared)
        Audit(journal).write_by_command("subject access handed over", customer_id=customer_id)
    file = make_private_folder(output) / f"subject-access-{people[0].pseudonym.hex()[:12]}"
    page, data = file.with_suffix(".html"), file.with_suffix(".json")
    write_private(page, access_page(document).encode())
    write_private(data, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())
    held = {kind: len(document[kind]) for kind in _HELD}
    return {"files": [str(page), str(data)], "held": held}


DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")]
_BVN = re.compile(r"[0-9]{11}")


@command("erase --customer-id CUST-0000004", view="erase")
def erase(
    customer_id: Annotated[
        str,
        typer.Option(
            help="As the file has it, leading zeros included; - reads one a line from standard "
            "input."
        ),
    ] = "",
    batch: Annotated[str, typer.Option(help="Erase only the customer of this batch name.")] = "",
    bvn: Annotated[
        str,
        typer.Option(help="Erase every row with this BVN; - reads one a line from standard input."),
    ] = "",
    list_: Annotated[
        bool, typer.Option("--list", help="Show what was erased and purged, in numbers.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Result:
    """Erase one person from the journal and all past outputs."""
    if list_:
        with opened_journal() as journal:
            done = _removals(Audit(journal))
        return Result({"erasures": done}, view="erasures")
    if not customer_id and not bvn:
        raise UsageError("say who is to be erased: --customer-id as the file has it, or --bvn")
    if batch and not customer_id:
        raise UsageError("--batch narrows --customer-id; a BVN is erased everywhere")
    if "-" in (customer_id, bvn):
        if dry_run:
            raise UsageError("--dry-run looks for one person: name them instead of -")
        return _erase_listed(customer_id, bvn, batch, yes=yes)
    if bvn and _BVN.fullmatch(bvn) is None:
        raise UsageError("--bvn takes the 11 digits of a BVN")
    settings = settings_of_command()
    with opened_journal(settings) as journal:
        target = ErasureTarget(customer_id=customer_id, batch=batch, bvn=bvn)
        scope = find_for_erasure(journal, target, settings.inbox)
        preview = scope.document()
        if dry_run:
            return Result({**preview, "dry_run": True})
        if yes:
            _say_what_goes_whole(preview)
        _confirm(view("would-erase", preview), yes=yes)
        return Result(erase_found(journal, scope))


def _say_what_goes_whole(preview: dict[str, Any]) -> None:
    """Name the files that an erasure removes entirely, before it does."""
    if text := view("whole", preview).rstrip():
        say(text)


def _erase_listed(customer_id: str, bvn: str, batch: str, *, yes: bool) -> Result:
    """Erase everyone named on standard input, so that no identifier is in the shell's history.

    A person of whom nothing is held is reported; the others are erased.

    Raises:
        UsageError: the input is empty or malformed, or the options do not fit it.
    """
    if customer_id and bvn:
        raise UsageError("standard input names either customers or BVNs: give one of the two as -")
    if not yes:
        raise UsageError("standard input is the list, so nobody can be asked: add --yes")
    identifiers = list(dict.fromkeys(line.strip() for line in sys.stdin if line.strip()))
    if not identifiers:
        raise UsageError("standard input names nobody; give one identifier a line")
    if bvn and any(_BVN.fullmatch(identifier) is None for identifier in identifiers):
        raise UsageError("standard input holds a line that is no BVN of 11 digits; nothing erased")

    done: list[dict[str, Any]] = []
    failed: list[str] = []
    settings = settings_of_command()
    with opened_journal(settings) as journal:
        for number, identifier in enumerate(identifiers, start=1):
            target = (
                ErasureTarget(bvn=identifier)
                if bvn
                else ErasureTarget(customer_id=identifier, batch=batch)
            )
            try:
                scope = find_for_erasure(journal, target, settings.inbox)
                _say_what_goes_whole(scope.document())
                done.append(erase_found(journal, scope, more=True))
            except InputError as error:
                failed.append(f"line {number}: {error}")
        emptied = {"log_emptied": scrub_database(journal)}
    document = {"erased": [{**each, **emptied} for each in done], "failed": failed}
    return Result(document, 2 if failed else 0, more=emptied)


def find_for_erasure(journal: Journal, target: ErasureTarget, inbox: Path) -> ErasureScope:
    """Find a person's data; an earlier erasure left unfinished is finished first.

    Raises:
        InputError: nothing is held of them.
    """
    purging.repair_manifests(journal)
    return erasure.find_person_data(journal, target, inbox=inbox)


def erase_found(journal: Journal, scope: ErasureScope, *, more: bool = False) -> dict[str, Any]:
    """Erase a person's data; return what was erased, in numbers.

    Args:
        journal: the journal.
        scope: the data to erase.
        more: others follow; the database log is emptied once, after the last.
    """
    erased = erasure.erase(journal, scope, more=more)
    return {**erased, "desk_entries": scope.held.entries}


def _removals(audit: Audit) -> list[dict[str, Any]]:
    """Return the audit's entries of erasures and purges, newest first."""
    erasures = (erasure.ERASURE_BEGUN, erasure.ERASURE_ENDED)
    entries = [
        entry
        for action in (*erasures, purging.PURGE_BEGUN, purging.PURGED)
        for entry in audit.find(AuditQuery(action=action), limit=NEWEST)
    ]
    entries.sort(key=lambda entry: entry["number"], reverse=True)
    return [{"at": each["at"], "action": each["action"], **each["detail"]} for each in entries]


@command("purge --dry-run", view="purge")
def purge(
    older_than: Annotated[
        int | None,
        typer.Option(min=1, help="Days; replaces every retention period of the settings."),
    ] = None,
    dry_run: DryRunOption = False,
    hold: Annotated[str, typer.Option(help="Put this run under legal hold.")] = "",
    reason: Annotated[str, typer.Option(help="Why it is held; no personal data.")] = "",
    release: Annotated[str, typer.Option(help="End the legal hold of this run.")] = "",
    yes: YesOption = False,
) -> dict[str, Any]:
    """Delete what is older than its retention period, except runs under legal hold."""
    if hold and release:
        raise UsageError("give --hold or --release, not both")
    if hold and not reason.strip():
        raise UsageError("say with --reason why the run is held; no personal data")
    settings = settings_of_command()
    with opened_journal(settings) as journal:
        if hold:
            purging.hold(journal, hold, reason)
        if release:
            purging.release(journal, release)
        if hold or release:
            return {"held": hold or None, "released": release or None}
        retention = settings.retention
        if older_than is not None:
            retention = retention.all_of(older_than)
        due = purging.due(journal, retention)
        document = due.document()
        if dry_run:
            return {**document, "dry_run": True}
        if older_than is not None and due.anything:
            _confirm(view("purge", document) + "This cannot be undone.", yes=yes)
        return {**purging.purge(journal, due), "dry_run": False}


def _confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal before anything is removed.

    Raises:
        UsageError: nobody is there to ask, or the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to confirm: add --yes; nothing was removed")
    say(question.rstrip())
    if not typer.confirm("Go on?", err=True):
        raise UsageError("nothing was removed")


privacy = group("privacy", "Data-protection documents.")


@command("privacy record --output papers", of=privacy, view="papers")
def record(
    output: Annotated[
        Path | None, typer.Option(help="Folder for the two documents; default: standard output.")
    ] = None,
) -> Result:
    """Print the record of processing and a draft of the impact assessment."""
    settings = settings_of_command()
    declared = read_declarations(settings)
    document = processing_record(settings, declared)
    pages = {
        "processing-record.md": record_page(document),
        "impact-assessment.md": assessment_page(settings, declared),
    }
    if output is not None:
        folder = make_private_folder(output, ours=False)
        for name, text in pages.items():
            write_private(folder / name, text.encode())
    return Result(document, more={"output": output, "pages": list(pages.values())})
