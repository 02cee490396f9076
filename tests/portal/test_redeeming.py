"""Codes are exchanged once, under the journal; what came of it is told in one word."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import repeat

import httpx

from nightscreen.journal.consents import Consents
from nightscreen.journal.verify import verify_journal
from nightscreen.operations.consent_links import AskedConsent, ExchangeEnd, redeem
from tests.portal.visiting import CUSTOMER, LIST, VIEW, Town

TOKEN = {"access_token": "acc-1-secret", "refresh_token": "ref-1-secret", "token_type": "Bearer"}


Answer = Callable[[httpx.Request], httpx.Response]


def says(status: int, body: object, **headers: str) -> Answer:
    """Return what answers with JSON."""
    content = json.dumps(body).encode()
    return lambda _: httpx.Response(status, headers=headers, stream=httpx.ByteStream(content))


def breaks(error: type[httpx.TransportError]) -> Answer:
    """Return what answers nothing."""

    def fail(_request: httpx.Request) -> httpx.Response:
        raise error("broken")

    return fail


async def redeemed(
    town: Town,
    answers: Iterable[Answer],
    scopes: tuple[str, ...] = (LIST,),
    *,
    customer: str = CUSTOMER,
    patience_s: float = 40,
) -> str:
    """Redeem a code of a customer who was asked for some scopes, and return what came of it.

    The service has one of the answers for each call, and is not asked for more.
    """
    left = iter(answers)
    done = await redeem(
        town.journal,
        town.settings,
        AskedConsent(customer, scopes),
        "code-1",
        channel="portal",
        transport=httpx.MockTransport(lambda asked: next(left)(asked)),  # noqa: PLW0108 - each once
        patience_s=patience_s,
    )
    return done.ending.value


ANSWERS: tuple[tuple[Answer, ExchangeEnd, str], ...] = (
    (says(200, {**TOKEN, "scope": LIST}), ExchangeEnd.KEPT, "answered"),
    (says(200, TOKEN), ExchangeEnd.KEPT, "answered"),
    (says(200, {"status": "success", "data": TOKEN}), ExchangeEnd.KEPT, "answered"),
    (says(200, {**TOKEN, "scope": VIEW}), ExchangeEnd.NOTHING_GRANTED, "answered"),
    (says(200, {**TOKEN, "scope": ""}), ExchangeEnd.NOTHING_GRANTED, "answered"),
    (says(200, {"data": {**TOKEN, "scope": ""}}), ExchangeEnd.NOTHING_GRANTED, "answered"),
    (says(400, {"status": "error", "message": "no"}), ExchangeEnd.CODE_REFUSED, "not_charged"),
    (says(401, {"status": "error"}), ExchangeEnd.KEY_REFUSED, "not_charged"),
    (says(402, {"status": "error"}), ExchangeEnd.KEY_REFUSED, "not_charged"),
    (says(500, {"status": "error"}), ExchangeEnd.IN_DOUBT, "in_doubt"),
    (says(504, {"status": "error"}), ExchangeEnd.IN_DOUBT, "in_doubt"),
    (says(200, ["no token"]), ExchangeEnd.IN_DOUBT, "in_doubt"),
    (says(200, {"mock-response": "x", **TOKEN}), ExchangeEnd.TEST_MODE, "test_mode"),
    (breaks(httpx.ReadError), ExchangeEnd.IN_DOUBT, "in_doubt"),
    (breaks(httpx.ReadTimeout), ExchangeEnd.IN_DOUBT, "in_doubt"),
)
"""What the service answers, what comes of it, and how the call stands in the journal."""


async def test_each_answer_ends_in_one_word_and_is_asked_for_once(town: Town) -> None:
    """The journal has the call; only what was surely granted is kept, and nothing is repeated.

    Tokens are in the vault: the journal knows that there was an answer, not what it brought.
    """
    kept: list[str] = []
    for number, (answer, ending, state) in enumerate(ANSWERS):
        customer = f"CUST-{number}"
        assert await redeemed(town, [answer], customer=customer) == ending, (number, ending)
        assert town.calls()[number:] == [("aggregator_exchange", state)]
        kept += [customer] if ending is ExchangeEnd.KEPT else []
        assert sorted(grant.customer_id for grant in town.grants) == sorted(kept)
    for name in kept:
        key = Consents(town.journal).customer(name)
        found = town.journal.answers.latest("aggregator_exchange", [key])
        assert town.journal.answers.body("aggregator_exchange", found[key]) == b"", name
    assert verify_journal(town.journal) == []


async def test_bare_code_grants_what_is_named_and_never_what_nobody_knows(town: Town) -> None:
    """Neither the operator nor the answer says what was granted: then it is nothing."""
    assert await redeemed(town, [says(200, TOKEN)], ()) == ExchangeEnd.NOTHING_GRANTED
    named = says(200, {**TOKEN, "scope": f"{LIST} {VIEW}"})
    assert await redeemed(town, [named], ()) == ExchangeEnd.KEPT
    assert [grant.scopes for grant in town.grants] == [(LIST, VIEW)]


async def test_what_surely_did_nothing_is_tried_again(town: Town) -> None:
    answers = (breaks(httpx.ConnectError), says(503, {"status": "error"}), says(200, TOKEN))
    assert await redeemed(town, answers) == ExchangeEnd.KEPT
    states = [state for _, state in town.calls()]
    assert states == ["not_sent", "not_charged", "answered"]


async def test_customer_is_not_kept_waiting_for_ever(town: Town) -> None:
    """Where the service has no time, or asks for too long a wait, it is busy after a while."""
    for full in (says(503, {}), says(429, {}, **{"retry-after": "120"})):
        assert await redeemed(town, repeat(full), patience_s=1) == ExchangeEnd.BUSY, full
    assert {state for _, state in town.calls()} == {"not_charged"}
