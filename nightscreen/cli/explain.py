"""`nightscreen explain` and `subject-access`: one customer's decision, and all that is held.

`privacy.explaining` and `privacy.subject_access` make the content.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from nightscreen.cli.command import CustomerArgument, command
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.journal_context import opened_journal
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.journal.audit import Audit
from nightscreen.journal.customers import Customers
from nightscreen.journal.reviews import Reviews
from nightscreen.policy.declarations import read_declarations
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.schemas.errors import InputError

_HELD = ("rows", "lists", "quarantine", "lookups", "answers", "changes")


@command("explain CUST-0000004 --batch borrowers", view="explain")
def explain(
    customer_id: CustomerArgument,
    batch: Annotated[str, typer.Option(help="Batch name, where several know the customer.")] = "",
) -> dict[str, Any]:
    """Explain one customer's decision: rules, evidence, lookups, consent, cost and reviews."""
    from nightscreen.operations.transactions.cashflow import CashFlow
    from nightscreen.operations.transactions.cashflow_run import explain_cash_flow
    from nightscreen.privacy.explaining import explain as explain_decision

    settings = settings_of_command()
    declared = read_declarations(settings)
    with opened_journal() as journal:
        customers = Customers.of(journal)
        cash_flow = explain_cash_flow(journal, CashFlow.of(settings), customer_id)
        document: dict[str, Any] = {"customer_id": customer_id}
        try:
            people = lookup_subject(journal, customers, customer_id, batch=batch)
        except InputError:
            if cash_flow is None or batch:
                raise
        else:
            reviews = Reviews.of(journal)
            document = explain_decision(journal, customers, reviews, people[0], declared)
            document["other_batches"] = [person.batch for person in people[1:]]
        Audit(journal).write_by_command("customer seen", customer_id=customer_id)
    return {**document, "cash_flow": cash_flow}


@command("subject-access CUST-0000004 --output access", view="subject-access")
def subject_access(
    customer_id: CustomerArgument,
    output: Annotated[Path, typer.Option(help="Folder for the HTML and JSON file.")],
) -> dict[str, Any]:
    """Export all data held about one customer, other people's data removed."""
    from nightscreen.privacy.subject_access import access_page, gather

    settings = settings_of_command()
    declared = read_declarations(settings)
    with opened_journal() as journal:
        customers = Customers.of(journal)
        people = lookup_subject(journal, customers, customer_id)
        document = gather(journal, customers, people, settings.retention, declared)
        Audit(journal).write_by_command("subject access handed over", customer_id=customer_id)
    file = make_private_folder(output) / f"subject-access-{people[0].pseudonym.hex()[:12]}"
    page, data = file.with_suffix(".html"), file.with_suffix(".json")
    write_private(page, access_page(document).encode())
    write_private(data, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())
    held = {kind: len(document[kind]) for kind in _HELD}
    return {"files": [str(page), str(data)], "held": held}
