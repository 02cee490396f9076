"""Contests: a customer's objection to a decision or to how their data are handled.

One is opened at any time after a decision, answered within its clock by somebody who did not
decide, and while it is open nothing is sent to the customer: `results/notices.py` and the offers of
loans leave out whoever contests. Asking again repeats one check of one customer, whatever the age
of its answer, under a cap of its own.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

from nightscreen.config.parameters import ScreenBatch
from nightscreen.files.person import same_person
from nightscreen.files.private_files import make_private_folder
from nightscreen.files.sealed_file import RESUMABLE_DAYS, SUFFIX, sealed_writer
from nightscreen.journal.customers import Customers
from nightscreen.journal.engine import writing
from nightscreen.journal.records import Records
from nightscreen.journal.reviews import Reviews
from nightscreen.privacy.lookup_subject import lookup_subject, newest_row
from nightscreen.results.ask_again import parameters_again, rows_as_part
from nightscreen.results.notices import withdraw_notices
from nightscreen.results.reviews import DEFAULT_DAYS
from nightscreen.results.second_person import needs_second
from nightscreen.results.tracked_state import evidence_digest
from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.clock import DAY_MICROS, MICROS, instant_text, to_instant
from nightscreen.schemas.contests import (
    AskedAgain,
    Confirmation,
    Contest,
    ContestAbout,
    ContestOutcome,
    ContestState,
    CustomerAction,
    Review,
)
from nightscreen.schemas.decisions import LISTED_PART
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal
    from pathlib import Path

    from nightscreen.config.settings import ContestClocks, Settings
    from nightscreen.journal import Journal

_HOUR = 3600 * MICROS
_LONGEST = 4000
AGAIN = "again"
"""Folder under HOME of the sealed rows that are asked again."""


def open_contest(
    journal: Journal,
    clocks: ContestClocks,
    customer_id: str,
    *,
    by: str,
    said: str,
    batch: str = "",
    about: ContestAbout = ContestAbout.DECISION,
    is_complex: bool = False,
) -> Contest:
    """Write down that a customer contests; there is no last day for it.

    Args:
        journal: the journal.
        clocks: how soon it is answered.
        customer_id: as the lender's file has it.
        by: who takes it down.
        said: what the customer says.
        batch: the batch name; needed where nothing is held of the customer any more.
        about: the decision, or data protection.
        is_complex: the longer clock counts.

    Raises:
        InputError: the batch or the customer is not known, something is missing, or the customer
            contests the same already.
    """
    _require(by, "by", "who takes it down")
    _require(said, "said", "what the customer says")
    customers = Customers.of(journal)
    batch = batch or lookup_subject(journal, customers, customer_id)[0].batch
    runs = journal.runs.newest(batch=batch, limit=None)
    if not runs and batch not in customers.batches():
        raise InputError(f"there is no batch {batch}; see: nightscreen runs list")
    customer = journal.pseudonyms.customer(batch, customer_id)
    store = Records.of(journal, Contest)
    for contest in store.of_customers([customer]):
        if contest.state == ContestState.OPEN and contest.about is about:
            raise InputError(
                f"this customer contests already: {contest.key}; answer it first: nightscreen "
                f"contest answer {contest.key}"
            )
    known = customers.known([customer]).get(customer)
    listed = None if known is None else known.state.get(LISTED_PART)
    now = journal.clock()
    hours = {
        ContestAbout.DECISION: clocks.complex_hours if is_complex else clocks.hours,
        ContestAbout.DATA_PROTECTION: clocks.data_protection_hours,
    }
    made = Contest(
        key=f"{to_instant(now):%Y%m%d}-{secrets.token_hex(4)}",
        customer=customer,
        batch=batch,
        run_id=listed.run_id if listed is not None else "",
        at=now,
        customer_id=customer_id,
        about=about,
        is_complex=is_complex,
        decision=None if listed is None else Decision(listed.values["decision"]),
        said=said.strip(),
        opened_by=by.strip(),
        due_at=now + round(hours[about] * _HOUR),
    )
    store.add([made])
    withdraw_notices(journal, customer_id)
    return made


def find_contest(journal: Journal, contest_id: str) -> Contest:
    """Return a contest.

    Raises:
        InputError: there is none of this id.
    """
    found = Records.of(journal, Contest).find(contest_id)
    if found is None:
        raise InputError(f"there is no contest {contest_id}")
    return found


def answer_contest(
    journal: Journal,
    contest_id: str,
    *,
    by: str,
    answer: str,
    outcome: ContestOutcome,
    decision: Decision | None = None,
    above: Decimal | None = None,
) -> Contest:
    """Answer a contest; a changed decision stands from now on as a review by who answers.

    Where the new decision takes a second person, the contest stays open until one confirms it.

    Args:
        journal: the journal.
        contest_id: the contest.
        by: who answers: nobody who decided what is contested.
        answer: what the customer is told.
        outcome: the decision stands, is changed, or the customer has withdrawn the contest.
        decision: the new decision, where it is changed.
        above: naira, above which a decline turned into approve waits for a second person.

    Raises:
        InputError: there is no such open contest, it is answered by who decided, or the outcome and
            the decision do not agree.
    """
    _require(by, "by", "who answers")
    _require(answer, "answer", "what the customer is told")
    contest = find_contest(journal, contest_id)
    if contest.state != ContestState.OPEN:
        raise InputError(f"contest {contest_id} is answered already")
    if any(same_person(by, each) for each in deciders(journal, contest)):
        raise InputError(
            f"contest {contest_id} must be answered by somebody else: {by.strip()} decided what "
            "is contested"
        )
    changed = outcome is ContestOutcome.CHANGED and contest.about is ContestAbout.DECISION
    if changed != (decision is not None):
        raise InputError(
            "a decision that is changed needs the new one (approve, review or decline), and no "
            "other outcome has one"
        )
    now = journal.clock()
    review = None if decision is None else _review(journal, contest, decision, by, answer)
    if review is not None and needs_second(
        journal,
        above,
        batch=contest.batch,
        customer_id=contest.customer_id,
        decision=review.decision,
        run_id=contest.run_id,
    ):
        waits = {"contest": contest.key, "customer_id": contest.customer_id}
        Reviews.of(journal).propose([review.model_copy(update=waits)])
        return contest
    values = {
        "answered_at": now,
        "answered_by": by.strip(),
        "outcome": outcome,
        "answer": answer.strip(),
        "new_decision": decision,
    }
    answered = contest.model_copy(update=values)
    decided = []
    if review is not None:
        note = f"Contest {contest.key}: {review.note}"
        decided = [review.model_copy(update={"note": note, "at": now})]
    with writing(journal.engine) as connection:
        if not Records.of(journal, Contest).swap(connection, answered, contest, now):
            raise InputError(f"contest {contest_id} was changed meanwhile: look at it again")
        Records.of(journal, Review).insert(connection, decided)
    Reviews.of(journal).end_waiting(contest.customer)
    return answered


def _review(
    journal: Journal, contest: Contest, decision: Decision, by: str, answer: str
) -> Review | None:
    """Return the new decision as a review, which stands as long as the evidence is the same."""
    known = Customers.of(journal).known([contest.customer]).get(contest.customer)
    if known is None:
        return None
    now, listed = journal.clock(), known.state.get(LISTED_PART)
    return Review(
        customer=contest.customer,
        batch=contest.batch,
        run_id=known.run_id if listed is None else listed.run_id,
        listed=Decision.UNDECIDED.value if listed is None else listed.values["decision"],
        decision=decision.value,
        reviewer=by.strip(),
        note=answer.strip(),
        reviewed_at=now,
        until=now + DEFAULT_DAYS * DAY_MICROS,
        evidence=evidence_digest(known.state),
    )


def deciders(journal: Journal, contest: Contest) -> list[str]:
    """Return the people who decided about the customer before they contested.

    Those who reviewed the customer or confirmed an override, who recorded an action against them,
    or who confirmed all proposals of the run that is contested.
    """
    reviews = Reviews.of(journal).of_customer(contest.customer)
    actions = Records.of(journal, CustomerAction).of_customers([contest.customer])
    confirmed = Records.of(journal, Confirmation).of_run(contest.run_id) if contest.run_id else []
    return [
        *(review.reviewer for review in reviews),
        *(review.confirmed_by for review in reviews if review.confirmed_by),
        *(action.by for action in actions),
        *(each.by for each in confirmed),
    ]


def contest_document(contest: Contest, now: int) -> dict[str, Any]:
    """Return a contest as JSON has it."""
    open_ = contest.state == ContestState.OPEN
    return {
        "contest_id": contest.key,
        "customer_id": contest.customer_id,
        "batch": contest.batch,
        "run_id": contest.run_id or None,
        "about": contest.about.value,
        "complex": contest.is_complex,
        "decision": contest.decision,
        "state": contest.state,
        "said": contest.said,
        "opened_by": contest.opened_by,
        "opened_at": instant_text(contest.at),
        "due_at": instant_text(contest.due_at),
        "overdue": (now if open_ else contest.answered_at or now) > contest.due_at,
        "asked_again": [
            {**each.model_dump(mode="json"), "at": instant_text(each.at)}
            for each in contest.asked_again
        ],
        "answered_at": instant_text(contest.answered_at),
        "answered_by": contest.answered_by or None,
        "outcome": contest.outcome,
        "answer": contest.answer or None,
        "new_decision": contest.new_decision,
    }


def list_contests(journal: Journal, *, answered: bool = False) -> list[dict[str, Any]]:
    """Return the open contests, the next due first; those answered too where asked for, last."""
    store, now = Records.of(journal, Contest), journal.clock()
    found = store.all() if answered else store.all(state=ContestState.OPEN)
    found.sort(key=lambda each: (each.state != ContestState.OPEN, each.due_at))
    return [contest_document(each, now) for each in found]


def ask_again(
    journal: Journal, settings: Settings, contest_id: str, check: str, *, by: str
) -> ScreenBatch:
    """Return what to screen so that one check of a contested decision is asked once more.

    It is the customer's row alone, as a part of its batch: all other answers are reused where they
    are fresh, the one check is asked whatever its age, and the run spends no more than
    `CONTEST__ASK_AGAIN_CAP`. The row lies sealed under HOME until whoever screens it removes it.

    Raises:
        InputError: the contest is not open, the customer's row is not there any more, or the check
            was not asked in the run.
    """
    _require(by, "by", "who asks again")
    contest = find_contest(journal, contest_id)
    if contest.state != ContestState.OPEN:
        raise InputError(f"contest {contest_id} is answered already")
    people = lookup_subject(
        journal, Customers.of(journal), contest.customer_id, batch=contest.batch
    )
    found = newest_row(people[0])
    if found is None:
        raise InputError(
            "the customer's row is not held any more: screen the customer from a file of your own"
        )
    run, row = found
    status = row[f"{check}_status"]
    if status in {NoAnswer.OFF, NoAnswer.INELIGIBLE, NoAnswer.INVALID, NoAnswer.REFUSED}:
        raise InputError(f"{check} cannot be asked of this customer: it is {status}")
    cap = str(settings.contest.ask_again_cap)
    parameters = ScreenBatch.model_validate(
        {
            **parameters_again(run, check, cap),
            "input": str(_sealed_row(journal, row)),
            "output": run.parameters.get("output") or str(settings.output),
        }
    )
    now = journal.clock()
    noted = AskedAgain(check=check, by=by.strip(), at=now, cap=cap)
    after = contest.model_copy(update={"asked_again": (*contest.asked_again, noted)})
    if not Records.of(journal, Contest).replace(after, contest, now):
        raise InputError(f"contest {contest_id} was changed meanwhile: look at it again")
    return parameters


def _sealed_row(journal: Journal, row: Mapping[str, Any]) -> Path:
    """Seal a row's input columns as a file that counts as a part of its batch, as a quarantine."""
    folder = make_private_folder(journal.home.absolute() / AGAIN)
    drop_asked(journal.home, older_than_s=RESUMABLE_DAYS * 86_400)
    # Eight characters: longer ones may hold digits enough to look like somebody's phone number.
    path = folder / f"{secrets.token_hex(4)}{SUFFIX}"
    with sealed_writer(path, journal.sealer) as sink:
        sink.write(rows_as_part([row]))
    return path


def drop_asked(home: Path, *, older_than_s: float = 0) -> None:
    """Remove the sealed rows that were to be asked again."""
    for path in (home / AGAIN).glob(f"*{SUFFIX}"):
        if time.time() - path.stat().st_mtime >= older_than_s:
            path.unlink(missing_ok=True)


def _require(text: str, name: str, meaning: str) -> None:
    if not text.strip():
        raise InputError(f"--{name} is blank: say {meaning}")
    if len(text) > _LONGEST:
        raise InputError(f"--{name} is too long: at most {_LONGEST:,} characters")
