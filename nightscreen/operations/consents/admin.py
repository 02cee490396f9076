"""Consents at the lender's desk: a redirect read by hand, grants listed, a grant revoked.

The pages customers meet use none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from nightscreen.journal.consents import Consents
from nightscreen.operations.consents.links import AskedConsent, ConsentLinks, Refusal
from nightscreen.schemas.clock import DAY_MICROS, instant_text
from nightscreen.schemas.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nightscreen.journal import Journal
    from nightscreen.schemas.consented import GrantState

TOOK_BACK = "taken back"
_REFUSED = {
    Refusal.TAMPERED: "its state was not made here or was changed on the way",
    Refusal.UNKNOWN: "its state is not known here",
    Refusal.USED: "it was used already",
    Refusal.EXPIRED: "it has expired",
}


def read_code(text: str) -> tuple[str, str]:
    """Return the code of a redirect, given alone or as the whole address, and its state if any.

    Raises:
        InputError: the customer did not allow it, or there is no code.
    """
    text = text.strip()
    if "://" not in text and "?" not in text:
        if not text or any(sign in text for sign in " =&"):
            raise InputError("--code: give the code alone, or the whole address of the redirect")
        return text, ""
    given = dict(parse_qsl(urlsplit(text).query))
    if "error" in given:
        denied = given["error"] == "access_denied"
        raise InputError(
            "the customer did not allow it; nothing was kept"
            if denied
            else "the consent screen reported an error instead of a code; nothing was kept"
        )
    if not given.get("code"):
        raise InputError(
            "--code: the address holds no code; copy it whole, with what follows the ?"
        )
    return given["code"], given.get("state", "")


def asked_by_hand(
    journal: Journal, customer_id: str, state: str, scopes: Iterable[str]
) -> AskedConsent:
    """Return what a customer was asked for, whose code an operator brings.

    Args:
        journal: where the state of a redirect is used up.
        customer_id: the customer, according to the operator.
        state: as it came back with the code; empty where there is none.
        scopes: the requested scopes, if the operator knows; a state made here knows better.

    Raises:
        InputError: the state does not work, or belongs to another customer.
    """
    if not state:
        return AskedConsent(customer_id, tuple(scopes))
    asked = ConsentLinks(journal).read_by_hand(state, customer_id)
    if asked is Refusal.OTHER_CUSTOMER:
        raise InputError("this redirect belongs to another customer than --customer names")
    if isinstance(asked, Refusal):
        raise InputError(
            f"this redirect does not work: {_REFUSED[asked]}; ask the customer to consent again, "
            "or, if you are sure whose it is, give its code alone"
        )
    return asked


def grant_rows(journal: Journal, *, state: GrantState | None = None) -> list[dict[str, Any]]:
    """Return every grant, newest first, without its tokens; the customer's id is in clear."""
    now = journal.clock()
    return [
        {
            "customer_id": grant.customer_id,
            "state": grant.state.value,
            "reason": grant.reason,
            "scopes": list(grant.scopes),
            "asked_scopes": list(grant.asked_scopes),
            "granted_at": instant_text(grant.at),
            "ended_at": instant_text(grant.ended_at),
            "age_days": (now - grant.at) // DAY_MICROS,
            "refreshed_at": instant_text(grant.refreshed_at),
            "channel": grant.evidence.get("channel"),
            "link": grant.evidence.get("link"),
        }
        for grant in reversed(Consents.of(journal).grants(state))
    ]


def revoke(journal: Journal, customer_id: str, reason: str = TOOK_BACK) -> dict[str, Any]:
    """End a customer's live grant and destroy its tokens; one that has ended stays as it is.

    Raises:
        InputError: the customer never consented here.
        UsageError: there is no customer id.
    """
    if not customer_id:
        raise UsageError("name the customer whose consent is revoked")
    consents = Consents.of(journal)
    ended = consents.revoke(customer_id, reason)
    grant = next(iter(consents.history(customer_id)), None)
    if grant is None:
        raise InputError(
            "this customer has no consent here; see those there are with: nightscreen consent list"
        )
    return {
        "customer_id": customer_id,
        "revoked": ended,
        "state": grant.state.value,
        "ended_at": instant_text(grant.ended_at),
    }
