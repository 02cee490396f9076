"""What a session of commands needs on its table: files as users have them, and passwords received.

Everything is made up; the people are the simulator's.
"""

from __future__ import annotations

import base64
import csv
import json
import secrets
import shutil
import sys
from datetime import datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.clock import LAGOS
from tests.docs.blocks import blocks
from tests.docs.pages import ROOT

ROWS = 12


def lay_out(folder: Path) -> None:
    """Write the files that the pages name."""
    samples = folder / "data" / "samples"
    samples.mkdir(parents=True)
    (folder / "data" / "inbox").mkdir()
    (folder / "inbox").mkdir()
    customers = folder / "customers.csv"
    make_batch(customers, rows=ROWS, seed=1, damage_pct=0)
    _ask_for_loans(customers)
    for copy in ("borrowers.csv", "quarantine.csv", "data/samples/customers.csv"):
        shutil.copy(customers, folder / copy)
    _branch(customers, folder / "branch.csv")
    _loan_book(folder / "loan-book.csv")
    for name in ("old.toml", "new.toml"):
        shutil.copy(ROOT / "data" / "policy.toml", folder / name)
    mine = (
        (ROOT / "data" / "policy.toml").read_text("utf-8").replace('version = "', 'version = "my ')
    )
    (folder / "mine.toml").write_text(mine, encoding="utf-8")
    mapping = next(each for each in blocks() if "[columns]" in each.text)
    (folder / "mapping.toml").write_text(mapping.text, encoding="utf-8")
    (folder / "passphrase.txt").write_text("a walk by the lagoon\n", encoding="utf-8")
    new_key = base64.b64encode(secrets.token_bytes(32))
    (folder / "new.key").write_bytes(new_key + b"\n")
    (folder / "new.key").chmod(0o600)


def _ask_for_loans(customers: Path) -> None:
    """Let every customer ask for a loan: only such rows are offered one."""
    head, *rows = customers.read_text(encoding="utf-8").splitlines()
    lines = [f"{head},requested_amount", *(f"{row},100000" for row in rows), ""]
    customers.write_text("\n".join(lines), encoding="utf-8")


def _loan_book(path: Path) -> None:
    """Write a loan book of today: one loan for each of some customers."""
    today = datetime.now(LAGOS).date()
    rows = [
        f"LN-{number},CUST-{number:07d},{today},50000,{today + timedelta(days=30)},0,Active,{today}"
        for number in range(1, ROWS)
    ]
    head = "Loan ID,Customer ID,Disbursement Date,Loan Amount,Maturity Date,DPD,Loan Status,As At"
    path.write_text("\n".join([head, *rows, ""]), encoding="utf-8")


def _branch(customers: Path, path: Path) -> None:
    """Write customers under headings of another system."""
    with customers.open(encoding="utf-8", newline="") as file:
        rows = [
            {"Ref": row["customer_id"], "Given": row["first_name"], "Family": row["last_name"]}
            | {"BVN": row["bvn"], "Remarks": ""}
            for row in csv.DictReader(file)
        ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def receive_passwords(sandbox: str) -> None:
    """Write `otps.csv` from what the simulator sent the customers of `customers.csv`."""
    with urlopen(f"{sandbox}/_sandbox/otps") as answer:  # noqa: S310 - the simulator, on loopback
        sent = {each["bvn"]: each["otp"] for each in json.load(answer)["otps"]}
    with Path("customers.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["customer_id"], sent.get(row["bvn"])) for row in csv.DictReader(file)]
    lines = [f"{customer},{otp}" for customer, otp in rows if otp]
    Path("otps.csv").write_text("\n".join(["customer_id,otp", *lines, ""]), encoding="utf-8")


def take_list() -> None:
    """Copy the decision list and the notices of the newest run to where they would be worked on."""
    newest = max(Path("out").glob("*/decisions.xlsx"))
    shutil.copy(newest, "decisions.xlsx")
    shutil.copy(newest.with_name("notices.csv"), "notices.csv")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["passwords", url]:
            receive_passwords(url)
        case ["list"]:
            take_list()
