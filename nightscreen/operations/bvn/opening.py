"""Opening runs of BVN consent: parameters as a run is remembered by, and how its input is known.

A file of passwords is known by a keyed digest alone: from a plain one its few digits could be
guessed. The runs themselves are `requesting` and `confirming`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nightscreen.journal import journal_of
from nightscreen.journal.bvn_consents import BvnConsents
from nightscreen.journal.opening import journal_exists
from nightscreen.reading.open_file import file_digest
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.schemas.clock import Clock

P = TypeVar("P", RequestBvns, ConfirmBvns)
_PATHS = ("input", "mapping", "output")
_NOT_KEPT = frozenset({"run", "deadline", "quote_only"})


def remembered(parameters: P, settings: Settings, flow: str, *, clock: Clock) -> P:
    """Return parameters with paths that hold from any folder, those of a resumed run filled in.

    Raises:
        InputError: no input was given, and no earlier run has one.
    """
    values = {name: getattr(parameters, name) for name in parameters.model_fields_set}
    if parameters.run and journal_exists(settings.home, settings.journal_url):
        with journal_of(settings, clock=clock) as journal:
            earlier = journal.runs.find(parameters.run)
        if earlier is not None and earlier.flow == flow:
            kept = {k: v for k, v in earlier.parameters.items() if k not in _NOT_KEPT}
            values = {**kept, **values}
    found = type(parameters).model_validate(values)
    if not found.input and not found.run:
        raise InputError("no input file was given; name a CSV, XLSX or Parquet file")
    absolute = {
        name: str(Path(getattr(found, name)).absolute()) for name in _PATHS if getattr(found, name)
    }
    return found.model_copy(update=absolute)


def keyed_digest(journal: Journal, path: Path) -> str:
    """Return the digest of a file of passwords under the journal's key.

    Raises:
        InputError: the file cannot be read.
    """
    return f"keyed:{journal.pseudonyms.subject('file of passwords', file_digest(path)).hex()}"


def batch_asked(journal: Journal, customer_ids: Iterable[str]) -> str:
    """Return the one batch name that some customers were asked in; empty where there is none."""
    names = [journal.pseudonyms.customers_anywhere([customer_id]) for customer_id in customer_ids]
    batches = {request.batch for request in BvnConsents.of(journal).current(names).values()}
    return batches.pop() if len(batches) == 1 else ""
