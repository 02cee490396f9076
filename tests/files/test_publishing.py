"""A run's folder at a URL: whole files, the manifest last, on a real S3 interface."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.dirfs import DirFileSystem

from nightscreen.files.outputs import MANIFEST, REPORT
from nightscreen.files.places import discard_folder, names_at, remote_place
from nightscreen.files.run_folder import RunFiles, RunFolder
from nightscreen.schemas.errors import OutputError
from tests.files.object_store import BUCKET, object_store

RUN = "20260301-220000-a1b2c3"


@pytest.fixture(scope="module", autouse=True)
def store() -> Iterator[None]:
    """An S3 interface on this machine, by its own settings."""
    with object_store() as settings, pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"s3://{BUCKET}/{tmp_path.name}"


def written(home: Path, url: str, text: str = "first") -> RunFolder:
    folder = RunFolder.at(url, RUN, home)
    folder.begin()
    folder.write_json(REPORT, {"text": text})
    (folder.path / "enriched").mkdir(exist_ok=True)
    (folder.path / "enriched" / "part-00000.parquet").write_bytes(text.encode() * 50_000)
    folder.write_json(MANIFEST, {"files": folder.files()})
    folder.publish()
    return folder


def content(url: str) -> dict[str, bytes]:
    with remote_place(f"{url}/{RUN}") as place:
        return {name: place.cat_file(name) for name in names_at(place)}


def test_what_lies_at_the_url_is_what_the_manifest_tells(tmp_path: Path, url: str) -> None:
    """Names and digests agree; nothing else is there."""
    folder = written(tmp_path / "home", url)
    found = content(url)
    told = json.loads(found[MANIFEST])["files"]
    assert set(found) == {*told, MANIFEST}
    for name, each in told.items():
        assert hashlib.sha256(found[name]).hexdigest() == each["sha256"]
        assert (folder.path / name).read_bytes() == found[name]


def test_the_manifest_comes_last_and_goes_first(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that is cut short leaves whole files and no manifest, and is made good."""
    written(tmp_path / "home", url)
    upload = DirFileSystem.put_file

    def failing(self: DirFileSystem, source: str, name: str) -> None:
        if name.startswith("report"):
            raise OSError("the network is gone")
        upload(self, source, name)

    with monkeypatch.context() as patch:
        patch.setattr(DirFileSystem, "put_file", failing)
        with pytest.raises(OutputError, match="cannot use"):
            written(tmp_path / "home", url, "second")
    assert MANIFEST not in content(url)
    folder = RunFolder.at(url, RUN, tmp_path / "home")
    folder.publish()
    found = content(url)
    assert json.loads(found[REPORT]) == {"text": "second"}
    assert json.loads(found["report-1.json"]) == {"text": "first"}
    assert MANIFEST in found


def test_what_is_removed_here_goes_there_too(tmp_path: Path, url: str) -> None:
    """Erasing and purging reach the copy; withdrawing leaves nothing of it."""
    folder = written(tmp_path / "home", url)
    files = RunFiles.of(folder.path, "retention")
    files.remove([folder.path / "enriched" / "part-00000.parquet"])
    files.finish(0)
    found = content(url)
    assert set(found) == {MANIFEST, REPORT}
    assert set(json.loads(found[MANIFEST])["files"]) == {REPORT}
    discard_folder(folder.path)
    assert content(url) == {}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3://key:secret@bucket/out", "must not hold a user name"),
        ("nosuchthing://bucket/out", "no driver for nosuchthing"),
    ],
)
def test_a_url_that_cannot_be_used_is_told(place: str, said: str, tmp_path: Path) -> None:
    """In one sentence, without what it holds."""
    with pytest.raises(OutputError, match=said) as told:
        RunFolder.at(place, RUN, tmp_path)
    assert "secret" not in str(told.value)


def test_a_bucket_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Before anything is spent, since the folder is made first."""
    with pytest.raises(OutputError, match="cannot use s3://no-such-bucket-here"):
        written(tmp_path, "s3://no-such-bucket-here/out")
