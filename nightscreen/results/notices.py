"""Notices: what customers are told about decisions against them, and who gets no notice.

At origination a decline is a proposal until a person decides it, by a review of the customer or by
confirming the whole run, unless the lender declares that the policy decides alone. In a portfolio a
decline makes no notice, but an action that a person recorded against the customer does. A customer
gets no notice who contests, was sent the same before, or falls under a rule on hold. People record
confirmations, actions, and when and how they sent notices.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.files.outputs import NOTICES_FILE, enriched_parts
from nightscreen.files.quarantine import csv_file
from nightscreen.files.run_folder import RowFilter, RunFiles
from nightscreen.files.sealing import pieces_of
from nightscreen.journal.actor import ACTION, CONFIRM
from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.reading.open_file import returned_tables
from nightscreen.results.enriched import columns_of_parts, read_customers
from nightscreen.results.final_decision import current_reviews
from nightscreen.schemas.checks import Purpose
from nightscreen.schemas.clock import DAY_MICROS, LAGOS, instant_text, lagos_day, to_micros
from nightscreen.schemas.contests import (
    Confirmation,
    Contest,
    ContestOutcome,
    ContestState,
    CustomerAction,
    SentNotice,
)
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.policy import ASK_US, WRITTEN_IN, Decision, Effect, Policy, PolicyRule
from nightscreen.values.dates import read_written_date

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nightscreen.config.declarations import Declarations
    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.contests import Review

SENT_COLUMNS = ("told_at", "told_how", "told_by")  # left empty for the person who sends the notice
NOTICE_COLUMNS = (
    *("customer_id", "channel", "decision", "action", "reason_code", "sentence"),
    *("sentence_digest", "details", "language", "decided_by", "decided_at", "run_id"),
    *SENT_COLUMNS,
)
_COUNTED = ("to_send", "waiting_for_a_person", "on_hold", "paused_by_contest", "told_before")
"""Customers by what becomes of their notice."""
_BLOCK_ROWS = 8192
_SAME_REASON = timedelta(days=30)
"""A notice that the policy repeats each night for the same reason is sent again after this time."""
_DECLINED = "We have declined your application."
"""The first sentence for an applicant if the policy's sentences are in English; in other languages
the lender's own sentence says so."""
_CHANNELS = ("channel", "contact_channel", "preferred_channel", "notice_channel")
_LANGUAGES = ("language", "preferred_language")
_LANGUAGE_NAMES = {
    "english": "en",
    "hausa": "ha",
    "igbo": "ig",
    "yoruba": "yo",
    "pidgin": "pcm",
    "nigerian pidgin": "pcm",
    "french": "fr",
}
_NEEDED_BACK = ("customer_id", "reason_code", "sentence_digest", "run_id", "told_at", "told_how")


@dataclass(frozen=True, slots=True)
class NoticeRun:
    """The run whose customers get notices."""

    run_id: str
    batch: str
    purpose: str
    policy: Policy
    decided_at: int  # when the policy decided, microseconds
    publishable: bool  # the run may be published: only then may the policy decide alone

    @classmethod
    def of(cls, journal: Journal, run: RunRecord) -> NoticeRun | None:
        """Return a finished run of screening; None if the text of its policy is not held."""
        report = run.report or {}
        text = Reviews(journal).policy_text(str(report["provenance"]["policy"]))
        if text is None:
            return None
        policy, decided_at = Policy.model_validate_json(text), run.finished_at or run.started_at
        publishable = bool(report.get("publishable"))
        return cls(run.run_id, run.batch, run.purpose, policy, decided_at, publishable)


class _Decided(NamedTuple):
    """Who decided, when (microseconds), and the action taken."""

    by: str
    at: int
    action: str = ""


class _Notices:
    """Makes the notices of a run, customer by customer."""

    def __init__(
        self,
        run: NoticeRun,
        journal: Journal,
        declared: Declarations,
        reviews: Mapping[bytes, Review],
    ) -> None:
        self.run, self.journal = run, journal
        self.counts: Counter[str] = Counter()
        now = journal.clock()
        self._applicants = run.purpose == Purpose.ORIGINATION.value
        self._reviews = reviews if self._applicants else {}
        actions = [] if self._applicants else Records(journal, CustomerAction).all(batch=run.batch)
        self._actions = {action.customer: action for action in actions}
        self._sent: dict[bytes, list[SentNotice]] = defaultdict(list)
        for sent in Records(journal, SentNotice).all(batch=run.batch):
            self._sent[sent.customer].append(sent)
        confirmed = Records(journal, Confirmation).of_run(run.run_id)
        self._confirmed = confirmed[-1] if confirmed else None
        self._alone = run.publishable and not proposes(run.purpose, declared, now)
        self._contested = contested(journal, run.batch)
        self._rules: dict[str, list[PolicyRule]] = defaultdict(list)
        for rule in run.policy.rules:
            if rule.effect in (Effect.DECLINE, Effect.REVIEW):
                self._rules[rule.code].append(rule)

    def of_parts(self, parts: Sequence[Path]) -> Iterator[dict[str, str]]:
        """Yield the notices in the order of the customers."""
        names = columns_of_parts(parts)
        channel, language = _named(names, _CHANNELS), _named(names, _LANGUAGES)
        read = {"customer_id", "decision", "reasons", channel, language}
        with_notices = parts if self._applicants or self._actions else ()
        for block in read_customers(with_notices, read, _BLOCK_ROWS):
            ids = block["customer_id"].to_pylist()
            joined = self.journal.pseudonyms.customers(self.run.batch, ids)
            for row, customer in zip(block.to_pylist(), pieces_of(joined), strict=True):
                notice = self.of_row(row, customer, row.get(language) or "")
                if notice is not None:
                    yield {**notice, "channel": row.get(channel) or ""}

    def of_row(
        self, row: Mapping[str, Any], customer: bytes, language: str = ""
    ) -> dict[str, str] | None:
        """Return a customer's notice and count it; None if there is none, counted by its cause."""
        review, action = self._reviews.get(customer), self._actions.get(customer)
        final = str(row["decision"]) if review is None else review.decision
        is_adverse = final == Decision.DECLINE.value if self._applicants else action is not None
        if not is_adverse:
            return None
        decided = self._decided(review, action)
        if decided is None:
            self.counts["waiting_for_a_person"] += 1
            return None
        codes = [code for code in row["reasons"] or () if code in self._rules]
        code = codes[0] if codes else ""
        if any(rule.notice for each in codes for rule in self._rules[each]):
            self.counts["on_hold"] += 1
        elif customer in self._contested:
            self.counts["paused_by_contest"] += 1
        elif self._sent_before(customer, code, decided):
            self.counts["told_before"] += 1
        else:
            self.counts["to_send"] += 1
            return {
                "customer_id": row["customer_id"],
                "decision": final,
                "action": decided.action,
                "reason_code": code,
                "decided_by": decided.by,
                "decided_at": instant_text(decided.at) or "",
                "run_id": self.run.run_id,
                **self._words(code, str(row["decision"]), final, decided.action, language),
            }
        return None

    def _decided(self, review: Review | None, action: CustomerAction | None) -> _Decided | None:
        """Return who decided and when; None if it is still a proposal."""
        if action is not None:
            return _Decided(action.by, action.at, action.action)
        if review is not None:
            return _Decided(review.reviewer, review.decided_at)
        if self._confirmed is not None:
            return _Decided(self._confirmed.by, self._confirmed.at)
        if self._alone:
            return _Decided(self.run.policy.label, self.run.decided_at)
        return None

    def _sent_before(self, customer: bytes, code: str, decided: _Decided) -> bool:
        since = decided.at - decided.at % 1000  # the file has milliseconds
        if decided.by == self.run.policy.label:
            since -= round(_SAME_REASON.total_seconds() * 1_000_000)
        sent = self._sent[customer]
        return any(each.told_at >= since and each.reason_code == code for each in sent)

    def _words(
        self, code: str, decision: str, final: str, action: str, language: str
    ) -> dict[str, str]:
        """Return the notice's text, in the customer's language if the rule has a sentence in it.

        The text gives the decision, or the action, and then the reason, in whole sentences.
        """
        rules = self._rules.get(code, [])
        with_effect = [rule for rule in rules if rule.effect.value == decision]
        sentence, details, written = ASK_US, "", WRITTEN_IN
        for rule in [*with_effect, *rules][:1]:
            folded = language.strip().casefold()
            tag = _LANGUAGE_NAMES.get(folded, folded)
            sentence, details, written = self.run.policy.notice(rule, self.run.purpose, tag)
            if rule.effect.value != final:
                details = ""  # details of a case under review are not true once it is declined
        if action:
            stop = "" if action.endswith((".", "!", "?")) else "."
            sentence = f"{action[:1].upper()}{action[1:]}{stop} {sentence}"
        elif written == WRITTEN_IN:
            sentence = f"{_DECLINED} {sentence}"
        digest = hashlib.sha256(sentence.encode()).hexdigest()
        names = ("sentence", "details", "sentence_digest", "language")
        return dict(zip(names, (sentence, details, digest, written), strict=True))


def proposes(purpose: str, declared: Declarations, now: int) -> bool:
    """Return whether the policy's declines are proposals that a person has to decide."""
    alone = declared.policy_decides_alone
    decides = alone is not None and alone.on <= lagos_day(now)
    return purpose == Purpose.ORIGINATION.value and not decides


def contested(journal: Journal, batch: str) -> frozenset[bytes]:
    """Return a batch's pseudonyms of customers with an open contest in any batch."""
    still_open = Records(journal, Contest).all(state=ContestState.OPEN)
    return frozenset(
        journal.pseudonyms.customer(batch, contest.customer_id) for contest in still_open
    )


def _named(names: Sequence[str], headings: Sequence[str]) -> str:
    """Return the first column of the lender's file with one of some headings; empty if none."""
    folded = {"_".join(name.casefold().split()): name for name in reversed(names)}
    return next((folded[each] for each in headings if each in folded), "")


def write_notices(
    path: Path,
    parts: Sequence[Path],
    run: NoticeRun,
    journal: Journal,
    declared: Declarations,
    reviews: Mapping[bytes, Review],
) -> dict[str, int]:
    """Write a run's notices, whole or not at all; return the counts of `_COUNTED`.

    The file is comma-separated UTF-8 with guarded formulas. `reviews` are those made on the
    customers' current evidence.
    """
    notices = _Notices(run, journal, declared, reviews)
    with csv_file(path, NOTICE_COLUMNS) as write:
        for each in notices.of_parts(parts):
            write(each.get(name, "") for name in NOTICE_COLUMNS)
    return {name: notices.counts[name] for name in _COUNTED}


def notice_of(
    journal: Journal, run: RunRecord, row: Mapping[str, Any], declared: Declarations
) -> dict[str, str] | None:
    """Return the current notice of one customer of a finished run; None if there is none.

    It is in the policy's own language.
    """
    if "provenance" not in (run.report or {}) or _is_held(run):
        return None
    of_run = NoticeRun.of(journal, run)
    if of_run is None:
        return None
    customer = journal.pseudonyms.customer(run.batch, row["customer_id"])
    reviews = current_reviews(journal, run.batch, [customer])
    return _Notices(of_run, journal, declared, reviews).of_row(row, customer)


def _is_held(run: RunRecord) -> bool:
    report = run.report or {}
    return bool(report.get("held") and not report.get("released"))


def rewrite_notices(journal: Journal, run: RunRecord, declared: Declarations) -> dict[str, int]:
    """Rewrite the notices of a finished screening with people's decisions since.

    Raises:
        InputError: it is not finished or held, or its rows were purged.
    """
    run_id = run.run_id
    if run.report is None:
        raise InputError(f"there is no finished screening {run_id}; see: nightscreen runs list")
    if _is_held(run):
        raise InputError(
            f"run {run_id} is held: nobody is told of it until it is released with: nightscreen "
            f"runs release {run_id} --reason WHY"
        )
    path, parts = Path(run.folder, NOTICES_FILE), enriched_parts(Path(run.folder))
    of_run = NoticeRun.of(journal, run)
    if not parts or of_run is None:
        raise InputError(f"the rows of run {run_id} are not held any more; screen again")
    files = RunFiles.of(path.parent, "notices")
    files.touch(path)
    reviews = current_reviews(journal, run.batch)
    counts = write_notices(path, parts, of_run, journal, declared, reviews)
    files.finish(journal.clock())
    return counts


def rewrite_reviewed(journal: Journal, run_ids: Sequence[str], declared: Declarations) -> None:
    """Rewrite the notices of reviewed runs for origination that still have their files."""
    for run in filter(None, map(journal.runs.find, run_ids)):
        has_files = Path(run.folder, NOTICES_FILE).exists() and enriched_parts(Path(run.folder))
        if run.purpose == Purpose.ORIGINATION.value and has_files and not _is_held(run):
            rewrite_notices(journal, run, declared)


def withdraw_notices(journal: Journal, customer_id: str) -> None:
    """Remove a customer who contests from all notices that are written."""
    for run in journal.runs.newest(limit=None):
        path = Path(run.folder) / NOTICES_FILE
        if path.exists() and not journal.runs.held_elsewhere(run.run_id):
            files = RunFiles.of(path.parent, "contest")
            files.drop(path, RowFilter([(("customer_id",), {(customer_id,)})]))
            files.finish(journal.clock())


# --- what people record ---


def confirm_proposals(
    journal: Journal, actor: Actor, run_id: str, declared: Declarations, *, note: str = ""
) -> dict[str, int]:
    """Record that a person confirms all proposals of a run, and write its notices.

    Raises:
        NotAllowedError: the actor may not approve.
        InputError: there is no such run, it is held, or its rows were purged.
    """
    actor.require(journal, CONFIRM, run_id=run_id)
    run = journal.runs.find(run_id)
    if run is None or run.purpose != Purpose.ORIGINATION.value:
        raise InputError(f"there is no run {run_id} for origination; see: nightscreen runs list")
    now = journal.clock()
    confirmation = Confirmation(
        key=f"{run_id}:{now}", batch=run.batch, run_id=run_id, at=now, by=actor.name, note=note
    )
    Records(journal, Confirmation).add([confirmation])
    counts = rewrite_notices(journal, run, declared)
    actor.note(journal, "proposals confirmed", run_id=run_id, to_send=counts["to_send"])
    return counts


def record_action(
    journal: Journal, actor: Actor, customer_id: str, *, batch: str, action: str
) -> CustomerAction:
    """Record an action against a customer, of which the customer must be notified.

    Raises:
        NotAllowedError: the actor may not decide on customers.
        InputError: the batch has no such customer, or the action is blank.
    """
    actor.require(journal, ACTION, customer_id=customer_id)
    if not action.strip():
        raise InputError("the action is blank: say what was done, in the words for the customer")
    customer = journal.pseudonyms.customer(batch, customer_id)
    known = Customers(journal).known([customer]).get(customer)
    if known is None:
        raise InputError(
            f"no such customer in batch {batch}; write the customer_id as the file has it"
        )
    now = journal.clock()
    recorded = CustomerAction(
        key=f"{customer.hex()}:{now}",
        customer=customer,
        batch=batch,
        run_id=known.run_id,
        at=now,
        customer_id=customer_id,
        action=action.strip(),
        by=actor.name,
    )
    Records(journal, CustomerAction).add([recorded])
    actor.note(journal, "action recorded", run_id=known.run_id, customer_id=customer_id)
    return recorded


class SentIssue(NamedTuple):
    """What is wrong with a row of a returned list of notices, without any value of the row."""

    line: int
    column: str
    hint: str


def import_sent(journal: Journal, path: Path) -> tuple[int, int, list[SentIssue]]:
    """Import when and how notices were sent: every row or, if any is wrong, none.

    Returns:
        Rows imported, rows imported before, and mistakes.

    Raises:
        InputError: the file is not a list of notices.
    """
    notices: list[SentNotice] = []
    mistakes: list[SentIssue] = []
    runs: dict[str, RunRecord | None] = {}
    now = journal.clock()
    for line, row in _read_sent(path):
        if row["run_id"] not in runs:
            runs[row["run_id"]] = journal.runs.find(row["run_id"])
        run = runs[row["run_id"]]
        if run is None:
            mistakes.append(SentIssue(line, "run_id", "There is no such run here."))
            continue
        at = read_written_date(row["told_at"], run.started_at, now)
        if not row["customer_id"]:
            mistakes.append(SentIssue(line, "customer_id", "Every row needs the customer's id."))
        elif not row["told_how"]:
            hint = "Say how: letter, text message, call, visit."
            mistakes.append(SentIssue(line, "told_how", hint))
        elif not isinstance(at, int):
            mistakes.append(SentIssue(line, "told_at", at or "Say when the customer was told."))
        else:
            notices.append(_sent(journal, run, row, sent_at=at))
    if mistakes:
        return 0, 0, mistakes
    added = Records(journal, SentNotice).add(notices)
    return added, len(notices) - added, []


def _read_sent(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line and cells of each notice that says when or how it was sent."""
    for table in returned_tables(path, NOTICE_COLUMNS):
        names = [" ".join(heading.split()).casefold() for heading in table.headings]
        if missing := [name for name in _NEEDED_BACK if name not in names]:
            raise InputError(
                f"{path}: this is no notices.csv that came back: it lacks {', '.join(missing)}; "
                "keep its headings, and save it as CSV"
            )
        for line, cells in table.rows:
            row = dict(zip(names, map(str.strip, cells), strict=False))
            if any(row.get(name) for name in SENT_COLUMNS):
                yield line, row


def record_sent(
    journal: Journal, run: RunRecord, notice: Mapping[str, str], *, how: str, by: str
) -> bool:
    """Record that a notice was just sent to a customer, and how.

    Returns:
        False if the same was recorded before, on the same day and by the same way.

    Raises:
        InputError: how or by is blank.
    """
    if not (how.strip() and by.strip()):
        raise InputError("Say how the customer was told, and who did it.")
    row = {**notice, "told_how": how.strip(), "told_by": by.strip()}
    sent = _sent(journal, run, row, sent_at=journal.clock())
    return bool(Records(journal, SentNotice).add([sent]))


def _sent(journal: Journal, run: RunRecord, row: Mapping[str, str], *, sent_at: int) -> SentNotice:
    """Return the record of a sent notice; its key has the day and the way it was sent."""
    customer = journal.pseudonyms.customer(run.batch, row["customer_id"])
    day = str(lagos_day(sent_at))
    parts = (customer.hex(), run.run_id, row["reason_code"], day, row["told_how"])
    return SentNotice(
        key=hashlib.sha256("\x1f".join(parts).encode()).hexdigest(),
        customer=customer,
        batch=run.batch,
        run_id=run.run_id,
        at=journal.clock(),
        customer_id=row["customer_id"],
        reason_code=row["reason_code"],
        sentence_digest=row["sentence_digest"],
        told_at=_not_before(row.get("decided_at", ""), sent_at),
        told_how=row["told_how"],
        told_by=row.get("told_by", ""),
    )


def _not_before(text: str, sent_at: int) -> int:
    """Return when a notice was sent; a date without a time is never before the decision."""
    try:
        decided_at = datetime.fromisoformat(text)
    except ValueError:
        return sent_at
    instant = to_micros(decided_at.replace(tzinfo=decided_at.tzinfo or LAGOS))
    return max(sent_at, instant) if abs(instant - sent_at) < DAY_MICROS else sent_at


def contests_report(journal: Journal, batch: str) -> dict[str, int]:
    """Return how many contests of a batch are open, overdue, answered, or changed a decision."""
    now = journal.clock()
    contests = Records(journal, Contest).all(batch=batch)
    waiting = [contest for contest in contests if contest.state == ContestState.OPEN]
    return {
        "open": len(waiting),
        "overdue": sum(contest.due_at < now for contest in waiting),
        "answered": len(contests) - len(waiting),
        "changed": sum(contest.outcome is ContestOutcome.CHANGED for contest in contests),
    }
