"""The record of processing, and a draft of the impact assessment, from the settings alone.

The lender is the controller and answers for both papers. What the settings tell is filled in; what
they cannot tell is a blank that says who fills it. No journal is read and nobody is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from nightscreen.config.declarations import (
    DECLARABLE,
    NOTHING_DECLARED,
    Declarations,
    basis_words,
)
from nightscreen.config.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.config.settings import Retention

BLANK = "[to be filled in]"
NOT_SET = "not set"
_IDENTIFIERS = "BVN, account, phone, email, names, date of birth"

ACTIVITIES: tuple[Mapping[str, str], ...] = (
    {
        "activity": "Screening of borrowers",
        "purpose": "watching the risk of loans that run",
        "people": "borrowers",
        "data": f"{_IDENTIFIERS}; exposure; what the checks answer",
        "sent": "account and bank; BVN, phone or email for listings; BVN for the history",
    },
    {
        "activity": "Screening of applicants",
        "purpose": "deciding on an application",
        "people": "applicants",
        "data": f"{_IDENTIFIERS}; a photograph where it is given; what the checks answer",
        "sent": "as for borrowers; BVN and the photograph's address for the selfie",
    },
    {
        "activity": "Consent to BVN details",
        "purpose": "reading a BVN's details with the holder's one-time password",
        "people": "customers who were asked",
        "data": "BVN, masked contact, what the BVN holds; no password is kept",
        "sent": "BVN, the chosen contact, the password",
    },
    {
        "activity": "Accounts and transactions",
        "purpose": "working out what a loan may cost a month",
        "people": "customers who consented, and whom their narrations name",
        "data": "accounts, balances, transactions, figures of cash flow, tokens",
        "sent": "the customer's token",
    },
    {
        "activity": "Offers and loans",
        "purpose": "offering a loan and following it",
        "people": "customers who were offered one",
        "data": "email or phone, product, link, how the loan stands",
        "sent": "email or phone, the product",
    },
    {
        "activity": "Decisions by people, notices, contests",
        "purpose": "reviewing, telling the customer, answering objections",
        "people": "customers; the lender's staff",
        "data": "decision, reasons, what was said and answered; who did or saw it",
        "sent": "nothing",
    },
)

_KEPT: tuple[tuple[str, str, str, str], ...] = (
    ("rows that were refused", "in clear, files of each run", "correcting the file", "quarantine"),
    (
        "screened rows, inputs of the inbox",
        "in clear, files of each run",
        "the purpose",
        "enriched",
    ),
    (
        "rows and answers of applicants",
        "the same",
        "the application, until it is settled",
        "applicants",
    ),
    (
        "decisions, changes, states, reviews, offers",
        "files of each run; journal, sealed",
        "showing how it was decided",
        "decisions",
    ),
    (
        "answers of the service, transactions",
        "journal, sealed, by pseudonym",
        "evidence, and not paying twice",
        "journal_answers",
    ),
    (
        "contests, notices, actions",
        "journal, sealed",
        "showing that customers were told",
        "notices",
    ),
    ("consents that ended", "journal, sealed", "showing that there was consent", "consents"),
    ("approvals of spending", "journal, notes sealed", "showing who allowed it", "approvals"),
    ("who saw or did what", "journal, customers sealed", "the audit", "audit"),
)
"""What is kept, in which form, on what ground, and the setting of its period."""

RISKS: tuple[tuple[str, str], ...] = (
    (
        "A customer is declined for somebody else's record.",
        (
            "Names, dates of birth and BVNs are compared with the customer's; what contradicts is "
            "not used for them. Decisions name their rules and evidence; people review and "
            "override."
        ),
    ),
    (
        "Somebody is decided on by a machine alone.",
        (
            "The policy is readable, signed off and tried on past nights; missing evidence never "
            "approves. {alone}"
        ),
    ),
    (
        "A group is treated worse.",
        (
            "Policies refuse religion, tribe, nationality, language, health, politics, gender, "
            "marital status and origin unless the policy says so aloud. Whether other columns "
            "stand for them is yours to examine."
        ),
    ),
    (
        "Somebody is looked up without consent.",
        (
            "History, photograph and BVN are asked for, and shown again, only where consent is "
            "valid at that moment; each call keeps the reference of the consent it rested on."
        ),
    ),
    (
        "Identifiers reach whom they should not.",
        (
            "The journal is sealed and holds pseudonyms; identifiers stand in clear only in the "
            "files of a run. Nothing personal goes into logs, errors, reports, file names or the "
            "engine."
        ),
    ),
    (
        "A backup or disk is lost.",
        (
            "Backups hold no key unless it is sealed to a passphrase. Files in clear rest on the "
            "encryption of your disks."
        ),
    ),
    (
        "Data are kept for longer than they are needed.",
        (
            "Each ground has its period above; `nightscreen purge` removes what is past it and "
            "leaves a line of audit. It must run every day."
        ),
    ),
    (
        "A customer is not heard.",
        (
            "A contest stops notices and offers, has a clock ({hours:g} hours, {complex:g} where "
            "it is complex) and is answered by somebody who did not decide."
        ),
    ),
)
"""What may go wrong for people, and what holds against it."""


def processing_record(
    settings: Settings, declared: Declarations = NOTHING_DECLARED
) -> dict[str, Any]:
    """Return the record of processing as JSON has it.

    Args:
        settings: as runs have them.
        declared: what the lender declares.
    """
    named = settings.portal_name != Settings.model_fields["portal_name"].default
    record: dict[str, Any] = {
        "controller": {
            "name": settings.portal_name if named else BLANK,
            "contact": settings.portal_contact or BLANK,
            "data_protection_officer": BLANK,
            "lawful_bases": _bases(declared),
        },
        "activities": [dict(each) for each in ACTIVITIES],
        "places": _places(settings),
        "recipients": _recipients(settings),
        "kept": _kept(settings.retention),
        "rights": _rights(settings),
    }
    record["blanks"] = sorted(_blanks(record))
    return record


def _bases(declared: Declarations) -> list[str]:
    """Return each declared basis in a line, and what is declared for no purpose at all."""
    lines = [
        f"{each.check}, {each.purpose or 'every purpose'}: {basis_words(each)}"
        for each in declared.lawful_basis
    ]
    named = {each.check for each in declared.lawful_basis}
    missing = ", ".join(each for each in DECLARABLE if each not in named)
    return [*lines, f"{missing}: {BLANK}"] if missing else lines


def _kept(retention: Retention) -> list[dict[str, Any]]:
    return [
        {
            "what": what,
            "where": where,
            "ground": ground,
            "days": getattr(retention, f"{name}_days"),
            "setting": f"NIGHTSCREEN_RETENTION__{name.upper()}_DAYS",
        }
        for what, where, ground, name in _KEPT
    ]


def _host(address: str) -> str:
    return urlsplit(address).hostname or NOT_SET


def _places(settings: Settings) -> list[dict[str, str]]:
    return [
        {"what": "state, keys, uploaded files", "where": f"{settings.home} on this machine"},
        {"what": "journal", "where": _journal(settings)},
        {"what": "files of runs", "where": f"{settings.output}, or where --output says"},
        {"what": "country of these places", "where": BLANK},
    ]


def _journal(settings: Settings) -> str:
    if not settings.journal_url:
        return "SQLite, beside the state"
    try:
        url = make_url(settings.journal_url)
    except ArgumentError:
        return "a database whose address cannot be read"
    return f"{url.get_backend_name()} at {url.host or 'this machine'}"


def _recipients(settings: Settings) -> list[dict[str, str]]:
    service = _host(settings.base_url)
    found = [
        {
            "who": f"the service, at {service}",
            "role": "controller of its own: it decides what it keeps of a lookup",
            "gets": "what each activity sends",
        },
        {
            "who": "those who report to the service: lenders, banks",
            "role": "controllers of their own",
            "gets": "what the service tells them of your lookups; ask it",
        },
    ]
    if settings.consent_url:
        found.append(
            {
                "who": f"the service's consent screen, at {_host(settings.consent_url)}",
                "role": "controller of its own",
                "gets": "the customer's browser, the scopes asked for",
            }
        )
    if settings.proxy.get_secret_value():
        found.append(
            {
                "who": "your outgoing proxy",
                "role": "yours, or a processor's",
                "gets": "addresses; the requests themselves where it opens https",
            }
        )
    found.append(
        {
            "who": "whoever hosts machine, database, engine's server and backups",
            "role": "processor, under a contract of yours",
            "gets": f"what lies there: {BLANK}",
        }
    )
    return found


def _rights(settings: Settings) -> list[dict[str, str]]:
    hours = settings.contest.data_protection_hours
    return [
        {"right": "to be told", "how": "`nightscreen explain`, notices"},
        {"right": "access, and a copy", "how": "`nightscreen subject-access CUSTOMER_ID`"},
        {"right": "erasure", "how": "`nightscreen erase --customer-id CUSTOMER_ID`"},
        {
            "right": "objection, a person's decision",
            "how": f"the desk's page Contests; about data within {hours:g} hours",
        },
        {
            "right": "withdrawal of consent",
            "how": "`consent_withdrawn_at` in the file; `nightscreen consent revoke`",
        },
    ]


def _blanks(part: Any, name: str = "") -> set[str]:  # noqa: ANN401 - any JSON
    """Return the names of what is still to be filled in."""
    if isinstance(part, dict):
        return {blank for key, each in part.items() for blank in _blanks(each, key)}
    if isinstance(part, list):
        return {blank for each in part for blank in _blanks(each, name)}
    return {name} if BLANK in str(part) else set()


def record_page(record: Mapping[str, Any]) -> str:
    """Return the record as Markdown."""
    controller = record["controller"]
    lines = [
        "# Record of processing",
        "",
        (
            f"Controller: {controller['name']}. Contact: {controller['contact']}. "
            f"Data protection officer: {controller['data_protection_officer']}."
        ),
        "",
        "## Activities",
        "",
        *_table(record["activities"]),
        "",
        "Lawful basis:",
        "",
        *(f"- {each}" for each in controller["lawful_bases"]),
    ]
    titles = {
        "places": "Where data lie",
        "recipients": "Who gets data",
        "kept": "How long, and why",
        "rights": "Rights of people",
    }
    for name, title in titles.items():
        lines += ["", f"## {title}", "", *_table(record[name])]
    return "\n".join([*lines, ""])


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    head = list(rows[0])
    cells = [[str(row[name]).replace("|", "\\|") for name in head] for row in rows]
    words = [name.replace("_", " ") for name in head]
    return [f"| {' | '.join(each)} |" for each in (words, ["---"] * len(head), *cells)]


def assessment_page(settings: Settings, declared: Declarations = NOTHING_DECLARED) -> str:
    """Return a draft of the impact assessment as Markdown.

    Args:
        settings: as runs have them.
        declared: what the lender declares.
    """
    word = declared.policy_decides_alone
    alone = (
        "A decline of an application is a proposal until a person confirms it."
        if word is None
        else f"That it decides alone was declared by {word.by} on {word.on}: {word.ground}"
    )
    clocks = {"hours": settings.contest.hours, "complex": settings.contest.complex_hours}
    risks = [
        {
            "what may go wrong": risk,
            "what holds against it": held.format(alone=alone, **clocks),
            "likelihood, severity": BLANK,
            "what you do besides": BLANK,
        }
        for risk, held in RISKS
    ]
    lines = [
        "# Impact assessment (draft)",
        "",
        "Drafted from the settings; it is an assessment once the controller has judged each line.",
        "",
        "## What is done, and why",
        "",
        (
            "Customers' identifiers are sent to a service, its answers are compared with the file, "
            "and a policy flags whom to approve, to review or to decline. The record of processing "
            "names activities, places, recipients and periods."
        ),
        "",
        "## Whether it is needed, and no more than that",
        "",
        f"- Why the purpose cannot be reached with less: {BLANK}",
        (
            "- Fewer data: each check sends the identifiers that it needs; an answer that is fresh "
            "is not asked for again; `--checks` leaves out checks that are not needed."
        ),
        f"- Whether customers expect it, and were told: {BLANK}",
        "",
        "## Risks to people",
        "",
        *_table(risks),
        "",
        "## Who was heard",
        "",
        f"- Data protection officer, and date: {BLANK}",
        f"- Customers or those who speak for them: {BLANK}",
        f"- Who accepts what remains, and until when: {BLANK}",
    ]
    return "\n".join([*lines, ""])
