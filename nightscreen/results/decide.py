"""Decide: a decision and its reasons for each enriched row, by a policy.

Three answers to each condition: it holds, it does not, it is unknown. A row is approved only
where an approve rule holds, everything asked for was answered, and no rule that could decline it or
send it to review is unknown. Without a policy every row is `undecided`.
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
_PLACE = ":place"  # which row of its portion a row is
_NO, _YES, _UNKNOWN = 0, 1, 2
"""What a rule says of a row; unknown only where that must hold an approval back."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A policy as SQL."""

    # the columns it looks at, as they are handed over: carried ones as text
    types: dict[str, pa.DataType]
    rows: str  # the rows as conditions see them
    said: tuple[str, ...]  # what each rule says of a row, as `rule_0`, …
    query: str  # place, decision and reasons of each row


def decide(
    rows: pa.Table,
    policy: Policy | None = None,
    *,
    purpose: str | None = None,
) -> pa.Table:
    """Return enriched rows with `decision`, `reasons` and `policy` filled in.

    What the rows say is all that counts: rows read back from their Parquet, or in another order,
    or in other portions, are decided alike. Columns that a batch lacks count as empty. Without a
    policy the rows stay as they came, `undecided`. Conditions may name the run's purpose.

    Raises:
        PolicyError: the policy has an issue, or a condition takes too long.
    """
    if policy is None:
        return rows
    compiled = _compiled(policy)
    decided = _asked(rows, compiled, compiled.query, purpose).combine_chunks()
    labels = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows.num_rows, dtype=np.int32)), pa.array([policy.label])
    )
    found = _put(rows, "decision", decided["decision"].dictionary_encode())
    found = _put(found, "reasons", decided["reasons"].cast(pa.list_(pa.string())))
    return _put(found, "policy", labels)


def columns_of(policy: Policy) -> frozenset[str]:
    """Return the columns of `enriched` that a policy looks at.

    Raises:
        PolicyError: the policy has an issue.
    """
    return frozenset(_compiled(policy).types)


def applied_rules(
    row: pa.Table, policy: Policy, codes: Collection[str], purpose: str | None
) -> list[PolicyRule]:
    """Return the rules under some codes that apply to one row.

    No other rule is looked at: most of the time of judging one row goes into planning the query.

    Raises:
        PolicyError: the policy has an issue, or a condition takes too long.
    """
    among = [place for place, rule in enumerate(policy.rules) if rule.code in codes]
    if not among:
        return []
    compiled = _compiled(policy)
    query = f"SELECT {', '.join(compiled.said[place] for place in among)} FROM {compiled.rows}"  # noqa: S608 - from allowed trees
    (said,) = _asked(row, compiled, query, purpose).to_pylist()
    return [policy.rules[place] for place in among if said[f"rule_{place}"] == _YES]


def _put(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return a table with a column replaced, or added where it is new."""
    if name not in table.column_names:
        return table.append_column(name, column)
    place = table.column_names.index(name)
    return table.set_column(place, table.schema.field(name).with_type(column.type), column)


def _asked(rows: pa.Table, compiled: _Compiled, query: str, purpose: str | None) -> pa.Table:
    """Return what a query says of some rows; conditions see them in the types they know."""
    columns = {_PLACE: pa.array(np.arange(rows.num_rows))}
    for name, kind in compiled.types.items():
        said = name == PURPOSE
        columns[name] = (
            pa.repeat(pa.scalar(purpose, kind), len(rows)) if said else fitted(rows, name, kind)
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

    A decision follows from what the rules say: declines, else reviews, else an approval that
    nothing holds back. Reasons are the codes that apply, each once, decisive ones first.
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
    rows = f"(SELECT {read} FROM rows)"  # noqa: S608 - names in quotes, and constants
    said = tuple(
        f"{_said(rule.effect, condition)} AS rule_{number}"
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
            FROM (SELECT {_quoted(_PLACE)}, {", ".join(said)},
                    {_some(statuses, [NoAnswer.TEST_MODE.value])} AS test,
                    {_some(statuses, OPEN)} AS open
                FROM {rows}))
        ORDER BY {_quoted(_PLACE)}"""  # noqa: S608 - from allowed trees, codes in capitals
    return _Compiled(types, rows, said, query)


def _said(effect: Effect, condition: Condition) -> str:
    """Return SQL of what one rule says of a row.

    The condition is guarded for each row: 0 and 1 as it holds or not, 2 where it is null, 3 where
    it fails, as a cast of a word to a number does.
    """
    guarded = f"TRY(COALESCE(CAST(({condition.sql}) AS UTINYINT), 2::UTINYINT))"
    said = f"COALESCE({guarded}, 3::UTINYINT)"
    if effect is Effect.NOTE:
        return f"CAST({said} = 1 AS UTINYINT)"
    if effect is Effect.APPROVE:
        asked = [f"{check}_status" for check in sorted(condition.checks())]
        lacking = _any(f"COALESCE({name} IN {_listed(NO_ANSWER)}, true)" for name in asked)
        return f"CAST({said} = 1 AND NOT {lacking} AS UTINYINT)"
    null = f"CASE WHEN {_explained(condition)} THEN {_NO} ELSE {_UNKNOWN} END"
    return (
        f"CASE {said} WHEN 0 THEN {_NO} WHEN 1 THEN {_YES} WHEN 2 THEN {null} ELSE {_UNKNOWN} END"
    )


def _explained(condition: Condition) -> str:
    """Return SQL that tells whether a null condition only reflects what rightly is not there.

    A column of a check that was not asked, or answered that there is nothing, is rightly empty; so
    are details and signals that few customers have. Any other empty column is missing evidence.
    """
    empty = _any(f"{_quoted(name)} IS NULL" for name in condition.columns)
    missing = _any(
        f"({_quoted(name)} IS NULL AND NOT {_rightly_empty(name)})" for name in condition.columns
    )
    return f"({empty} AND NOT {missing})"


def _rightly_empty(name: str) -> str:
    if name in may_be_absent():
        return "true"
    check = check_columns().get(name)
    return "false" if check is None else f"COALESCE({check}_status IN {_listed(SILENT)}, true)"


def _some(statuses: Iterable[str], words: Sequence[str]) -> str:
    return _any(f"COALESCE({name} IN {_listed(words)}, false)" for name in statuses)


def _any(parts: Iterable[str]) -> str:
    return f"({' OR '.join(parts) or 'false'})"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _listed(words: Sequence[str]) -> str:
    return f"({', '.join(repr(word) for word in words)})"
