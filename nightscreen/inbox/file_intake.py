"""What to do with a file in the inbox: has it arrived, is it new, can it be read at all.

Exactly once: a content is screened once a night whatever its name, and once under a name for good.
An interrupted run of it is resumed instead of started again. Moving files is `files.inbox`. The
texts beside a file are templates in `data/pages/inbox/`, for the person who dropped it: numbers and
ids only, plain words, and what to do next in the last lines.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.config.parameters import SCREEN_FLOW, ScreenBatch
from nightscreen.files.inbox import QUOTE, REPEATED, RESULT, WAITS, WRONG, Inbox, Ticket
from nightscreen.files.outputs import INBOX_TEXTS, INPUT
from nightscreen.files.templates import text_templates
from nightscreen.journal import journal_of
from nightscreen.journal.actor import Actor
from nightscreen.journal.approvals import Approvals
from nightscreen.journal.opening import open_read_only
from nightscreen.journal.runs import KILLED, RUNNING
from nightscreen.reading.open_file import file_digest
from nightscreen.report.format import DECISIONS, count, lasting, moment, naira, some
from nightscreen.report.page import TEMPLATES
from nightscreen.report.verdict import attention, lists_of, next_steps, verdict
from nightscreen.results.decision_files import is_returned, read_returned
from nightscreen.results.settle_case import import_reviews
from nightscreen.runs.screening import quote_batch
from nightscreen.schemas.approvals import ApprovalState
from nightscreen.schemas.clock import (
    LAGOS,
    instant_text,
    span_micros,
    spending_day,
    system_clock,
    to_instant,
)
from nightscreen.schemas.errors import InputError, NotAllowedError, UsageError
from nightscreen.schemas.naming import batch_name, contains_identifier
from nightscreen.schemas.stops import COMPLETED, StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jinja2 import Environment

    from nightscreen.config.parameters import WatchInbox
    from nightscreen.config.settings import Settings
    from nightscreen.files.inbox import Stamp
    from nightscreen.files.private_files import FileLock
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.clock import Clock

_WIDTH = 96  # of the texts
_RENAMED = (
    "The file's name looked like somebody's number or address, so it goes by another name now. "
    "Name files after what they are, such as portfolio-20260301.xlsx: names are seen by many."
)
LOOKS = 3  # how often a file must have been seen unchanged
LONGER = 6  # how many times longer to wait for an empty file, or one that seems to lack its end
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
    content: FileLock | None = None  # the lock on its content, held until the file is settled


@dataclass(slots=True)
class Settling:
    """Remembers what was seen of each file."""

    settle_s: float  # how long a file must stay as it is
    # of each file: how it was, since when in seconds, and how often it was seen so
    _seen: dict[str, tuple[Stamp, float, int]] = field(default_factory=dict)

    def find_settled(
        self,
        seen: Mapping[str, Stamp],
        now_s: float,
        *,
        is_whole: Callable[[str], bool],
        is_being_written: Callable[[str], bool],
    ) -> list[str]:
        """Return which of the files there have arrived, those that have waited longest first.

        Whether one seems to be complete, and whether somebody writes it at this moment, is asked.
        """
        before, self._seen, ready = self._seen, {}, []
        for name, stamp in seen.items():
            was, since_s, looks = before.get(name, (stamp, now_s, 0))
            if was != stamp:
                since_s, looks = now_s, 0
            self._seen[name] = stamp, since_s, looks + 1
            rested_s = now_s - since_s
            if looks + 1 < LOOKS or rested_s < self.settle_s or is_being_written(name):
                continue
            unfinished = stamp.size == 0 or not is_whole(name)
            if not unfinished or rested_s >= LONGER * self.settle_s:
                ready.append((since_s, name))
        return [name for _, name in sorted(ready)]

    @property
    def waits(self) -> bool:
        """Return whether any file is being waited for."""
        return bool(self._seen)


def safe_name(name: str) -> str:
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
        found = Examined(fate=refuse(ticket, error, inbox))
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
    """Take a decision list in that came back: all of it or, on any mistake, nothing."""
    rows = read_returned(ticket.file)
    with journal_of(settings) as journal:
        found = import_reviews(journal, Actor.by_command(settings), rows, settings)
    mistakes = found.judged.mistakes
    if mistakes or not rows:
        return _refuse(ticket, inbox, text_of("mistakes", ticket, mistakes=mistakes))
    ticket.write(RESULT, text_of("imported", ticket, taken=found, known=found.judged.known))
    _put_done(ticket, inbox)
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
        valid, approvals = settings.approval_timeout, Approvals(journal)
        approval = None if own is None else approvals.state_of(own, valid=valid)
        goes_on = approval is ApprovalState.APPROVED
        if own is not None and own.report is not None and _is_over(own) and not goes_on:
            return Examined(fate=place_file(ticket, own.report, settings, inbox))
        earlier = own or _earlier(runs, ticket, inbox, journal.clock())
    if earlier is not None and earlier.state == RUNNING:
        return Examined(fate=Fate.HELD)
    if earlier is not None and (earlier.state == COMPLETED or _waits(earlier, ticket)):
        ticket.write(REPEATED, text_of("repeated", ticket, earlier=earlier))
        _put_done(ticket, inbox)
        return Examined(fate=Fate.REPEATED)
    if ticket.count_attempt() > MOST_ATTEMPTS:
        gave_up = text_of("gave_up", ticket, attempts=MOST_ATTEMPTS)
        return Examined(fate=_refuse(ticket, inbox, gave_up))
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
    look = open_read_only(settings)
    if look is None:
        return []
    valid, found = span_micros(settings.approval_timeout), []
    with look:
        for run_id in run_ids:
            run, asked = look.runs.find(run_id), Approvals(look).newest(run_id)
            if run is None or run.state == RUNNING:
                continue
            state = None if asked is None else asked.state(system_clock(), valid_micros=valid)
            waits = run.state != KILLED and run.stop_reason == StopReason.APPROVAL
            if not waits or state in {ApprovalState.APPROVED, ApprovalState.REFUSED}:
                found.append(run_id)
    return found


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


def _put_done(ticket: Ticket, inbox: Inbox) -> None:
    folder = inbox.done / ticket.folder.name
    ticket.move(folder, folder / ticket.file.name)


def place_file(ticket: Ticket, report: Mapping[str, Any], settings: Settings, inbox: Inbox) -> Fate:
    """Put a file whose run has ended beside its result, and save its new path in the run.

    A run that waits for approval is no result: its file waits with it. One that was refused or
    cancelled is none either: its file goes to those that failed.
    """
    run_id = str(report["run_id"])
    with journal_of(settings) as journal:
        run = journal.runs.find(run_id)
        folder = inbox.done / run_id if run is None else Path(run.folder)
        valid, approvals = settings.approval_timeout, Approvals(journal)
        state = None if run is None else approvals.state_of(run, valid=valid)
        waits = state is not None and state is not ApprovalState.REFUSED
        refused = state is ApprovalState.REFUSED
        failed = refused or report["stop_reason"] == StopReason.CANCELLED.value
        beside = inbox.waiting / run_id if waits else inbox.failed / run_id if failed else folder
        file = (beside if waits or failed else folder / INPUT) / ticket.file.name
        journal.runs.moved_input(run_id, str(file))
    if waits:
        ticket.write(WAITS, text_of("waiting", ticket, report=report))
        inbox.move_to_waiting(ticket, run_id)
        return Fate.WAITING
    (ticket.folder / WAITS).unlink(missing_ok=True)
    if failed:
        ticket.write(WRONG, text_of("refused", ticket, report=report, folder=folder))
    else:
        told = {"report": report, "folder": folder, "verdict": verdict(report)}
        told |= {"attention": attention(report), "lists": lists_of(report)}
        told |= {"decisions": DECISIONS, "steps": next_steps(report)}
        ticket.write(RESULT, text_of("result", ticket, **told))
    ticket.move(beside, file)
    return Fate.FAILED if failed else Fate.SCREENED


def refuse(ticket: Ticket, error: UsageError, inbox: Inbox) -> Fate:
    """Put a file that cannot be read where the failed ones are, and say why beside it."""
    problem = str(error).replace(str(ticket.file), ticket.name)
    return _refuse(ticket, inbox, text_of("wrong", ticket, problem=problem))


def _refuse(ticket: Ticket, inbox: Inbox, text: str) -> Fate:
    ticket.write(WRONG, text)
    folder = inbox.failed / ticket.folder.name
    ticket.move(folder, folder / ticket.file.name)
    return Fate.FAILED


# --- the texts ---


def text_of(template: str, ticket: Ticket, **values: object) -> str:
    """Return a text about a dropped file; a paragraph that is indented keeps its lines."""
    rendered = _templates().get_template(f"inbox/{template}.j2").render(values).strip()
    title, *paragraphs = re.split(r"\n{2,}", rendered)
    shown = [
        text if text.startswith("  ") else textwrap.fill(text, _WIDTH, break_long_words=False)
        for text in [*paragraphs, *([_RENAMED] if ticket.renamed else [])]
    ]
    return "\n\n".join([f"{title}\n{'=' * len(title)}", *shown]) + "\n"


@cache
def _templates() -> Environment:
    found = text_templates(TEMPLATES)
    filters = (count, instant_text, lasting, moment, naira, some)
    found.filters |= {each.__name__: each for each in filters}
    return found
