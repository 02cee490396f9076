"""The client makes one attempt and turns whatever happens into a value, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import zlib
from pathlib import Path

import httpx
import pytest

from nightscreen.client import wire
from nightscreen.client.api import BODY_BYTES, LONGEST_RETRY_AFTER_S, Client
from nightscreen.client.network import Network
from nightscreen.client.response_rules import ChargeStatus, FailureReason
from nightscreen.client.transport import REST_S, Departure, PooledTransport
from nightscreen.config.settings import TIMEOUTS_S
from nightscreen.schemas.checks import IdentityKind, Operation
from nightscreen.schemas.errors import SettingsError
from tests.client.fakes import Canned, FakeTransport
from tests.client.lookups import bank_account, ecosystem, karma
from tests.client.service_in_a_test import Authority, Behaviour, Wire, raw_service

BVN = "22212345678"
KEY = "sk_live_1234567890"
LISTED = {
    "status": "success",
    "data": {"karma_identity": BVN, "amount_in_contention": "10.10"},
    "meta": {"cost": 10, "balance": 990},
}
GOOD = json.dumps(LISTED).encode()
MISTAKEN = json.dumps({**LISTED, "data": {"karma_identity": "22200000000"}}).encode()
ASK = karma(IdentityKind.BVN, BVN)
TIMES = TIMEOUTS_S | {"karma": 0.4}
PATIENCE = TIMEOUTS_S | {"karma": 60.0}  # where no timeout is wanted, however busy the machine is


def says(*parts: bytes, cut: bool = False) -> Behaviour:
    """Return a service that says something, and then goes on or loses the connection."""

    async def behave(wire_: Wire) -> None:
        for part in parts:
            await wire_.say(part)
        if cut:
            wire_.cut()

    return behave


def endless(head: bytes, more: bytes, every_s: float = 0.0) -> Behaviour:
    """Return a service that never ends what it has begun."""

    async def behave(wire_: Wire) -> None:
        await wire_.say(head)
        while True:
            await wire_.say(more)
            await asyncio.sleep(every_s)

    return behave


def answers(body: bytes, status: str = "200 OK", *headers: str) -> Behaviour:
    """Return a service that answers well, packed or not."""

    async def behave(wire_: Wire) -> None:
        await wire_.answer(body, status, *headers)

    return behave


def whole(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def deflated_raw(body: bytes) -> bytes:
    """Deflate without zlib's head, as some servers do."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


async def silent(wire_: Wire) -> None:
    await wire_.reader.read()


def holding() -> tuple[Behaviour, asyncio.Event]:
    """Return a service that keeps a call waiting, and what is set once one has arrived."""
    arrived = asyncio.Event()

    async def hold(wire_: Wire) -> None:
        arrived.set()
        await silent(wire_)

    return hold, arrived


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LONG = b" " * (BODY_BYTES * 20)
PIECES = b"".join(b"1\r\n%c\r\n" % byte for byte in GOOD)
GZIP, DEFLATE = "Content-Encoding: gzip", "Content-Encoding: Deflate"
good = answers(GOOD)
cut_before = says(cut=True)
to_the_end = says(OK + b"\r\n" + GOOD, cut=True)
twice = says(whole(GOOD) + whole(MISTAKEN))
rest = says(whole(GOOD) + b"garbage")
huge = answers(b"x" * (BODY_BYTES + 1))
chunks = says(CHUNKED + b"%x;part=1\r\n" % len(GOOD) + GOOD + b"\r\n0\r\nX-Sum: 1\r\n\r\n")
chunks_cut = says(CHUNKED + b"%x\r\n" % len(GOOD) + GOOD + b"\r\n", cut=True)
junk = says(b"\x00\x01 what?\r\n\r\n", cut=True)
HINT = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
BAD_FORM = b"HTTP/1.1 200 Tr\xe8s bien\nX-A: 1\n  2\nX-B: caf\xe9\nContent-Length: %d\n\n" % len(
    GOOD
)
UNREADABLE, CUT, TIMEOUT = ("in_doubt", "unreadable"), ("in_doubt", "cut"), ("in_doubt", "timeout")
ANSWERED = ("answered", None)
BEHAVIOURS: dict[str, tuple[Behaviour, tuple[str, str | None]]] = {
    "good": (good, ANSWERED),
    "gzip though asked not to": (answers(gzip.compress(GOOD), "200 OK", GZIP), ANSWERED),
    "deflate": (answers(zlib.compress(GOOD), "200 OK", DEFLATE), ANSWERED),
    "deflate without a head": (answers(deflated_raw(GOOD), "200 OK", DEFLATE), ANSWERED),
    "cut before the answer": (cut_before, CUT),
    "cut within the body": (says(OK + b"Content-Length: 900\r\n\r\n" + GOOD, cut=True), CUT),
    "silent": (silent, TIMEOUT),
    "a byte now and then": (endless(OK + b"Content-Length: 90000\r\n\r\n", b" ", 0.02), TIMEOUT),
    "no HTTP": (junk, CUT),
    "another protocol": (says(b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), CUT),
    "twice, once for another": (twice, ANSWERED),
    "more than the length says": (rest, ANSWERED),
    "no length, closed": (to_the_end, ANSWERED),
    "chunks with a trailer": (chunks, ANSWERED),
    "no last chunk": (chunks_cut, CUT),
    "announced twice": (says(HINT + b"HTTP/1.1 100 Continue\r\n\r\n" + whole(GOOD)), ANSWERED),
    "announced for ever": (endless(HINT, HINT * 100), CUT),
    "an endless header": (endless(OK + b"X: ", b"x" * 1000), CUT),
    "endless headers": (endless(OK, b"X-More: of it\r\n" * 100), CUT),
    "an endless chunk size": (endless(CHUNKED + b"5;a=", b"x" * 1000), CUT),
    "as hand-written servers do": (says(BAD_FORM + GOOD), ANSWERED),
    "bytewise": (says(*(bytes([byte]) for byte in CHUNKED + PIECES + b"0\r\n\r\n")), ANSWERED),
    "closed early": (says(OK + b"Connection: close\r\n", whole(GOOD)[17:], cut=True), ANSWERED),
    "more than anyone reads": (huge, UNREADABLE),
    "a gzip bomb": (answers(gzip.compress(LONG), "200 OK", GZIP), UNREADABLE),
    "a deflate bomb": (answers(deflated_raw(LONG), "200 OK", DEFLATE), UNREADABLE),
    "elsewhere": (answers(b"", "307 Temporary Redirect", "Location: /x"), ("stop", "address")),
}


@pytest.mark.parametrize(("behave", "expected"), BEHAVIOURS.values(), ids=list(BEHAVIOURS))
async def test_one_attempt_whatever_happens(
    behave: Behaviour, expected: tuple[str, str | None]
) -> None:
    """Each fault is a value, the service sees one request, and the client works on."""
    times = TIMES if expected == TIMEOUT else PATIENCE
    async with (
        raw_service(behave) as service,
        Client(service.base, KEY, timeouts_s=times) as client,
    ):
        reading = await client.send(ASK)
        assert (reading.verdict, reading.trouble) == expected
        assert len(service.heads) == 1
        service.behave = good
        after = await client.send(ASK)
        assert (after.verdict, after.body) == (ChargeStatus.ANSWERED, GOOD)


@pytest.mark.parametrize("behave", [to_the_end, chunks_cut, twice])
async def test_ends_of_a_response_are_the_same_under_tls(behave: Behaviour, tmp_path: Path) -> None:
    """A close that follows a response, or is ours, neither hides nor makes one."""
    authority = Authority.make(tmp_path, "localhost")
    network = Network(ca_file=authority.bundle)
    async with raw_service(behave, tls=authority.server_context()) as service:
        base = f"https://localhost:{service.port}"
        async with Client(base, KEY, timeouts_s=PATIENCE, network=network) as client:
            verdict = (await client.send(ASK)).verdict
            service.behave = good
            after = await client.send(ASK)
    spoilt = behave is chunks_cut
    assert verdict is (ChargeStatus.IN_DOUBT if spoilt else ChargeStatus.ANSWERED)
    assert (after.verdict, after.body) == (ChargeStatus.ANSWERED, GOOD)


async def test_calls_that_wait_when_the_client_is_closed_are_not_sent() -> None:
    """Only the call that has the connection can have been charged."""
    hold, arrived = holding()
    async with raw_service(hold) as service:
        transport = PooledTransport(connections=1)
        client = Client(service.base, KEY, timeouts_s=PATIENCE, transport=transport)
        calls = [asyncio.create_task(client.send(ASK)) for _ in range(3)]
        await arrived.wait()
        await client.aclose()
        verdicts = [(await call).verdict for call in calls]
        assert verdicts == ["in_doubt", "not_sent", "not_sent"]
        assert len(service.heads) == 1


async def test_answer_about_somebody_else_ends_its_connection() -> None:
    """A service that answers out of step would give each later customer another's answer."""
    async with raw_service(answers(MISTAKEN)) as service, Client(service.base, KEY) as client:
        for _ in range(2):
            assert (await client.send(ASK)).trouble is FailureReason.WRONG_IDENTITY
        assert service.connections == 2


def of(head: bytes) -> str:
    """Return whom a karma request asks about."""
    return head.split(b" ")[1].rpartition(b"/")[2].decode()


MISS = whole(b'{"status":"success"}').replace(b"200 OK", b"404 Not Found")
NAMELESS = whole(b'{"status":"success","data":{"reason":"x"},"meta":{"cost":10,"balance":9}}')
SURPLUS = {
    "a miss": MISS,
    "a listing of nobody": NAMELESS,
    "a listing of another": whole(MISTAKEN),
    "an error": whole(b"").replace(b"200 OK", b"400 Bad Request"),
    "garbage": b"garbage",
}


def and_more(answer: bytes, surplus: bytes, late_s: float | None) -> Behaviour:
    """Return a service that says more than its answer, at once or later."""

    async def behave(wire_: Wire) -> None:
        await wire_.say(answer + (surplus if late_s is None else b""))
        if late_s is not None:
            await asyncio.sleep(late_s)
            await wire_.say(surplus)

    return behave


@pytest.mark.parametrize("late_s", [None, 0.002, 0.12])
async def test_surplus_is_never_the_next_customers_answer(late_s: float | None) -> None:
    """Whatever comes after a listing, and when, the next customer is asked and not found."""
    for what, surplus in SURPLUS.items():
        listed = and_more(whole(GOOD), surplus, late_s)

        async def behave(wire_: Wire, listed: Behaviour = listed) -> None:
            await (listed(wire_) if of(wire_.head) == BVN else wire_.say(MISS))

        async with raw_service(behave) as service, Client(service.base, KEY) as client:
            for number in range(4):
                found = await client.send(ASK)
                other = await client.send(karma(IdentityKind.BVN, f"2233333333{number}"))
                assert found.outcome == "listed", what
                assert (other.outcome, other.cost_micro) == ("clear", 0), what
            assert len(service.heads) == 8


@pytest.mark.parametrize("late_s", [None, 0.002])
async def test_an_answer_that_names_nobody_is_taken_back_where_more_follows(
    late_s: float | None,
) -> None:
    """It may be anybody's, and its call may have been charged: in doubt, and asked again."""
    for first in (MISS, NAMELESS, SURPLUS["an error"]):
        for surplus in (MISS, whole(GOOD), b"garbage"):
            behave = and_more(first, surplus, late_s)
            async with raw_service(behave) as service, Client(service.base, KEY) as client:
                reading = await client.send(ASK)
                assert (reading.verdict, reading.trouble, reading.retry) == (
                    "in_doubt",
                    "cut",
                    True,
                )
                assert reading.cost_micro is None
                service.behave = good
                assert (await client.send(ASK)).outcome == "listed"
                assert service.connections == 2


async def test_line_end_in_a_token_writes_no_second_request() -> None:
    """What would end a header's line is refused before anything is sent."""
    async with raw_service(good) as service, Client(service.base, KEY) as client:
        token = "a\r\n\r\nGET /v2/charged HTTP/1.1\r\nX: 1"
        outcome = await client.send(wire.scoped(Operation.AGGREGATOR_TRANSACTIONS, token))
        assert (outcome.verdict, service.heads) == (ChargeStatus.NOT_SENT, [])


async def test_dead_reused_connection_is_in_doubt_and_not_repeated() -> None:
    """A connection that drops after the request was read may have been charged."""
    async with (
        raw_service(good) as service,
        Client(service.base, KEY, timeouts_s=TIMES) as client,
    ):
        await client.send(ASK)
        await asyncio.sleep(REST_S)
        service.behave = cut_before
        assert (await client.send(ASK)).verdict is ChargeStatus.IN_DOUBT
        assert (service.connections, len(service.heads)) == (1, 2)


async def test_connection_closed_while_idle_is_not_used_again() -> None:
    """A close that has arrived is noticed before the next call is written."""
    closing = says(whole(GOOD), cut=True)
    async with raw_service(closing) as service, Client(service.base, KEY) as client:
        for _ in range(5):
            assert (await client.send(ASK)).verdict is ChargeStatus.ANSWERED
            await asyncio.sleep(0.01)
        assert (service.connections, len(service.heads)) == (5, 5)


@pytest.mark.parametrize("base", ["http://127.0.0.1:1", "https://nobody.invalid"])
async def test_connection_never_made_is_not_sent(base: str) -> None:
    """Refused connections and unknown hosts cost nothing and may be tried again."""
    async with Client(base, KEY, timeouts_s=TIMEOUTS_S | {"karma": 5.0}) as client:
        departure = Departure()
        reading = await client.send(ASK, departure)
        assert (reading.verdict, reading.retry, reading.cost_micro) == ("not_sent", True, 0)
        assert not departure.may_have_left


async def test_time_up_while_waiting_for_a_connection_is_not_sent() -> None:
    """More callers than connections: those who never got one have sent nothing."""
    hold, arrived = holding()
    async with raw_service(hold) as service:
        transport = PooledTransport(connections=1)
        times = TIMEOUTS_S | {"karma": 0.1, "ecosystem": 60.0}
        async with Client(service.base, KEY, timeouts_s=times, transport=transport) as client:
            held = asyncio.create_task(client.send(ecosystem(BVN)))
            await arrived.wait()
            readings = await asyncio.gather(*(client.send(ASK) for _ in range(2)))
            held.cancel()
            with pytest.raises(asyncio.CancelledError):
                await held
        assert [reading.verdict for reading in readings] == ["not_sent", "not_sent"]
        assert len(service.heads) == 1


async def test_cancelled_call_tells_whether_it_left() -> None:
    """A cancellation passes through; the departure says that the call may be charged."""
    hold, arrived = holding()
    async with raw_service(hold) as service, Client(service.base, KEY) as client:
        departure = Departure()
        task = asyncio.create_task(client.send(ASK, departure))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert departure.may_have_left
        service.behave = good
        assert (await client.send(ASK)).verdict is ChargeStatus.ANSWERED


async def test_what_is_written_on_the_wire() -> None:
    """The path is below the base address's own, the key a bearer token, the length told."""
    bodies: list[bytes] = []

    async def note(wire_: Wire) -> None:
        bodies.append(await wire_.reader.readexactly(49))
        await wire_.answer(b'{"status":"success","data":{"account_name":"A"}}')

    async with raw_service(note) as service, Client(f"{service.base}/pre/", KEY) as client:
        await client.send(bank_account("0123456789", "058"))
    head = service.heads[0].decode()
    assert head.startswith("POST /pre/v2/verification/bankaccount/bvn HTTP/1.1\r\n")
    for line in (
        f"Host: 127.0.0.1:{service.port}",
        f"Authorization: Bearer {KEY}",
        "Accept-Encoding: identity",
        "Content-Type: application/json",
        "Content-Length: 49",
    ):
        assert head.count(f"\r\n{line}\r\n") == 1
    assert "Transfer-Encoding" not in head
    assert bodies == [b'{"account_number":"0123456789","bank_code":"058"}']


THEN = "Tue, 20 Oct 2015 07:27:00 GMT"


RETRY_AFTER: tuple[tuple[str | None, str, float | None], ...] = (
    (None, "7", 7.0),
    (None, "999999999999", LONGEST_RETRY_AFTER_S),
    (None, "9" * 400, LONGEST_RETRY_AFTER_S),
    (None, "Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    (None, "Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
    (None, "Thu, 01 Jan 1970 00:00:00 +99999999999999", None),
    (None, "99999999999999999999 Jan 2020 00:00:00 GMT", None),
    (None, "soon", None),
    (None, "120 s", None),
    (None, "-1", None),
    (None, "", None),
    (None, "1e3", None),
    (THEN, "Tue, 20 Oct 2015 07:28:00 GMT", 60.0),
    (THEN, "Tue, 20 Oct 2015 07:26:00 GMT", 0.0),
    (THEN, "12", 12.0),
    ("Sat, 20 Oct 2114 07:27:00 GMT", "Sat, 20 Oct 2114 07:27:07 GMT", 7.0),
    ("Tue, 20 Oct 2015 08:27:00 +0100", "Tue, 20 Oct 2015 07:27:30", 30.0),
    ("yesterday", "Tue, 20 Oct 2015 07:28:00 GMT", 0.0),
)
"""The answer's own date, what it asks to wait for, and the seconds that it comes to."""


async def test_retry_after_in_both_forms() -> None:
    """Seconds, or a date by the answer's own clock; no sense is no wish, and none is for ever."""
    for date, until, seconds in RETRY_AFTER:
        headers = {"Retry-After": until} | ({"Date": date} if date else {})
        fake = FakeTransport(Canned(429, headers=headers))
        async with Client("https://api.example", KEY, transport=fake) as client:
            assert (await client.send(ASK)).retry_after_s == seconds, (date, until)


async def test_errors_of_any_transport_are_values() -> None:
    """Only errors from before a connection mean that nothing was sent."""
    for error, told in (
        (httpx.ConnectError(""), "not_sent not_sent"),
        (httpx.ConnectTimeout(""), "not_sent not_sent"),
        (httpx.PoolTimeout(""), "not_sent not_sent"),
        (httpx.ReadTimeout(""), "in_doubt timeout"),
        (httpx.WriteTimeout(""), "in_doubt timeout"),
        (httpx.WriteError(""), "in_doubt cut"),
        (httpx.ReadError(""), "in_doubt cut"),
        (httpx.RemoteProtocolError(""), "in_doubt cut"),
        (httpx.LocalProtocolError(""), "in_doubt cut"),
        (ConnectionResetError(), "in_doubt cut"),
    ):
        fake = FakeTransport(Canned(error=error))
        async with Client("https://api.example", KEY, transport=fake) as client:
            reading = await client.send(ASK)
        assert f"{reading.verdict} {reading.trouble}" == told, error


WRONG: list[tuple[str, str]] = [
    ("http://api.example", "must be https"),
    ("http://localhost.evil.example", "must be https"),
    ("ftp://api.example", "no http address"),
    ("api.example", "no http address"),
    ("", "no http address"),
    ("https://user:secret@api.example", "may hold host, port and path only"),
    ("https://api.example/?key=1", "may hold host, port and path only"),
    ("https://[::1", "no address"),
]


def test_wrong_address_is_one_clear_line() -> None:
    """Nothing is sent to an address that is not https, unless it is this machine."""
    for base, told in WRONG:
        with pytest.raises(SettingsError, match=told) as caught:
            Client(base, KEY)
        assert "secret" not in str(caught.value), (base, told)


def test_broken_key_is_refused_without_showing_it() -> None:
    """A key that no header can hold is a settings error."""
    for key in ("", " ", "a b", "k\ney", "ключ"):
        with pytest.raises(SettingsError, match="API_KEY"):
            Client("https://api.example", key)


async def test_nothing_personal_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Neither key nor identifier reaches a log, however loud the root is."""
    caplog.set_level(logging.DEBUG)
    async with raw_service(good) as service, Client(service.base, KEY) as client:
        await client.send(ASK)
        service.behave = junk
        await client.send(ASK)
    assert BVN not in caplog.text
    assert KEY not in caplog.text
