"""An approval of a file that was brought to the desk: a lower cap is quoted on the sealed file."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from nightscreen.desk.accounts import Role
from nightscreen.files.sealed_file import unsealed
from nightscreen.reading.open_file import file_digest
from nightscreen.runs.screening import quote_batch
from nightscreen.schemas.money import to_micro
from tests.desk.office import Office
from tests.desk.test_new_file import HEADINGS, bring, understood, workbook

if TYPE_CHECKING:
    from pathlib import Path

RUN = "20260301-220000-a1b2c3"


@pytest.mark.parametrize("name", ["c0ffee" * 5 + "ab", "a08031234567" + "b" * 20])
def test_lower_cap_is_quoted_on_the_sealed_file_and_a_refusal_removes_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The amount is answered beside the form; who refuses sends the file away at once.

    Ids of uploads are drawn, and none may look like somebody's phone number.
    """
    chosen = SimpleNamespace(token_hex=lambda _: name)
    monkeypatch.setattr("nightscreen.desk.uploads.secrets", chosen)
    with Office(tmp_path) as office:
        analyst = office.browser("analyst", name="Ada")
        address = bring(analyst, workbook()).headers["location"]
        means = understood(analyst.get(address).text) | {"Ref": "customer_id"}
        fields = {f"h{at}": means[heading] for at, heading in enumerate(HEADINGS)}
        analyst.post(f"{address}/quote", heading=list(HEADINGS), **fields)
        upload = office.context.uploads.find(address.rpartition("/")[2])
        assert upload is not None
        parameters = office.context.uploads.parameters(upload)
        path = office.context.uploads.path(upload.upload_id)
        with unsealed(path, office.journal.sealer) as clear:
            digest = file_digest(clear)
        office.journal.runs.begin(
            RUN,
            flow="screen_batch",
            batch="applicants",
            purpose="portfolio",
            input_digest=digest,
            folder=str(tmp_path / "out" / RUN),
            cap_micro=None,
            parameters=parameters.model_dump(exclude={"run", "yes", "quote_only"}),
        )
        office.journal.runs.finish(RUN, state="stopped", stop_reason="approval", report={})
        quote = quote_batch(parameters, office.settings)
        office.context.approvals.ask(
            RUN,
            by="root",
            reason="quoted above what is usual",
            quote=quote,
            ceiling_micro=to_micro(Decimal(quote["quoted"]["high"])),
            cap_micro=None,
        )
        approver = office.browser("approver")
        office.browser("approver", name="Bem")
        office.context.accounts.change("Ada", [Role.APPROVER])
        bem = office.context.accounts.find("Bem")
        assert bem is not None
        office.context.accounts.confirm("Ada", bem)
        assert "You asked for this yourself" in analyst.get("/approvals").text
        assert analyst.get(address).headers["location"] == f"/runs/{RUN}"
        assert "asked by Ada" in approver.get("/approvals").text
        answer = approver.get(f"/approvals/{RUN}/amount?max_spend=20")
        assert answer.status_code == 200, answer.text
        assert ">Spend up to ₦20</button>" in answer.text
        approver.post(f"/approvals/{RUN}", do="refuse")
        assert not path.exists()
