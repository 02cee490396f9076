"""Row plans: what the end of a run needs of each row, sealed in the workspace chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.files.frame import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.files.workspace import Workspace
    from nightscreen.schemas.plan import CheckIdentity

_ROW_PLAN = "plan-{}-{:05d}"


def put_row_plan(space: Workspace, slot: CheckIdentity, number: int, found: pa.Table) -> None:
    """Save what `plan.sql` found of a slot and the rows of a chunk, by the chunk's number."""
    columns = {f"{slot.column}.{name}": plain(found[name]) for name in found.column_names}
    space.put(_ROW_PLAN.format(slot.file_name, number), pa.table(columns))


def read_row_plan(space: Workspace, slots: Sequence[CheckIdentity], number: int) -> pa.Table:
    """Return a chunk's row plan.

    Columns: for each slot `<slot>.why` int8, `<slot>.subject` binary(16), null where it is not
    asked, and `<slot>.own` bool, true where the call is made in this row's name.
    """
    parts = [space.get(_ROW_PLAN.format(slot.file_name, number)) for slot in slots]
    return pa.table({name: part[name] for part in parts for name in part.column_names})
