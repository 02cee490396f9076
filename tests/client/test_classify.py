"""Exchanges are read as the table says, whatever the service sends: nothing raises.

A stated cost is known whatever else is wrong.
"""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.checks.karma import listings_of
from nightscreen.client import wire
from nightscreen.client.api import BODY_BYTES, Client
from nightscreen.client.classify import CallOutcome, Classifier
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import Break, ChargeStatus, Exchange
from nightscreen.schemas.checks import IdentityKind, Operation, Outcome
from tests.client.fakes import Canned, FakeTransport
from tests.client.lookups import bank_account, ecosystem, karma, selfie

BVN = "22212345678"
ACCOUNT = "0123456789"
REQUESTS = {
    "bank_account": bank_account(ACCOUNT, "058"),
    "karma": karma(IdentityKind.BVN, BVN),
    "ecosystem": ecosystem(BVN),
    "selfie": selfie(BVN, "https://img.example/a.jpg"),
    Operation.BVN_START: wire.bvn_start(BVN, "08012345678"),
    Operation.BVN_FINISH: wire.bvn_finish(BVN, "123456"),
    Operation.AGGREGATOR_EXCHANGE: wire.exchange("code", "https://lender.example/cb"),
    Operation.AGGREGATOR_REFRESH: wire.refresh("again", "https://lender.example/cb"),
    **{
        operation: wire.scoped(operation, "token", item="a1", fields={"account_id": "a1"})
        for operation in wire.SCOPED
    },
    Operation.LOAN_PRODUCTS: wire.loan_products(),
    Operation.LOAN_START: wire.loan_start("p1", email="ada@example.ng"),
    Operation.LOAN_VIEW: wire.loan_view("LN-1"),
}
CLASSIFIER = Classifier()


def read(operation: str, status: int, body: object) -> CallOutcome:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return CLASSIFIER.read(REQUESTS[operation], Exchange(status, raw))


def told(reading: CallOutcome) -> str:
    """Return the reading as one line of a table."""
    words = [str(reading.verdict), str(reading.outcome or reading.trouble)]
    words += ["retry"] * reading.retry + ["strain"] * reading.strain
    words += [f"{reading.stop}/{reading.stop_scope}"] if reading.stop else []
    return " ".join(words)


def ok(data: object, **more: object) -> dict[str, object]:
    return {"status": "success", "message": "Successful", "data": data, **more}


def error(message: str) -> dict[str, object]:
    return {"status": "error", "message": message}


ROUTE = f"Cannot GET /v2/verification/ecosystem/{BVN}"
OTHER = "in_doubt wrong_identity"
OTHER_BVN, MISS = "22299999999", "answered not_found"
META: dict[str, object] = {"meta": {"cost": 10, "balance": 990}}
ADDRESS = "stop address address/run"
ODD, UNREADABLE = "in_doubt unreadable", "in_doubt unreadable retry"
WRONG_CONTACT = "not_charged wrong_contact"
TEST_MODE = "test_mode test_mode test_mode/run"
TABLE: tuple[tuple[str, int, object, str], ...] = (
    ("karma", 201, ok({"karma_identity": BVN}, deprecation="soon"), "answered listed"),
    # tokens and data of customers who consented
    ("aggregator_refresh", 200, {"token_type": "Bearer"}, UNREADABLE),
    ("aggregator_exchange", 200, {"token_type": "Bearer"}, ODD),
    ("aggregator_transactions", 200, ok(None), UNREADABLE),
    ("aggregator_transactions", 200, {**error("down"), "data": []}, UNREADABLE),
    ("aggregator_transactions", 404, error("Route not found"), ADDRESS),
    # loans
    ("loan_start", 200, ok({"reference": "LN-1"}), ODD),
    ("loan_view", 404, error("Route not found"), ADDRESS),
    # a record that does not say whose it is
    ("bank_account", 200, ok({"account_name": "ADA OBI"}), UNREADABLE),
    ("bank_account", 200, ok({"account_number": " "}, **META), "unreadable unreadable"),
    ("bank_account", 200, ok({"account_number": "*" * 10}, **META), "unreadable unreadable"),
    ("bank_account", 200, ok({"bvn": BVN, "bank_code": "058"}, **META), "unreadable unreadable"),
    ("ecosystem", 200, ok({"lenders": 2}), UNREADABLE),
    ("ecosystem", 200, ok({"bvn": None, "loans": 3}, **META), "unreadable unreadable"),
    ("karma", 200, ok({"reason": "owes"}, **META), "unreadable unreadable"),
    ("karma", 200, ok([{"reason": "owes"}], **META), "unreadable unreadable"),
    ("karma", 404, ok({"reason": "owes"}, **META), "unreadable unreadable"),
    # a miss that names another
    ("ecosystem", 404, error(f"{OTHER_BVN} not found in ecosystem"), f"{OTHER} retry"),
    ("ecosystem", 404, error("12345678901 not found in ecosystem"), f"{OTHER} retry"),
    ("ecosystem", 404, error(f"{BVN[:4]}*****99 not found in ecosystem"), f"{OTHER} retry"),
    ("ecosystem", 404, error(f"{BVN[:3]}*****{BVN[8:]} not found in ecosystem"), MISS),
    ("ecosystem", 404, error("BVN not found in ecosystem (reference 160999999990)"), MISS),
    ("karma", 404, {**error(f"{OTHER_BVN} is not listed"), "status": "success"}, f"{OTHER} retry"),
    ("karma", 404, error(f"Identity not found in karma: {OTHER_BVN}"), f"{OTHER} retry"),
    ("selfie", 404, error(f"No BVN record for {OTHER_BVN}"), f"{OTHER} retry"),
    # misses
    ("ecosystem", 404, error(f"{BVN} not found in ecosystem"), "answered not_found"),
    # under 404 a record of the one asked about is a listing; nothing else but nothing is clear
    ("karma", 404, {"status": "success"}, "answered clear"),
    ("karma", 404, ok(None), "answered clear"),
    ("karma", 404, ok({}), "answered clear"),
    ("karma", 404, ok({"karma_identity": BVN}), "answered listed"),
    ("karma", 404, ok([{"karma_identity": BVN}]), "answered listed"),
    ("karma", 404, ok([{"reason": "x"}]), ODD),
    ("karma", 404, ok({"foo": 1}), ODD),
    ("karma", 404, ok({"foo": 1}, **META), "unreadable unreadable"),
    ("karma", 404, ok({"karma_identity": OTHER_BVN}), OTHER),
    ("karma", 404, {**error("Identity not found"), "data": {"reason": "x"}}, ODD),
    # other 404s and redirects are a wrong address
    ("ecosystem", 404, error(ROUTE), ADDRESS),
    ("ecosystem", 404, error(f"Not found: {ROUTE}"), ADDRESS),
    ("karma", 404, error("Route not found"), ADDRESS),
    ("karma", 404, b"<html>", ADDRESS),
    ("bank_account", 404, {"status": "success"}, ADDRESS),
    ("karma", 302, b"", ADDRESS),
    # test mode
    ("karma", 404, {"status": "success", "mock-response": 1}, TEST_MODE),
    ("bvn_start", 200, {"status": "otp", "data": "0", "message": "Mock response"}, TEST_MODE),
    # contacts that are not the registered one
    ("bvn_start", 400, error("Contact is not 0801*****78"), WRONG_CONTACT),
    ("bvn_start", 403, {**error("Forbidden"), "data": ["a***@mail.example"]}, WRONG_CONTACT),
    ("bvn_start", 404, {**error("BVN"), "data": {"phone": "+234801***5678"}}, WRONG_CONTACT),
    ("bvn_start", 422, {**error("No"), "errors": [{"email": "a***@m**.example"}]}, WRONG_CONTACT),
    # not charged
    ("karma", 400, b"<html>", "not_charged rejected"),
    ("bvn_finish", 422, error("The OTP is invalid or has expired"), "not_charged otp_wrong"),
    ("bvn_start", 404, error("no such page"), ADDRESS),
    ("karma", 418, b"", "not_charged rejected"),
    # what stands before the service did not pass it on
    ("karma", 408, b"", "not_charged refused retry"),
    ("karma", 421, b"", "not_charged refused retry"),
    ("karma", 425, b"", "not_charged refused retry"),
    # in doubt
    ("karma", 599, b"", "in_doubt overload retry strain"),
    ("karma", 200, b'{"status":"succ', UNREADABLE),
    ("karma", 200, b"[]", UNREADABLE),
    ("karma", 200, ok(None), UNREADABLE),
    ("karma", 200, ok({}), UNREADABLE),
    ("karma", 200, ok("listed"), UNREADABLE),
    ("karma", 200, error("odd"), UNREADABLE),
    ("karma", 204, b"", UNREADABLE),
    ("bvn_finish", 200, ok([]), ODD),
    # somebody else
    ("karma", 200, ok({"karma_identity": OTHER_BVN}), OTHER),
    ("ecosystem", 200, ok({"bvn": OTHER_BVN}), OTHER),
    ("bank_account", 200, ok({"account_number": "9876543210"}), OTHER),
    ("ecosystem", 200, ok({"bvn": "22200000678", "lenders": 1}), OTHER),
    ("karma", 200, ok({"karma_identity": "a@b.ng"}), OTHER),
    (
        "karma",
        200,
        ok({"karma_identity": BVN, "karma_identity_type": {"identity_type": "Email"}}),
        OTHER,
    ),
    ("bank_account", 200, ok({"account_number": ACCOUNT, "bank_code": "044"}), OTHER),
    ("bvn_finish", 200, ok({"bvn": OTHER_BVN}), OTHER),
    # the masked BVN of an account is compared with the row, not with the question
    ("bank_account", 200, ok({"bvn": "22000000021", "account_number": ACCOUNT}), "answered found"),
)
"""Forms that `tests/exchanges` does not show."""


def test_table_of_responses() -> None:
    """Each response is read as one line says."""
    for operation, status, body, line in TABLE:
        assert told(read(operation, status, body)) == line, (operation, status, body, line)


BROKEN: list[tuple[str, Break, str]] = [
    ("karma", Break.NOT_SENT, "not_sent not_sent retry"),
    ("karma", Break.TIMEOUT, "in_doubt timeout retry strain"),
    ("karma", Break.CUT, "in_doubt cut retry"),
    ("karma", Break.TOO_LARGE, UNREADABLE),
    ("bvn_start", Break.NOT_SENT, "not_sent not_sent retry"),
    ("bvn_start", Break.CUT, "in_doubt cut"),
    ("bvn_finish", Break.TIMEOUT, "in_doubt timeout strain"),
    ("bvn_finish", Break.TOO_LARGE, ODD),
]


def test_table_of_broken_exchanges() -> None:
    """A BVN call that may have arrived is never repeated by machine."""
    for operation, broken, line in BROKEN:
        reading = CLASSIFIER.read(REQUESTS[operation], Exchange(broken=broken))
        assert told(reading) == line, (operation, broken, line)


def test_money_is_exact() -> None:
    """Cost and balance never pass through a float."""
    meta = b'"meta":{"cost":10.10,"balance":9007199254740993.123456}'
    body = b'{"status":"success","data":{"karma_identity":"' + BVN.encode() + b'"},' + meta + b"}"
    reading = read("karma", 200, body)
    assert reading.cost_micro == 10_100_000
    assert reading.balance_micro is None  # beyond every wallet
    body = body.replace(b"9007199254740993.123456", b'"12,345.123456"')
    assert read("karma", 200, body).balance_micro == 12_345_123_456


def test_mock_response_is_never_an_answer() -> None:
    """Test mode is noticed on every operation, whatever the status, and costs nothing."""
    body = {**ok({"karma_identity": BVN, "similarity": 99}), "mock-response": "sample"}
    for operation in Operation:
        for status in (200, 404, 500):
            reading = read(operation, status, {**body, "meta": {"cost": 10}})
            assert (reading.verdict, reading.cost_micro) == ("test_mode", 0), (operation, status)


def test_success_without_meta_is_an_answer_of_unknown_cost() -> None:
    """A `meta` that is missing or odd does not undo an answer; its cost is unknown, not nought."""
    metas: list[dict[str, object]] = [{}, {"meta": None}, {"meta": []}, {"meta": "x"}]
    metas += [{"meta": {"cost": cost}} for cost in (-1, "free", True)]
    for meta in metas:
        reading = read("karma", 200, ok({"karma_identity": BVN}, **meta))
        assert (reading.verdict, reading.cost_micro) == (ChargeStatus.ANSWERED, None), meta


COST = '"meta":{"cost":10,"balance":990}'
COSTED: list[str] = [
    *('"data":"see the portal",', '"data":null,', '"data":[],', '"data":[1,null,"x",{}],'),
    *('"data":{},', "", '"data":{"reason":"broken,', '"data":' + "9" * 10_000 + ","),
    '"data":' + "[" * 100_000 + "]" * 100_000 + ",",
    '"data":"a","data":null,"meta":{"cost":1},',
]
NOTICE = '<br />Warning: a notice<br />{"status":"success","data":{"reason":"x"},'
FAILED = '{"status":"failed","data":{"karma_identity":"' + BVN + '"},'


def test_a_stated_cost_is_settled_whatever_else_is_wrong() -> None:
    """It was charged and cannot be read: not in doubt, not tried again, its body kept."""
    for start in (*('{"status":"success",' + data for data in COSTED), NOTICE, FAILED):
        body = f"{start}{COST}}}".encode()
        reading = read("karma", 200, body)
        assert told(reading) == "unreadable unreadable", start
        assert (reading.cost_micro, reading.balance_micro) == (10_000_000, 990_000_000), start
        assert reading.body == body, start


UNCOSTED: list[str] = [
    *('"meta":{"balance":990}', '"meta":{"cost":NaN}', '"meta":{"cost":-1}', '"meta":[]'),
    *('"meta":{"cost":1e999999999999}', '"meta":{"cost":"ten"}', '"meta":{"cost":9e99}'),
]
UNREAD: list[tuple[Exchange, bytes]] = [
    (Exchange(200, b"<html>"), b"<html>"),
    (Exchange(200, b""), b""),
    (Exchange(200, b"first part", broken=Break.TOO_LARGE), b"first part"),
    *(
        (Exchange(200, body), body)
        for body in (f'{{"status":"success","data":"x",{meta}}}'.encode() for meta in UNCOSTED)
    ),
]


def test_without_a_stated_cost_it_is_in_doubt_and_kept() -> None:
    """The worst stays reserved, and it may be sent again; whoever corrects the table may read it.

    It is no lost connection.
    """
    for exchange, kept in UNREAD:
        reading = CLASSIFIER.read(REQUESTS["karma"], exchange)
        assert told(reading) == UNREADABLE, kept
        assert (reading.cost_micro, reading.body, reading.is_unread) == (None, kept, True), kept


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_of_a_body_that_is_too_large_the_first_part_is_kept(encoding: str) -> None:
    """A megabyte of it, as it came."""
    body = b"x" * (BODY_BYTES + 10)
    sent = gzip.compress(body) if encoding else body
    fake = FakeTransport(Canned(200, sent, {"Content-Encoding": encoding} if encoding else {}))
    async with Client("https://service.example", "key", transport=fake) as client:
        reading = await client.send(REQUESTS["karma"])
    assert (reading.verdict, reading.is_unread) == (ChargeStatus.IN_DOUBT, True)
    assert reading.body == sent[:BODY_BYTES]


LISTING = (
    b'{"status":"success","data":{"karma_identity":"%s","reason":"%s"},' + COST.encode() + b"}"
)


def listing(reason: bytes = b"x") -> bytes:
    return LISTING % (BVN.encode(), reason)


ODDLY_WRITTEN: list[bytes] = [
    b"\xef\xbb\xbf" + listing(),
    listing().decode().encode("utf-16"),
    *map(listing, (b"Jos\xe9 owes", b"two\nlines", b"half \\ud83d it")),
    listing().replace(b'"reason"', b'"amount_in_contention":NaN,"reason"'),
    listing().replace(b'"data"', b'"data":null,"data"'),
]


def test_odd_writing_is_read_all_the_same() -> None:
    """Marks, line breaks, stray bytes and numbers that are none are no reason to lose a record."""
    for body in ODDLY_WRITTEN:
        reading = read("karma", 200, body)
        assert (told(reading), reading.cost_micro) == ("answered listed", 10_000_000), body
        (found,) = listings_of(parse_answer("karma", reading.body))
        assert found.reason, body
        found.reason.encode()


def test_a_list_of_records_is_several_listings() -> None:
    """What cannot be read of it is left out; not one may be about somebody else."""
    one, other = {"karma_identity": BVN, "reason": "a"}, {"karma_identity": BVN, "reason": "b"}
    reading = read("karma", 200, ok([one, 3, {}, other, {"reason": "nobody's"}]))
    assert told(reading) == "answered listed"
    found = listings_of(parse_answer("karma", reading.body))
    assert [each.reason for each in found] == ["a", "b"]
    strange = {"karma_identity": OTHER_BVN, "reason": "c"}
    mixed = read("karma", 200, ok([one, strange], **META))
    assert (mixed.verdict, mixed.trouble) == (ChargeStatus.UNREADABLE, "wrong_identity")


def test_miss_costs_nothing_unless_it_says_so() -> None:
    """Misses are free; a balance beside one is kept."""
    body = error(f"{BVN} not found in ecosystem")
    reading = read("ecosystem", 404, {**body, "meta": {"balance": 5.5}})
    assert (reading.cost_micro, reading.balance_micro) == (0, 5_500_000)
    assert read("ecosystem", 404, {**body, "meta": {"cost": 1}}).cost_micro == 1_000_000


def test_only_answers_keep_their_body_and_no_repr_shows_it() -> None:
    """What is kept is sealed elsewhere; nothing of it is in a repr."""
    answered = read("karma", 200, ok({"karma_identity": BVN}))
    assert BVN.encode() in answered.body
    assert BVN not in repr(answered)
    assert read("karma", 400, error(BVN)).body == b""
    assert BVN not in repr(Exchange(200, BVN.encode()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["status", "message", "data", "meta", "cost", "balance", "bvn", "karma_type"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(
    operation=st.sampled_from(list(Operation)),
    status=st.integers(100, 999) | st.none(),
    body=st.binary(max_size=200) | JSON.map(lambda document: json.dumps(document).encode()),
    broken=st.none() | st.sampled_from(Break),
)
def test_reading_never_raises(
    operation: Operation, status: int | None, body: bytes, broken: Break | None
) -> None:
    """Any bytes under any status have a reading, and every hit has a readable record."""
    reading = CLASSIFIER.read(REQUESTS[operation], Exchange(status, body, broken))
    misses = (None, Outcome.CLEAR, Outcome.NOT_FOUND)
    if reading.outcome not in misses:
        assert parse_answer(operation, reading.body) is not None
    assert (reading.verdict is ChargeStatus.ANSWERED) == (reading.trouble is None)
