"""What to do with a file in the inbox: is it new, was it screened already, can it be read at all.

Exactly once: a content is screened once a night whatever its name, and once under a name for good.
An interrupted run of it is resumed instead of started again. Moving files is
`files.inbox`, the words are `notifications`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.config.parameters import SCREEN_FLOW, ScreenBatch
from nightscreen.files.inbox import QUOTE, REPEATED, RESULT, WAITS, WRONG, Inbox, Lock, Ticket
from nightscreen.files.outputs import INBOX_TEXTS, INPUT
from nightscreen.inbox.notifications import result_text, text_of
from nightscreen.journal import journal_of
from nightscreen.journal.actor import Actor
from nightscreen.journal.approvals import Approvals
from nightscreen.journal.read_only import look_into
from nightscreen.journal.runs import KILLED, RUNNING
from nightscreen.reading.open_file import file_digest
from nightscreen.results.decision_files import is_returned, read_returned
from nightscreen.results.settle_case import import_reviews
from nightscreen.runs.screening import quote_batch
from nightscreen.schemas.approvals import ApprovalState
from nightscreen.schemas.clock import LAGOS, span_micros, spending_day, system_clock, to_instant
from nightscreen.schemas.errors import InputError, NotAllowedError, UsageError
from nightscreen.schemas.naming import batch_name, contains_identifier
from nightscreen.schemas.stops import COMPLETED, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.config.parameters import WatchInbox
    from nightscreen.config.settings import Settings
    from nightscreen.journal.read_only import Look
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.clock import Clock

MOST_ATTEMPTS = 3  # how often a file is started before it counts as one that cannot be screened


class Fate(StrEnum):
    """The result for a file in the inbox."""

    SCREENED = "screened"
    REPEATED = "repeated"
    WAITING = "waiting"
    FAILED = "failed"
    HELD = "held"
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True)
class Examined:
    """What to do with a file."""

    # the run to begin or to resume; None if there is nothing to screen
    parameters: ScreenBatch | None = None
    fate: Fate | None = None  # its result already, if there is nothing to screen
    content: Lock | None = None  # the lock on its content, held until the file is settled


def told_name(name: str) -> str:
    """Return the name a file goes by in paths and messages, without anybody's number."""
    if contains_identifier(name) or name in INBOX_TEXTS:
        return f"file{Path(name).suffix[:8]}"
    return name


def ticket_name(clock: Clock) -> str:
    """Return the beginning of a ticket's id, which sorts by time."""
    return f"{to_instant(clock()).astimezone(LAGOS):%Y%m%d-%H%M%S}"


def screening_of(options: WatchInbox, ticket: Ticket, inbox: Inbox) -> ScreenBatch:
    """Return the parameters of a new run of a file."""
    return ScreenBatch(
        **options.screening(),
        input=str(ticket.file),
        batch=batch_name(Path(ticket.name))[:80],
        output=str(inbox.done),
    )


def examine(ticket: Ticket, options: WatchInbox, settings: Settings, inbox: Inbox) -> Examined:
    """Find out what to do with a file; quote it if it must be screened.

    A file that cannot be screened, or was already, is put where it belongs.

    Raises:
        UsageError: something is wrong that is not the file's: settings, policy, disk.
        JournalError: the journal cannot be used.
    """
    content = None
    try:
        digest = file_digest(ticket.file)
        content = inbox.lock_content(digest)
        if content is None:  # the same content is being screened by somebody else now
            return Examined(fate=Fate.HELD)
        if is_returned(ticket.file):
            found = Examined(fate=_import_reviews(ticket, settings, inbox))
        else:
            found = _examined(ticket, digest, options, settings, inbox)
    except (InputError, NotAllowedError) as error:
        _refuse(ticket, inbox, _about_wrong(ticket, error))
        found = Examined(fate=Fate.FAILED)
    except BaseException:
        if content is not None:
            content.release()
        raise
    if found.parameters is None:
        if content is not None:
            content.release()
        return found
    return Examined(found.parameters, content=content)


def _import_reviews(ticket: Ticket, settings: Settings, inbox: Inbox) -> Fate:
    """Take a decision list in that came back: all of it or, on any mistake, nothing.

    Raises:
        InputError: it cannot be read to its end.
        NotAllowedError: the desk has users, who review customers there.
    """
    rows = read_returned(ticket.file)
    with journal_of(settings) as journal:
        found = import_reviews(journal, Actor.by_command(settings), rows, settings)
    mistakes = found.judged.mistakes
    if mistakes or not rows:
        _refuse(ticket, inbox, text_of("mistakes", ticket, mistakes=mistakes))
        return Fate.FAILED
    ticket.write(RESULT, text_of("imported", ticket, taken=found, known=found.judged.known))
    folder = inbox.done / ticket.folder.name
    ticket.move(folder, folder / ticket.file.name)
    return Fate.IMPORTED


def _examined(
    ticket: Ticket, digest: str, options: WatchInbox, settings: Settings, inbox: Inbox
) -> Examined:
    fresh = screening_of(options, ticket, inbox)
    with journal_of(settings) as journal:
        runs = journal.runs.of_input(digest, flow=SCREEN_FLOW)
        own = next((run for run in runs if run.parameters["input"] == str(ticket.file)), None)
        if own is not None and own.state == RUNNING:
            return Examined(fate=Fate.HELD)
        valid, approvals = settings.approval_timeout, Approvals.of(journal)
        approval = None if own is None else approvals.state_of(own, valid=valid)
        goes_on = approval is ApprovalState.APPROVED
        if own is not None and own.report is not None and _is_over(own) and not goes_on:
            return Examined(fate=settle(ticket, own.report, settings, inbox))
        earlier = own or _earlier(runs, ticket, inbox, journal.clock())
    if earlier is not None and earlier.state == RUNNING:
        return Examined(fate=Fate.HELD)
    if earlier is not None and (earlier.state == COMPLETED or _waits(earlier, ticket)):
        return Examined(fate=_repeat(ticket, earlier, inbox))
    if ticket.count_attempt() > MOST_ATTEMPTS:
        _refuse(ticket, inbox, text_of("gave_up", ticket, attempts=MOST_ATTEMPTS))
        return Examined(fate=Fate.FAILED)
    parameters = fresh
    if earlier is not None:
        parameters = fresh.model_copy(update={"run": earlier.run_id})
    if goes_on:  # what the approver lets it spend is its cap
        parameters = parameters.model_copy(update={"max_spend": ""})
    quote = quote_batch(parameters, settings)
    resumed = earlier.run_id if earlier else None
    ticket.write(QUOTE, text_of("quote", ticket, quote=quote, resumed=resumed))
    return Examined(parameters)


def _is_over(run: RunRecord) -> bool:
    """Return whether a run has ended for good, not only because the watch was stopped.

    A run that is resumed keeps its earlier report until it ends.
    """
    return run.finished_at is not None and run.stop_reason != StopReason.CANCELLED.value


def decided_runs(settings: Settings, run_ids: Sequence[str]) -> list[str]:
    """Return which runs with a waiting file can be gone on with: decided about, or ended since."""
    look = look_into(settings)
    if look is None:
        return []
    with look:
        return [run_id for run_id in run_ids if _is_decided(look, run_id, settings)]


def _is_decided(look: Look, run_id: str, settings: Settings) -> bool:
    run = look.runs.find(run_id)
    if run is None or run.state == RUNNING:
        return False
    if run.state == KILLED or run.stop_reason != StopReason.APPROVAL.value:
        return True
    found = look.approval_of(run_id)
    valid = span_micros(settings.approval_timeout)
    state = None if found is None else found.state(system_clock(), valid_micros=valid)
    return state in {ApprovalState.APPROVED, ApprovalState.REFUSED}


def _waits(earlier: RunRecord, ticket: Ticket) -> bool:
    """Return whether another file of this content waits for approval already."""
    lies_at = Path(earlier.parameters["input"])
    waits = earlier.stop_reason == StopReason.APPROVAL.value
    return waits and lies_at != ticket.file and lies_at.exists()


def _earlier(runs: Sequence[RunRecord], ticket: Ticket, inbox: Inbox, now: int) -> RunRecord | None:
    """Return the run that this file repeats or goes on with, newest first.

    One that was cut short counts only where its folder is in the inbox.
    """
    for run in runs:
        same_name = Path(run.parameters["input"]).name == ticket.file.name
        if not same_name and spending_day(run.started_at) != spending_day(now):
            continue
        if run.state in {COMPLETED, RUNNING} or Path(run.folder).parent == inbox.done:
            return run
    return None


def _repeat(ticket: Ticket, earlier: RunRecord, inbox: Inbox) -> Fate:
    ticket.write(REPEATED, text_of("repeated", ticket, earlier=earlier))
    folder = inbox.done / ticket.folder.name
    ticket.move(folder, folder / ticket.file.name)
    return Fate.REPEATED


def settle(ticket: Ticket, report: Mapping[str, Any], settings: Settings, inbox: Inbox) -> Fate:
    """Put a file whose run has ended beside its result, and save its new path in the run.

    A run that waits for approval is no result: its file waits with it. One that was refused or
    cancelled is none either: its file goes to those that failed.
    """
    run_id = str(report["run_id"])
    with journal_of(settings) as journal:
        run = journal.runs.find(run_id)
        folder = inbox.done / run_id if run is None else Path(run.folder)
        valid, approvals = settings.approval_timeout, Approvals.of(journal)
        state = None if run is None else approvals.state_of(run, valid=valid)
        waits = state is not None and state is not ApprovalState.REFUSED
        refused = state is ApprovalState.REFUSED
        failed = refused or report["stop_reason"] == StopReason.CANCELLED.value
        beside = inbox.waiting / run_id if waits else inbox.failed / run_id if failed else folder
        file = (beside if waits or failed else folder / INPUT) / ticket.file.name
        journal.runs.moved_input(run_id, str(file))
    if waits:
        ticket.write(WAITS, text_of("waiting", ticket, report=report))
        inbox.put_to_wait(ticket, run_id)
        return Fate.WAITING
    (ticket.folder / WAITS).unlink(missing_ok=True)
    if failed:
        ticket.write(WRONG, text_of("refused", ticket, report=report, folder=folder))
    else:
        ticket.write(RESULT, result_text(report, ticket, folder))
    ticket.move(beside, file)
    return Fate.FAILED if failed else Fate.SCREENED


def refuse(ticket: Ticket, error: InputError, inbox: Inbox) -> Fate:
    """Put a file that turned out to be unreadable in mid-run where the failed ones are."""
    _refuse(ticket, inbox, _about_wrong(ticket, error))
    return Fate.FAILED


def _refuse(ticket: Ticket, inbox: Inbox, text: str) -> None:
    ticket.write(WRONG, text)
    folder = inbox.failed / ticket.folder.name
    ticket.move(folder, folder / ticket.file.name)


def _about_wrong(ticket: Ticket, error: UsageError) -> str:
    """Return what is wrong with a file, under the name that it was dropped by."""
    problem = str(error).replace(str(ticket.file), ticket.name)
    return text_of("wrong", ticket, problem=problem)
