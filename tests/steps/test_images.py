"""Image addresses: judged at intake, and the scores of what was asked about them."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.config.settings import read_settings
from nightscreen.sandbox.test_identifiers import by_word
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.errors import SettingsError
from nightscreen.values.addresses import (
    is_public_address,
    judge_image_url,
    judge_image_urls,
)
from nightscreen.values.issues import Issues
from tests.how_many import examples
from tests.screening import CONSENT, World, customer
from tests.steps.test_addresses import anything, hosts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.screening import Night

DAY = 24 * 3600 * 1_000_000


@pytest.mark.parametrize(
    ("cell", "codes"),
    [
        ("https://img.example.com/a.jpg", []),
        ("https://img.example.com/a.jpg?token=x&y=1", []),
        ("https://img.example.com:8443/a.jpg", []),
        ("https://8.8.8.8/a.jpg", []),
        ("http://img.example.com/a.jpg", ["image_not_https"]),
        ("ftp://img.example.com/a.jpg", ["image_not_https"]),
        ("img.example.com/a.jpg", ["image_not_https"]),
        ("https://user:secret@img.example.com/a.jpg", ["image_credentials"]),
        ("https://localhost/a.jpg", ["image_host"]),
        ("https://localhost./a.jpg", ["image_host"]),
        ("https://files.internal/a.jpg", ["image_host"]),
        ("https://nas/a.jpg", ["image_host"]),
        ("https://127.0.0.1/a.jpg", ["image_host"]),
        ("https://127.1/a.jpg", ["image_host"]),
        ("https://2130706433/a.jpg", ["image_host"]),
        ("https://0x7f.0.0.1/a.jpg", ["image_host"]),
        ("https://127\u30020\u30020\u30021/a.jpg", ["image_host"]),
        ("https://10.1.2.3/a.jpg", ["image_host"]),
        ("https://169.254.169.254/latest", ["image_host"]),
        ("https://[::1]/a.jpg", ["image_host"]),
        ("https://[::ffff:127.0.0.1]/a.jpg", ["image_host"]),
        ("https:///a.jpg", ["image_host"]),
        ("https://img.example/a.jpg", []),
        ("https://IMG.Example.COM/a.jpg", []),
        ("https://b\u00fccher.example/a.jpg", []),
        ("HTTPS://img.example.com/a.jpg", []),
        ("https://[2606:4700::1111]/a.jpg", []),
        ("https://img.test/a.jpg", ["image_host"]),
        ("https://a.b.test/a.jpg", ["image_host"]),
        ("https://img.invalid/a.jpg", ["image_host"]),
        ("https://img.onion/a.jpg", ["image_host"]),
        ("https://printer.local/a.jpg", ["image_host"]),
        ("https://nas.home.arpa/a.jpg", ["image_host"]),
        ("https://img.localhost/a.jpg", ["image_host"]),
        ("https://img.\uff54\uff45\uff53\uff54/a.jpg", ["image_host"]),
        ("https://192.168.1.10/a.jpg", ["image_host"]),
        ("https://172.31.0.1/a.jpg", ["image_host"]),
        ("https://100.64.0.1/a.jpg", ["image_host"]),
        ("https://0.0.0.0/a.jpg", ["image_host"]),
        ("https://224.0.0.5/a.jpg", ["image_host"]),
        ("https://255.255.255.255/a.jpg", ["image_host"]),
        ("https://0177.0.0.1/a.jpg", ["image_host"]),
        ("https://017700000001/a.jpg", ["image_host"]),
        ("https://0x7f000001/a.jpg", ["image_host"]),
        ("https://127.0.0.1./a.jpg", ["image_host"]),
        ("https://%31%32%37.0.0.1/a.jpg", ["image_host"]),
        ("https://[fe80::1%25eth0]/a.jpg", ["image_host"]),
        ("https://[fd00::1]/a.jpg", ["image_host"]),
        ("https://[fec0::1]/a.jpg", ["image_host"]),
        ("https://[ff02::1]/a.jpg", ["image_host"]),
        ("https://[::]/a.jpg", ["image_host"]),
        ("https://[::ffff:8.8.8.8]/a.jpg", ["image_host"]),
        ("https://[64:ff9b::7f00:1]/a.jpg", ["image_host"]),
        ("https://[2002:7f00:1::]/a.jpg", ["image_host"]),
        ("https://img.example.com:0/a.jpg", ["image_port"]),
        ("https://:secret@img.example.com/a.jpg", ["image_credentials"]),
        ("https://@img.example.com/a.jpg", ["image_credentials"]),
        ("https://img.example.com@127.0.0.1/a.jpg", ["image_credentials"]),
        ("//img.example.com/a.jpg", ["image_not_https"]),
        ("data:image/png;base64,AAAA", ["image_not_https"]),
        ("file:///etc/passwd", ["image_not_https"]),
        ("https://img.example.com:99999/a.jpg", ["image_malformed"]),
        ("https://[img.example.com/a.jpg", ["image_malformed"]),
        ("https://img.example.com/a b.jpg", ["image_malformed"]),
        ("https://img.example.com\\@127.0.0.1/", ["image_malformed"]),
        ("https://img.example.com/" + "a" * 2000, ["image_malformed"]),
    ],
)
def test_images_lie_on_a_public_https_host(cell: str, codes: list[str]) -> None:
    """The service fetches the image itself; the address keeps its text either way."""
    verdict = judge_image_url(cell)
    assert (verdict.value, [f.code for f in verdict.issues]) == (cell, codes)


paths = st.from_regex(r"/[A-Za-z0-9._~@:%-]{0,8}", fullmatch=True)
urls = st.builds(
    lambda scheme, host, path: f"{scheme}://{host}{path}",
    st.sampled_from(["https", "http", "HTTPS"]),
    hosts | hosts.map(lambda host: f"{host}.test"),
    paths,
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(urls | anything, max_size=20))
def test_the_column_equals_its_cells(cells: list[str]) -> None:
    """The fast path by pattern gives what each cell's own rule gives."""
    notes = Issues.blank(range(len(cells)))
    judged = judge_image_urls(pa.array(cells, pa.string()), notes)
    verdicts = [judge_image_url(cell) for cell in cells]
    assert judged.to_pylist() == [verdict.value for verdict in verdicts]
    found = [(row, f.code) for row, verdict in enumerate(verdicts) for f in verdict.issues]
    assert [(problem.line, problem.code) for problem in notes.problems] == found


@settings(max_examples=examples(200), deadline=None)
@given(st.ip_addresses())
def test_public_addresses_are_global_ones_of_one_machine(address: Any) -> None:  # noqa: ANN401 - hypothesis gives either family
    """What is taken for public is never private, loopback, link-local or multicast."""
    if is_public_address(str(address)):
        assert not (address.is_private)
        assert not (address.is_loopback)
        assert not (address.is_link_local)
        assert not address.is_multicast


# --- a night ---


def photographed(number: int, url: str = "", **changes: str) -> dict[str, str]:
    """Return a customer who consented and has a photograph."""
    url = url or f"https://img.example/{number}.jpg"
    return customer(number, image_url=url, **CONSENT, **changes)


def problems(night: Night) -> list[dict[str, str]]:
    """Return the findings of a night about photographs."""
    with (night.folder / "problems.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["column"] == "image_url"]


BAD = {
    "http://img.example/a.jpg": "image_not_https",
    "https://me:hush@img.example/a.jpg": "image_credentials",
    "https://192.168.0.9/a.jpg": "image_host",
    "https://nas/a.jpg": "image_host",
}


def test_a_bad_image_costs_only_the_selfie(tmp_path: Path) -> None:
    """The check is invalid with a hint, the row goes on, and nothing of it reaches the service."""
    world = World(tmp_path)
    rows = [photographed(1), *(photographed(2 + n, url) for n, url in enumerate(BAD))]
    night = world.screen(rows, checks=["karma", "selfie"])
    assert night.column("selfie_status")[1:] == ["invalid"] * len(BAD)
    assert night.column("selfie_status")[0] in {"match", "no_match", "unsure"}
    assert set(night.column("karma_status")) <= {"clear", "listed"}
    told = problems(night)
    assert {int(row["line"]): row["code"] for row in told} == {
        3 + number: code for number, code in enumerate(BAD.values())
    }
    assert all(row["hint"] and row["action"] == "invalid" for row in told)
    assert night.column("image_url")[1:] == list(BAD)
    report = night.report["checks"]["selfie"]
    assert report["rows_invalid"] == len(BAD)
    assert (report["lookups"], report["distinct"]) == (1, 1)
    assert len(world.calls("selfie")) == 1
    text = (night.folder / "problems.csv").read_text(encoding="utf-8")
    assert "192.168.0.9" not in text
    assert "hush" not in text


def test_a_person_without_a_bvn_record_costs_only_the_selfie(world: World) -> None:
    """Where the service has no BVN record the selfie fails, and the row goes on with the rest."""
    rows = [photographed(1, bvn=by_word("nobody").bvn), photographed(2)]
    night = world.screen(rows, checks=["karma", "selfie"])
    assert night.column("selfie_status")[0] == "failed"
    assert night.column("selfie_status")[1] in {"match", "no_match", "unsure"}
    assert set(night.column("karma_status")) <= {"clear", "listed"}
    assert night.report["state"] == "completed"


def test_no_photograph_is_asked_about_without_consent(world: World) -> None:
    """Image match is consent-gated, also where the answer is at hand."""
    with_consent = photographed(1)
    without = {**with_consent, **dict.fromkeys(CONSENT, ""), "customer_id": "C2"}
    night = world.screen([with_consent, without], checks=["selfie"])
    assert night.column("selfie_status")[1] == "refused"
    assert night.column("selfie_similarity")[1] is None
    world.screen([without], checks=["selfie"])
    assert len(world.calls("selfie")) == 1


def test_another_image_is_another_question(tmp_path: Path) -> None:
    """The same image is fresh for a year less four hours; another one is asked about at once."""
    now = system_clock()
    clock = {"now": now}
    world = World(tmp_path, clock=lambda: clock["now"])
    world.screen([photographed(1)], checks=["selfie"])
    clock["now"] = now + 364 * DAY
    lasting = {"consent_expires_at": "2099-01-01"}
    world.screen([photographed(1, **lasting)], checks=["selfie"])
    assert len(world.calls("selfie")) == 1
    night = world.screen(
        [photographed(1, "https://img.example/new.jpg", **lasting)], checks=["selfie"]
    )
    assert night.column("selfie_source") == ["asked"]
    assert len(world.calls("selfie")) == 2
    clock["now"] = now + 366 * DAY
    night = world.screen([photographed(1, **lasting)], checks=["selfie"])
    assert night.column("selfie_source") == ["asked"]


def test_thresholds_are_the_lender_s(tmp_path: Path) -> None:
    """From the upper one it is a match, below the lower one none, between the two unsure."""
    world = World(tmp_path)
    rows = [photographed(number) for number in range(1, 60)]
    scores = world.screen(rows, checks=["selfie"]).column("selfie_similarity")
    known = sorted(score for score in scores if score is not None)
    low, high = known[len(known) // 3], known[2 * len(known) // 3]
    world.settings = {"selfie_match_at": high, "selfie_no_match_below": low}
    night = world.screen(rows, checks=["selfie"])
    for score, status in zip(scores, night.column("selfie_status"), strict=True):
        if score is not None:
            assert status == ("match" if score >= high else "no_match" if score < low else "unsure")
    assert {"match", "no_match", "unsure"} <= set(night.column("selfie_status"))
    assert len(world.calls("selfie")) == 59


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"selfie_match_at": 60}, "SELFIE_NO_MATCH_BELOW: is 70, above SELFIE_MATCH_AT"),
        ({"selfie_no_match_below": 95}, "SELFIE_NO_MATCH_BELOW: is 95, above SELFIE_MATCH_AT"),
        ({"selfie_match_at": 0.9, "selfie_no_match_below": 0.5}, "write 90, not 0.9"),
        ({"selfie_match_at": 101}, "SELFIE_MATCH_AT"),
    ],
)
def test_thresholds_that_cannot_be_meant_are_told(given_: dict[str, float], named: str) -> None:
    """Overlapping thresholds and shares are refused by the variable's name."""
    with pytest.raises(SettingsError, match=named):
        read_settings(**given_)


def test_thresholds_may_meet() -> None:
    """With one threshold nothing is unsure."""
    assert read_settings(selfie_match_at=80, selfie_no_match_below=80).selfie_match_at == 80
