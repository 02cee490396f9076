"""One person in files: the rows, cells and pseudonyms that identify them.

`KnownPerson` collects identifiers as `erasure` finds their rows; `InRun` makes filters for the
files of one run. Nothing is changed here.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from nightscreen.files.outputs import Whose, declared_as
from nightscreen.files.run_folder import RowFilter, read_columns
from nightscreen.journal.audit import Audit
from nightscreen.journal.schema import ErasedPseudonyms
from nightscreen.privacy.given_files import ID_COLUMN, GivenFileMatcher
from nightscreen.privacy.lookup_subject import subjects_of
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.schemas.columns import CUSTOMERS, IDENTIFIERS, LOAN_DAYS
from nightscreen.schemas.consented import PULLS as TRANSACTIONS
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.outcomes import OUTCOMES_BATCH, OUTCOMES_FLOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord

IDENTIFYING = (ID_COLUMN, *(name for each in IDENTIFIERS.values() for name in each.columns))
_SHARED = ("bvn", "phone", "email", "domain")
_ACCOUNT = ("bank_code", "account_number")


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """The person to erase: a customer (in one batch or in all), a BVN, or both."""

    # as the lender gives it; empty if only a BVN is given
    customer_id: str = field(default="", repr=False)
    batch: str = ""  # the batch of the customer; empty for every one
    # every row with this BVN is erased; empty if only a customer is given
    bvn: str = field(default="", repr=False)

    def named_in(self, batch: str) -> bool:
        """Return whether the customer id is this person's in a batch."""
        return bool(self.customer_id) and self.batch in ("", batch)

    def rows_of(self, batch: str) -> RowFilter:
        """Return a filter for this person among unencrypted rows of a batch."""
        ids = {(self.customer_id,)} if self.named_in(batch) else set()
        return RowFilter([((ID_COLUMN,), ids), (("bvn",), {(self.bvn,)} if self.bvn else set())])


@dataclass(slots=True)
class KnownPerson:
    """The known identifiers of a person."""

    whom: ErasureTarget  # the person to erase
    journal: Journal = field(repr=False)  # the journal, which makes pseudonyms
    # batch and customer id of the person's data
    customers: set[tuple[str, str]] = field(default_factory=set, repr=False)
    # the person's identifiers by column; an account as `bank-number`
    values: dict[str, set[str]] = field(default_factory=dict, repr=False)
    subjects: set[bytes] = field(default_factory=set, repr=False)  # pseudonyms of the identifiers

    @property
    def names(self) -> Pseudonyms:
        """Return the journal's pseudonyms."""
        return self.journal.pseudonyms

    def pseudonyms(self) -> ErasedPseudonyms:
        """Return all pseudonyms of the person, including those in the audit."""
        anywhere: dict[bytes, set[str]] = {}
        for batch, customer in self.customers:
            anywhere.setdefault(self.names.customers_anywhere([customer]), set()).add(batch)
        pulled = [name for name, batches in anywhere.items() if TRANSACTIONS in batches]
        mine = [self.names.customer(*each) for each in sorted(self.customers)]
        ids = {*(customer for _, customer in self.customers), self.whom.customer_id} - {""}
        audited = [Audit(self.journal).customer(each) for each in sorted(ids)]
        return ErasedPseudonyms({*self.subjects, *pulled}, [*mine, *pulled], anywhere, audited)

    def add_identifiers(self, rows: Iterable[Mapping[str, Any]], batch: str) -> None:
        """Add the identifiers in some of the person's rows."""
        for row in rows:
            self.subjects.update(subjects_of([row], self.names))
            if row.get(ID_COLUMN):
                self.customers.add((batch, row[ID_COLUMN]))
            for name in _SHARED:
                if row.get(name):
                    self.values.setdefault(name, set()).add(row[name])
            if all(row.get(name) for name in _ACCOUNT):
                account = "-".join(row[name] for name in _ACCOUNT)
                self.values.setdefault("account", set()).add(account)

    def as_given(
        self, batch: str, run: RunRecord | None = None, ids: set[str] | None = None
    ) -> GivenFileMatcher:
        """Return a matcher for the person in the lender's own files.

        Args:
            batch: the batch of the ids.
            run: the run that read the file, if one did.
            ids: the person's customer ids; by default all known ones of the batch.
        """
        if ids is None:
            ids = {customer for name, customer in self.customers if name == batch}
        known = ids | ({self.whom.customer_id} if self.whom.named_in(batch) else set())
        kind = LOAN_DAYS if run is not None and run.flow == OUTCOMES_FLOW else CUSTOMERS
        mapping = None
        with suppress(SettingsError):  # the lender may have moved it since
            if run is not None and (given := run.parameters.get("mapping")):
                mapping = read_mapping(Path(given), kind)
        return GivenFileMatcher(known, {"bvn": {self.whom.bvn} - {""}}, self.values, kind, mapping)


@dataclass(frozen=True, slots=True)
class InRun:
    """A person's identifiers in the files of one run."""

    run: RunRecord
    person: KnownPerson
    ids: set[str] = field(repr=False)  # the person's customer ids in the run's lists

    @classmethod
    def of(cls, run: RunRecord, person: KnownPerson) -> InRun:
        """Find the ids, except ids with another BVN in this run: it may have been corrected.

        A run of loan outcomes has customers of every batch.
        """
        anywhere = run.batch == OUTCOMES_BATCH
        ids = {customer for batch, customer in person.customers if anywhere or batch == run.batch}
        if person.whom.bvn and ids:
            mine = person.whom.rows_of(run.batch)
            named = RowFilter([((ID_COLUMN,), {(each,) for each in ids})])
            for part in parts_in_clear(run):
                rows = read_columns(part, IDENTIFYING)
                others = pc.and_(named.of_rows(rows), pc.invert(mine.of_rows(rows)))
                ids -= set(rows.filter(others)[ID_COLUMN].to_pylist())
        return cls(run, person, ids)

    def filter(self, whose: Whose) -> RowFilter | GivenFileMatcher:
        """Return a filter for the person in a file of the run."""
        person, names, column = self.person, self.person.names, (whose.value,)
        if whose is Whose.IN_CLEAR:
            return person.whom.rows_of(self.run.batch)
        if whose is Whose.AS_GIVEN:
            return person.as_given(self.run.batch, self.run, self.ids)
        if whose is Whose.BY_CALL:
            subjects = person.pseudonyms().subjects
            return RowFilter([(column, {(each.hex(),) for each in subjects})])

        def named(batch: str, customer_id: str) -> list[str]:
            if whose is Whose.LISTED:
                return [customer_id]
            both = (names.customer(batch, customer_id), names.customers_anywhere([customer_id]))
            return [each.hex() for each in both]

        pairs = {(batch, each) for batch, one in person.customers for each in named(batch, one)}
        mine = {(each,) for one in self.ids for each in named(self.run.batch, one)}
        return RowFilter([(("batch", *column), pairs), (column, mine)])


def parts_in_clear(run: RunRecord) -> list[Path]:
    """Return the tables of a run with customer ids and unencrypted identifiers."""
    declared = declared_as(Whose.IN_CLEAR)
    return [part for each in declared for part in each.files(Path(run.folder))]
