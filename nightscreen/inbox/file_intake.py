"""Decide what to do with a file in the inbox: has it arrived, is it new, can it be read.

The same content is screened once per night under any name, and only once ever under the same name.
An interrupted run is resumed. `files.inbox` moves files. The texts put beside a file are templates
in `data/pages/inbox/`, for the person who dropped it: numbers and ids only, and what to do next.
"""

from __future__ import annotations

import re
import textwrap
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from nightscreen.report.page import TEMPLATES, attention, lists_of, next_steps, verdict
from nightscreen.results.decision_files import is_returned, read_returned
from nightscreen.results.reviews import import_reviews
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
    "The file's name looked like a person's number or address, so the file was renamed. "
    "Name files after what they are, such as portfolio-20260301.xlsx: names are seen by many."
)
LOOKS = 3  # how often a file must be seen unchanged
LONGER = 6  # how many times longer to wait for an empty file, or one whose end seems missing
MOST_ATTEMPTS = 3  # how often screening a file is begun before it counts as failed


class Fate(StrEnum):
    """The result for a file in the inbox."""

    SCREENED = "screened"
    REPEATED = "repeated"
    WAITING = "waiting"
    FAILED = "failed"
    HELD = "held"
    IMPORTED = "imported"


class ToScreen(NamedTuple):
    """A file to screen."""

    parameters: ScreenBatch  # of the run to begin or to resume
    content: FileLock  # the lock on its content, held until the file is settled


@dataclass(slots=True)
class Settling:
    """Finds files that have stopped changing."""

    settle_s: float  # how long a file must stay unchanged
    # for each file: its stamp, since when in seconds, and how often it was seen so
    _seen: dict[str, tuple[Stamp, float, int]] = field(default_factory=dict)

    def find_settled(
        self,
        seen: Mapping[str, Stamp],
        now_s: float,
        *,
        is_whole: Callable[[str], bool],
        is_being_written: Callable[[str], bool],
    ) -> list[str]:
        """Return the files that have arrived, those that have waited longest first.

        Args:
            seen: the files that are there now.
            now_s: the monotonic clock.
            is_whole: whether a file seems to be complete.
            is_being_written: whether a process has a file open for writing.
        """
        previous, self._seen, ready = self._seen, {}, []
        for name, stamp in seen.items():
            previous_stamp, since_s, looks = previous.get(name, (stamp, now_s, 0))
            if previous_stamp != stamp:
                since_s, looks = now_s, 0
            self._seen[name] = stamp, since_s, looks + 1
            unchanged_s = now_s - since_s
            if looks + 1 < LOOKS or unchanged_s < self.settle_s or is_being_written(name):
                continue
            unfinished = stamp.size == 0 or not is_whole(name)
            if not unfinished or unchanged_s >= LONGER * self.settle_s:
                ready.append((since_s, name))
        return [name for _, name in sorted(ready)]

    @property
    def waits(self) -> bool:
        """Return whether any file has not arrived yet."""
        return bool(self._seen)


def safe_name(name: str) -> str:
    """Return a name for a file in paths and messages that holds no identifier."""
    if contains_identifier(name) or name in INBOX_TEXTS:
        return f"file{Path(name).suffix[:8]}"
    return name


def ticket_name(clock: Clock) -> str:
    """Return the beginning of a ticket's id; ids sort by time."""
    return f"{to_instant(clock()).astimezone(LAGOS):%Y%m%d-%H%M%S}"


def examine(
    ticket: Ticket, options: WatchInbox, settings: Settings, inbox: Inbox
) -> ToScreen | Fate:
    """Decide what to do with a file, and quote it if it is to be screened.

    A file that cannot be screened, or already was, is moved to its folder: then its fate is known.

    Raises:
        UsageError: the fault is not the file's: settings, policy, disk.
        JournalError: the journal cannot be used.
    """
    with ExitStack() as held:
        try:
            digest = file_digest(ticket.file)
            content = inbox.lock_content(digest)
            if content is None:  # another process is screening the same content
                return Fate.HELD
            held.callback(content.release)
            if is_returned(ticket.file):
                return _import_reviews(ticket, settings, inbox)
            decided = _decide(ticket, digest, options, settings, inbox)
        except (InputError, NotAllowedError) as error:
            return refuse(ticket, error, inbox)
        if isinstance(decided, Fate):
            return decided
        held.pop_all()
        return ToScreen(decided, content)


def _import_reviews(ticket: Ticket, settings: Settings, inbox: Inbox) -> Fate:
    """Import a reviewed decision list: all of it or, if a row has a mistake, nothing."""
    rows = read_returned(ticket.file)
    with journal_of(settings) as journal:
        imported = import_reviews(journal, Actor.by_command(settings), rows, settings)
    mistakes = imported.mistakes
    if mistakes or not rows:
        text = text_of("mistakes", ticket, mistakes=mistakes)
        return _put(ticket, inbox.failed, WRONG, text, Fate.FAILED)
    text = text_of("imported", ticket, taken=imported, known=imported.known)
    return _put(ticket, inbox.done, RESULT, text, Fate.IMPORTED)


def _decide(
    ticket: Ticket, digest: str, options: WatchInbox, settings: Settings, inbox: Inbox
) -> ScreenBatch | Fate:
    """Return the parameters of the run to begin or to resume, or the file's result."""
    parameters = ScreenBatch(
        **options.screening(),
        input=str(ticket.file),
        batch=batch_name(Path(ticket.name))[:80],
        output=str(inbox.done),
    )
    with journal_of(settings) as journal:
        runs = journal.runs.of_input(digest, flow=SCREEN_FLOW)
        own = next((run for run in runs if run.parameters["input"] == str(ticket.file)), None)
        if own is not None and own.state == RUNNING:
            return Fate.HELD
        valid, approvals = settings.approval_timeout, Approvals(journal)
        approval = None if own is None else approvals.state_of(own, valid=valid)
        is_approved = approval is ApprovalState.APPROVED
        if own is not None and own.report is not None and _is_over(own) and not is_approved:
            return place_file(ticket, own.report, settings, inbox)
        earlier = own or _earlier(runs, ticket, inbox, journal.clock())
    if earlier is not None and earlier.state == RUNNING:
        return Fate.HELD
    if earlier is not None and (earlier.state == COMPLETED or _waits(earlier, ticket)):
        text = text_of("repeated", ticket, earlier=earlier)
        return _put(ticket, inbox.done, REPEATED, text, Fate.REPEATED)
    if ticket.count_attempt() > MOST_ATTEMPTS:
        text = text_of("gave_up", ticket, attempts=MOST_ATTEMPTS)
        return _put(ticket, inbox.failed, WRONG, text, Fate.FAILED)
    if earlier is not None:
        parameters = parameters.model_copy(update={"run": earlier.run_id})
    if is_approved:  # the approved amount is its cap
        parameters = parameters.model_copy(update={"max_spend": ""})
    quote = quote_batch(parameters, settings)
    resumed = earlier.run_id if earlier else None
    ticket.write(QUOTE, text_of("quote", ticket, quote=quote, resumed=resumed))
    return parameters


def _is_over(run: RunRecord) -> bool:
    """Return whether a run has ended, and not only because the watch was stopped.

    A resumed run has its earlier report until it ends.
    """
    return run.finished_at is not None and run.stop_reason != StopReason.CANCELLED.value


def decided_runs(settings: Settings, run_ids: Sequence[str]) -> list[str]:
    """Return which runs with a waiting file no longer wait: approved, refused, or ended since."""
    journal = open_read_only(settings)
    if journal is None:
        return []
    valid, decided = span_micros(settings.approval_timeout), []
    with journal:
        for run_id in run_ids:
            run, approval = journal.runs.find(run_id), Approvals(journal).newest(run_id)
            if run is None or run.state == RUNNING:
                continue
            state = None if approval is None else approval.state(system_clock(), valid_micros=valid)
            waits = run.state != KILLED and run.stop_reason == StopReason.APPROVAL
            if not waits or state in {ApprovalState.APPROVED, ApprovalState.REFUSED}:
                decided.append(run_id)
    return decided


def _waits(earlier: RunRecord, ticket: Ticket) -> bool:
    """Return whether another file with this content already waits for approval."""
    file = Path(earlier.parameters["input"])
    waits = earlier.stop_reason == StopReason.APPROVAL.value
    return waits and file != ticket.file and file.exists()


def _earlier(runs: Sequence[RunRecord], ticket: Ticket, inbox: Inbox, now: int) -> RunRecord | None:
    """Return the newest run that this file repeats or resumes.

    An interrupted run counts only if its folder is in the inbox.
    """
    for run in runs:
        same_name = Path(run.parameters["input"]).name == ticket.file.name
        if not same_name and spending_day(run.started_at) != spending_day(now):
            continue
        if run.state in {COMPLETED, RUNNING} or Path(run.folder).parent == inbox.done:
            return run
    return None


def _put(ticket: Ticket, place: Path, name: str, text: str, fate: Fate) -> Fate:
    """Move a file to the inbox's folder of its fate, with a text that says why."""
    ticket.write(name, text)
    folder = place / ticket.folder.name
    ticket.move(folder, folder / ticket.file.name)
    return fate


def place_file(ticket: Ticket, report: Mapping[str, Any], settings: Settings, inbox: Inbox) -> Fate:
    """Put a file whose run has ended beside its result, and save its new path in the run.

    The file of a run that waits for approval goes to `waiting`, that of a refused or cancelled run
    to `failed`.
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
        target = inbox.waiting / run_id if waits else inbox.failed / run_id if failed else folder
        file = (target if waits or failed else folder / INPUT) / ticket.file.name
        journal.runs.moved_input(run_id, str(file))
    if waits:
        ticket.write(WAITS, text_of("waiting", ticket, report=report))
        inbox.move_to_waiting(ticket, run_id)
        return Fate.WAITING
    (ticket.folder / WAITS).unlink(missing_ok=True)
    if failed:
        ticket.write(WRONG, text_of("refused", ticket, report=report, folder=folder))
    else:
        values = {"report": report, "folder": folder, "verdict": verdict(report)}
        values |= {"attention": attention(report), "lists": lists_of(report)}
        values |= {"decisions": DECISIONS, "steps": next_steps(report)}
        ticket.write(RESULT, text_of("result", ticket, **values))
    ticket.move(target, file)
    return Fate.FAILED if failed else Fate.SCREENED


def refuse(ticket: Ticket, error: UsageError, inbox: Inbox) -> Fate:
    """Move a file that cannot be read to `failed`, with a text that says why."""
    problem = str(error).replace(str(ticket.file), ticket.name)
    text = text_of("wrong", ticket, problem=problem)
    return _put(ticket, inbox.failed, WRONG, text, Fate.FAILED)


# --- the texts ---


def text_of(template: str, ticket: Ticket, **values: object) -> str:
    """Return a text about a dropped file; indented paragraphs keep their line breaks."""
    rendered = _templates().get_template(f"inbox/{template}.j2").render(values).strip()
    title, *paragraphs = re.split(r"\n{2,}", rendered)
    wrapped = [
        text if text.startswith("  ") else textwrap.fill(text, _WIDTH, break_long_words=False)
        for text in [*paragraphs, *([_RENAMED] if ticket.renamed else [])]
    ]
    return "\n\n".join([f"{title}\n{'=' * len(title)}", *wrapped]) + "\n"


@cache
def _templates() -> Environment:
    environment = text_templates(TEMPLATES)
    filters = (count, instant_text, lasting, moment, naira, some)
    environment.filters |= {function.__name__: function for function in filters}
    return environment
