"""`nightscreen transactions`: transactions and accounts of customers who consented, by hand.

The flows themselves are in `flows.pull_transactions`. Customers are turned into grants here, since
the engine stores in clear what it is given.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import Result, command, group, read_options
from nightscreen.cli.engine import ran, settings_for_calls
from nightscreen.cli.journal_context import opened_journal
from nightscreen.cli.output import counted, print_run
from nightscreen.journal.consents import Consents
from nightscreen.operations.transactions.pull import pull_of, scope_of
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.pulls import PullAccounts, PulledKind, PullTransactions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

app = group("Transactions of customers who consented.")


def print_pull(report: Mapping[str, Any], output: Path | str) -> None:
    """Print how a pull ended, and where its files are."""
    kinds = [kind for kind in PulledKind if kind.folder in report]
    customers = {name: number for name, number in report["customers"].items() if name != "due"}
    pulled = f"{customers.pop('pulled'):,} pulled"
    files = [report[kind.folder]["file"] for kind in kinds if report[kind.folder]["file"]]
    rejected = report["rows"]["quarantined"]
    values = {
        "customers": ", ".join(filter(None, [pulled, counted(customers)])),
        kinds[0].folder: counted(report["changes"], "nothing new"),
        "quarantine": f"{rejected:,} records could not be read" if rejected else "",
        "written to": [str(Path(output) / file) for file in files],
    }
    what = "" if kinds[0] is PulledKind.TRANSACTION else " --accounts"
    print_run("Pull", report, output, values, f"nightscreen transactions pull{what}")


@command(
    "transactions pull --customer CUST-0000004 --output out",
    of=app,
    name="pull",
    view=print_pull,
    leave_out=("grants",),
)
def pull(
    parameters: PullTransactions,
    customer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CUSTOMER_ID",
            help="Pull this customer alone; may be given again. Without: every live grant.",
        ),
    ] = None,
    accounts: Annotated[
        bool,
        typer.Option(
            "--accounts",
            help="Pull linked accounts and balances instead, and the profile where it was granted.",
        ),
    ] = False,
) -> Result:
    """Pull transactions; report what was added, modified and removed since the last pull."""
    settings_for_calls()
    if customer and parameters.run:
        raise UsageError("--run takes an earlier pull up with its own customers; leave --customer")
    model = PullAccounts if accounts else PullTransactions
    given = parameters.model_dump(exclude_unset=True)
    wanted = read_options(model, {**given, "grants": _grants(model, customer) if customer else []})
    name = "pull_accounts" if accounts else "pull_transactions"
    return ran(f"pull_transactions:{name}", wanted, print_pull)


def _grants(model: type[PullTransactions], customers: Sequence[str]) -> list[str]:
    """Return the customers' live grants.

    Raises:
        InputError: one of them has none; it is named by its position, because an id may be
            personal.
    """
    found = []
    scope = scope_of(pull_of(model()).kinds[0])
    with opened_journal() as journal:
        consents = Consents.of(journal)
        for place, customer in enumerate(dict.fromkeys(customers), start=1):
            grant = next(iter(consents.history(customer)), None)
            if grant is None or not grant.allows(scope):
                state = "never consented" if grant is None else f"has a grant that is {grant.state}"
                if grant is not None and grant.state == "live":
                    state = f"did not grant {scope}"
                raise InputError(
                    f"customer number {place} of those given {state}; ask for consent with: "
                    f"nightscreen consent link CUSTOMER_ID --scope {scope}"
                )
            found.append(grant.grant_id)
    return found
