"""`nightscreen transactions`: what customers who consented let us see, by hand.

The flows themselves are in `flows.pull_transactions`. Customers are turned into grants here, since
the engine stores in clear what it is given.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs
from nightscreen.cli.options import Options, options_of, read_options
from nightscreen.cli.output import show
from nightscreen.schemas.pulls import PullAccounts, PulledKind, PullTransactions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

transactions_app = typer.Typer(
    help="Transactions of customers who consented.", no_args_is_help=True
)
CustomerOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CUSTOMER_ID",
        help="Pull this customer alone; may be given again. Without: every live grant.",
    ),
]


@transactions_app.callback()
def _transactions() -> None:
    """Transactions of customers who consented."""


@transactions_app.command(
    "pull", epilog="Example: nightscreen transactions pull --customer CUST-0000004 --output out"
)
@options_of(PullTransactions, leave_out=("grants",))
def transactions_pull(
    options: Options,
    customer: CustomerOption = None,
    accounts: Annotated[
        bool,
        typer.Option(
            "--accounts",
            help="Pull linked accounts and balances instead, and the profile where it was granted.",
        ),
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Pull transactions; report what was added, modified and removed since the last pull."""
    model = PullAccounts if accounts else PullTransactions
    parameters = partial(_parameters, model, options, customer or [])
    raise typer.Exit(pull(parameters, json_output=json_output))


def pull(read: Callable[[], PullTransactions], *, json_output: bool) -> int:
    """Run a flow by hand and return the exit status.

    Args:
        read: reads the options, once logs and settings are there.
        json_output: print the report as JSON.
    """
    from nightscreen.cli.api_run import run_flow
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.runs.run import require_service
    from nightscreen.tasks.logs import set_up_logs

    settings = settings_of_command()
    set_up_logs(settings.log_format)
    require_service(settings, quote_only=False)
    parameters = read()

    async def make() -> Any:  # noqa: ANN401 - the report, or the engine's state
        from nightscreen.flows.pull_transactions import pull_accounts, pull_transactions

        if isinstance(parameters, PullAccounts):
            return await pull_accounts(parameters)
        return await pull_transactions(parameters)

    return run_flow(
        make, lambda report: print_pull(report, Path(parameters.output)), json_output=json_output
    )


def _parameters(
    model: type[PullTransactions], options: Mapping[str, Any], customers: Sequence[str]
) -> PullTransactions:
    from nightscreen.schemas.errors import UsageError

    if customers and options.get("run"):
        raise UsageError("--run takes an earlier pull up with its own customers; leave --customer")
    grants = _grants(model, customers) if customers else []
    return read_options(model, {**options, "grants": grants})


def _grants(model: type[PullTransactions], customers: Sequence[str]) -> list[str]:
    """Return the customers' live grants.

    Raises:
        InputError: one of them has none; it is named by its position, because an id may be
            personal.
    """
    from nightscreen.cli.journal_context import opened_journal
    from nightscreen.journal.vault import Vault
    from nightscreen.operations.transactions.sync import kind_of, scope_of
    from nightscreen.schemas.errors import InputError

    found = []
    scope = scope_of(kind_of(model()))
    with opened_journal() as journal:
        vault = Vault.of(journal)
        for place, customer in enumerate(dict.fromkeys(customers), start=1):
            grant = vault.find(customer)
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


def print_pull(report: Mapping[str, Any], output: Path) -> None:
    """Print how a pull ended, and where its files are."""
    reason = f" ({report['stop_reason']})" if report["stop_reason"] else ""
    typer.echo(f"Pull {report['run_id']} {report['state']}{reason}")
    customers, changes = report["customers"], report["changes"]
    others = (
        f"{name.replace('_', ' ')} {number:,}"
        for name, number in customers.items()
        if number and name not in {"due", "pulled"}
    )
    show("customers", ", ".join([f"{customers['pulled']:,} pulled", *others]))
    counted = (f"{name.replace('_', ' ')} {number:,}" for name, number in changes.items() if number)
    written = [kind for kind in PulledKind if kind.folder in report]
    show(written[0].folder, ", ".join(counted) or "nothing new")
    if report["rows"]["quarantined"]:
        show("quarantine", f"{report['rows']['quarantined']:,} records could not be read")
    for notice in report["notices"]:
        show("notice", notice)
    for kind in written:
        if report[kind.folder]["file"]:
            show("written to", str(output / report[kind.folder]["file"]))
    show("results", str(output / report["run_id"]))
    if report["state"] == "stopped":
        accounts = " --accounts" if written[0] is not PulledKind.TRANSACTION else ""
        command = f"nightscreen transactions pull{accounts}"
        show("next", f"{command} --run {report['run_id']} --output {output}")
