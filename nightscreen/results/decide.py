"""Decide: a decision and its reasons for each enriched row, by a policy.

Three answers to each condition: it holds, it does not, it cannot be told. A row is approved only
where an approve rule holds, everything asked for was answered, and no rule that could decline it or
send it to review was left untold. Without a policy every row is `undecided`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from nightscreen.policy.check import check_rules
from nightscreen.policy.columns import (
    NO_ANSWER,
    OPEN,
    PURPOSE,
    SILENT,
    carried_column,
    check_columns,
    fitted,
    known_columns,
    may_be_absent,
)
from nightscreen.policy.conditions import column_types
from nightscreen.policy.engine import TIMEOUT_S, bounded, locked_engine
from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.policy import CarriedKind, Decision, Effect, Policy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from nightscreen.policy.conditions import CheckedCondition
    from nightscreen.schemas.policy import PolicyRule

UNDECIDED = Decision.UNDECIDED.value
_SLICE_ROWS = 131_072

_PLACE = ":place"
"""Which row of its portion a row is: an engine that is asked for no order promises none."""

_NO, _YES, _UNTOLD = 0, 1, 2
"""What a rule says of a row; untold only where that must hold an approval back."""
APPLIES = _YES
_ANSWERED, _OPEN, _TEST = 0, 1, 2
_ANSWERS = 3
_CLOSE_TO_FULL = 2**60


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A policy as the columns it looks at and the one query that judges rows by it."""

    types: dict[str, pa.DataType]
    query: str
    verdicts: tuple[str, ...]
    carried: dict[str, CarriedKind]


def decide(
    rows: pa.Table,
    policy: Policy | None = None,
    *,
    purpose: str | None = None,
    timeout_s: float = TIMEOUT_S,
    engine: duckdb.DuckDBPyConnection | None = None,
) -> pa.Table:
    """Return enriched rows with `decision`, `reasons` and `policy` filled in.

    What the rows say is all that counts: rows read back from their Parquet, or in another order,
    or in other portions, are decided alike.

    Args:
        rows: enriched rows; columns that a batch lacks count as empty.
        policy: the rules; without one the rows stay as they came, `undecided`.
        purpose: the run's purpose, which conditions may name.
        timeout_s: most seconds the rules may take for 131,072 rows.
        engine: a locked engine of the caller's, to be used again; its own where none is given.

    Raises:
        PolicyError: the policy has a mistake, or a condition takes too long.
    """
    if policy is None:
        return rows
    judged = judge_rules(rows, policy, purpose=purpose, timeout_s=timeout_s, engine=engine)
    patterns, of_row = _patterns(judged)
    outcomes = [_outcome(policy, pattern) for pattern in patterns.tolist()]
    words = [decision.value for decision in Decision]
    place = np.array([words.index(decision) for decision, _ in outcomes], dtype=np.int32)
    lists = pa.array([reasons for _, reasons in outcomes], pa.list_(pa.string()))
    decided = pa.DictionaryArray.from_arrays(pa.array(place[of_row]), pa.array(words))
    label = np.zeros(rows.num_rows, dtype=np.int32)
    labels = pa.DictionaryArray.from_arrays(pa.array(label), pa.array([policy.label]))
    found = _put(rows, "decision", decided)
    found = _put(found, "reasons", lists.take(pa.array(of_row)))
    return _put(found, "policy", labels)


def columns_of(policy: Policy) -> frozenset[str]:
    """Return the columns of `enriched` that a policy looks at.

    Raises:
        PolicyError: the policy has a mistake.
    """
    return frozenset(_compiled(policy).types)


def _put(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    """Return a table with a column replaced, or added where it is new."""
    if name not in table.column_names:
        return table.append_column(name, column)
    place = table.column_names.index(name)
    return table.set_column(place, table.schema.field(name).with_type(column.type), column)


def judge_rules(
    rows: pa.Table,
    policy: Policy,
    *,
    purpose: str | None = None,
    timeout_s: float = TIMEOUT_S,
    engine: duckdb.DuckDBPyConnection | None = None,
) -> NDArray[np.uint8]:
    """Return what each rule says of each row: a line for each row, a column for each rule.

    0 it does not apply, 1 it applies, 2 it cannot be told and must not be approved over. One more
    column at the end: 0 everything asked for was answered, 1 something is open, 2 test mode.

    Raises:
        PolicyError: the policy has a mistake, or a condition takes too long.
    """
    compiled = _compiled(policy)
    pieces = [np.zeros((0, len(policy.rules) + 1), dtype=np.uint8)]
    with locked_engine() if engine is None else nullcontext(engine) as connection:
        for start in range(0, rows.num_rows, _SLICE_ROWS):
            part = _seen(rows.slice(start, _SLICE_ROWS), compiled, purpose)
            connection.register("rows", part)
            pieces.append(_judged(connection, compiled.query, timeout_s))
            connection.unregister("rows")
    return np.concatenate(pieces)


def applied_rules(
    row: pa.Table,
    policy: Policy,
    codes: Collection[str],
    *,
    purpose: str | None = None,
    engine: duckdb.DuckDBPyConnection | None = None,
) -> list[PolicyRule]:
    """Return the rules under some codes that apply to one row.

    No other rule is looked at: most of the time of judging one row goes into planning the query.

    Raises:
        PolicyError: the policy has a mistake, or a condition takes too long.
    """
    among = [place for place, rule in enumerate(policy.rules) if rule.code in codes]
    if not among:
        return []
    compiled = _compiled(policy)
    selected = ", ".join([*(compiled.verdicts[place] for place in among), _quoted(_PLACE)])
    with locked_engine() if engine is None else nullcontext(engine) as connection:
        connection.register("rows", _seen(row, compiled, purpose))
        (said,) = _judged(connection, f"SELECT {selected} FROM rows", TIMEOUT_S)  # noqa: S608 - from allowed trees only
        connection.unregister("rows")
    return [policy.rules[place] for place, word in zip(among, said, strict=True) if word == APPLIES]


def _judged(
    connection: duckdb.DuckDBPyConnection, query: str, timeout_s: float
) -> NDArray[np.uint8]:
    try:
        found = bounded(connection, query, timeout_s).fetchnumpy()
    except duckdb.Error as error:
        message = str(error).splitlines()[0]
        raise PolicyError(f"a condition of the policy cannot be evaluated: {message}") from None
    place = np.asarray(found.pop(_PLACE))
    judged = np.empty((len(found), len(place)), dtype=np.uint8)
    in_order = bool((place == np.arange(len(place))).all())
    for line, column in zip(judged, found.values(), strict=True):
        line[slice(None) if in_order else place] = column
    return judged.T


def _seen(rows: pa.Table, compiled: _Compiled, purpose: str | None) -> pa.Table:
    """Return the columns that a policy looks at, in the types its conditions were checked with."""
    columns = {_PLACE: pa.array(np.arange(rows.num_rows))}
    for name, kind in compiled.types.items():
        if name == PURPOSE:
            columns[name] = pa.array([purpose], kind).take(pa.array([0] * rows.num_rows))
        elif name in compiled.carried:
            columns[name] = carried_column(rows, name, compiled.carried[name])
        else:
            columns[name] = fitted(rows, name, kind)
    return pa.table(columns)


@lru_cache(maxsize=16)
def _compiled(policy: Policy) -> _Compiled:
    """Check a policy and write the query that judges rows by it."""
    conditions = check_rules(policy)
    if isinstance(conditions, str):
        raise PolicyError(f"the policy {policy.name}: {conditions}")
    own = {name: kind for name, kind in policy.carried_kinds.items() if name not in known_columns()}
    known = column_types(own)
    statuses = [f"{check}_status" for check in CHECKS]
    named = [name for condition in conditions for name in condition.columns]
    types = {name: known[name] for name in dict.fromkeys([*statuses, *named])}
    verdicts = [
        f"{_verdict(rule.effect, condition)} AS rule_{number}"
        for number, (rule, condition) in enumerate(zip(policy.rules, conditions, strict=True))
    ]
    selected = ", ".join([*verdicts, f"{_evidence(statuses)} AS evidence", _quoted(_PLACE)])
    query = f"SELECT {selected} FROM rows"  # noqa: S608 - from allowed trees only
    return _Compiled(types, query, tuple(verdicts), own)


def _verdict(effect: Effect, condition: CheckedCondition) -> str:
    """Return SQL of what one rule says of a row.

    The condition is guarded for each row: 0 and 1 as it holds or not, 2 where it is null, 3 where
    it fails, as a cast of a word to a number does.
    """
    guarded = f"TRY(COALESCE(CAST(({condition.sql}) AS UTINYINT), 2::UTINYINT))"
    said = f"COALESCE({guarded}, 3::UTINYINT)"
    if effect is Effect.NOTE:
        return f"CAST({said} = 1 AS UTINYINT)"
    if effect is Effect.APPROVE:
        return f"CAST({said} = 1 AND NOT {_lacking(condition)} AS UTINYINT)"
    null = f"CASE WHEN {_explained(condition)} THEN {_NO} ELSE {_UNTOLD} END"
    cases = (
        f"CASE {said} WHEN 0 THEN {_NO} WHEN 1 THEN {_YES} WHEN 2 THEN {null} ELSE {_UNTOLD} END"
    )
    return f"CAST({cases} AS UTINYINT)"


def _lacking(condition: CheckedCondition) -> str:
    """Return SQL that tells whether a check the condition names has no answer."""
    return _any(
        f"COALESCE({check}_status IN {_listed(NO_ANSWER)}, true)"
        for check in sorted(condition.checks())
    )


def _explained(condition: CheckedCondition) -> str:
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
    if may_be_absent(name):
        return "true"
    check = check_columns().get(name)
    if check is None:
        return "false"
    return f"COALESCE({check}_status IN {_listed(SILENT)}, true)"


def _evidence(statuses: Iterable[str]) -> str:
    """Return SQL that tells whether everything asked for was answered."""
    names = list(statuses)
    test = _any(f"{name} = '{NoAnswer.TEST_MODE.value}'" for name in names)
    missing = _any(f"{name} IN {_listed(OPEN)}" for name in names)
    cases = f"CASE WHEN {test} THEN {_TEST} WHEN {missing} THEN {_OPEN} ELSE {_ANSWERED} END"
    return f"CAST({cases} AS UTINYINT)"


def _any(parts: Iterable[str]) -> str:
    return f"({' OR '.join(parts) or 'false'})"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _listed(words: Sequence[str]) -> str:
    return f"({', '.join(repr(word) for word in words)})"


def _patterns(judged: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the different lines of a table of judgements, and for each line which it is."""
    key = np.zeros(len(judged), dtype=np.int64)
    most = 1
    for column in judged.T:
        if most * _ANSWERS > _CLOSE_TO_FULL:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            most = len(judged) + 1
        key = key * _ANSWERS + column
        most *= _ANSWERS
    _, first, of_row = np.unique(key, return_index=True, return_inverse=True)
    return judged[first], of_row.astype(np.int64)


def _outcome(policy: Policy, pattern: Sequence[int]) -> tuple[Decision, list[str]]:
    """Return the decision and reasons for what the rules say of a row, decisive reasons first."""
    *said, evidence = pattern
    if evidence == _TEST:
        return Decision.UNDECIDED, []
    applies: dict[Effect, list[str]] = {effect: [] for effect in Effect}
    untold = False
    for rule, word in zip(policy.rules, said, strict=True):
        if word == _YES:
            applies[rule.effect].append(rule.code)
        untold |= word == _UNTOLD
    decision = Decision.UNDECIDED
    if applies[Effect.DECLINE]:
        decision = Decision.DECLINE
    elif applies[Effect.REVIEW]:
        decision = Decision.REVIEW
    elif applies[Effect.APPROVE] and evidence == _ANSWERED and not untold:
        decision = Decision.APPROVE
    shown = [Effect.DECLINE, Effect.REVIEW, Effect.NOTE]
    if decision is Decision.APPROVE:
        shown = [Effect.APPROVE, Effect.NOTE]
    reasons = [code for effect in shown for code in applies[effect]]
    return decision, list(dict.fromkeys(reasons))
