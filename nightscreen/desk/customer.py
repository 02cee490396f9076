"""The page of one customer: the decision in words, evidence as cards, history, and a review.

`results/` decides what a customer's evidence is, and whether a review is valid. The consent gate
applies to every view: if consent has ended, a card says so and shows nothing.
"""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from collections import defaultdict
from datetime import timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from nightscreen.checks.karma import LISTINGS
from nightscreen.checks.registry import CHECKS
from nightscreen.client.wire import Scope
from nightscreen.config.declarations import read_declarations
from nightscreen.config.settings import AGED
from nightscreen.desk.context import DeskError
from nightscreen.desk.lists import USUAL_WAIT_DAYS, in_words
from nightscreen.desk.new_file import begin, keep_row, quote_upload
from nightscreen.desk.pages import naira, words
from nightscreen.desk.rows import branch_of, columns_of_care
from nightscreen.desk.uploads import as_before, plain_name
from nightscreen.journal.audit import AuditQuery
from nightscreen.journal.cases import WAITS_FOR
from nightscreen.journal.records import Records
from nightscreen.operations.consent_links import ConsentLinks
from nightscreen.planning.eligibility import consent_valid, twelve_months_after
from nightscreen.privacy.explaining import explain
from nightscreen.privacy.lookup_subject import Subject, lookup_subject, newest_row
from nightscreen.report.format import STATUSES
from nightscreen.results.changes import TRACKED
from nightscreen.results.enriched import find_row
from nightscreen.results.notices import notice_of, record_action, record_sent
from nightscreen.results.reviews import confirm_override, end_override, import_reviews
from nightscreen.results.wording import customer_name
from nightscreen.schemas.cases import CaseAttachment, CaseComment
from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.clock import MICROS, lagos_day, to_instant, to_micros
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.contests import ContestState
from nightscreen.schemas.decisions import DECISION_PART, LISTED_PART, REVIEWED, ReviewRow
from nightscreen.schemas.enriched import CONSENT_UNREADABLE
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import naira_text, to_micro, typed_micro
from nightscreen.values.identifiers import BVN_DIGITS
from nightscreen.web.guard import attachment, origin_of, see_other

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunRecord

WAYS_TO_TELL: Final = ("letter", "text message", "email", "call", "visit")
LARGEST_ATTACHMENT: Final = 5 * 1024 * 1024  # bytes; a few pages as a scanner has them
LONGEST_COMMENT: Final = 2000
_KEPT: Final = (
    (b"%PDF-", ".pdf", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", ".png", "image/png"),
    (b"\xff\xd8\xff", ".jpg", "image/jpeg"),
)
"""First bytes, ending and media type of what may be kept: documents and photographs."""
_IN_ORDER: Final = sorted(CHECKS.values(), key=lambda each: each.order)
"""The checks as the page shows them: what can decide alone comes first."""
LOOKED_S: Final = 15 * 60  # who opened a customer within this time may be at work on it


class _Found(NamedTuple):
    """The customer the address names: the run whose row is shown, the row, and other batches."""

    person: Subject
    run: RunRecord | None
    row: dict[str, Any] | None
    others: tuple[str, ...] = ()

    def with_row(self) -> tuple[Subject, RunRecord, dict[str, Any]]:
        """Return the customer with the row that is decided about."""
        if self.run is None or self.row is None:
            raise DeskError(409, "This customer has no row of a run to decide about.")
        return self.person, self.run, self.row

    @property
    def address(self) -> str:
        run_id = self.run.run_id if self.run else ""
        return f"/customers/{quote(self.person.customer_id, safe='')}?run={run_id}"


def _found(context: Context) -> _Found:
    """Return the customer that the address names."""
    customer_id = context.request.path_params["customer_id"]
    run_id = context.text("run", 60) or context.asked_first("run")
    run = context.journal.runs.find(run_id) if run_id else None
    row = None if run is None else find_row(run, customer_id)
    if run is not None and row is not None:
        context.require_branch(branch_of(row), customer_id=customer_id)
        context.require_seen(customer_id, run.batch)
        key = context.journal.pseudonyms.customer(run.batch, customer_id)
        return _Found(Subject(customer_id, run.batch, key, (run,)), run, row)
    try:
        person, *others = lookup_subject(context.journal, customer_id)
    except InputError as error:
        raise DeskError(404, str(error)) from None
    run, row = newest_row(context.journal, person) or (None, None)
    context.require_branch(branch_of(row or {}), customer_id=customer_id)
    runs = () if run is None else (run,)
    shown = Subject(person.customer_id, person.batch, person.pseudonym, runs)
    return _Found(shown, run, row, tuple(each.batch for each in others))


def customer(context: Context, *, link: str = "", again: dict[str, Any] | None = None) -> Response:
    """Show a customer; with a link to send, or the price of asking a check again."""
    found = _found(context)
    person, run, row, _ = found
    declared = read_declarations(context.settings)
    document = explain(context.journal, person, declared)
    shown = None if row is None else dict(in_words(context, [row], run.purpose if run else None)[0])
    now = context.clock()
    allowed = row is not None and _consents(row, now)
    gated = {check for check, each in CHECKS.items() if each.needs_consent}
    cases = context.open_cases
    seen_since = context.clock() - LOOKED_S * MICROS
    looks = AuditQuery(action="customer seen", customer_id=person.customer_id, since=seen_since)
    seen_by = {each["user"] for each in context.audit.find(looks, limit=50)} - {context.name}
    known = context.customers.known([person.pseudonym]).values()
    run_id, bvn = run.run_id if run else "", str((row or {}).get("bvn") or "")
    rows = context.rows_of(run) if run is not None else None
    next_id, place, listed = (None, 0, 0) if rows is None else rows.next_after(person.customer_id)
    own = cases.next_own(person.batch, person.customer_id)
    context.record("customer seen", run_id=run_id, customer_id=person.customer_id)
    return context.page(
        "customer",
        person=person,
        run=run,
        row=shown,
        name=None if row is None else customer_name(row),
        last_four=bvn[-4:] if len(bvn) == BVN_DIGITS and bvn.isdecimal() else "",
        looked_after=[] if row is None else [str(row[name]) for name in columns_of_care(row)],
        document=document,
        also=_also(document, shown),
        no_answer=STATUSES,
        again=again or {"checks": _asked_checks(context, found), "check": "", "price": None},
        cards=[] if row is None else _cards(row, document, now, allowed=allowed),
        changes=[
            each
            for each in document["changes"]
            if allowed or str(each.get("check") or "") not in gated
        ],
        # the decisions there were, newest first
        history=[
            (each, each.state.get(LISTED_PART) or each.state[DECISION_PART])
            for each in reversed([*context.customers.history(person.pseudonym), *known])
            if {LISTED_PART, DECISION_PART} & set(each.state)
        ],
        decided=DECISION_PART,
        comments=Records(context.journal, CaseComment).of_customers([person.pseudonym]),
        others=found.others,
        next_id=next_id if own is None else own["customer_id"],
        next_run=run_id if own is None else own["run_id"],
        place=place,
        listed=listed,
        case=cases.case(person.batch, person.customer_id),
        seen_by=sorted(seen_by),
        waits_for=WAITS_FOR,
        usual_wait=lagos_day(now) + timedelta(days=USUAL_WAIT_DAYS),
        newest_review=_newest_review(context, person),
        proposal=next(iter(context.reviews.waiting(person.pseudonym)), None),
        decisions=tuple(dict.fromkeys(word.value for word in REVIEWED.values())),
        link=link,
        preset=context.asked_first("decision"),
        notice=_notice(context, found),
        ways=WAYS_TO_TELL,
        contested=[each for each in document["contests"] if each["state"] == ContestState.OPEN],
    )


def review(context: Context) -> Response:
    """Save a review, as if a decision list with this one row had come back."""
    found = _found(context)
    person, run, row = found.with_row()
    word, reason = context.text("decision").casefold(), context.text("reason")
    note = context.text("note").replace("\r\n", "\n")
    if not word:
        raise DeskError(400, "Choose a decision first.")
    is_changed = word in REVIEWED and REVIEWED[word].value != row["decision"]
    if is_changed and not (reason and note):
        raise DeskError(
            400,
            f"This changes the decision from {row['decision']} to {word}: choose a reason, and say "
            "in the note what it rests on. Nothing was saved; what you typed stands below.",
        )
    held = context.cases.find(person.pseudonym)
    if held is not None and held.holder not in {context.name, "", None}:
        raise DeskError(
            409, f"{held.holder} has this case. Nothing was saved; what you typed stands below."
        )
    if context.text("newest_review") != _newest_review(context, person):
        raise DeskError(
            409,
            "Somebody reviewed this customer while you did; see the reviews below. Nothing was "
            "saved; what you typed stands below.",
        )
    cells = {
        "customer_id": person.customer_id,
        "run_id": run.run_id,
        "reviewer_decision": REVIEWED[word].value if word in REVIEWED else word,
        "reviewer": context.name,
        "review_note": ". ".join(part for part in (reason, note) if part),
        "reviewed_at": "",
    }
    rows = [ReviewRow(0, "", cells)]
    done = import_reviews(context.journal, context.actor, rows, context.settings, reason=reason)
    if done.mistakes:
        raise InputError(" ".join(each.hint for each in done.mistakes))
    return _after(context, found, "proposed" if done.waiting else "saved")


def _after(context: Context, found: _Found, said: str) -> Response:
    """Open the next case of the user's own; the same customer where there is none."""
    person = found.person
    case = context.open_cases.next_own(person.batch, person.customer_id)
    if case is None:
        return see_other(f"{found.address}&said={said}")
    address = f"/customers/{quote(case['customer_id'], safe='')}"
    return see_other(f"{address}?run={case['run_id']}&said={said}")


def override(context: Context) -> Response:
    """Confirm or refuse an override that waits for a second person; or take one's own back."""
    found = _found(context)
    proposal = next(iter(context.reviews.waiting(found.person.pseudonym)), None)
    if proposal is None:
        raise DeskError(409, "No override of this customer waits any more.")
    if context.text("proposal") not in {"", proposal.key}:
        raise DeskError(409, "Another override was proposed meanwhile. Look at it first.")
    if context.text("do") != "confirm":
        end_override(context.journal, context.actor, proposal)
        return _after(context, found, "ended")
    confirm_override(context.journal, context.actor, proposal, context.settings)
    return _after(context, found, "confirmed")


def _newest_review(context: Context, person: Subject) -> str:
    """Return the instant of a customer's newest review as text; empty where there is none."""
    found = context.reviews.of_customer(person.pseudonym)
    return str(max(each.at for each in found)) if found else ""


def comment(context: Context) -> Response:
    """Write a comment down on the case, and keep the file beside it; both go with the customer.

    A file is of a few types, told by its first bytes: whatever its name says, it is kept under the
    ending of its type.
    """
    found, file, text = _found(context), context.file, context.text("comment")
    text = text.replace("\r\n", "\n")
    if not 0 < len(text) <= LONGEST_COMMENT:
        raise InputError(f"Comment: write 1 to {LONGEST_COMMENT:,} characters.")
    run_id = found.run.run_id if found.run else ""
    about: dict[str, Any] = {
        "key": secrets.token_hex(12),
        "customer": found.person.pseudonym,
        "batch": found.person.batch,
        "run_id": run_id,
        "at": context.clock(),
    }
    made, attached = CaseComment(**about, text=text, by=context.name), list[CaseAttachment]()
    if file is not None:
        content = file.file.read(LARGEST_ATTACHMENT + 1)
        kinds = [kind for begins, *kind in _KEPT if content.startswith(begins)]
        if len(content) > LARGEST_ATTACHMENT or not kinds:
            raise InputError("The attachment is no PDF, PNG or JPEG file of at most 5 MB.")
        ((ending, media_type),) = kinds
        given = {
            "file_name": f"{PurePath(plain_name(file.filename or '')).stem or 'file'}{ending}",
            "media_type": media_type,
            "content": b64encode(content).decode(),
        }
        attached = [CaseAttachment(**about, **given)]
        named = {"file_name": given["file_name"], "file_size": len(content)}
        made = made.model_copy(update=named)
    with context.journal.database.writing() as connection:
        Records(context.journal, CaseComment).insert(connection, [made])
        Records(context.journal, CaseAttachment).insert(connection, attached)
    whose = {"run_id": run_id, "customer_id": found.person.customer_id}
    context.record("comment added", **whose, attachment=bool(attached))
    return see_other(f"{found.address}&said=comment")


def save_attachment(context: Context) -> Response:
    """Return a file that is kept on the case, to be saved and never shown in the page."""
    person, key = _found(context).person, context.request.path_params["key"]
    kept = Records(context.journal, CaseAttachment).find(key)
    if kept is None or kept.customer != person.pseudonym:
        raise DeskError(404, "No such file is kept on this case.")
    context.record("attachment taken out", customer_id=person.customer_id)
    return attachment(b64decode(kept.content), kept.file_name, kept.media_type)


def act(context: Context) -> Response:
    """Record what was done against the customer, who must be told of it."""
    found = _found(context)
    given = {"batch": found.person.batch, "action": context.text("action", 300)}
    record_action(context.journal, context.actor, found.person.customer_id, **given)
    return see_other(f"{found.address}&said=action")


def ask_for_consent(context: Context) -> Response:
    """Make a link by which the customer consents to sharing transactions."""
    customer_id = _found(context).person.customer_id
    base = context.settings.portal_url or context.settings.redirect_uri
    if not base:
        raise DeskError(
            409,
            "Where customers reach the portal is not set: an engineer writes "
            "NIGHTSCREEN_REDIRECT_URI or NIGHTSCREEN_PORTAL_URL.",
        )
    made = ConsentLinks(context.journal).make(customer_id, (Scope.TRANSACTION_LIST,))
    context.record("consent asked for", customer_id=customer_id)
    return customer(context, link=f"{origin_of(base)}/consent/{made.token}")


def mark_as_told(context: Context) -> Response:
    """Record that the customer was told, how and by whom; the notice must be the one shown."""
    found = _found(context)
    notice = _notice(context, found)
    if found.run is None or notice is None or notice["sentence_digest"] != context.text("digest"):
        raise DeskError(
            409, "Somebody told the customer already, or what is to be told has changed. See below."
        )
    how = context.chosen("how", WAYS_TO_TELL, "Say how the customer was told.")
    record_sent(context.journal, found.run, notice, how=how, by=context.name)
    about = {"run_id": found.run.run_id, "customer_id": found.person.customer_id}
    context.record("notice told", **about, how=how)
    return see_other(f"{found.address}&said=told")


def ask_again(context: Context) -> Response:
    """Ask one check of a customer again, however fresh its answer: show the price first, then ask.

    The customer is screened alone, as a part of the batch, under the price that was shown. Other
    checks are asked only if their answers are no longer fresh.
    """
    found = _found(context)
    person, run, row = found.with_row()
    checks = _asked_checks(context, found)
    check = context.chosen("check", checks, "Choose one of the checks this customer had.")
    cap, typed = context.settings.contest.ask_again_cap, context.text("price", 20)
    try:
        seen = typed_micro(typed) if typed else None
    except ValueError:
        raise DeskError(400, "Look at the price again.") from None
    before = as_before(run)
    chosen = before | {
        # one customer needs no comparison, and its file for the shadow policy may be gone
        "shadow": "",
        "karma_stop_at_first": False,
        "merge_rows": False,
        "checks": before["checks"] or [check],
        "freshness": [f"{check}.{outcome}=0" for outcome in AGED[check]],
        "max_spend": naira_text(seen) or f"{cap:f}",
    }
    upload = keep_row(context, "one-customer.csv", row, chosen)
    with context.uploads.unless_started(upload):
        quoted = quote_upload(context, upload)
        most = quoted["quoted"]["high"]
        if not any(line["calls"] for line in quoted["lines"] if line["check"] == check):
            title, why = CHECKS[check].title, _why_unasked(quoted["checks"][check])
            raise InputError(f"{title} would not be asked: {why}.")
        if Decimal(most) > cap:
            raise InputError(
                f"It may cost {naira(most)}, more than asking again may cost: {naira(cap)} "
                "(NIGHTSCREEN_CONTEST__ASK_AGAIN_CAP)."
            )
        if context.text("do") != "ask" or seen != to_micro(Decimal(most)):
            price = {"price": most, "expected": quoted["quoted"]["expected"]}
            return customer(context, again={"checks": checks, "check": check, **price})
        begin(context, upload)
    about = {"customer_id": person.customer_id, "check": check, "max_spend": most}
    context.record("asked again", **about)
    return see_other(f"/new/{upload.upload_id}")


def _asked_checks(context: Context, found: _Found) -> list[str]:
    """Return the checks that the user may have asked again."""
    if found.run is None or found.row is None or not context.may("screen"):
        return []
    return [each.name for each in _IN_ORDER if (found.row.get(each.status) or "off") != "off"]


def _why_unasked(counts: Mapping[str, int]) -> str:
    if counts["rows_refused"]:
        return "the customer's consent does not hold"
    if counts["rows_ineligible"] or counts["rows_invalid"]:
        return "the identifier it needs is absent or malformed"
    return "it is being asked already"


def _consents(row: Mapping[str, Any], now: int) -> bool:
    """Return whether the customer's consent counts now, by what the lender's file says."""
    return consent_valid(
        row.get("consent_reference"),
        row.get("consented_at"),
        row.get("consent_expires_at"),
        row.get("consent_withdrawn_at"),
        at=to_instant(now),
        flaws=int(Flaw.CONSENT) if row.get(CONSENT_UNREADABLE) else 0,
    )


def _cards(
    row: Mapping[str, Any], document: Mapping[str, Any], now: int, *, allowed: bool
) -> list[dict[str, Any]]:
    """Return each check's card: status, fields, age, source, consent and cost."""
    ages = {each["check"]: each for each in document["evidence"]}
    costs: defaultdict[str, Decimal] = defaultdict(Decimal)
    for lookup in document["lookups"]:
        if lookup["run_id"] == document["run_id"] and lookup["cost"] is not None:
            costs[lookup["check"]] += Decimal(lookup["cost"])
    cards = []
    for declared in _IN_ORDER:
        check, status = declared.name, row.get(declared.status) or "off"
        if status == "off":
            continue
        card: dict[str, Any] = {
            "title": declared.title,
            "status": status,
            "closed": "",
            "fields": [],
        }
        if declared.needs_consent and not allowed:
            word = "unreadable consent" if row.get(CONSENT_UNREADABLE) else "no consent"
            card |= {"status": word, "closed": _why_closed(row, now)}
        else:
            card["reference"] = row.get("consent_reference") if declared.needs_consent else None
            card |= {"evidence": ages.get(check), "cost": costs[check]}
            card |= {"fields": [*_fields(check, row)], "plain": declared.says.get(status, "")}
        cards.append(card)
    return cards


def _why_closed(row: Mapping[str, Any], now: int) -> str:
    """Say why nothing is asked or shown now."""
    reference, given = row.get("consent_reference"), row.get("consented_at")
    if row.get(CONSENT_UNREADABLE):
        why = "The consent on record has a date that cannot be read"
    elif not reference or given is None:
        why = "No consent is on record"
    elif to_micros(given) > now:
        why = f"Consent {reference} begins on {given:%d %B %Y}"
    else:
        ended = row.get("consent_withdrawn_at") or row.get("consent_expires_at")
        why = f"Consent {reference} ended on {ended or twelve_months_after(given):%d %B %Y}"
    return f"{why}. Nothing is asked or shown."


def _fields(check: str, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a card's lines: a label and a value."""
    for field in TRACKED[check]:
        value, name = row.get(field.name), field.name.removeprefix(f"{check}_")
        if value is None or value == [] or field.name.endswith("_status"):
            continue
        if field.name == LISTINGS:
            for listing in value:
                yield "Kind", words(listing["karma_type"])
                by, day = listing["reporting_entity_name"], listing["default_date"]
                yield "Reported by", ", ".join(filter(None, (by, f"{day:%d %B %Y}" if day else "")))
        elif isinstance(value, bool):
            yield words(name), "agrees" if value else "contradicts"
        elif isinstance(value, list):
            yield words(name), ", ".join(map(str, value))
        else:
            yield words(name), naira(round(value, 2)) if "amount" in name else str(value)


def _also(document: Mapping[str, Any], row: Mapping[str, Any] | None) -> list[str]:
    """Return the other reasons in the policy's own sentences, the main one left out."""
    said = []
    for reason in document["reasons"]:
        rules = reason["rules"]
        said.append(rules[0]["team"] if rules else f"{words(reason['code'])}.")
    main = "" if row is None else row["why"]
    return [each for each in dict.fromkeys(said) if each and each not in main]


def _notice(context: Context, found: _Found) -> dict[str, str] | None:
    """Return what the customer is told now, as the run's notices say it; None for nothing.

    Nothing where what the decision may rest on is closed since its consent has ended.
    """
    run, row = found.run, found.row
    if run is None or row is None:
        return None
    asked = (row.get(each.status) for each in CHECKS.values() if each.needs_consent)
    closed = {None, NoAnswer.OFF, NoAnswer.REFUSED, NoAnswer.INELIGIBLE, NoAnswer.INVALID}
    if not (_consents(row, context.clock()) or all(status in closed for status in asked)):
        return None
    return notice_of(context.journal, run, row, read_declarations(context.settings))
