"""Row plans: what the end of a run needs of each row, sealed in the workspace chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.files.frame import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.files.workspace import Workspace
    from nightscreen.schemas.plan import CheckIdentity

ANSWERS_STAMP = b"answers"
"""Key in a row plan's schema for the stamp of the answers it was made with."""
_ROW_PLAN = "plan-{}-{:05d}"


def put_row_plan(
    space: Workspace, slot: CheckIdentity, number: int, found: pa.Table, stamp: str
) -> None:
    """Save a slot's part of a chunk's row plan.

    Args:
        space: the run's workspace.
        slot: the slot.
        number: the chunk's.
        found: what `plan.sql` says of the chunk's rows.
        stamp: of the journal's answers as they were then.
    """
    columns = {f"{slot.column}.{name}": plain(found[name]) for name in found.column_names}
    stamped = pa.table(columns).replace_schema_metadata({ANSWERS_STAMP: stamp})
    space.put(_ROW_PLAN.format(slot.file_name, number), stamped)


def read_row_plan(space: Workspace, slots: Sequence[CheckIdentity], number: int) -> pa.Table:
    """Return a chunk's row plan.

    Columns: for each slot `<slot>.why` int8, `<slot>.subject` binary(16), null where it is not
    asked, `<slot>.own` bool, true where the call is made in this row's name, and the latest
    answer as the arrays of `Latest`. The schema has the stamp of the journal's answers.
    """
    parts = [space.get(_ROW_PLAN.format(slot.file_name, number)) for slot in slots]
    columns = {name: part[name] for part in parts for name in part.column_names}
    return pa.table(columns).replace_schema_metadata(parts[0].schema.metadata)
