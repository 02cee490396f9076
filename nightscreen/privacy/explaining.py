"""Explaining: one customer's decision end to end, from the journal and the run's own files.

The customer's id stands as given; every other identifier is masked or left out. How records are
shown is one loop over all kinds: a kind says under which name its records stand (`section`) and
which fields are not shown (`unshown`). What is handed to the customers themselves is in
`subject_access`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from nightscreen.checks.declaration import Compare
from nightscreen.checks.karma import LISTINGS
from nightscreen.checks.registry import CHECKS
from nightscreen.config.declarations import NOTHING_DECLARED, Declarations, basis_words
from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.journal.schema import KINDS
from nightscreen.privacy.contests import contest_document
from nightscreen.privacy.lookup_subject import newest_row, shown_rows, subjects_of
from nightscreen.results.decide import applied_rules
from nightscreen.results.enriched import row_table
from nightscreen.results.final_decision import final_columns, standing_reviews
from nightscreen.results.tracked_state import TRACKED, rests_on
from nightscreen.results.wording import missing_checks
from nightscreen.schemas.cases import CaseComment
from nightscreen.schemas.clock import DAY_MICROS, instant_text, to_instant, to_micros
from nightscreen.schemas.consented import Grant
from nightscreen.schemas.contests import WAITS, Contest, CustomerAction, Review, SentNotice
from nightscreen.schemas.decisions import LISTED_PART
from nightscreen.schemas.enriched import ACCOUNT_BVNS, SIGNALS
from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.policy import Policy, PolicyRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Row

    from nightscreen.config.settings import Retention
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord
    from nightscreen.privacy.lookup_subject import Subject
    from nightscreen.schemas.decisions import KnownCustomer
    from nightscreen.schemas.records import JournalRecord

_LISTING_FIELDS = (
    "identity_kind",
    "karma_type",
    "amount_in_contention",
    "default_date",
    "reason",
    "reporting_entity_name",
)


def explain(
    journal: Journal, person: Subject, declared: Declarations = NOTHING_DECLARED
) -> dict[str, Any]:
    """Return a customer's decision end to end, as JSON has it."""
    found = newest_row(journal, person)
    run, row = found if found is not None else (None, None)
    told = () if run is None else shown_rows(person, run, "changes")
    changes = [each for _, rows in told for each in rows]
    reviews = Reviews(journal)
    known = Customers(journal).known([person.pseudonym]).get(person.pseudonym)
    now = journal.clock()
    calls: Sequence[Row[Any]] = ()
    if row is not None:
        subjects = subjects_of([row], journal.pseudonyms)
        calls = journal.runs.calls_about(list(subjects))
    policy = None if row is None else row["policy"]
    text = None if policy is None else reviews.policy_text(policy)
    among = [person.pseudonym]
    settled = standing_reviews(journal, person.batch, among).get(person.pseudonym)
    return {
        "customer_id": person.customer_id,
        "customer": person.pseudonym.hex(),
        "batch": person.batch,
        "run_id": None if run is None else run.run_id,
        "screened_at": None if run is None else instant_text(run.finished_at or run.started_at),
        "decision": None if row is None else row["decision"],
        "reasons": [] if run is None else reasons(run, person.customer_id, text),
        "policy": policy,
        "policy_kept": text is not None,
        "missing_checks": {} if row is None else missing_checks(row),
        "signals": {} if row is None else shared_signals(row),
        "evidence": [] if run is None else evidence(row or {}, now, run.purpose, declared),
        "lookups": [lookup(call, declared) for call in calls],
        "cost": naira_text(sum(call.cost_micro or 0 for call in calls)),
        "changes": shown_changes(changes),
        "last_answered": last_answered(known),
        **final_columns(settled),
        "decided_why": None if settled is None else settled.note,
        "reviews": [
            review_document(each, known, now) for each in reviews.of_customer(person.pseudonym)
        ],
        **shown_records(journal, [person], (Contest, SentNotice, CustomerAction, CaseComment)),
    }


def reasons(run: RunRecord, customer_id: str, policy_text: str | None) -> list[dict[str, Any]]:
    """Return each reason of a row's decision with the rules that applied, decisive ones first.

    Which of the rules under one code applied is found by judging the row again, by the policy that
    decided it; what its sentences say is what they say for the run's purpose. Where that policy
    cannot be judged any longer, all rules under a code stand.
    """
    table = row_table(run, customer_id)
    if table is None or not table.num_rows:
        return []
    row = table.select(["decision", "reasons"]).to_pylist()[0]
    codes = row["reasons"] or []
    applied: list[PolicyRule] = []
    policy = None if policy_text is None else Policy.model_validate_json(policy_text)
    if policy is not None:
        try:
            applied = applied_rules(table, policy, codes, run.purpose)
        except PolicyError:  # it names columns of a check that is installed no longer
            applied = [rule for rule in policy.rules if rule.code in codes]
    decisive = [rule.code for rule in applied if rule.effect.value == row["decision"]]
    return [
        {
            "code": code,
            "decisive": code in decisive,
            "rules": [
                rule_words(policy, rule, run.purpose)
                for rule in applied
                if policy is not None and rule.code == code
            ],
        }
        for code in sorted(codes, key=lambda code: code not in decisive)
    ]


def rule_words(policy: Policy, rule: PolicyRule, purpose: str | None) -> dict[str, Any]:
    """Return a rule as it stood for a purpose, with its thresholds in place."""
    return {
        "effect": rule.effect.value,
        "when": policy.condition(rule),
        "team": policy.sentence(rule.team, purpose),
        "customer": policy.sentence(rule.customer, purpose),
        "action": None if rule.action is None else policy.sentence(rule.action, purpose),
    }


def shared_signals(row: Mapping[str, Any]) -> dict[str, int]:
    """Return the signals by which a row shared something with others when it was screened.

    Other customers with the same, or BVNs that the account stood under, in the batch and those
    before it.
    """
    alone = {name: int(name == ACCOUNT_BVNS) for name in SIGNALS}
    return {name: row[name] for name in SIGNALS if (row.get(name) or 0) > alone[name]}


def evidence(
    row: Mapping[str, Any], now: int, purpose: str, declared: Declarations
) -> list[dict[str, Any]]:
    """Return what each wanted check says of a row: status, age, source, fields without names."""
    found = []
    for check in CHECKS:
        status = row[f"{check}_status"]
        if status == "off":
            continue
        at = row[f"{check}_checked_at"]
        micros = None if at is None else to_micros(at)
        found.append(
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
    return found


def shown_fields(check: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a check's fields that hold a value, names masked."""
    found: dict[str, Any] = {}
    for field in TRACKED[check]:
        value = row[field.name]
        if value is None or field.name.endswith("_status"):
            continue
        if field.name == LISTINGS:
            found[field.name] = [
                {name: plain(each[name]) for name in _LISTING_FIELDS} for each in value
            ]
        elif field.compare is Compare.IDENTIFYING:
            found[field.name] = masked(value)
        else:
            found[field.name] = plain(value)
    return found


def plain(value: Any) -> Any:  # noqa: ANN401 - any cell of a table
    """Return a value as JSON can hold it; amounts and dates become text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return str(value)


def masked(value: object) -> str:
    """Return a name by its initials, and anything else as held only."""
    if not isinstance(value, str):
        return "(held)"
    return " ".join(f"{word[0]}…" for word in value.split() if word[0].isalpha()) or "(held)"


def lookup(call: Row[Any], declared: Declarations) -> dict[str, Any]:
    """Return one lookup: when, why, on what declared basis, with what result and cost."""
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
    """Return what a run reported of a customer, without the columns that say whose it is."""
    left_out = {"customer", "run_id"}
    return [
        {name: plain(value) for name, value in each.items() if name not in left_out}
        for each in changes
    ]


def last_answered(known: KnownCustomer | None) -> dict[str, Any] | None:
    """Return the state that the next night is compared with."""
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
"""Fields that no kind is shown with: pseudonyms, and the id that stands above all of it."""


def shown_records(
    journal: Journal,
    people: Sequence[Subject],
    kinds: Iterable[type[JournalRecord]] = KINDS,
    *,
    retention: Retention | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Return what is held of a customer in some batch names, by section, oldest first.

    Until when each is kept is shown where the periods are given.
    """
    anywhere = journal.pseudonyms.customers_anywhere([people[0].customer_id])
    found: dict[str, list[dict[str, Any]]] = {}
    for model in kinds:
        if model.section:
            here = [anywhere] if model.everywhere else [person.pseudonym for person in people]
            found[model.section] = [
                {**_kept_until(record, since, retention), **_shown(journal, record)}
                for record, since in Records(journal, model).with_periods(here)
            ]
    return found


def _kept_until(
    record: JournalRecord, since: int, retention: Retention | None
) -> dict[str, str | None]:
    if retention is None:
        return {}
    if record.searched_state in record.waiting:
        return {"kept_until": None}
    return {"kept_until": kept_until(since, getattr(retention, f"{record.ground.value}_days"))}


def kept_until(at: int, days: int) -> str | None:
    """Return the end of a period that begins at an instant."""
    return instant_text(to_micros(to_instant(at) + timedelta(days=days)))


def review_document(review: Review, known: KnownCustomer | None, now: int) -> dict[str, Any]:
    """Return a review and whether it still stands."""
    return {
        "run_id": review.run_id,
        "listed": review.listed,
        "decision": review.decision,
        "overrides": review.overrides,
        "reviewer": review.reviewer,
        "confirmed_by": review.confirmed_by or None,
        "imported_by": review.imported_by or None,
        "waits_for_second_person": review.state == WAITS,
        "note": review.note,
        "reviewed_at": instant_text(review.reviewed_at),
        "until": instant_text(review.until),
        "stands": rests_on(review, known) and review.until > now and not review.state,
    }


def _shown(journal: Journal, record: JournalRecord) -> dict[str, Any]:
    """Return a record as JSON has it, with what other kinds say of it."""
    if isinstance(record, Review):
        known = Customers(journal).known([record.customer]).get(record.customer)
        return review_document(record, known, journal.clock())
    if isinstance(record, Contest):
        return contest_document(record, journal.clock())
    document = own_view(record)
    if isinstance(record, Grant):
        document["grant_id"] = record.grant_id  # by which calls name their consent
    return document


def own_view(record: JournalRecord) -> dict[str, Any]:
    """Return the fields of a record that its customer may see: instants as ISO text, naira."""
    fields = record.model_dump(mode="json", exclude=_NEVER | record.unshown)
    fields |= fields.pop("held", {})
    return _plain({name: value for name, value in fields.items() if name not in _NEVER})


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            shown[name] = _plain(value)
        elif isinstance(value, list):
            shown[name] = [_plain(each) if isinstance(each, dict) else each for each in value]
        elif isinstance(value, int) and (name == "at" or name.endswith(("_at", "until"))):
            shown[name] = instant_text(value)
        elif name.endswith("_micro"):
            shown[name.removesuffix("_micro")] = naira_text(value)
        else:
            shown[name] = value
    return shown
