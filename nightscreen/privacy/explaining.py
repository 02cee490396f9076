"""Explaining: one customer's decision from beginning to end, from the journal and the run's files.

The customer's id is shown as given; other identifiers are masked or left out. Records are shown by
one loop over all kinds: each kind declares its `section` and the fields that are not shown
(`unshown`). `subject_access` makes the document for the customer.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from nightscreen.checks.declaration import Compare
from nightscreen.checks.registry import CHECKS
from nightscreen.config.declarations import NOTHING_DECLARED, Declarations, basis_words
from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.journal.schema import KINDS
from nightscreen.privacy.lookup_subject import newest_row, shown_rows, subjects_of
from nightscreen.report.format import facts
from nightscreen.results.changes import TRACKED, rests_on
from nightscreen.results.decide import applied_rules
from nightscreen.results.enriched import row_table
from nightscreen.results.final_decision import final_columns, standing_reviews
from nightscreen.results.wording import missing_checks
from nightscreen.schemas.cases import CaseComment
from nightscreen.schemas.clock import DAY_MICROS, instant_text, to_instant, to_micros
from nightscreen.schemas.consented import Grant
from nightscreen.schemas.contests import Contest, CustomerAction, Review, SentNotice
from nightscreen.schemas.decisions import LISTED_PART
from nightscreen.schemas.enriched import ACCOUNT_BVNS, SIGNALS
from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Row

    from nightscreen.config.settings import Retention
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord
    from nightscreen.privacy.lookup_subject import Subject
    from nightscreen.schemas.decisions import KnownCustomer
    from nightscreen.schemas.policy import PolicyRule
    from nightscreen.schemas.records import JournalRecord

_UNSEEN = {each.name: each.unseen for check in CHECKS.values() for each in check.columns}


def explain(
    journal: Journal, person: Subject, declared: Declarations = NOTHING_DECLARED
) -> dict[str, Any]:
    """Return a customer's decision from beginning to end, as a JSON document."""
    run, row = newest_row(journal, person) or (None, {})
    changed = () if run is None else shown_rows(person, run, "changes")
    changes = [each for _, rows in changed for each in rows]
    known = Customers(journal).known([person.pseudonym]).get(person.pseudonym)
    now = journal.clock()
    calls = journal.runs.calls_about(list(subjects_of([row], journal.pseudonyms)))
    policy = row.get("policy")
    text = None if policy is None else Reviews(journal).policy_text(policy)
    held = shown_records(
        journal, [person], (Review, Contest, SentNotice, CustomerAction, CaseComment)
    )
    among = [person.pseudonym]
    settled = standing_reviews(journal, person.batch, among).get(person.pseudonym)
    document: dict[str, Any] = {
        "customer_id": person.customer_id,
        "customer": person.pseudonym.hex(),
        "batch": person.batch,
        "run_id": None if run is None else run.run_id,
        "screened_at": None if run is None else instant_text(run.finished_at or run.started_at),
        "decision": row.get("decision"),
        "reasons": [] if run is None else reasons(run, person.customer_id, text),
        "policy": policy,
        "policy_kept": text is not None,
        "missing_checks": {} if run is None else missing_checks(row),
        "signals": shared_signals(row),
        "evidence": [] if run is None else evidence(row, now, run.purpose, declared),
        "lookups": [lookup(call, declared) for call in calls],
        "cost": naira_text(sum(call.cost_micro or 0 for call in calls)),
        "changes": shown_changes(changes),
        "last_answered": last_answered(known),
        **final_columns(settled),
        "decided_why": None if settled is None else settled.note,
        **held,
        "reviews": [each for each in held["reviews"] if not each["state"]],
    }
    return plain(document)


def reasons(run: RunRecord, customer_id: str, policy_text: str | None) -> list[dict[str, Any]]:
    """Return each reason of a row's decision with the rules that applied, decisive ones first.

    To find the rules that applied, the row is judged again by the policy that decided it; sentences
    are those for the run's purpose. If that policy can no longer be evaluated, all rules with the
    code are returned.
    """
    table = row_table(run, customer_id)
    if table is None or not table.num_rows:
        return []
    row = table.select(["decision", "reasons"]).to_pylist()[0]
    codes, decisive = row["reasons"] or [], set[str]()
    rules = defaultdict[str, list[dict[str, Any]]](list)
    if policy_text is not None:
        policy = Policy.model_validate_json(policy_text)
        try:
            applied = applied_rules(table, policy, codes, run.purpose)
        except PolicyError:  # it names columns of a check that is no longer installed
            applied = [rule for rule in policy.rules if rule.code in codes]
        for rule in applied:
            rules[rule.code].append(rule_words(policy, rule, run.purpose))
        decisive = {rule.code for rule in applied if rule.effect.value == row["decision"]}
    return [
        {"code": code, "decisive": code in decisive, "rules": rules[code]}
        for code in sorted(codes, key=lambda code: code not in decisive)
    ]


def rule_words(policy: Policy, rule: PolicyRule, purpose: str | None) -> dict[str, Any]:
    """Return a rule's texts for a purpose, with its thresholds filled in."""
    return {
        "effect": rule.effect.value,
        "when": policy.condition(rule),
        "team": policy.sentence(rule.team, purpose),
        "customer": policy.sentence(rule.customer, purpose),
        "action": None if rule.action is None else policy.sentence(rule.action, purpose),
    }


def shared_signals(row: Mapping[str, Any]) -> dict[str, int]:
    """Return the signals of identifiers that a row shared with others when it was screened.

    They count other customers with the same identifier, or BVNs with the same account, in this and
    earlier batches.
    """
    alone = {name: int(name == ACCOUNT_BVNS) for name in SIGNALS}
    return {name: row[name] for name in SIGNALS if (row.get(name) or 0) > alone[name]}


def evidence(
    row: Mapping[str, Any], now: int, purpose: str, declared: Declarations
) -> list[dict[str, Any]]:
    """Return status, age, source and fields of each requested check of a row; names are masked."""
    documents = []
    for check in CHECKS:
        status = row.get(f"{check}_status", "off")  # installed after the run: no such column
        if status == "off":
            continue
        at = row[f"{check}_checked_at"]
        micros = None if at is None else to_micros(at)
        documents.append(
            {
                "check": check,
                "status": status,
                "checked_at": instant_text(micros),
                "age_days": None if micros is None else round((now - micros) / DAY_MICROS, 1),
                "source": row[f"{check}_source"],
                "lawful_basis": basis_words(declared.basis_of(check, purpose)),
                "fields": shown_fields(check, row),
            }
        )
    return documents


def shown_fields(check: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a check's fields with a value; names are masked."""
    fields: dict[str, Any] = {}
    for field in TRACKED[check]:
        value = row[field.name]
        if value is None or field.name.endswith("_status"):
            continue
        identifies = field.compare is Compare.IDENTIFYING
        fields[field.name] = masked(value) if identifies else seen(field.name, value)
    return fields


def seen(name: str, value: Any) -> Any:  # noqa: ANN401 - any cell of a table
    """Return a cell of a column without what its check declares unseen, such as a clerk's name."""
    if unseen := _UNSEEN.get(name):
        return [{key: each for key, each in part.items() if key not in unseen} for part in value]
    return value


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document as its JSON has it; amounts and dates become text."""
    read: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return read


def masked(value: object) -> str:
    """Return the initials of a name, and `(held)` for anything else."""
    if not isinstance(value, str):
        return "(held)"
    return " ".join(f"{word[0]}…" for word in value.split() if word[0].isalpha()) or "(held)"


def lookup(call: Row[Any], declared: Declarations) -> dict[str, Any]:
    """Return one call as a JSON document: time, purpose, declared basis, result and cost."""
    return {
        "check": call.check,
        "asked_by": call.kind,
        "pseudonym": bytes(call.subject).hex(),
        "run_id": call.run_id,
        "purpose": call.purpose,
        "lawful_basis": basis_words(declared.basis_of(call.check, call.purpose)),
        "consent_reference": call.consent_reference,
        "attempt": call.attempt,
        "at": instant_text(call.sent_at or call.intent_at),
        "answered_at": instant_text(call.settled_at),
        "state": call.state,
        "outcome": call.outcome,
        "trouble": call.trouble,
        "cost": naira_text(call.cost_micro),
    }


def shown_changes(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a customer's reported changes, without the columns that identify the customer."""
    left_out = {"customer", "run_id"}
    return [
        {name: value for name, value in each.items() if name not in left_out} for each in changes
    ]


def last_answered(known: KnownCustomer | None) -> dict[str, Any] | None:
    """Return the state that the next run is compared with."""
    if known is None:
        return None
    return {
        "run_id": known.run_id,
        "at": instant_text(known.decided_at),
        "gone": known.gone_run_id is not None,
        "checks": {
            name: {"at": instant_text(part.at), "run_id": part.run_id}
            for name, part in known.state.items()
            if name != LISTED_PART
        },
    }


# --- records ---


_NEVER = {"key", "customer", "subject", "customer_id"}
"""Fields that no record shows: pseudonyms, and the id, which the document has once."""


def shown_records(
    journal: Journal,
    people: Sequence[Subject],
    kinds: Iterable[type[JournalRecord]] = KINDS,
    *,
    retention: Retention | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Return a customer's records in some batches, by section, oldest first.

    With `retention`, each record has the end of its period.
    """
    anywhere = journal.pseudonyms.customers_anywhere([people[0].customer_id])
    sections: dict[str, list[dict[str, Any]]] = {}
    for model in kinds:
        if model.section:
            here = [anywhere] if model.everywhere else [person.pseudonym for person in people]
            sections[model.section] = [
                {**_kept_until(record, since, retention), **_shown(journal, record)}
                for record, since in Records(journal, model).with_periods(here)
            ]
    return sections


def _kept_until(
    record: JournalRecord, since: int, retention: Retention | None
) -> dict[str, str | None]:
    if retention is None:
        return {}
    if record.searched_state in record.waiting:
        return {"kept_until": None}
    return {"kept_until": kept_until(since, getattr(retention, f"{record.ground.value}_days"))}


def kept_until(at: int, days: int) -> str | None:
    """Return the end of a period of days from an instant, as text."""
    return instant_text(to_micros(to_instant(at) + timedelta(days=days)))


def _shown(journal: Journal, record: JournalRecord) -> dict[str, Any]:
    """Return a record as a JSON document, with what its other data or other records say of it."""
    document = facts(record.model_dump(mode="json", exclude=_NEVER | record.unshown))
    now = journal.clock()
    if isinstance(record, Review):
        known = Customers(journal).known([record.customer]).get(record.customer)
        stands = rests_on(record, known) and record.until > now and not record.state
        document |= {"overrides": record.overrides, "stands": stands}
    elif isinstance(record, Contest):
        document |= {"contest_id": record.key, "overdue": record.overdue(now)}
        document |= {"state": record.state}
    elif isinstance(record, Grant):
        document["grant_id"] = record.grant_id  # calls refer to their consent by it
    return document
