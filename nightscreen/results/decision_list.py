"""The decision list: what operations work through, worst exposure first, from the enriched parts.

Approved rows and rows whose review still stands are not on it. Rows are read in blocks, laid into
one private file and fetched in order, so that memory holds three numbers a row. How the files are
written is in `results/decision_files.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import DECISIONS_CSV, DECISIONS_WORKBOOK
from nightscreen.results.customer_rows import customer_batches
from nightscreen.results.decision_files import (
    WORKBOOK_ROWS,
    Cell,
    DecisionList,
    write_decision_files,
)
from nightscreen.schemas.checks import IdentityKind, NoAnswer
from nightscreen.schemas.decisions import (
    DECISION_COLUMNS,
    LISTED,
    REVIEW_COLUMNS,
    ChangeKind,
)
from nightscreen.schemas.errors import OutputError
from nightscreen.schemas.policy import Decision
from nightscreen.schemas.rows import INSTANT, NAIRA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from enum import StrEnum

    from numpy.typing import NDArray

    from nightscreen.files.run_folder import RunFolder
    from nightscreen.results.changes import ChangeSet
    from nightscreen.schemas.policy import Policy

BLOCK_ROWS = 8192
GROUP_ROWS = 8 * BLOCK_ROWS
"""Rows in memory while they are put into order: some 30 MB."""
NAMES = ("first_name", "middle_name", "last_name")
_BVN_DIGITS = 11
_SHOWN_DIGITS = 4
_SKIP = pc.JoinOptions(null_handling="skip")
_UNKNOWN = -1
_TYPES: dict[str, pa.DataType] = {
    "exposure": NAIRA,
    "karma_amount": NAIRA,
    "past_due_amount": NAIRA,
    "running_loans": pa.int64(),
    "karma_default_date": pa.date32(),
    "evidence_as_of": INSTANT,
}


def list_schema(carried: Sequence[str] = ()) -> pa.Schema:
    """Return the list's columns, those the policy carries from the lender's file last."""
    own = [pa.field(name, _TYPES.get(name, pa.string())) for name in DECISION_COLUMNS]
    return pa.schema([*own, *(pa.field(heading(name), pa.string()) for name in carried)])


def heading(carried: str) -> str:
    """Return the list's name of a carried column; one of the list's own is told apart."""
    return f"input_{carried}" if carried in (*DECISION_COLUMNS, *REVIEW_COLUMNS) else carried


_SAID = ("reason_code", "reason_text", "other_reasons", "action", "missing_checks")
_BETWEEN = "\x1f"
_READ = frozenset(
    {
        "customer_id",
        "full_name",
        *NAMES,
        "bvn",
        "exposure",
        "decision",
        "reasons",
        "policy",
        "karma_amount_in_contention",
        "karma_listed_by",
        "karma_listings",
        "ecosystem_past_due_loan_amount_due",
        "ecosystem_running_loans",
        "bank_account_name",
        "name_match",
        *(f"{check}_status" for check in CHECKS),
        *(f"{check}_checked_at" for check in CHECKS),
    }
)

_BY_DECISION = {
    Decision.DECLINE.value: "Lend no more until it is cleared.",
    Decision.REVIEW.value: "Look at the evidence, then decide.",
    Decision.UNDECIDED.value: "Decide by hand: no rule applies.",
}
"""What to do next where the rule does not say."""
BY_POLICY, PROPOSED = "policy", "policy, proposed"
"""Who decided: of all that is on the list, no person has."""
_REACHABLE = frozenset({NoAnswer.PENDING, NoAnswer.FAILED, NoAnswer.IN_DOUBT})


class RuleWords(NamedTuple):
    """What a rule says to the team: why, and what to do next where it says so."""

    why: str
    action: str | None = None


Words = Mapping[str, Mapping[str, RuleWords]]
"""What rules say to the team, by reason code and effect."""


@dataclass(slots=True)
class ListCounts:
    """What is on the list.

    Attributes:
        listed: rows by decision.
        exposure_kobo: known naira at risk by decision, in kobo.
        quiet: rows left out because their review stands.
        fix: rows in quarantine.
    """

    listed: Counter[str] = field(default_factory=Counter)
    exposure_kobo: Counter[str] = field(default_factory=Counter)
    quiet: int = 0
    fix: int = 0

    @property
    def rows(self) -> int:
        """Return how many rows the list has."""
        return sum(self.listed.values())


def write_decisions(
    folder: RunFolder,
    parts: Sequence[Path],
    *,
    run_id: str,
    reasons: Words,
    scratch: Path,
    carried: Sequence[str] = (),
    compared: ChangeSet | None = None,
    problems: Iterable[Sequence[str]] = (),
    about: Sequence[tuple[str, str]] = (),
    proposes: bool = False,
) -> ListCounts:
    """Write `decisions.csv` and `decisions.xlsx`.

    Args:
        folder: the run's folder.
        parts: its enriched parts, in order.
        run_id: the run.
        reasons: what rules say to the team (`team_sentences`).
        scratch: a private folder for rows while they are put into order; nothing is left in it.
        carried: columns of the lender's file that are shown, where it has them.
        compared: what the comparison with earlier nights found, row by row; None where there was
            none.
        problems: line, column, code and hint of each row in quarantine (`quarantined`).
        about: names and values for the head of the summary.
        proposes: a decline is a proposal, until a person has confirmed it.

    Raises:
        OutputError: the disk is full or the folder cannot be written.
    """
    counts = ListCounts()
    fixes = list(map(_typed_fix, problems))
    counts.fix = len(fixes)
    builder = _Builder(run_id, reasons, _there(parts, carried), compared, counts, proposes=proposes)
    try:
        with TemporaryDirectory(dir=scratch, prefix="list-") as private:
            spool = _Spool(Path(private), builder.schema)
            spool.write(builder.tables(parts))
            listed = DecisionList(
                columns=builder.schema.names,
                tables=spool.worst_first(),
                rows=counts.rows,
                summary=summary(run_id, counts, compared, about),
                fixes=fixes,
            )
            write_decision_files(
                folder.path / DECISIONS_CSV,
                folder.path / DECISIONS_WORKBOOK,
                listed,
                Path(private),
            )
    except OSError as error:
        raise OutputError(
            f"cannot write the decision list into {folder.path}: {error.strerror or error}; free "
            "some disk, then resume the run"
        ) from None
    folder.rows[DECISIONS_CSV] = counts.rows
    folder.rows[DECISIONS_WORKBOOK] = min(counts.rows, WORKBOOK_ROWS)
    return counts


def _there(parts: Sequence[Path], carried: Sequence[str]) -> list[str]:
    """Return the carried columns that the rows have; the parts are all alike."""
    if not parts:
        return []
    names = set(pq.read_schema(parts[0]).names)
    return [name for name in carried if name in names]


def _typed_fix(fix: Sequence[str]) -> list[Cell]:
    line, *rest = fix
    return [int(line) if line.isdecimal() else line, *rest]


def summary(
    run_id: str,
    counts: ListCounts,
    compared: ChangeSet | None,
    about: Sequence[tuple[str, str]],
) -> list[tuple[str, Cell]]:
    """Return the lines of the summary sheet."""
    lines: list[tuple[str, Cell]] = [("Run", run_id), *about]
    for decision in LISTED:
        word = decision.value
        lines.append((f"To work on: {word}", counts.listed[word]))
        exposure = Decimal(counts.exposure_kobo[word]).scaleb(-2)
        lines.append((f"Known exposure: {word}", exposure))
    lines.append(("Left out: reviewed, evidence unchanged", counts.quiet))
    lines.append(("To fix and feed back (sheet Fix)", counts.fix))
    if compared is not None:
        lines += [
            (f"Customers: {name.replace('_', ' ')}", number)
            for name, number in compared.report().items()
        ]
    return lines


class _Spool:
    """The rows of a list in private files, given back worst exposure first.

    Rows are written as they come. Up to `GROUP_ROWS` are put into order in memory; of more, each
    goes into the file of its group first, so that memory holds one group and a number a row.

    Args:
        folder: a private folder for the files.
        schema: of the rows.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder = folder
        self._schema = schema
        self._kobo = [np.zeros(0, np.int64)]

    def write(self, tables: Iterable[pa.Table]) -> None:
        """Write the rows."""
        with (
            pa.OSFile(str(self._folder / "rows"), "wb") as sink,
            pa.ipc.new_stream(sink, self._schema) as writer,
        ):
            for table in tables:
                writer.write_table(table)
                self._kobo.append(_kobo(table))

    def worst_first(self) -> Iterator[pa.Table]:
        """Yield the rows in their order, some at a time."""
        order = worst_first(np.concatenate(self._kobo))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        groups = [self._folder / f"group-{n}" for n in range(0, len(order), GROUP_ROWS)]
        if len(groups) == 1:
            groups = [self._folder / "rows"]
        else:
            self._distribute(place // GROUP_ROWS, groups)
        for number, path in enumerate(groups):
            rows = np.sort(order[number * GROUP_ROWS : (number + 1) * GROUP_ROWS])
            with pa.OSFile(str(path)) as file:
                table = pa.ipc.open_stream(file).read_all()
            ranked = table.take(pa.array(np.argsort(place[rows])))
            for start in range(0, ranked.num_rows, BLOCK_ROWS):
                yield ranked.slice(start, BLOCK_ROWS).combine_chunks()

    def _distribute(self, group: NDArray[np.int64], paths: Sequence[Path]) -> None:
        """Write each row into the file of its group."""
        with ExitStack() as closing, pa.OSFile(str(self._folder / "rows")) as file:
            sinks = [closing.enter_context(pa.OSFile(str(path), "wb")) for path in paths]
            writers = [
                closing.enter_context(pa.ipc.new_stream(sink, self._schema)) for sink in sinks
            ]
            start = 0
            for batch in pa.ipc.open_stream(file):
                mine = group[start : start + batch.num_rows]
                for number in np.unique(mine).tolist():
                    writers[number].write_batch(batch.filter(pa.array(mine == number)))
                start += batch.num_rows


def _kobo(rows: pa.Table) -> NDArray[np.int64]:
    """Return exposures in kobo, -1 where unknown."""
    scaled = pc.multiply(rows["exposure"], pa.scalar(100, pa.decimal128(3, 0)))
    kobo = scaled.cast(pa.decimal128(38, 0), safe=False).cast(pa.int64())
    found: NDArray[np.int64] = kobo.fill_null(_UNKNOWN).to_numpy()
    return found


def worst_first(kobo: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order of exposures, greatest first, equal ones as they came.

    An unknown exposure (-1) is taken as the median of the known ones, since it is not zero.
    """
    known = kobo[kobo != _UNKNOWN]
    middle = int(np.median(known)) if len(known) else 0
    order: NDArray[np.int64] = np.argsort(-np.where(kobo == _UNKNOWN, middle, kobo), kind="stable")
    return order


class _Builder:
    """Makes the list's rows of enriched rows, block by block, in the order of the input."""

    def __init__(
        self,
        run_id: str,
        reasons: Words,
        carried: Sequence[str],
        compared: ChangeSet | None,
        counts: ListCounts,
        *,
        proposes: bool,
    ) -> None:
        self._run_id = run_id
        self._declined_by = PROPOSED if proposes else BY_POLICY
        self._reasons = reasons
        self._carried = carried
        self.schema = list_schema(carried)
        self._compared = compared
        self._counts = counts
        self._start = 0

    def tables(self, parts: Sequence[Path]) -> Iterator[pa.Table]:
        """Yield the rows that are on the list."""
        wanted = _READ | set(self._carried)
        for part in parts:
            with pq.ParquetFile(part) as file:
                for customers in customer_batches(file, wanted, BLOCK_ROWS):
                    yield self._table(customers)
                    self._start += customers.num_rows

    def _table(self, rows: pa.Table) -> pa.Table:
        places = self._places(rows)
        table = self._listed(rows.take(pa.array(places, pa.int64())), places + self._start)
        for word in (each.value for each in LISTED):
            mine = table.filter(pc.equal(table["decision"], word))
            kobo = _kobo(mine)
            self._counts.listed[word] += mine.num_rows
            self._counts.exposure_kobo[word] += int(kobo[kobo != _UNKNOWN].sum())
        return table

    def _places(self, rows: pa.Table) -> NDArray[np.int64]:
        """Return which rows of a block are on the list."""
        words = pa.array([each.value for each in LISTED])
        wanted = pc.is_in(rows["decision"].cast(pa.string()), value_set=words).to_numpy()
        if self._compared is not None:
            quiet = self._compared.quiet[self._start : self._start + rows.num_rows] == 1
            self._counts.quiet += int((wanted & quiet).sum())
            wanted = wanted & ~quiet
        return np.flatnonzero(wanted)

    def _listed(self, rows: pa.Table, numbers: NDArray[np.int64]) -> pa.Table:
        """Return rows of the list for enriched rows, a column at a time."""
        size, columns = rows.num_rows, Columns(rows)
        told = told_of(rows, self._reasons)
        worst = columns.worst_listings()
        previous, change = pa.nulls(size, pa.string()), pa.nulls(size, pa.string())
        if self._compared is not None:
            previous = words_of(self._compared.previous[numbers], tuple(Decision))
            change = words_of(self._compared.change[numbers], tuple(ChangeKind))
        found = {
            "customer_id": columns.of("customer_id"),
            "customer_name": columns.names(),
            "bvn_last4": columns.last_digits(),
            "decision": columns.of("decision"),
            "previous_decision": previous,
            "change": change,
            **told,
            "exposure": columns.of("exposure", NAIRA),
            "karma_listed_by": pc.fill_null(
                pc.binary_join(columns.of("karma_listed_by"), ", "), ""
            ),
            **worst,
            "past_due_amount": columns.in_kobo("ecosystem_past_due_loan_amount_due"),
            "running_loans": columns.of("ecosystem_running_loans"),
            "bank_account_name": columns.of("bank_account_name"),
            "name_match": columns.of("name_match"),
            "evidence_as_of": columns.evidence_as_of(),
            "run_id": pa.repeat(self._run_id, size),
            "policy": columns.of("policy"),
            "decided_by": pc.if_else(
                pc.equal(rows["decision"].cast(pa.string()), Decision.DECLINE.value),
                self._declined_by,
                BY_POLICY,
            ),
        }
        found |= {heading(name): columns.of(name).cast(pa.string()) for name in self._carried}
        return pa.table([found[name] for name in self.schema.names], schema=self.schema)


class Columns:
    """Gives columns of the list.

    Args:
        rows: enriched rows; of the input's columns any may be missing.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def of(self, name: str, kind: pa.DataType | None = None) -> pa.Array:
        """Return a column as it stands, words as text; of nulls where the input has none such."""
        if name not in self._rows.column_names:
            return pa.nulls(self._rows.num_rows, kind or pa.string())
        column = self._rows[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        return column.combine_chunks()

    def _filled(self, name: str) -> pa.Array:
        """Return text, null where it is empty."""
        text = self.of(name)
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)

    def names(self) -> pa.Array:
        """Return names as the lender's file has them, null where it has none."""
        given = [self._filled(name) for name in NAMES]
        # the join drops a row that is null in every column: the last column never is
        columns = [*given, pa.scalar(""), pa.scalar(" ")]
        joined = pc.utf8_rtrim(pc.call_function("binary_join_element_wise", columns, _SKIP), " ")
        joined = pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), joined)
        return pc.coalesce(self._filled("full_name"), joined)

    def last_digits(self) -> pa.Array:
        """Return the last four digits of each BVN, null of anything that is none."""
        bvn = self.of("bvn")
        sound = pc.and_(pc.equal(pc.utf8_length(bvn), _BVN_DIGITS), pc.utf8_is_decimal(bvn))
        digits = pc.utf8_slice_codeunits(bvn, _BVN_DIGITS - _SHOWN_DIGITS, _BVN_DIGITS)
        return pc.if_else(sound, digits, pa.scalar(None, pa.string()))

    def in_kobo(self, name: str) -> pa.Array:
        """Return an amount rounded to kobo, halves to even."""
        rounded = pc.round(self.of(name), ndigits=NAIRA.scale, round_mode="half_to_even")
        return rounded.cast(NAIRA)

    def evidence_as_of(self) -> pa.Array:
        """Return when each row's oldest answer was given: the evidence is as old as that."""
        instants = [self.of(f"{check}_checked_at", INSTANT) for check in CHECKS]
        micros = [each.cast(pa.int64()) for each in instants]
        return pc.min_element_wise(*micros, skip_nulls=True).cast(INSTANT)

    def worst_listings(self) -> dict[str, pa.Array]:
        """Return kind, reason, amount, reporter and day of the listing that counts most."""
        listings = self.of("karma_listings")
        some = pc.fill_null(pc.greater(pc.list_value_length(listings), 0), fill_value=False)
        places = np.flatnonzero(some.to_numpy(zero_copy_only=False))
        worst = [worst_listing(each) for each in listings.take(pa.array(places)).to_pylist()]
        at = np.full(self._rows.num_rows, -1, np.int64)
        at[places] = np.arange(len(places))
        order = pa.array(at, mask=at < 0)
        return {
            "karma_amount": _text(worst, "amount_in_contention", NAIRA).take(order),
            "karma_type": _text(worst, "karma_type", pa.string()).take(order),
            "karma_reason": _text(worst, "reason", pa.string()).take(order),
            "karma_reporter": _text(worst, "reporting_entity_name", pa.string()).take(order),
            "karma_default_date": _text(worst, "default_date", pa.date32()).take(order),
        }


def _text(worst: Sequence[Mapping[str, Any]], name: str, kind: pa.DataType) -> pa.Array:
    return pa.array([each.get(name) for each in worst], kind)


def worst_listing(listings: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the listing that counts most: by BVN before others, then the highest amount.

    By its BVN a customer is known best, and by it alone the default policy declines. Empty where
    there is none.
    """
    return max(
        listings,
        key=lambda each: (
            each["identity_kind"] == IdentityKind.BVN.value,
            each["amount_in_contention"] or 0,
        ),
        default={},
    )


def words_of(numbers: NDArray[np.int8], words: Sequence[StrEnum]) -> pa.Array:
    """Return words by their numbers, null where a number is negative."""
    places = pa.array(numbers.astype(np.int64), mask=numbers < 0)
    return pa.array([each.value for each in words], pa.string()).take(places)


def customer_name(row: Mapping[str, Any]) -> str | None:
    """Return the name as the lender's file has it."""
    if row.get("full_name"):
        return str(row["full_name"])
    parts = [row[name] for name in NAMES if row.get(name)]
    return " ".join(parts) or None


def missing_checks(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the checks without an answer and why, those that were not wanted left out."""
    reasons = {each.value for each in NoAnswer} - {NoAnswer.OFF.value}
    words = ((check, row[f"{check}_status"]) for check in CHECKS)
    return {check: word for check, word in words if word in reasons}


def told_of(rows: pa.Table, reasons: Words) -> dict[str, pa.Array]:
    """Return what is said of rows: reasons, what to do, what is missing.

    It hangs on decision, reasons and statuses alone, of which few combinations occur: each is put
    into words once.
    """
    names = ["decision", "reasons", *(f"{check}_status" for check in CHECKS)]
    keys = [rows[name].combine_chunks() for name in names]
    texts = [
        pc.binary_join(key, _BETWEEN) if pa.types.is_list(key.type) else key.cast(pa.string())
        for key in keys
    ]
    options = pc.JoinOptions(null_handling="replace", null_replacement="")
    joined = pc.call_function("binary_join_element_wise", [*texts, _BETWEEN * 2], options)
    encoded = joined.dictionary_encode()
    _, first = np.unique(encoded.indices.to_numpy(), return_index=True)
    said = [_said(row, reasons) for row in rows.select(names).take(pa.array(first)).to_pylist()]
    return {
        name: pa.array([each[name] for each in said], pa.string()).take(encoded.indices)
        for name in _SAID
    }


def _said(row: Mapping[str, Any], reasons: Words) -> dict[str, Any]:
    """Return the columns `_SAID` of one row."""
    first, others = main_reason(row["decision"], row["reasons"] or (), reasons)
    missing = missing_checks(row)
    return {
        "reason_code": first,
        "reason_text": reason_text(row["decision"], first, reasons, missing),
        "other_reasons": "; ".join(others),
        "action": action(row["decision"], first, reasons, missing),
        "missing_checks": "; ".join(f"{check}: {word}" for check, word in missing.items()),
    }


def team_sentences(policy: Policy, purpose: str | None = None) -> Words:
    """Return what a policy says to the team in a run of this purpose."""
    found: dict[str, dict[str, RuleWords]] = {}
    for rule in policy.rules:
        action = None if rule.action is None else policy.sentence(rule.action, purpose)
        said = RuleWords(policy.sentence(rule.team, purpose), action)
        found.setdefault(rule.code, {}).setdefault(rule.effect.value, said)
    return found


def main_reason(
    decision: str, codes: Sequence[str], reasons: Words
) -> tuple[str | None, list[str]]:
    """Return the reason that made the decision, and the others.

    It is the first whose rule has the decision's effect; where none is known to, the first. What
    leaves a row undecided is evidence that is missing: its notes are no reason for that.
    """
    if decision == Decision.UNDECIDED.value:
        return None, list(codes)
    first = next((code for code in codes if decision in reasons.get(code, {})), None)
    if first is None:
        first = codes[0] if codes else None
    return first, [code for code in codes if code != first]


def reason_text(
    decision: str,
    code: str | None,
    reasons: Words,
    missing: Mapping[str, str],
) -> str:
    """Return the team's sentence for a row's main reason."""
    if code is not None:
        said = words_for(decision, code, reasons)
        return code.replace("_", " ").capitalize() if said is None else said.why
    if not missing:
        return "No rule of the policy applies."
    told = ", ".join(f"{check.replace('_', ' ')} ({word})" for check, word in missing.items())
    return f"Evidence is missing: {told}."


def words_for(decision: str, code: str, reasons: Words) -> RuleWords | None:
    """Return what the rule of a code says where it has the decision's effect, else its first."""
    said = reasons.get(code, {})
    return said.get(decision, next(iter(said.values()), None))


def _action_on_missing(words: set[str]) -> str:
    """Return what to do about checks without an answer, given why they have none."""
    if words == {NoAnswer.IN_DOUBT.value}:
        return "Ask the service about the calls in doubt; a resend may be charged again."
    if words & _REACHABLE:
        return "Resume the run: some answers are still to come."
    if NoAnswer.UNREADABLE.value in words:
        return (
            "Wait: the answer was paid for and is kept; it is read once the table of manners is "
            "corrected, or asked again later."
        )
    if words == {NoAnswer.REFUSED.value}:
        return "Ask for consent, then screen again."
    return "Complete or correct the identifiers, then screen again."


def action(decision: str, code: str | None, reasons: Words, missing: Mapping[str, str]) -> str:
    """Return what to do next."""
    if decision == Decision.UNDECIDED.value and missing:
        return _action_on_missing(set(missing.values()))
    said = None if code is None else words_for(decision, code, reasons)
    return (said and said.action) or _BY_DECISION[decision]
