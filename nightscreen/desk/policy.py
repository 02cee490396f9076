"""The page of the policy: thresholds, the customers that others would move, proposals, versions.

`policy/versions.py` defines versions and who may approve them; `results/backtest.py` decides past
runs again.
"""

from __future__ import annotations

import threading
from decimal import Decimal, InvalidOperation
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.desk.context import DeskError, plain_naira
from nightscreen.desk.pages import NOTHING
from nightscreen.desk.rows import rows_of_run
from nightscreen.files.outputs import enriched_parts
from nightscreen.journal.audit import same_person
from nightscreen.policy.load import rewritten, sound_policy, threshold_comments
from nightscreen.policy.versions import (
    decide_version,
    last_approved,
    policy_in_force,
    read_policy,
    text_in_force,
    versions,
)
from nightscreen.policy.versions import propose as write_proposal
from nightscreen.report.page import bad_rate
from nightscreen.results.backtest import MOVES, backtest, past_run
from nightscreen.results.outcomes import LoanPerformance, verdict_in_words
from nightscreen.schemas.clock import LAGOS, to_instant
from nightscreen.schemas.contests import PolicyState
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.policy import thresholds_named
from nightscreen.web.guard import see_other

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.contests import PolicyVersion
    from nightscreen.schemas.policy import Policy

RUNS_OFFERED: Final = 12
_LOOKED_AT: Final = 40
CUSTOMERS_SHOWN: Final = 200
"""Of those who would move, the largest exposures; the command writes all of them to a file."""
VERSIONS_SHOWN: Final = 50
_MOST: Final = 10**15
_PLACES: Final = 6
_LONGEST_VERSION: Final = 64
_NO_RUN: Final = "No run to try it on: screen a file."
_TRYING = threading.Lock()
"""One at a time: deciding a large night again uses a whole core and some hundred megabytes."""


def policy(context: Context, *, of: str = "", tried: Mapping[str, Any] | None = None) -> Response:
    """Show the policy in force, what is proposed, and every version there was.

    `tried` is what trying a proposal (`of`), or the thresholds that were typed, found.
    """
    found = versions(context.journal)
    text = text_in_force(context.journal)
    present = read_policy(text)
    runs = _past_runs(context)
    waiting = [each for each in found if each.state == PolicyState.PROPOSED]
    ended = [each for each in reversed(found) if each.state != PolicyState.PROPOSED]
    taken = {present.version, *(each.version for each in found)}
    today = f"{to_instant(context.clock()).astimezone(LAGOS):%Y-%m-%d}"
    numbered = (f"{today}-{number}" for number in range(2, len(taken) + 3))
    next_version = next(each for each in (today, *numbered) if each not in taken)
    return context.page(
        "policy",
        policy=present,
        in_force=last_approved(found, context.clock()),
        comments=threshold_comments(text),
        # of each threshold the reasons whose rules name it
        codes={
            name: dict.fromkeys(r.code for r in present.rules if name in thresholds_named(r.when))
            for name in present.thresholds
        },
        version=context.text("version", _LONGEST_VERSION) or next_version,
        runs=runs,
        chosen=_chosen(context, runs),
        can_try=bool(runs) and context.may("people") and not context.branches,
        proposals=[
            {
                "version": each,
                "changes": changes(present, read_policy(each.text)),
                "own": same_person(each.proposed_by, context.name),
                "stale": each.replaces != present.label,
            }
            for each in waiting
        ],
        versions=ended[:VERSIONS_SHOWN],
        tried=tried,
        rate=bad_rate,
        of=of,
    )


def _past_runs(context: Context) -> list[RunRecord]:
    """Return the newest runs that decided and whose rows are here, no parts of a batch."""
    found = (
        run
        for run in context.journal.runs.newest(limit=_LOOKED_AT)
        if (run.flow == SCREEN_FLOW and run.state != "test_mode")
        and (run.report or {}).get("decisions")
        and enriched_parts(Path(run.folder))
        and not context.uploads.is_part(run)
    )
    return list(islice(found, RUNS_OFFERED))


def changes(before: Policy, after: Policy) -> dict[str, Any]:
    """Return what one policy has otherwise than another: entries, and rules put in or taken out."""
    entries = [
        (name, f"{before.thresholds.get(name, NOTHING)}", f"{after.thresholds.get(name, NOTHING)}")
        for name in dict.fromkeys([*before.thresholds, *after.thresholds])
        if before.thresholds.get(name) != after.thresholds.get(name)
    ]
    one, other = before.model_dump(mode="json"), after.model_dump(mode="json")
    entries += [
        (name, f"{one[name]}", f"{other[name]}")
        for name in ("name", "language", "carried", "allow_sensitive")
        if one[name] != other[name]
    ]
    was, now = (zip(each.rules, each.in_words(), strict=True) for each in (before, after))
    return {
        "entries": entries,
        "out": [said for rule, said in was if rule not in after.rules],
        "in": [said for rule, said in now if rule not in before.rules],
        "moved": [rule.code for rule in before.rules] != [rule.code for rule in after.rules],
    }


# --- trying ---


def try_on_past_runs(context: Context) -> Response:
    """Decide past runs again by the policy in force and by another one, and say who would move."""
    key = context.text("proposal", 60)
    if not _TRYING.acquire(blocking=False):
        raise DeskError(409, "Somebody tries a policy right now. Try again in a minute.")
    try:
        text = _proposed(context, key).text if key else _text_typed(context)
        tried = sound_policy(text, "the policy", "nightscreen policy check FILE")
        offered = _past_runs(context)
        chosen = _chosen(context, offered)
        runs = [run for run in offered if run.run_id in chosen]
        if not runs:
            raise DeskError(400, "Choose a past run to try it on." if offered else _NO_RUN)
        found = _try_out(context, tried, runs)
    finally:
        _TRYING.release()
    context.record(
        "policy tried",
        policy=tried.label,
        **_thresholds_changed(context, tried),
        runs=[run.run_id for run in runs],
        moved=found["moves"]["moved"]["rows"],
        shown=len(found["moved"]),
    )
    return policy(context, tried=found, of=key)


def _chosen(context: Context, offered: Sequence[RunRecord]) -> set[str]:
    """Return the runs that are ticked; where no form says so, the newest of each batch."""
    if "runs_shown" in context.form:
        return set(context.form.get("run", []))
    return {run.run_id for run in {run.batch: run for run in reversed(offered)}.values()}


def _try_out(context: Context, tried: Policy, runs: Sequence[RunRecord]) -> dict[str, Any]:
    """Return what trying a policy on past runs found: moves, customers who would move, a verdict.

    The moves are from the policy in force, as a backtest has them; the customers are those with
    the largest exposures; the verdict says in words what the loans say.
    """
    began = perf_counter()
    heaviest = [MOVES.empty_table()]

    def keep(portion: pa.Table) -> None:
        table = pa.concat_tables([heaviest[0], portion])
        order = pc.sort_indices(table, [("exposure", "descending")])
        heaviest[0] = table.take(order[:CUSTOMERS_SHOWN])

    found = backtest(
        [past_run(Path(run.folder)) for run in runs],
        tried,
        than=policy_in_force(context.journal, context.clock()),
        paid=LoanPerformance.of(context.journal, context.settings.bad_loan),
        moving=keep,
    )
    moves = found.document()
    moved = heaviest[0].to_pylist()
    names: dict[str, dict[str, str | None]] = {}  # by run: an id is a person's within a batch
    for run in runs:
        ids = [row["customer_id"] for row in moved if row["run_id"] == run.run_id]
        rows = rows_of_run(run) if ids else None
        names[run.run_id] = {} if rows is None else rows.among(ids)
    paid = moves["outcomes"]
    return {
        "policy": tried,
        "moves": moves,
        "rows": sum(run["rows"] for run in found.runs),
        "moved": [{**row, "name": names[row["run_id"]].get(row["customer_id"])} for row in moved],
        "verdict": () if paid is None else verdict_in_words(paid, "what is tried"),
        "took_s": perf_counter() - began,
    }


def _text_typed(context: Context) -> str:
    """Return the text of the policy in force with the thresholds and the version of the form."""
    text = text_in_force(context.journal)
    present = read_policy(text)
    if context.text("seen", 200) != present.label:
        raise UsageError(
            f"{present.label} was put in force since you opened this page. Its thresholds are "
            "shown now: change them once more."
        )
    version = " ".join(context.text("version", 1000).split())
    if not version or len(version) > _LONGEST_VERSION or not version.isprintable():
        raise UsageError(f"Version: write 1 to {_LONGEST_VERSION} letters or digits.")
    return rewritten(text, version, {name: _number(context, name) for name in present.thresholds})


def _number(context: Context, name: str) -> Decimal:
    try:
        value = Decimal(plain_naira(context.text(f"threshold-{name}", 100)))
    except InvalidOperation:
        raise UsageError(f"Write a number such as 5000 for {name}.") from None
    if not value.is_finite() or abs(value) >= _MOST or value != round(value, _PLACES):
        raise UsageError(f"Write a number with up to six decimal places for {name}.")
    return value.quantize(Decimal(1)) if value == value.to_integral_value() else value.normalize()


def _thresholds_changed(context: Context, other: Policy) -> dict[str, str]:
    """Return the entries that differ from the policy in force, for the audit."""
    entries = changes(read_policy(text_in_force(context.journal)), other)["entries"]
    return {"changes": "; ".join(f"{name} from {was} to {now}" for name, was, now in entries)}


# --- proposing and deciding ---


def propose(context: Context) -> Response:
    """Record the thresholds of the form as a proposed version that somebody else must approve."""
    text, note, seen = _text_typed(context), context.text("note", 2000), context.text("seen", 200)
    made = write_proposal(context.journal, text, by=context.name, note=note, seen=seen)
    context.record(
        "policy proposed",
        policy=made.policy,
        version=made.version,
        replaces=made.replaces,
        **_thresholds_changed(context, read_policy(text)),
        note=made.note,
    )
    return see_other(f"/policy#{made.key}")


def _proposed(context: Context, key: str) -> PolicyVersion:
    """Return a proposal that waits."""
    found = next((each for each in versions(context.journal) if each.key == key), None)
    if found is None or found.state != PolicyState.PROPOSED:
        raise DeskError(409, "This proposal does not wait any more: somebody has decided about it.")
    return found


def decide(context: Context) -> Response:
    """Approve or refuse a proposal; its proposer may take it back, and never approve it."""
    found = _proposed(context, context.request.path_params["key"])
    approve, reason = context.text("do") == "approve", context.text("reason", 2000)
    decide_version(
        context.journal,
        context.actor,
        found.key,
        PolicyState.APPROVED if approve else PolicyState.REFUSED,
        reason=reason,
    )
    return see_other("/policy")


def waiting(context: Context) -> list[PolicyVersion]:
    """Return the proposals that wait for this user, for the front page."""
    if not context.may("policy"):
        return []
    found = versions(context.journal)
    waits = (each for each in found if each.state == PolicyState.PROPOSED)
    return [each for each in waits if not same_person(each.proposed_by, context.name)]
