"""Notices: what customers are told of decisions against them, and when nobody is told anything.

At origination a decline is a proposal until a person has decided so (a review of the customer, or a
confirmation of the whole run), or where the lender declares that the policy decides alone. In a
portfolio a decline makes no notice: an action that somebody recorded against the customer does.
Whoever contests, has been told already, or falls under a rule on hold gets no notice.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq

from nightscreen.files.outputs import NOTICES_FILE, enriched_parts
from nightscreen.files.run_folder import RowFilter, RunFiles
from nightscreen.journal.actor import ACTION, CONFIRM
from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.journal.reviews import Reviews
from nightscreen.results.customer_rows import customer_batches
from nightscreen.results.notice_file import read_told, write_notices_file
from nightscreen.results.reviews import active_reviews, read_written_date
from nightscreen.results.tracked_state import evidence_digest
from nightscreen.schemas.checks import Purpose
from nightscreen.schemas.clock import LAGOS, instant_text, lagos_day, to_micros
from nightscreen.schemas.contests import (
    Confirmation,
    Contest,
    ContestOutcome,
    ContestState,
    CustomerAction,
    ToldNotice,
)
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.policy import ASK_US, WRITTEN_IN, Decision, Effect, Policy, PolicyRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import date

    from nightscreen.config.declarations import Declarations
    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.contests import Review

    Stands = Callable[[int, bytes, Review], bool]
    """Tells of a row's number, its customer and a review whether the evidence is still the same."""

_BLOCK_ROWS = 8192
_SUBJECT_BYTES = 16
_SAME_REASON = timedelta(days=30)
"""A reason that the policy gives night after night is told again only after so long."""
CHANNELS = ("channel", "contact_channel", "preferred_channel", "notice_channel")
LANGUAGES = ("language", "preferred_language")
_LANGUAGE_NAMES = {
    "english": "en",
    "hausa": "ha",
    "igbo": "ig",
    "yoruba": "yo",
    "pidgin": "pcm",
    "nigerian pidgin": "pcm",
    "french": "fr",
}
_READ = ("customer_id", "decision", "reasons")


@dataclass(slots=True)
class NoticeCounts:
    """What became of decisions that a customer may have to be told of, in customers.

    Attributes:
        to_send: notices written.
        waiting_for_a_person: proposals that nobody has confirmed.
        on_hold: rules whose notice could warn a suspect.
        paused_by_contest: customers who contest.
        told_before: customers who were told of this already.
    """

    to_send: int = 0
    waiting_for_a_person: int = 0
    on_hold: int = 0
    paused_by_contest: int = 0
    told_before: int = 0

    def report(self) -> dict[str, int]:
        """Return them as the report has them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class NoticeRun:
    """The run whose customers are told.

    Attributes:
        decided_at: when the policy decided, microseconds.
        publishable: the run may be published: only then may the policy decide alone.
    """

    run_id: str
    batch: str
    purpose: str
    policy: Policy
    decided_at: int
    publishable: bool


class _Decided(NamedTuple):
    """Who decided, when, and what was done."""

    by: str
    at: int
    action: str = ""


class _Writer:
    """Makes the notices of a run, block by block of its customers."""

    def __init__(
        self, run: NoticeRun, journal: Journal, declared: Declarations, stands: Stands
    ) -> None:
        self.run, self.journal, self.stands = run, journal, stands
        self.counts = NoticeCounts()
        self._row = 0
        now = journal.clock()
        self._reviews: dict[bytes, Review] = {}
        self._actions: dict[bytes, CustomerAction] = {}
        if run.purpose == Purpose.ORIGINATION.value:
            self._reviews = active_reviews(Reviews.of(journal), run.batch, at=now)
        else:
            actions = Records.of(journal, CustomerAction).all(batch=run.batch)
            self._actions = {action.customer: action for action in actions}
        self._told: dict[bytes, list[ToldNotice]] = defaultdict(list)
        for told in Records.of(journal, ToldNotice).all(batch=run.batch):
            self._told[told.customer].append(told)
        confirmed = Records.of(journal, Confirmation).of_run(run.run_id)
        self._confirmed = confirmed[-1] if confirmed else None
        self._alone = run.publishable and not proposes(run.purpose, declared, now)
        self._contested = contested(journal, run.batch)
        self._rules: dict[str, list[PolicyRule]] = defaultdict(list)
        for rule in run.policy.rules:
            if rule.effect in (Effect.DECLINE, Effect.REVIEW):
                self._rules[rule.code].append(rule)

    def notices(self, parts: Sequence[Path]) -> Iterator[dict[str, str]]:
        """Yield the notices in the order of the customers."""
        if self.run.purpose != Purpose.ORIGINATION.value and not self._actions:
            return
        for part in parts:
            with pq.ParquetFile(part) as file:
                names = file.schema_arrow.names
                channel, language = _named(names, CHANNELS), _named(names, LANGUAGES)
                read = [*_READ, *filter(None, (channel, language))]
                for block in customer_batches(file, read, _BLOCK_ROWS):
                    ids = block["customer_id"].to_pylist()
                    joined = self.journal.pseudonyms.customers(self.run.batch, ids)
                    for place, row in enumerate(block.to_pylist()):
                        start = place * _SUBJECT_BYTES
                        customer = joined[start : start + _SUBJECT_BYTES]
                        told = self._notice(row, customer)
                        self._row += 1
                        if told is not None:
                            told["channel"] = row.get(channel or "") or ""
                            yield self._worded(told, row, row.get(language or "") or "")

    def notice_of(self, row: Mapping[str, Any]) -> dict[str, str] | None:
        """Return one customer's notice in the policy's own language; None where there is none."""
        customer = self.journal.pseudonyms.customer(self.run.batch, row["customer_id"])
        told = self._notice(row, customer)
        return None if told is None else self._worded(told, row, "")

    def _notice(self, row: Mapping[str, Any], customer: bytes) -> dict[str, str] | None:
        """Return a customer's notice without its words; None where there is none."""
        decision, reviewed = str(row["decision"]), self._reviews.get(customer)
        if reviewed is not None and not self.stands(self._row, customer, reviewed):
            reviewed = None
        if self.run.purpose == Purpose.ORIGINATION.value:
            final = decision if reviewed is None else reviewed.decision
            if final != Decision.DECLINE.value:
                return None
            decided = self._decided(reviewed)
            if decided is None:
                self.counts.waiting_for_a_person += 1
                return None
        else:
            action = self._actions.get(customer)
            if action is None:
                return None
            final, decided = decision, _Decided(action.by, action.at, action.action)
        code = next((code for code in row["reasons"] or () if self._rules.get(code)), "")
        if any(r.notice for each in row["reasons"] or () for r in self._rules.get(each, ())):
            self.counts.on_hold += 1
        elif customer in self._contested:
            self.counts.paused_by_contest += 1
        elif self._told_before(customer, code, decided):
            self.counts.told_before += 1
        else:
            self.counts.to_send += 1
            return {
                "customer_id": row["customer_id"],
                "decision": final,
                "action": decided.action,
                "reason_code": code,
                "decided_by": decided.by,
                "decided_at": instant_text(decided.at) or "",
                "run_id": self.run.run_id,
            }
        return None

    def _decided(self, review: Review | None) -> _Decided | None:
        """Return whose decline it is; None where it is a proposal still."""
        if review is not None:
            return _Decided(review.reviewer, review.reviewed_at)
        if self._confirmed is not None:
            return _Decided(self._confirmed.by, self._confirmed.at)
        if self._alone:
            return _Decided(self.run.policy.label, self.run.decided_at)
        return None

    def _told_before(self, customer: bytes, code: str, decided: _Decided) -> bool:
        since = decided.at - decided.at % 1000  # the file has milliseconds
        if decided.by == self.run.policy.label:
            since -= round(_SAME_REASON.total_seconds() * 1_000_000)
        return any(
            told.told_at >= since and told.reason_code == code for told in self._told[customer]
        )

    def _worded(
        self, told: dict[str, str], row: Mapping[str, Any], language: str
    ) -> dict[str, str]:
        """Add what the customer is told, in the language of the file where the rule has it."""
        rules = self._rules.get(told["reason_code"], [])
        rule = next((r for r in rules if r.effect.value == row["decision"]), None)
        rule = rule or next(iter(rules), None)
        sentence, details, written = ASK_US, "", WRITTEN_IN
        if rule is not None:
            said = language.strip().casefold()
            tag = _LANGUAGE_NAMES.get(said, said)
            sentence, details, written = self.run.policy.notice(rule, self.run.purpose, tag)
            if rule.effect.value != told["decision"]:
                details = ""  # what is said of a case under review is not true once it is declined
        digest = hashlib.sha256(sentence.encode()).hexdigest()
        words = {"sentence": sentence, "details": details, "sentence_digest": digest}
        return {**told, **words, "language": written}


def proposes(purpose: str, declared: Declarations, now: int) -> bool:
    """Tell whether a decline of the policy is a proposal: a person decides unless declared."""
    alone = declared.policy_decides_alone
    today = lagos_day(now)
    return purpose == Purpose.ORIGINATION.value and (alone is None or alone.on > today)


def _named(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Return the column of the lender's file that has one of some headings."""
    folded = {"_".join(name.casefold().split()): name for name in reversed(names)}
    return next((folded[each] for each in wanted if each in folded), None)


def write_notices(
    path: Path,
    parts: Sequence[Path],
    run: NoticeRun,
    journal: Journal,
    declared: Declarations,
    stands: Stands,
) -> NoticeCounts:
    """Write a run's notices, whole or not at all.

    Args:
        path: where to.
        parts: the enriched rows, in order.
        run: the run.
        journal: its reviews, actions, confirmations, contests and what was told.
        declared: whether the policy decides alone.
        stands: tells whether a review still rests on the customer's present evidence.
    """
    writer = _Writer(run, journal, declared, stands)
    write_notices_file(path, writer.notices(parts))
    return writer.counts


def notice_of(
    journal: Journal, run: RunRecord, row: Mapping[str, Any], declared: Declarations
) -> dict[str, str] | None:
    """Return the notice of one customer of a finished run, as things stand now.

    None where there is nothing to tell: see `_Writer`.
    """
    report = run.report or {}
    if "provenance" not in report or (report.get("held") and not report.get("released")):
        return None
    text = Reviews.of(journal).policy_text(str(report["provenance"].get("policy")))
    if text is None:
        return None
    writer = _Writer(_notice_run(run, text), journal, declared, _stands(journal))
    return writer.notice_of(row)


def _stands(journal: Journal) -> Stands:
    customers = Customers.of(journal)

    def stands(_row: int, customer: bytes, review: Review) -> bool:
        known = customers.known([customer]).get(customer)
        return known is not None and evidence_digest(known.state) == review.evidence

    return stands


def _notice_run(run: RunRecord, policy: str) -> NoticeRun:
    return NoticeRun(
        run_id=run.run_id,
        batch=run.batch,
        purpose=run.purpose,
        policy=Policy.model_validate_json(policy),
        decided_at=run.finished_at or run.started_at,
        publishable=bool((run.report or {}).get("publishable")),
    )


def rewrite_notices(
    journal: Journal, run_id: str, declared: Declarations, *, output: Path | None = None
) -> NoticeCounts:
    """Write the notices of a finished run anew, after what people decided since.

    Args:
        journal: the journal.
        run_id: the run.
        declared: whether the policy decides alone.
        output: a folder for the file; the run's own where none is named.

    Raises:
        InputError: there is no such run of screening, it is held, or its rows were purged.
    """
    run = journal.runs.find(run_id)
    if run is None or run.report is None or "flow" in run.report:
        raise InputError(f"there is no finished screening {run_id}; see: nightscreen runs list")
    if run.report.get("held") and not run.report.get("released"):
        raise InputError(
            f"run {run_id} is held: nobody is told of it until it is released with: nightscreen "
            f"runs release {run_id} --reason WHY"
        )
    folder = Path(run.folder)
    parts = enriched_parts(folder)
    text = Reviews.of(journal).policy_text(str(run.report["provenance"]["policy"]))
    if not parts or text is None:
        raise InputError(f"the rows of run {run_id} are not held any more; screen again")
    stands, told = _stands(journal), _notice_run(run, text)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        return write_notices(output / NOTICES_FILE, parts, told, journal, declared, stands)
    files = RunFiles.of(folder, "notices")
    files.touch(folder / NOTICES_FILE)
    counts = write_notices(folder / NOTICES_FILE, parts, told, journal, declared, stands)
    files.finish(instant_text(journal.clock()) or "")
    return counts


def rewrite_reviewed(journal: Journal, run_ids: Sequence[str], declared: Declarations) -> list[str]:
    """Write anew the notices of runs that were reviewed, where that can be; return which."""
    done = []
    for run_id in run_ids:
        run = journal.runs.find(run_id)
        if run is None or not _can_be_told(run):
            continue
        rewrite_notices(journal, run_id, declared)
        done.append(run_id)
    return done


def withdraw_notices(journal: Journal, customer_id: str) -> int:
    """Take a customer who contests out of the notices that are written; return how many."""
    taken = 0
    for run in journal.runs.newest(limit=None):
        path = Path(run.folder) / NOTICES_FILE
        if not path.exists() or journal.runs.held_elsewhere(run.run_id):
            continue
        files = RunFiles.of(path.parent, "contest")
        taken += files.drop(path, RowFilter([(("customer_id",), {(customer_id,)})]))
        files.finish(instant_text(journal.clock()) or "")
    return taken


def _can_be_told(run: RunRecord) -> bool:
    report = run.report or {}
    free = not report.get("held") or report.get("released")
    origination = run.purpose == Purpose.ORIGINATION.value
    there = Path(run.folder, NOTICES_FILE).exists() and Path(run.folder, "enriched").is_dir()
    return bool(origination and free and there)


def confirm_proposals(
    journal: Journal, actor: Actor, run_id: str, declared: Declarations, *, note: str = ""
) -> NoticeCounts:
    """Write down that a person decides all proposals of a run as they stand, and its notices.

    Raises:
        NotAllowedError: the actor may not approve.
        InputError: there is no such run, it is held, or its rows were purged.
    """
    actor.require(journal, CONFIRM, run_id=run_id)
    run = journal.runs.find(run_id)
    if run is None or run.purpose != Purpose.ORIGINATION.value:
        raise InputError(f"there is no run {run_id} for origination; see: nightscreen runs list")
    now = journal.clock()
    made = Confirmation(
        key=f"{run_id}:{now}", batch=run.batch, run_id=run_id, at=now, by=actor.name, note=note
    )
    Records.of(journal, Confirmation).add([made])
    counts = rewrite_notices(journal, run_id, declared)
    actor.note(journal, "proposals confirmed", run_id=run_id, to_send=counts.to_send)
    return counts


def record_action(
    journal: Journal, actor: Actor, customer_id: str, *, batch: str, action: str
) -> CustomerAction:
    """Write down what was done against a customer, who must be told of it.

    Raises:
        NotAllowedError: the actor may not decide on customers.
        InputError: the batch does not know the customer, or the action is blank.
    """
    actor.require(journal, ACTION, customer_id=customer_id)
    if not action.strip():
        raise InputError("the action is blank: say what was done, in the words for the customer")
    customer = journal.pseudonyms.customer(batch, customer_id)
    known = Customers.of(journal).known([customer]).get(customer)
    if known is None:
        raise InputError(
            f"no such customer in batch {batch}; write the customer_id as the file has it"
        )
    now = journal.clock()
    made = CustomerAction(
        key=f"{customer.hex()}:{now}",
        customer=customer,
        batch=batch,
        run_id=known.run_id,
        at=now,
        customer_id=customer_id,
        action=action.strip(),
        by=actor.name,
    )
    Records.of(journal, CustomerAction).add([made])
    actor.note(journal, "action recorded", run_id=known.run_id, customer_id=customer_id)
    return made


class ToldFinding(NamedTuple):
    """What is wrong with a row of notices that came back; holds no value of it."""

    line: int
    column: str
    hint: str


def import_told(journal: Journal, path: Path) -> tuple[int, int, list[ToldFinding]]:
    """Take in that customers were told, when and how: every row or, on any mistake, none.

    Returns:
        Rows taken in, rows known already, and mistakes.

    Raises:
        InputError: the file is no list of notices.
    """
    found: list[ToldNotice] = []
    mistakes: list[ToldFinding] = []
    runs: dict[str, RunRecord | None] = {}
    now = journal.clock()
    for line, row in read_told(path):
        run_id = row["run_id"]
        run = runs.setdefault(run_id, journal.runs.find(run_id))
        if run is None:
            mistakes.append(ToldFinding(line, "run_id", "There is no such run here."))
            continue
        at = read_written_date(row["told_at"], run.started_at, now)
        wrong = _wrong_told(line, row, at)
        if wrong is not None or at is None or isinstance(at, str):
            mistakes.append(wrong or ToldFinding(line, "told_at", str(at)))
            continue
        found.append(_told(journal, run, row, at=now, day=at.day, told_at=at.at))
    if mistakes:
        return 0, 0, mistakes
    added = Records.of(journal, ToldNotice).add(found)
    return added, len(found) - added, []


def record_told(
    journal: Journal, run: RunRecord, notice: Mapping[str, str], *, how: str, by: str
) -> bool:
    """Write down that a customer was told just now what a notice says.

    Args:
        journal: the journal.
        run: the run that the notice is of.
        notice: as `notice_of` has it.
        how: the way: a letter, a call.
        by: who told the customer.

    Returns:
        False where that is known already, of this day and way.

    Raises:
        InputError: how or by is blank.
    """
    if not (how.strip() and by.strip()):
        raise InputError("Say how the customer was told, and who did it.")
    now = journal.clock()
    day = lagos_day(now)
    row = {**notice, "told_how": how.strip(), "told_by": by.strip()}
    told = _told(journal, run, row, at=now, day=day, told_at=now)
    return bool(Records.of(journal, ToldNotice).add([told]))


def _told(
    journal: Journal, run: RunRecord, row: Mapping[str, str], *, at: int, day: date, told_at: int
) -> ToldNotice:
    """Return the record of a notice that reached the customer; the same of a day and way is one."""
    customer = journal.pseudonyms.customer(run.batch, row["customer_id"])
    parts = (customer.hex(), run.run_id, row["reason_code"], str(day), row["told_how"])
    return ToldNotice(
        key=hashlib.sha256("\x1f".join(parts).encode()).hexdigest(),
        customer=customer,
        batch=run.batch,
        run_id=run.run_id,
        at=at,
        customer_id=row["customer_id"],
        reason_code=row["reason_code"],
        sentence_digest=row["sentence_digest"],
        told_at=_not_before(row.get("decided_at", ""), told_at),
        told_how=row["told_how"],
        told_by=row.get("told_by", ""),
    )


def _wrong_told(line: int, row: Mapping[str, str], at: object) -> ToldFinding | None:
    if not row["customer_id"]:
        return ToldFinding(line, "customer_id", "Every row needs the customer's id.")
    if not row["told_how"]:
        return ToldFinding(line, "told_how", "Say how: letter, text message, call, visit.")
    if at is None:
        return ToldFinding(line, "told_at", "Say when the customer was told.")
    if isinstance(at, str):
        return ToldFinding(line, "told_at", at.replace("The review", "The telling"))
    return None


def _not_before(decided: str, told: int) -> int:
    """Return when a customer was told, where a day alone was written: not before the decision."""
    try:
        moment = datetime.fromisoformat(decided)
    except ValueError:
        return told
    instant = to_micros(moment if moment.tzinfo is not None else moment.replace(tzinfo=LAGOS))
    same_day = abs(instant - told) < timedelta(days=1).total_seconds() * 1_000_000
    return max(told, instant) if same_day else told


def contested(journal: Journal, batch: str) -> frozenset[bytes]:
    """Return the pseudonyms, in a batch, of customers who contest anything in any batch."""
    waiting = Records.of(journal, Contest).all(state=ContestState.OPEN)
    return frozenset(journal.pseudonyms.customer(batch, each.customer_id) for each in waiting)


def contests_report(journal: Journal, batch: str) -> dict[str, int]:
    """Return how many contests of a batch wait for an answer, too long, and how others ended."""
    now = journal.clock()
    found = Records.of(journal, Contest).all(batch=batch)
    waiting = [contest for contest in found if contest.state == ContestState.OPEN]
    return {
        "open": len(waiting),
        "overdue": sum(contest.due_at < now for contest in waiting),
        "answered": len(found) - len(waiting),
        "changed": sum(contest.outcome is ContestOutcome.CHANGED for contest in found),
    }
