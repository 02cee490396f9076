"""Decide: a decision and its reasons for each enriched row, by a policy.

A condition holds, does not hold, or is unknown. A row is approved only if an approve rule holds,
every requested check was answered, and no rule that could decline it or send it to review is
unknown. Without a policy every row is `undecided`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from nightscreen.policy.engine import bounded, locked_connection
from nightscreen.policy.load import checked_conditions
from nightscreen.policy.vocabulary import (
    CARRIED_SQL,
    NO_ANSWER,
    OPEN,
    PURPOSE,
    SILENT,
    check_columns,
    column_types,
    fitted,
    known_columns,
    may_be_absent,
)
from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.policy import Decision, Effect, Policy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from nightscreen.policy.conditions import Condition
    from nightscreen.schemas.policy import PolicyRule

UNDECIDED = Decision.UNDECIDED.value
_PLACE = ":place"  # a row's number in its portion
_NO, _YES, _UNKNOWN = 0, 1, 2
"""What a rule says about a row; unknown only if that must prevent an approval."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A policy as SQL."""

    # the columns it reads, in the types that DuckDB gets: carried ones are text
    types: dict[str, pa.DataType]
    rows: str  # the rows as conditions see them
    verdicts: tuple[str, ...]  # what each rule says about a row, as columns `rule_0`, …
    query: str  # place, decision and reasons of each row


def decide(
    rows: pa.Table,
    policy: Policy | None = None,
    *,
    purpose: str | None = None,
) -> pa.Table:
    """Return enriched rows with `decision`, `reasons` and `policy` filled in.

    Only the rows' own values count: rows read back from their Parquet, in another order or in other
    portions, get the same decisions. Columns that a batch lacks count as empty. Without a policy
    the rows are returned unchanged, `undecided`. Conditions may name the run's purpose.

    Raises:
        PolicyError: the policy has an issue, or a condition takes too long.
    """
    if policy is None:
        return rows
    compiled = _compiled(policy)
    decided = _run_query(rows, compiled, compiled.query, purpose).combine_chunks()
    labels = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows.num_rows, dtype=np.int32)), pa.array([policy.label])
    )
    result = _with_column(rows, "decision", decided["decision"].dictionary_encode())
    result = _with_column(result, "reasons", decided["reasons"].cast(pa.list_(pa.string())))
    return _with_column(result, "policy", labels)


def columns_of(policy: Policy) -> frozenset[str]:
    """Return the columns of `enriched` that a policy reads.

    Raises:
        PolicyError: the policy has an issue.
    """
    return frozenset(_compiled(policy).types)


def applied_rules(
    row: pa.Table, policy: Policy, codes: Collection[str], purpose: str | None
) -> list[PolicyRule]:
    """Return the rules with some reason codes that apply to one row.

    Other rules are left out: for one row, planning the query takes most of the time.

    Raises:
        PolicyError: the policy has an issue, or a condition takes too long.
    """
    numbers = [number for number, rule in enumerate(policy.rules) if rule.code in codes]
    if not numbers:
        return []
    compiled = _compiled(policy)
    query = (
        f"SELECT {', '.join(compiled.verdicts[number] for number in numbers)} FROM {compiled.rows}"  # noqa: S608 - from allowed trees
    )
    (verdicts,) = _run_query(row, compiled, query, purpose).to_pylist()
    return [policy.rules[number] for number in numbers if verdicts[f"rule_{number}"] == _YES]


def _with_column(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return a table with a column replaced, or added if it is new."""
    if name not in table.column_names:
        return table.append_column(name, column)
    place = table.column_names.index(name)
    return table.set_column(place, table.schema.field(name).with_type(column.type), column)


def _run_query(rows: pa.Table, compiled: _Compiled, query: str, purpose: str | None) -> pa.Table:
    """Return a query's result over some rows, whose columns are cast to the types it expects."""
    columns = {_PLACE: pa.array(np.arange(rows.num_rows))}
    for name, kind in compiled.types.items():
        is_purpose = name == PURPOSE
        columns[name] = (
            pa.repeat(pa.scalar(purpose, kind), len(rows))
            if is_purpose
            else fitted(rows, name, kind)
        )
    with locked_connection(optimizer=False) as connection:
        connection.register("rows", pa.table(columns))
        try:
            return bounded(connection, query)
        except duckdb.Error as error:
            message = str(error).splitlines()[0]
            raise PolicyError(f"a condition of the policy cannot be evaluated: {message}") from None


@lru_cache(maxsize=16)
def _compiled(policy: Policy) -> _Compiled:
    """Check a policy and write the query that decides by it.

    It is a decline if a decline rule holds, else a review, else an approval that nothing prevents.
    Reasons are the codes that apply, each once, decisive ones first.
    """
    conditions = checked_conditions(policy)
    statuses = [f"{check}_status" for check in CHECKS]
    named = dict.fromkeys([*statuses, *(name for each in conditions for name in each.columns)])
    own = {name: kind for name, kind in policy.carried_kinds.items() if name not in known_columns()}
    typed = column_types(own)
    types = {name: pa.string() if name in own else typed[name] for name in named}
    read = ", ".join(
        f"{CARRIED_SQL[own[name]].format(_quoted(name)) if name in own else _quoted(name)} "
        f"AS {_quoted(name)}"
        for name in [_PLACE, *named]
    )
    silent = ", ".join(
        f"COALESCE({check}_status IN {_listed(SILENT)}, true) AS {_silent(check)}"
        for check in CHECKS
    )
    rows = f"(SELECT {read}, {silent} FROM rows)"  # noqa: S608 - names in quotes, and constants
    verdicts = tuple(
        f"{_verdict(rule.effect, condition)} AS rule_{number}"
        for number, (rule, condition) in enumerate(zip(policy.rules, conditions, strict=True))
    )
    by_effect = {
        effect: [place for place, rule in enumerate(policy.rules) if rule.effect is effect]
        for effect in Effect
    }
    declined, reviewed, approved = (
        _any(f"rule_{place} = {_YES}" for place in by_effect[effect])
        for effect in (Effect.DECLINE, Effect.REVIEW, Effect.APPROVE)
    )
    unknown = _any(f"rule_{place} = {_UNKNOWN}" for place in range(len(policy.rules)))
    reasons: dict[str, str] = {}
    listed = []
    for effect in (Effect.DECLINE, Effect.REVIEW, Effect.APPROVE, Effect.NOTE):
        for place in by_effect[effect]:
            code, applies = policy.rules[place].code, f"rule_{place} = {_YES}"
            if effect is Effect.APPROVE:
                applies += f" AND decision = '{Decision.APPROVE.value}'"
            before = reasons.get(code)
            once = f"({applies})" if before is None else f"({applies}) AND NOT ({before})"
            reasons[code] = f"({applies})" if before is None else f"{before} OR ({applies})"
            listed.append(f"CASE WHEN {once} THEN '{code}' END")
    query = f"""
        SELECT decision,
            CASE WHEN test THEN [] ELSE list_filter([{", ".join(listed)}],
                lambda code: code IS NOT NULL) END AS reasons
        FROM (SELECT *, CASE WHEN test THEN 'undecided' WHEN {declined} THEN 'decline'
                WHEN {reviewed} THEN 'review'
                WHEN {approved} AND NOT open AND NOT {unknown} THEN 'approve'
                ELSE 'undecided' END AS decision
            FROM (SELECT {_quoted(_PLACE)}, {", ".join(verdicts)},
                    {_some(statuses, [NoAnswer.TEST_MODE.value])} AS test,
                    {_some(statuses, OPEN)} AS open
                FROM {rows}))
        ORDER BY {_quoted(_PLACE)}"""  # noqa: S608 - from allowed trees, codes in capitals
    return _Compiled(types, rows, verdicts, query)


def _verdict(effect: Effect, condition: Condition) -> str:
    """Return the SQL of what one rule says about a row.

    The guarded condition gives 0 if it does not hold, 1 if it holds, 2 if it is null, and 3 if it
    fails, as the cast of a word to a number does.
    """
    guarded = f"TRY(COALESCE(CAST(({condition.sql}) AS UTINYINT), 2::UTINYINT))"
    result = f"COALESCE({guarded}, 3::UTINYINT)"
    if effect is Effect.NOTE:
        return f"CAST({result} = 1 AS UTINYINT)"
    if effect is Effect.APPROVE:
        asked = [f"{check}_status" for check in sorted(condition.checks())]
        lacking = _any(f"COALESCE({name} IN {_listed(NO_ANSWER)}, true)" for name in asked)
        return f"CAST({result} = 1 AND NOT {lacking} AS UTINYINT)"
    null = f"CASE WHEN {_null_is_expected(condition)} THEN {_NO} ELSE {_UNKNOWN} END"
    return (
        f"CASE {result} WHEN 0 THEN {_NO} WHEN 1 THEN {_YES} WHEN 2 THEN {null} ELSE {_UNKNOWN} END"
    )


def _null_is_expected(condition: Condition) -> str:
    """Return the SQL of whether a condition is null only because of columns that may be empty.

    A column of a check that was not asked, or whose answer was a miss, may be empty; so may details
    and signals that few customers have. Any other empty column is missing evidence.
    """
    empty = _any(f"{_quoted(name)} IS NULL" for name in condition.columns)
    missing = _any(
        f"({_quoted(name)} IS NULL AND NOT {_may_be_empty(name)})" for name in condition.columns
    )
    return f"({empty} AND NOT {missing})"


def _may_be_empty(name: str) -> str:
    if name in may_be_absent():
        return "true"
    check = check_columns().get(name)
    return "false" if check is None else _silent(check)


def _silent(check: str) -> str:
    """Return the column that says whether a row has no details of a check to miss."""
    return _quoted(f":silent {check}")


def _some(statuses: Iterable[str], words: Sequence[str]) -> str:
    return _any(f"COALESCE({name} IN {_listed(words)}, false)" for name in statuses)


def _any(parts: Iterable[str]) -> str:
    return f"({' OR '.join(parts) or 'false'})"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _listed(words: Sequence[str]) -> str:
    return f"({', '.join(repr(word) for word in words)})"
