"""`nightscreen explain` and `subject-access`: one customer's decision, and all that is held.

`privacy.explaining` and `privacy.subject_access` make the content; this module only
shows it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import CustomerArgument, JsonOption, command
from nightscreen.cli.journal_context import opened_journal
from nightscreen.cli.output import lagos_time, naira, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@command("explain CUST-0000004 --batch borrowers")
def explain(
    customer_id: CustomerArgument,
    batch: Annotated[str, typer.Option(help="Batch name, where several know the customer.")] = "",
    json_output: JsonOption = False,
) -> None:
    """Explain one customer's decision: rules, evidence, lookups, consent, cost and reviews."""
    explain_customer(customer_id, batch=batch, json_output=json_output)


@command("subject-access CUST-0000004 --output access")
def subject_access(
    customer_id: CustomerArgument,
    output: Annotated[Path, typer.Option(help="Folder for the HTML and JSON file.")],
    json_output: JsonOption = False,
) -> None:
    """Export all data held about one customer, other people's data removed."""
    write_subject_access(customer_id, output=output, json_output=json_output)


def explain_customer(customer_id: str, *, batch: str, json_output: bool) -> None:
    """Print one customer's decision end to end.

    Raises:
        InputError: no batch knows the customer.
    """
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.journal.audit import Audit
    from nightscreen.journal.customers import Customers
    from nightscreen.journal.reviews import Reviews
    from nightscreen.operations.transactions.cashflow import CashFlow
    from nightscreen.operations.transactions.cashflow_run import explain_cash_flow
    from nightscreen.policy.declarations import read_declarations
    from nightscreen.privacy.explaining import explain as explain_decision
    from nightscreen.privacy.lookup_subject import lookup_subject
    from nightscreen.schemas.errors import InputError

    declared = read_declarations(settings_of_command())
    with opened_journal() as journal:
        customers = Customers.of(journal)
        cash_flow = explain_cash_flow(journal, CashFlow.of(settings_of_command()), customer_id)
        document: dict[str, Any] = {"customer_id": customer_id}
        try:
            people = lookup_subject(journal, customers, customer_id, batch=batch)
        except InputError:
            if cash_flow is None or batch:
                raise
        else:
            document = explain_decision(
                journal, customers, Reviews.of(journal), people[0], declared
            )
            document["other_batches"] = [person.batch for person in people[1:]]
        Audit(journal).write_by_command("customer seen", customer_id=customer_id)
    document["cash_flow"] = cash_flow
    if json_output:
        print_json(document)
        return
    lines = [f"Customer {customer_id}, never screened"]
    if "batch" in document:
        lines = explanation_lines(document)
    for line in [*lines, *_cash_flow_lines(cash_flow)]:
        typer.echo(line)


def _cash_flow_lines(cash_flow: Mapping[str, Any] | None) -> list[str]:
    """Return figures and the rules behind them as lines for people."""
    if cash_flow is None:
        return []
    lines = ["", f"Cash flow, pulled {lagos_time(cash_flow['checked_at'])}"]
    lines += [
        f"  {name:<26} {_shown(value)}"
        for name, value in cash_flow["figures"].items()
        if value is not None
    ]
    lines += ["", "Rules of data/narrations.toml that took its transactions"]
    for rule in cash_flow["rules"]:
        words = f" by {', '.join(rule['words'])}" if rule["words"] else ""
        lines.append(
            f"  {rule['direction']:<7} {rule['rule'] or 'no rule':<28} {rule['transactions']:>5} "
            f"with {naira(rule['naira'])}{words}"
        )
    return lines


def explanation_lines(document: Mapping[str, Any]) -> list[str]:
    """Return an explanation as lines for people."""
    lines = [
        f"Customer {document['customer_id']} in batch {document['batch']}",
        f"  run         {document['run_id']}",
        f"  screened    {lagos_time(document['screened_at'])} in Lagos, as all times here",
        f"  decision    {document['decision']}   policy {document['policy'] or 'none'}",
    ]
    lines += _reason_lines(document)
    lines += ["", "Evidence"]
    lines += [_evidence_line(evidence) for evidence in document["evidence"]]
    lines += ["", f"Lookups, {naira(document['cost'])} in all"]
    lines += [_lookup_line(lookup) for lookup in document["lookups"]]
    if document["changes"]:
        lines += ["", "Changes reported by this run"]
        lines += [_change_line(change) for change in document["changes"]]
    if document["reviews"]:
        lines += ["", "Reviews"]
        lines += [_review_line(review) for review in document["reviews"]]
    if document["contests"]:
        lines += ["", "Contests"]
        lines += [f"  {_contest_line(contest)}" for contest in document["contests"]]
    if document["notices_told"]:
        lines += ["", "The customer was told"]
        lines += [
            f"  {lagos_time(notice['told_at'])}  {notice['reason_code']} by {notice['told_how']}"
            for notice in document["notices_told"]
        ]
    if document["actions"]:
        lines += ["", "Actions against the customer"]
        lines += [
            f"  {lagos_time(action['at'])}  {action['by']}: {action['action']}"
            for action in document["actions"]
        ]
    if document["other_batches"]:
        lines += ["", f"Also in: {', '.join(document['other_batches'])} (see them with --batch)"]
    return lines


def _reason_lines(document: Mapping[str, Any]) -> list[str]:
    """Return why it was so decided, in words: the condition itself is in the JSON."""
    lines = []
    for reason in document["reasons"]:
        label = "because" if reason["decisive"] or not reason["rules"] else "also"
        lines.append(f"  {label:<12}{reason['code']}")
        for rule in reason["rules"]:
            lines.append(f"              {rule['effect']}: {rule['team']}")
            if rule["action"] and reason["decisive"]:
                lines.append(f"              next: {rule['action']}")
            lines.append(f"              the customer may be told: {rule['customer']}")
    if document["policy"] and not document["policy_kept"]:
        lines.append("              (the policy's text at this digest was not kept)")
    for check, word in document["missing_checks"].items():
        lines.append(f"  missing     {check}: {word}")
    for name, number in document["signals"].items():
        lines.append(f"  shared      {name} {number}, over this batch and earlier ones")
    return lines


def _evidence_line(evidence: Mapping[str, Any]) -> str:
    if evidence["checked_at"] is None:
        return f"  {evidence['check']:<13} {evidence['status']}"
    fields = ", ".join(f"{name} {_shown(value)}" for name, value in evidence["fields"].items())
    return (
        f"  {evidence['check']:<13} {evidence['status']}, {_age(evidence['age_days'])}, "
        f"{evidence['source']}, lawful basis {evidence['lawful_basis']}: {fields}"
    )


def _age(days: float) -> str:
    """Return how old an answer is, in whole days."""
    whole = int(days)
    return "less than a day old" if whole < 1 else f"{whole} day{'s' * (whole > 1)} old"


def _shown(value: object) -> str:
    """Return a value for a line; amounts, which have six places, with two."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return re.sub(r"^(-?\d+\.\d\d)0{4}$", r"\1", str(value))


def _lookup_line(lookup: Mapping[str, Any]) -> str:
    basis = f"lawful basis {lookup['lawful_basis']}"
    if lookup["consent_reference"]:
        basis += f", consent {lookup['consent_reference']}"
    result = lookup["outcome"] or lookup["trouble"] or lookup["state"]
    return (
        f"  {lagos_time(lookup['at'], seconds=True)}  {lookup['check']:<13} "
        f"by {lookup['asked_by']:<6} {lookup['purpose']:<11} {basis}: {result}, "
        f"{naira(lookup['cost'])}"
    )


def _change_line(change: Mapping[str, Any]) -> str:
    if change["field"] is None:
        whole = {"new": "first seen under this batch name", "gone": "no longer in the file"}
        return f"  {change['kind']:<12} {whole[change['kind']]}"
    what = change["field"]
    return f"  {change['kind']:<12} {what}: {change['old'] or '-'} -> {change['new'] or '-'}"


def _review_line(review: Mapping[str, Any]) -> str:
    state = "valid" if review["stands"] else "no longer valid"
    return (
        f"  {lagos_time(review['reviewed_at'])}  {review['reviewer']}: {review['decision']} "
        f"(listed as {review['listed']}), until {lagos_time(review['until'])}, {state}: "
        f"{review['note'] or '-'}"
    )


def write_subject_access(customer_id: str, *, output: Path, json_output: bool) -> None:
    """Write all that is held of a customer as HTML and JSON, each private to its owner.

    Raises:
        InputError: no batch knows the customer.
        OutputError: the folder cannot be written.
    """
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.files.private_files import make_private_folder, write_private
    from nightscreen.journal.audit import Audit
    from nightscreen.journal.customers import Customers
    from nightscreen.policy.declarations import read_declarations
    from nightscreen.privacy.lookup_subject import lookup_subject
    from nightscreen.privacy.subject_access import access_page, gather

    settings = settings_of_command()
    declared = read_declarations(settings)
    with opened_journal() as journal:
        customers = Customers.of(journal)
        people = lookup_subject(journal, customers, customer_id)
        document = gather(journal, customers, people, settings.retention, declared)
        Audit(journal).write_by_command("subject access handed over", customer_id=customer_id)
    folder = make_private_folder(output)
    name = f"subject-access-{people[0].pseudonym.hex()[:12]}"
    page, data = folder / f"{name}.html", folder / f"{name}.json"
    write_private(page, access_page(document).encode())
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    write_private(data, text.encode())
    _print_written(document, [page, data], json_output=json_output)


def _print_written(
    document: Mapping[str, Any], files: Sequence[Path], *, json_output: bool
) -> None:
    kinds = ("rows", "lists", "quarantine", "lookups", "answers", "changes")
    counts = {kind: len(document[kind]) for kind in kinds}
    if json_output:
        found = {"files": [str(file) for file in files], "held": counts}
        print_json(found)
        return
    typer.echo("Held: " + ", ".join(f"{number:,} {kind}" for kind, number in counts.items()))
    for file in files:
        typer.echo(str(file))
    typer.echo("These files hold personal data: hand them over safely, then remove them.")


def _contest_line(contest: Mapping[str, Any]) -> str:
    """Return a contest in one line, with its clock."""
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
