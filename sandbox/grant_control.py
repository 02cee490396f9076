"""The part of the control surface that is about consent: grants without a browser, tokens at will.

Reading of control requests only; grants are kept by `sandbox.grants`. How requests reach these
functions is decided in `sandbox.control`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nightscreen.sandbox.bodies import only, text, texts
from nightscreen.sandbox.clients import Client, is_address
from nightscreen.sandbox.consenting import LONGEST_NAME
from nightscreen.sandbox.grants import SCOPES

if TYPE_CHECKING:
    from nightscreen.sandbox.state import Sandbox

TOKEN_ACTIONS: Final = ("expire", "revoke", "revoke_refresh")


def show_grants(sandbox: Sandbox, query: dict[str, str]) -> dict[str, object]:
    """Show grants and what was counted, of one customer or of all; no code and no token."""
    return sandbox.grants.as_json(query.get("customer"), sandbox.now())


def show_secrets(sandbox: Sandbox, _query: dict[str, str]) -> dict[str, object]:
    """Show every code and token ever issued, for tests that search for them elsewhere."""
    return {**sandbox.grants.secrets_json()}


def _customer(value: object) -> str:
    name = text(value, "customer").strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"customer must have 1 to {LONGEST_NAME} printable characters")
    return name


def make_grant(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Let a customer consent without a browser, and return the code.

    Without a `redirect_uri` the exchange may name any address, and binds the grant to it.
    """
    only(body, "customer", "scopes", "redirect_uri")
    customer = _customer(body.get("customer"))
    wanted = body.get("scopes", ["transaction:list"])
    scopes = wanted.split() if isinstance(wanted, str) else texts(wanted, "scopes")
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise ValueError(f"scopes must be some of {', '.join(SCOPES)}")
    redirect_uri = body.get("redirect_uri")
    if redirect_uri is not None and not is_address(text(redirect_uri, "redirect_uri")):
        raise ValueError("redirect_uri must be an absolute http address")
    code = sandbox.grants.allow(
        customer,
        tuple(dict.fromkeys(scopes)),
        client_id=sandbox.client.client_id,
        redirect_uri=None if redirect_uri is None else str(redirect_uri),
        ends_at=sandbox.now() + sandbox.manners.code_lifetime_s,
    )
    return {"code": code, "customer": customer, "redirect_uri": redirect_uri}


def set_tokens(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Expire access tokens or revoke grants, of one customer or, where none is named, of all."""
    only(body, "action", "customer")
    action = body.get("action")
    if action not in TOKEN_ACTIONS:
        raise ValueError(f"action must be one of {', '.join(TOKEN_ACTIONS)}")
    named = body.get("customer")
    customer = None if named is None else _customer(named)
    if action == "expire":
        return {"expired": sandbox.grants.expire(customer, sandbox.now())}
    keep = action == "revoke_refresh"
    return {"revoked": sandbox.grants.revoke(customer, sandbox.now(), keep_access=keep)}


def set_client(sandbox: Sandbox, body: dict[str, object]) -> dict[str, object]:
    """Register the client anew: its id, its name, and the addresses it may send customers to."""
    only(body, "client_id", "name", "redirect_uris")
    present = sandbox.client
    uris = present.redirect_uris
    if "redirect_uris" in body:
        wanted = body["redirect_uris"]
        uris = None if wanted is None else tuple(texts(wanted, "redirect_uris"))
        if uris is not None and not all(is_address(one) for one in uris):
            raise ValueError("redirect_uris must be absolute http addresses without a fragment")
    sandbox.client = Client(
        text(body.get("client_id", present.client_id), "client_id"),
        text(body.get("name", present.name), "name"),
        uris,
    )
    return sandbox.client.as_json()
