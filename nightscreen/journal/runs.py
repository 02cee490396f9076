"""Runs: begun, finished, found again.

A run that is marked running while its process is dead was killed; it can be resumed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Integer, delete, exists, func, insert, select, update

from nightscreen.journal.schema import UNSETTLED, calls, put_meta, read_meta, runs
from nightscreen.journal.storage import Part, with_retries
from nightscreen.schemas.calls import KEPT_STATES, CallState
from nightscreen.schemas.checks import HITS
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.plan import SeenCharges
from nightscreen.schemas.uploads import UPLOADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Row, Select

    from nightscreen.journal.holders import Holders

_DOUBTFUL = (CallState.IN_DOUBT.value, CallState.INTENT.value, CallState.UNREADABLE.value)
RUNNING = "running"
KILLED = "killed"
_RECENT = 5000
_RECENT_OUTCOMES = 200_000
"""The number of newest answers from which a quote estimates the charged share."""
_DATE_ORDER = "date_order {}"
"""Name in `meta` of the order of dates that a person chose for a batch."""
_NEWEST = select(runs).order_by(runs.c.started_at.desc(), runs.c.run_id.desc())


@dataclass(frozen=True)
class RunRecord:
    """One run in the journal; instants in microseconds, money in micro-naira.

    Parameters and report are parsed on demand: parsing a report takes a millisecond, and a list of
    a thousand runs needs few. `holder` is the living process that works on the run.
    `states_first_at` and `states_last_at` are when its customers' states were first and last
    written; None if never.
    """

    run_id: str
    flow: str
    batch: str
    purpose: str
    state: str
    stop_reason: str | None
    holder: str | None
    started_at: int
    begun_at: int
    finished_at: int | None
    input_digest: str
    folder: str
    cap_micro: int | None
    states_first_at: int | None
    states_last_at: int | None
    _parameters: str = field(repr=False)
    _report: str | None = field(repr=False)

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Return the run's parameters."""
        found: dict[str, Any] = json.loads(self._parameters)
        return found

    @cached_property
    def report(self) -> dict[str, Any] | None:
        """Return the run's report; None if it has not ended."""
        return None if self._report is None else json.loads(self._report)


def upload_of(home: Path, run: RunRecord) -> str:
    """Return the id of the upload that a run screens; empty if its file was not uploaded."""
    path = Path(run.parameters.get("input") or "").resolve()
    return path.stem if path.parent == (home / UPLOADS).resolve() else ""


def living_runs(connection: Connection, holders: Holders) -> dict[str, str]:
    """Return the runs under way in a living process, each with that process."""
    query = select(runs.c.run_id, runs.c.holder).where(runs.c.state == RUNNING)
    return {
        run_id: holder
        for run_id, holder in connection.execute(query).all()
        if holder and holders.alive(holder, connection)
    }


class RunActivity(NamedTuple):
    """A summary of a run's calls; instants in microseconds, money in micro-naira.

    Attributes:
        last_answer_at: when the last answer arrived, or None.
        answered: answers by check.
        troubles: attempts without an answer, by check and kind.
        in_doubt: calls that may have been charged; `in_doubt_micro` is their worst cost.
    """

    last_answer_at: int | None
    answered: dict[str, int]
    troubles: dict[str, dict[str, int]]
    in_doubt: int
    in_doubt_micro: int


class RunHead(NamedTuple):
    """The fields of a run that are read quickly, for long lists."""

    run_id: str
    batch: str
    started_at: int


class Runs(Part):
    """Writes and reads runs."""

    @with_retries
    def begin(
        self,
        run_id: str,
        *,
        flow: str,
        batch: str,
        purpose: str,
        input_digest: str,
        folder: str,
        cap_micro: int | None,
        parameters: Mapping[str, Any],
    ) -> RunRecord:
        """Save a new or resumed run as running, and return it."""
        now = self._clock()
        values = {
            "flow": flow,
            "batch": batch,
            "purpose": purpose,
            "state": RUNNING,
            "stop_reason": None,
            "begun_at": now,
            "finished_at": None,
            "folder": folder,
            "holder": self._holders.name,
            "input_digest": input_digest,
            "cap_micro": cap_micro,
            "parameters": json.dumps(parameters, sort_keys=True),
        }
        with self._database.writing() as connection:
            known = connection.execute(
                update(runs).where(runs.c.run_id == run_id).values(values)
            ).rowcount
            if not known:
                connection.execute(insert(runs), {**values, "run_id": run_id, "started_at": now})
        run = self.find(run_id)
        assert run is not None  # noqa: S101 - written in the lines above
        return run

    def discard(self, run_id: str) -> None:
        """Delete a run without effect; calls it may have made stay."""
        self._database.execute(delete(runs).where(runs.c.run_id == run_id))

    def finish(
        self, run_id: str, *, state: str, stop_reason: str | None, report: Mapping[str, Any]
    ) -> None:
        """Save how a run ended, with its report."""
        ended: dict[str, str | int | None] = {
            "state": state,
            "stop_reason": stop_reason,
            "finished_at": self._clock(),
        }
        self._change(run_id, ended | {"report": json.dumps(report)})

    def keep_report(self, run_id: str, report: Mapping[str, Any]) -> None:
        """Replace the report of a run."""
        self._change(run_id, {"report": json.dumps(report)})

    def set_cap(self, run_id: str, cap_micro: int) -> None:
        """Change the cap of a run that is under way."""
        self._change(run_id, {"cap_micro": cap_micro})

    def moved_input(self, run_id: str, path: str) -> None:
        """Save the new path of a run's input, so that the run can be resumed."""
        run = self.find(run_id)
        if run is not None:
            moved = json.dumps({**run.parameters, "input": path}, sort_keys=True)
            self._change(run_id, {"parameters": moved})

    def _change(self, run_id: str, values: Mapping[str, str | int | None]) -> None:
        self._database.execute(update(runs).where(runs.c.run_id == run_id).values(values))

    def held_elsewhere(self, run_id: str) -> bool:
        """Return whether a living process other than this one works on the run."""
        of_run = runs.c.run_id == run_id, runs.c.state == RUNNING
        holder = self._database.fetch_value(select(runs.c.holder).where(*of_run))
        return holder not in {None, self._holders.name} and not self._holders.dead(holder)

    def find(self, run_id: str) -> RunRecord | None:
        """Return a run, or None."""
        return next(iter(self._select(select(runs).where(runs.c.run_id == run_id))), None)

    def get(self, run_id: str) -> RunRecord:
        """Return a run that a person named.

        Raises:
            InputError: there is none.
        """
        if (run := self.find(run_id)) is None:
            raise InputError(f"there is no run {run_id}; see: nightscreen runs list")
        return run

    def newest(self, *, limit: int | None = 100, **wanted: str) -> list[RunRecord]:
        """Return runs, of a batch or flow if `wanted`, newest first; all if `limit` is None."""
        return self._select(_NEWEST.filter_by(**wanted).limit(limit))

    def ended_before(self, at: int, *, limit: int) -> list[RunRecord]:
        """Return runs that ended before an instant, those that ended last first."""
        query = select(runs).where(runs.c.finished_at <= at)
        latest = runs.c.finished_at.desc(), runs.c.run_id.desc()
        return self._select(query.order_by(*latest).limit(limit))

    def that_wrote_states(self) -> dict[str, list[tuple[str, int]]]:
        """Return by batch the runs that wrote its customers' states, in order, and when."""
        at = runs.c.states_last_at
        found: dict[str, list[tuple[str, int]]] = {}
        query = select(runs.c.batch, runs.c.run_id, at).where(at.is_not(None)).order_by(at)
        for batch, run_id, written_at in self._database.fetch(query):
            found.setdefault(batch, []).append((run_id, written_at))
        return found

    def find_all(self, heads: Iterable[RunHead | RunRecord]) -> list[RunRecord]:
        """Return the full records of runs, newest first."""
        return self._select(_NEWEST.where(runs.c.run_id.in_([head.run_id for head in heads])))

    def heads(self) -> list[RunHead]:
        """Return every run, newest first, without its report."""
        query = _NEWEST.with_only_columns(*(runs.c[name] for name in RunHead._fields))
        return [RunHead(*row) for row in self._database.fetch(query)]

    def of_input(self, digest: str, *, flow: str) -> list[RunRecord]:
        """Return the runs of a flow that read a file of this content, newest first."""
        return self._select(_NEWEST.where(runs.c.input_digest == digest, runs.c.flow == flow))

    def _select(self, query: Select[Any]) -> list[RunRecord]:
        return [self._read(row) for row in self._database.fetch(query)]

    def _read(self, row: Row[Any]) -> RunRecord:
        known, living = row._asdict(), None
        if row.state == RUNNING:
            living = row.holder if row.holder and self._holders.alive(row.holder) else None
            known["state"] = RUNNING if living else KILLED
        known |= {"_parameters": known.pop("parameters"), "_report": known.pop("report")}
        return RunRecord(**known | {"holder": living})

    def calls(
        self, run_id: str, names: Sequence[str] = (), *, block: int = 20_000
    ) -> Iterator[Sequence[Row[Any]]]:
        """Yield a run's calls in blocks, in the order of their intents.

        The rows have the named columns, `call_id` first, or all columns if none is named.
        """
        columns = [calls.c[name] for name in names or calls.c.keys()]
        of_run = calls.c.run_id == run_id
        ends = select(func.min(calls.c.call_id), func.max(calls.c.call_id)).where(of_run)
        ((first, last),) = self._database.fetch(ends)
        if first is None:
            return
        whose = calls.c.run_id.concat("")  # with the index of runs, each block would sort all calls
        query = select(*columns).where(whose == run_id, calls.c.call_id <= last)
        yield from self._database.in_blocks(query, calls.c.call_id, size=block, after=first - 1)

    @with_retries
    def activity(self, run_id: str, *, alive: bool) -> RunActivity:
        """Return a summary of a run's calls so far.

        If a process works on the run (`alive`), an intent is in flight, not in doubt.
        """
        doubtful = {CallState.IN_DOUBT.value, *(() if alive else (CallState.INTENT.value,))}
        kept, of_run = calls.c, calls.c.run_id == run_id
        is_answered = kept.state == CallState.ANSWERED.value
        ends = func.count(), func.max(kept.settled_at)
        goods = select(kept.check, *ends).where(of_run, is_answered).group_by(kept.check)
        kinds = (kept.check, kept.state, kept.trouble, kept.cost_micro.is_not(None).label("known"))
        sums = func.count(), func.sum(kept.reserved_micro)
        others = select(*kinds, *sums).where(of_run, ~is_answered).group_by(*kinds[:3], "known")
        with self._database.snapshot() as connection:  # a call is in one of the two
            answered = connection.execute(goods).all()
            unanswered = connection.execute(others).all()
        troubles: dict[str, dict[str, int]] = {}
        number = micro = 0
        for check, state, trouble, known, count, reserved in unanswered:
            if trouble:
                mine = troubles.setdefault(check, {})
                mine[trouble] = mine.get(trouble, 0) + count
            if state in doubtful and not known:
                number, micro = number + count, micro + int(reserved)
        last = max((settled_at for *_, settled_at in answered), default=None)
        counts = {check: count for check, count, _ in answered}
        return RunActivity(last, counts, troubles, number, micro)

    def unanswered(self, run_id: str) -> dict[tuple[str, bytes], str]:
        """Return the lookups of a run that have no answer from it.

        Returns:
            For each (check, subject) `unreadable` if an answer came that cannot be read, else
            `in_doubt` if any attempt may have been charged, else `failed` if it will not be tried
            again, else `pending`.
        """
        doubt = (CallState.IN_DOUBT.value, CallState.INTENT.value)
        unread = calls.c.state == CallState.UNREADABLE.value
        answered = calls.alias("answered")
        has_answer = exists().where(
            answered.c.run_id == run_id,
            answered.c.check == calls.c.check,
            answered.c.subject == calls.c.subject,
            answered.c.state == CallState.ANSWERED.value,
        )
        query = (
            select(
                calls.c.check,
                calls.c.subject,
                func.max(unread.cast(Integer)).label("unread"),
                func.max(calls.c.state.in_(doubt).cast(Integer)).label("doubt"),
                func.max(calls.c.final.cast(Integer)).label("final"),
            )
            .where(calls.c.run_id == run_id, calls.c.state != CallState.ANSWERED.value, ~has_answer)
            .group_by(calls.c.check, calls.c.subject)
        )
        words = ("unreadable", "in_doubt", "failed")
        return {
            (check, bytes(subject)): next(compress(words, holds), "pending")
            for check, subject, *holds in self._database.fetch(query)
        }

    def decisive_call(self, run_id: str, check: str, subject: bytes) -> Row[Any] | None:
        """Return the most conclusive call of a run about a subject; None if it made none.

        It is the answered one, else one that may have had an effect, else the last.
        """
        mine = (calls.c.run_id == run_id, calls.c.check == check, calls.c.subject == subject)
        order = (
            (calls.c.state == CallState.ANSWERED.value).desc(),
            calls.c.state.in_(_DOUBTFUL).desc(),
            calls.c.call_id.desc(),
        )
        query = select(calls).where(*mine).order_by(*order).limit(1)
        return next(iter(self._database.fetch(query)), None)

    def calls_about(self, subjects: Sequence[bytes]) -> Sequence[Row[Any]]:
        """Return every call about some identifiers, oldest first."""
        query = select(calls).where(calls.c.subject.in_(subjects)).order_by(calls.c.call_id)
        return self._database.fetch(query)

    @with_retries
    def in_doubt(self) -> list[Row[Any]]:
        """Return every call with an unknown cost that may have been charged, oldest first."""
        unknown = (UNSETTLED, calls.c.cost_micro.is_(None))
        query = select(calls).where(*unknown).order_by(calls.c.call_id)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
            open_ = {row.holder for row in rows if row.state == CallState.INTENT.value}
            alive = {holder for holder in open_ if self._holders.alive(holder, connection)}
        return [
            row for row in rows if row.state == CallState.IN_DOUBT.value or row.holder not in alive
        ]

    def has_answers(self, run_id: str) -> bool:
        """Return whether the service has answered any lookup of a run."""
        answered = calls.c.state.in_(KEPT_STATES)
        query = select(calls.c.call_id).where(calls.c.run_id == run_id, answered).limit(1)
        return bool(self._database.fetch(query))

    def charges_of_late(self) -> dict[tuple[str, str], SeenCharges]:
        """Return recent answers and charges, by check and kind of identity."""
        is_hit = calls.c.outcome.in_(HITS).cast(Integer).label("hit")
        answered = select(calls.c.check, calls.c.kind, is_hit).where(calls.c.state.in_(KEPT_STATES))
        recent = answered.order_by(calls.c.call_id.desc()).limit(_RECENT_OUTCOMES).subquery()
        sums = func.count(), func.coalesce(func.sum(recent.c.hit), 0)
        query = select(recent.c.check, recent.c.kind, *sums).group_by(recent.c.check, recent.c.kind)
        rows = self._database.fetch(query)
        return {(check, kind): SeenCharges(*map(int, sums)) for check, kind, *sums in rows}

    def seconds_per_answer(self) -> dict[str, float]:
        """Return the recent mean seconds to an answer, by check."""
        recent = (
            select(calls.c.check, calls.c.sent_at, calls.c.settled_at)
            .where(calls.c.state == CallState.ANSWERED.value, calls.c.sent_at.is_not(None))
            .order_by(calls.c.call_id.desc())
            .limit(_RECENT)
            .subquery()
        )
        query = select(recent.c.check, func.avg(recent.c.settled_at - recent.c.sent_at)).group_by(
            recent.c.check
        )
        return {check: float(mean) / MICROS for check, mean in self._database.fetch(query)}

    def date_order(self, batch: str) -> str:
        """Return the order of dates that was last chosen for a batch, or an empty text."""
        name = _DATE_ORDER.format(batch)
        with self._database.reading() as connection:
            return read_meta(connection, name).get(name, "")

    def keep_date_order(self, batch: str, order: str) -> None:
        """Save the order of dates that a person chose for a batch."""
        with self._database.writing() as connection:
            put_meta(connection, _DATE_ORDER.format(batch), order)

    def last_balance(self) -> int | None:
        """Return the newest balance in an answer, in micro-naira."""
        query = (
            select(calls.c.balance_micro)
            .where(calls.c.balance_micro.is_not(None))
            .order_by(calls.c.call_id.desc())
            .limit(1)
        )
        found = self._database.fetch_value(query)
        return None if found is None else int(found)
