"""The last stations of a screening run, from answers in the journal to the files that people open.

They use only the journal and the workspace, so that a run that was stopped or killed ends the same
way as a complete one.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from nightscreen.calling.stops import TOLERATED_FROM
from nightscreen.checks.declaration import Limits
from nightscreen.client.prices import PRICES
from nightscreen.client.response_rules import MANNERS
from nightscreen.files.memory_tuning import trim_memory
from nightscreen.files.outputs import (
    CHANGES_FILE,
    DECISIONS_CSV,
    DECISIONS_WORKBOOK,
    NOTICES_FILE,
    QUARANTINE,
    SHADOW_FILE,
    enriched_parts,
)
from nightscreen.files.quarantine import quarantined
from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Sightings
from nightscreen.journal.settling import OpeningBalance, between_runs, keep_gap
from nightscreen.planning.eligibility import slots_of
from nightscreen.planning.plan import read_row_plan
from nightscreen.planning.shared_identifiers import keep_sightings
from nightscreen.report.anomaly_check import HELD, earlier_reports, find_anomalies, hold
from nightscreen.report.calls import write_calls
from nightscreen.report.facts import facts_of, nights_of
from nightscreen.report.page import report_page
from nightscreen.report.run_end import RunEnd
from nightscreen.results.assemble import Assembly, Chunk, HeldData
from nightscreen.results.backtest import PastRun, write_shadow
from nightscreen.results.changes import Comparison, unreached_checks
from nightscreen.results.decide import decide
from nightscreen.results.decision_list import write_decisions
from nightscreen.results.enriched import Expansion, enriched_schema
from nightscreen.results.final_decision import overrides_of
from nightscreen.results.notices import NoticeRun, contests_report, proposes, write_notices
from nightscreen.results.outcomes import known_outcomes, outcomes_report
from nightscreen.results.wording import team_sentences
from nightscreen.runs.intake import CHUNK_ROWS
from nightscreen.runs.open_cases import publish_cases
from nightscreen.runs.run_report import (
    WrittenRows,
    lookup_ends,
    screening_report,
    without_answer,
)
from nightscreen.runs.screening_run import read_chunk
from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.policy import Decision
from nightscreen.schemas.stops import COMPLETED, LOW_BALANCE, TEST_MODE, StopReason
from nightscreen.schemas.wallet import between_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from nightscreen.report.calls import Balance
    from nightscreen.runs.screening_run import ScreeningRun


_NOT_IN_TEST_MODE = (CHANGES_FILE, DECISIONS_CSV, DECISIONS_WORKBOOK, SHADOW_FILE)
"""Files that a run in test mode does not have."""


def write_rows(run: ScreeningRun) -> WrittenRows:
    """Assemble, decide and write every row; return figures that only this step knows."""
    state, _ = run.stops.ending()
    trim_memory()
    assembly = Assembly(
        wanted=run.wanted,
        answers=run.journal.answers,
        unanswered=without_answer(run),
        freshness=run.freshness,
        columns=run.source.header.columns,
        test_mode=state == TEST_MODE,
        limits=Limits(run.settings.selfie_match_at, run.settings.selfie_no_match_below),
        held=HeldData.of(run.journal, run.freshness.at, run.freshness.oldest_cash_flow()),
    )
    written = WrittenRows()
    schema = enriched_schema(run.source.header.columns, merged=run.parameters.merge_rows)
    tables = _enriched(run, assembly, written)
    if run.parameters.merge_rows:
        tables = _expanded(run, tables, schema)
    run.folder.write_parts("enriched", schema, tables)
    if written.pending and run.stops.ending()[0] == COMPLETED:  # answers were erased meanwhile
        run.stops.stop(StopReason.FAILURES)
        run.stops.notices.append(
            f"{written.pending} answers that were stored when the run began are no longer there: "
            "resume the run to ask for them"
        )
    return written


def _enriched(run: ScreeningRun, assembly: Assembly, written: WrittenRows) -> Iterator[pa.Table]:
    """Yield the enriched rows in order, chunk by chunk."""
    policy = None if assembly.test_mode else run.policy
    slots = slots_of(run.wanted.checks, run.wanted.karma_kinds)
    for number in range(run.chunks):
        row_plan = read_row_plan(run.workspace, slots, number)
        signals = run.workspace.get(f"signals-{number:05d}")
        chunk = Chunk(assembly, read_chunk(run, number), row_plan, signals)
        table = chunk.table()
        written.shared_micro.update(chunk.shared_micro)
        del chunk, row_plan, signals  # frees the answers before rows are decided and written
        table = decide(table.combine_chunks(), policy, purpose=run.purpose)
        for check in run.wanted.checks:
            pending = pc.equal(table[f"{check}_status"], NoAnswer.PENDING.value)
            written.pending += pc.sum(pending).as_py() or 0
        yield table
        del table  # freed before the next is made
        trim_memory()


def _expanded(
    run: ScreeningRun, customers: Iterator[pa.Table], schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yield a row for each row of the input, after all customers are decided."""
    for number, table in enumerate(customers):
        run.workspace.put(f"decided-{number:05d}", table)
    expansion = Expansion(
        run.source.header.columns,
        schema,
        CHUNK_ROWS,
        lambda number: run.workspace.get(f"decided-{number:05d}"),
    )
    for number in range(run.input_chunks):
        yield expansion.expand(run.workspace.get(f"input-{number:05d}"))


def write_report(run: ScreeningRun, written: WrittenRows) -> dict[str, Any]:
    """Write calls, lists, report and manifest; save the run's end in the journal.

    The customers' states are saved after the files and before the run counts as finished, so that a
    run that dies in between reports the same when it is resumed.
    """
    trim_memory()
    spill = run.workspace.folder / "calls"
    calls = write_calls(run.folder, run.journal, run.run_id, run.declared, spill=spill)
    end = RunEnd(run)
    lookups = lookup_ends(run, test_mode=end.in_test)
    compared = _publish(run, lookups, test_mode=end.in_test)
    parts = enriched_parts(run.folder.path)
    facts = facts_of(parts, None if compared is None else compared.news, at=run.freshness.at)
    report = screening_report(run, end, lookups=lookups, calls=calls, facts=facts, written=written)
    _compare_wallet(run, report, calls.balance)
    if run.shadow is not None and compared is not None:
        this_run = PastRun(run.run_id, tuple(parts), run.purpose)
        report["shadow"] = write_shadow(run.folder, this_run, run.shadow)
    report["overrides"] = overrides_of(run.journal, run.batch, run.freshness.at)
    report["outcomes"] = outcomes_report(
        known_outcomes(run.journal), run.settings.bad_loan, batch=run.batch
    )
    report["changes"] = {} if compared is None else compared.report()
    earlier = earlier_reports(run.journal, run.batch, run.run_id)
    report["nights"] = nights_of(report, earlier)
    if end.state == COMPLETED:
        left_open = too_many_open(lookups, run.settings.tolerated_failure_pct)
        report = hold(report, [*left_open, *find_anomalies(report, earlier)])
    report["customer_notices"] = _write_notices(run, compared, report)
    report["files"] = end.files()
    report["contests"] = contests_report(run.journal, run.batch)
    low = low_balance(report, run.settings.nights_left_notice)
    if low is not None:
        report["notices"].append(low)

    def save() -> None:
        """Save the customers' new states, their identifiers' sightings and cases."""
        if compared is None:
            return
        at = compared.save_states()
        trim_memory()
        keep_sightings(run.workspace, Sightings(run.journal), batch=run.batch, at=at)
        if report["publishable"]:
            publish_cases(run.journal, run.journal.runs.get(run.run_id), run.folder.path)

    return end.finish(report, report_page(report), manifest(run), before_end=save)


def _compare_wallet(run: ScreeningRun, report: dict[str, Any], balance: Balance) -> None:
    """Report what the wallet lost since the previous run; save it until a reason is noted."""
    if balance.opening_micro is None:
        return
    gap = between_runs(
        run.journal,
        run.run_id,
        OpeningBalance(balance.opening_micro, balance.exact),
        under_way=sum(run.settings.max_in_flight.values()),
    )
    if gap is None or (gap.micro > 0 and run.settings.wallet_shared):
        return
    report["balance"]["between_runs"] = between_document(*gap)
    if gap.micro > 0:
        keep_gap(run.journal, run.run_id, gap, run.clock())


def too_many_open(checks: Mapping[str, Mapping[str, int]], tolerated_pct: float) -> list[str]:
    """Return why a run is held if too many lookups have no answer, else nothing.

    Lookups that are not asked again yet do not stop a run, because nothing is asked. But if they
    are too large a share of the batch, it is not properly screened.
    """
    distinct = sum(part["distinct"] for part in checks.values())
    ends = ("unreadable", "failed", "in_doubt")
    unanswered = sum(part[end] for part in checks.values() for end in ends)
    if distinct < TOLERATED_FROM or 100 * unanswered <= tolerated_pct * distinct:
        return []
    why = (
        f"{unanswered} of {distinct} lookups have no answer that can be read, more than "
        f"TOLERATED_FAILURE_PCT ({tolerated_pct:g}) allows; see: nightscreen journal in-doubt, "
        "nightscreen journal reread"
    )
    return [why]


def low_balance(report: Mapping[str, Any], fewest_nights: int) -> str | None:
    """Return a notice if the wallet lasts fewer nights than the lender wants, or None."""
    nights = report["balance"]["nights_left"]
    if nights is None or nights >= fewest_nights:
        return None
    return f"{LOW_BALANCE}: at this month's spending it lasts {nights} more nights; top it up"


def _publish(
    run: ScreeningRun, checks: Mapping[str, Mapping[str, int]], *, test_mode: bool
) -> Comparison | None:
    """Write changes and decision lists, and save the policy's text; in test mode write nothing.

    Unanswered lookups are no change. If the run has only fixed rows, not the whole batch, no
    customer counts as gone.
    """
    folder, policy = run.folder, run.policy
    if test_mode:
        for name in _NOT_IN_TEST_MODE:
            (folder.path / name).unlink(missing_ok=True)  # from an earlier attempt
            folder.rows.pop(name, None)
        return None
    reviews, at, parts = Reviews(run.journal), run.journal.clock(), enriched_parts(folder.path)
    reviews.keep_policy(policy.label, policy.model_dump_json())
    compared = Comparison(
        journal=run.journal,
        workspace=run.workspace,
        run_id=run.run_id,
        batch=run.batch,
        at=at,
        unreached=unreached_checks(checks),
        reviewed={
            customer: review
            for customer, review in reviews.active(run.batch, at).items()
            if review.decision != Decision.REVIEW.value
        },
        whole=not run.source.header.fed_back,
    )
    compared.write(folder, parts)
    trim_memory()
    write_decisions(
        folder,
        parts,
        run_id=run.run_id,
        reasons=team_sentences(policy, run.purpose),
        scratch=run.workspace.folder,
        carried=tuple(policy.carried_kinds),
        compared=compared,
        problems=quarantined(folder.path / QUARANTINE),
        about=[("Batch", run.batch), ("Policy", policy.label)],
        proposes=proposes(run.purpose, run.declared, run.clock()),
    )
    trim_memory()
    return compared


def _write_notices(
    run: ScreeningRun, compared: Comparison | None, report: Mapping[str, Any]
) -> dict[str, int] | None:
    """Write the notices for customers; a held run has none."""
    path = run.folder.path / NOTICES_FILE
    if compared is None or report.get(HELD):
        path.unlink(missing_ok=True)
        return None
    of_run = NoticeRun(
        run_id=run.run_id,
        batch=run.batch,
        purpose=run.purpose,
        policy=run.policy,
        decided_at=run.clock(),
        publishable=bool(report["publishable"]),
    )
    parts = enriched_parts(run.folder.path)
    counts = write_notices(path, parts, of_run, run.journal, run.declared, compared.standing)
    run.folder.rows[NOTICES_FILE] = counts["to_send"]
    return counts


def manifest(run: ScreeningRun) -> dict[str, Any]:
    """Return what the files of a screening run were made from.

    Address, keys and paths are left out of the settings. The tables of response rules and prices
    are named with their digest, and with whether they are the package's or the lender's own.
    """
    tables = {}
    for name, packaged in (("manners", MANNERS), ("prices", PRICES)):
        own = run.settings.own_table(name)
        digest = hashlib.sha256((own or packaged).read_bytes()).hexdigest()
        tables[name] = {"from": "package" if own is None else "lender", "sha256": digest}
    private = ("api_key", "data_key", "journal_url", "home", "base_url")
    return {
        "input": {"name": Path(run.parameters.input).name, "digest": run.input_digest},
        "parameters": run.parameters.model_dump(exclude={"input", "output", "yes"}),
        "settings": run.settings.model_dump(
            mode="json", exclude={*private, "manners_file", "prices_file"}
        ),
        "policy": {**run.policy.named(), "label": run.policy.label},
        "tables": tables,
    }
