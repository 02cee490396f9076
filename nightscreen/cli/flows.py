"""`nightscreen bvn`, `loans`, `transactions`, `inbox`, `consent`.

A password is never an option: shells save what was typed. Customers are turned into grants or
recorded in the journal before a flow starts, because the engine stores its parameters in plain
text. Output shows customer ids, never tokens or codes.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow.parquet as pq
import typer

from nightscreen.cli.command import CustomerArgument, Result, command, group
from nightscreen.cli.context import opened_journal, require_consent, settings_of_command
from nightscreen.cli.engine import run_as_command, run_flow, settings_for_calls
from nightscreen.cli.output import lagos_time, say
from nightscreen.client.wire import consent_address, read_scopes
from nightscreen.config.parameters import WatchInbox
from nightscreen.files.outputs import LOANS_FILE
from nightscreen.journal import journal_of
from nightscreen.journal.consents import Consents
from nightscreen.operations.bvn import BvnConfirmations, BvnRequests
from nightscreen.operations.consent_links import (
    ConsentLinks,
    consume_manual_state,
    grant_rows,
    read_code,
)
from nightscreen.operations.consent_links import redeem as redeem_code
from nightscreen.operations.consent_links import revoke as revoke_grant
from nightscreen.operations.loans import LoanOffers, LoanTracking, list_products
from nightscreen.operations.person_run import PersonRun, run_people
from nightscreen.operations.pull import AccountPull, TransactionPull, scope_of
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.consented import GrantState, PullTransactions
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.offers import OfferLoans, TrackLoans
from nightscreen.schemas.stops import REFUSALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.config.settings import Settings
    from nightscreen.schemas.api_runs import ApiRunParameters


bvn = group("bvn", "BVN consent: request one-time passwords, confirm.")
loans = group("loans", "Loan products, offers and tracking.")
transactions = group("transactions", "Transactions of customers who consented.")
_LOAN = ("reference", "product_id", "state", "status", "status_at", "loan_amount", "paid")


@command("bvn request customers.csv", of=bvn, view="person-run")
def request(parameters: RequestBvns) -> Result:
    """Have the service send a one-time password to each customer of a file."""
    return run_or_quote(BvnRequests, parameters, settings_for_calls())


@command("bvn confirm otps.csv --max-spend 5000", of=bvn, view="person-run")
def confirm(parameters: ConfirmBvns) -> Result:
    """Confirm BVNs with the passwords customers supplied; each confirmation is charged."""
    return run_or_quote(BvnConfirmations, parameters, settings_for_calls())


def run_or_quote(
    kind: type[PersonRun[Any, Any]], parameters: ApiRunParameters, settings: Settings
) -> Result:
    """Start the run's flow; a quote and mistakes in the input need no engine."""
    if parameters.quote_only:
        return Result(asyncio.run(run_people(kind, parameters, settings)), view="person-quote")
    parameters = kind.check(parameters, settings)
    result = run_as_command(f"people:{kind.flow}", parameters)._replace(view="person-run")
    report = result.document
    if REFUSALS["distributor"] in report["notices"]:  # repeated on stderr
        typer.echo(f"nightscreen: {REFUSALS['distributor']}", err=True)
    if kind is not LoanTracking:
        return result
    return result._replace(document=with_loans(report, Path(parameters.output, report["run_id"])))


KINDS: dict[str, type[PersonRun[Any, Any]]] = {
    kind.flow: kind
    for kind in (
        *(BvnRequests, BvnConfirmations, LoanOffers, LoanTracking),
        *(TransactionPull, AccountPull),
    )
}


@command("loans products --json", of=loans, view="products")
def products() -> dict[str, Any]:
    """List the active loan products; free."""
    catalogue = asyncio.run(list_products(settings_for_calls()))
    return {"products": [product.model_dump(mode="json") for product in catalogue.products]}


@command("loans offer out/20260301-220000-a1b2c3 --product LP1001", of=loans, view="person-run")
def offer(parameters: OfferLoans) -> Result:
    """Make one application link for each approved customer; another run never makes a second."""
    return run_or_quote(LoanOffers, parameters, settings_for_calls())


@command("loans track --json", of=loans, view="person-run")
def track(parameters: TrackLoans) -> Result:
    """Ask about every open loan; report its state and what has changed."""
    return run_or_quote(LoanTracking, parameters, settings_for_calls())


def with_loans(report: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a report with each loan's reference and status, from the run's folder.

    The report itself has numbers only: references belong to people, and would stay in the journal
    and the engine after a person was erased.
    """
    rows = pq.read_table(folder / LOANS_FILE, columns=list(_LOAN)).to_pylist()
    return {**report, "loans": [{name: _plain(row[name]) for name in _LOAN} for row in rows]}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any cell of the table
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value) if isinstance(value, Decimal) else value


@command(
    "transactions pull --customer CUST-0000004 --output out",
    of=transactions,
    view="person-run",
    leave_out=("grants",),
)
def pull(
    parameters: PullTransactions,
    customer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CUSTOMER_ID",
            help="Pull only this customer; may be repeated. Default: every live grant.",
        ),
    ] = None,
    accounts: Annotated[
        bool,
        typer.Option(
            "--accounts",
            help="Pull linked accounts and balances instead, and the profile if it was granted.",
        ),
    ] = False,
) -> Result:
    """Pull transactions; report what was added, modified and removed since the last pull."""
    settings = settings_for_calls()
    if customer and parameters.run:
        raise UsageError("--run takes an earlier pull up with its own customers; leave --customer")
    kind = AccountPull if accounts else TransactionPull
    grants = _grants(settings, scope_of(kind.kinds[0]), customer) if customer else []
    return run_or_quote(kind, parameters.model_copy(update={"grants": grants}), settings)


def _grants(settings: Settings, scope: str, customers: Sequence[str]) -> list[str]:
    """Return the customers' live grants.

    Raises:
        InputError: a customer has none; the text gives the position, because an id may be personal.
    """
    grant_ids = []
    with opened_journal(settings) as journal:
        consents = Consents(journal)
        for position, customer in enumerate(dict.fromkeys(customers), start=1):
            grant = next(iter(consents.history(customer)), None)
            if grant is None or not grant.allows(scope):
                state = "never consented" if grant is None else f"has a grant that is {grant.state}"
                if grant is not None and grant.state == "live":
                    state = f"did not grant {scope}"
                raise InputError(
                    f"customer number {position} of those given {state}; ask for consent with: "
                    f"nightscreen consent link CUSTOMER_ID --scope {scope}"
                )
            grant_ids.append(grant.grant_id)
    return grant_ids


@command("inbox --once --max-spend 250000", view="inbox", leave_out=("minutes",))
def inbox(
    parameters: WatchInbox,
    once: Annotated[
        bool, typer.Option("--once", help="Screen the files that are there now, then end.")
    ] = False,
) -> Result:
    """Screen each file that is dropped into the inbox, once."""
    settings = settings_for_calls()
    if not once:
        say(f"Watching {settings.inbox.absolute()}; Ctrl-C ends it.")
    watch = run_flow("watch_inbox:keep_watch", parameters, forever=not once, tell=say, shown=False)
    return Result(dict(watch.fates), more={"fates": watch.fates})


# --- consents ---

consent = group("consent", "Customers' consent to share transactions.")
_AGAIN = "ask the customer to consent again"
_ENDINGS = {
    "nothing_granted": (2, "the customer granted nothing of what was asked; nothing was kept"),
    "code_refused": (2, f"the code was used, has expired or is for another address; {_AGAIN}"),
    "in_doubt": (3, f"the answer was lost and the code may be used up; {_AGAIN}"),
    "busy": (3, "the service could not be reached or had no time; try the code again at once"),
    "capped": (3, "a spending cap leaves no room for the call; nothing was sent"),
    "key_refused": (3, "the wallet is too low for the call; top it up"),
    "test_mode": (4, "the service is in test mode; nothing was kept"),
}


@command("consent link CUST-0000004 --scope transaction:list", of=consent, view="consent-link")
def link(
    customer_id: CustomerArgument,
    scope: Annotated[
        list[str], typer.Option(help="What to ask for, such as transaction:list; may be repeated.")
    ],
) -> dict[str, Any]:
    """Print the link to give to a customer; nothing is sent."""
    settings = settings_of_command()
    require_consent(settings)
    from nightscreen.portal.app import place_of  # no other command here needs pages

    scopes, place = read_scopes(scope), place_of(settings)
    by_portal = bool(place.callback_path)
    with journal_of(settings) as journal:
        made = ConsentLinks(journal).make(customer_id, scopes, direct=not by_portal)
    address = f"{place.origin}/consent/{made.token}"
    if not by_portal:
        address = consent_address(
            settings.consent_url,
            client_id=settings.client_id,
            redirect_uri=settings.redirect_uri,
            scopes=scopes,
            state=made.token,
        )
    until = instant_text(made.expires_at)
    say(
        f"It works until {lagos_time(until)} in Lagos, or until the customer has consented; its "
        f"reference is {made.reference}. Give it to this customer only."
    )
    return {
        "link": address,
        "reference": made.reference,
        "customer_id": customer_id,
        "scopes": [*scopes],
        "expires_at": until,
        "leads_to": "portal" if by_portal else "consent_screen",
    }


@command("consent redeem --customer CUST-0000004 --code CODE", of=consent, view="consent-redeemed")
def redeem(
    customer: Annotated[str, typer.Option(help="Whose consent it is.")],
    code: Annotated[
        str,
        typer.Option(help="Code from the redirect, or its whole address; - reads it from stdin."),
    ],
) -> Result:
    """Exchange a code by hand, where no portal takes the redirect; a code works once."""
    settings = settings_of_command()
    require_consent(settings)
    bare_code, state = read_code(sys.stdin.readline() if code == "-" else code)
    with journal_of(settings) as journal:
        asked = consume_manual_state(journal, customer, state)
        redeemed = asyncio.run(redeem_code(journal, settings, asked, bare_code, channel="by hand"))
    status, sentence = _ENDINGS.get(redeemed.ending.value, (0, ""))
    if redeemed.trouble in REFUSALS:  # the same text for these as everywhere else
        status, sentence = (2 if redeemed.trouble == "address" else 3), REFUSALS[redeemed.trouble]
    document: dict[str, Any] = {
        "customer_id": customer,
        "result": redeemed.ending.value,
        "scopes": [] if redeemed.grant is None else list(redeemed.grant.scopes),
        "not_granted": list(redeemed.missing),
    }
    if status:
        say(f"nightscreen: {sentence}")
        document |= {"error": sentence, "exit_status": status, "trouble": redeemed.trouble}
    return Result(document, status)


@command("consent list --state live --json", of=consent, view="consents")
def list_(
    state: Annotated[
        str, typer.Option(help="Only consents that are live, lapsed or revoked.")
    ] = "",
) -> dict[str, Any]:
    """List customers' consents, newest first: scopes, state and age, without tokens."""
    if state and state not in tuple(GrantState):
        raise UsageError(f"--state: {state} is none of {', '.join(GrantState)}")
    with opened_journal() as journal:
        rows = grant_rows(journal, state=GrantState(state) if state else None)
    return {"grants": rows, "count": len(rows)}


@command("consent revoke CUST-0000004", of=consent, view="consent-revoked")
def revoke(customer_id: CustomerArgument) -> dict[str, Any]:
    """Revoke a consent: it is no longer used and its tokens are destroyed."""
    with opened_journal() as journal:
        return revoke_grant(journal, customer_id)
