"""What `deploy/` holds, checked as far as it can be without a container engine."""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from packaging.utils import canonicalize_name

from nightscreen.config.settings import read_settings, setting_names
from nightscreen.journal import open_journal
from nightscreen.journal.copying import back_up_dated, restore
from nightscreen.privacy.purging import purge_due_now
from nightscreen.schemas.errors import OutputError, SettingsError
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DEPLOY = ROOT / "deploy"
DAY = 86_400_000_000


def test_only_the_nightly_is_switched_on() -> None:
    """Whatever else `deploy --all` registers waits for somebody to switch it on."""
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text("utf-8"))["deployments"]
    active = [
        each["name"]
        for each in deployments
        if any(schedule["active"] for schedule in each.get("schedules", ()))
    ]
    assert active == ["nightly"]
    assert {"backup", "purge"} <= {each["name"] for each in deployments}
    assert all(each.get("description") for each in deployments)


def test_the_engine_of_the_compose_file_answers_nobody_without_its_login() -> None:
    """Those who use it have the login, from a file; the portal has neither login nor address.

    Each secret is a file; only the proxy is reached by other machines, and pages of the engine not;
    every setting exists: a misspelt one would be ignored in silence.
    """
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    services = found["services"]
    assert all(each["file"].startswith("./secrets/") for each in found["secrets"].values())
    named = {name for each in services.values() for name in each.get("secrets", ())}
    assert named == set(found["secrets"])
    published = {name: each["ports"] for name, each in services.items() if "ports" in each}
    assert published.keys() == {"engine", "proxy"}
    assert all(each.startswith("127.0.0.1:") for each in published["engine"])
    known = {*setting_names(), *(f"{name}_FILE" for name in setting_names())}
    for service in services.values():
        ours = {name for name in service.get("environment", {}) if name.startswith("NIGHTSCREEN_")}
        assert ours <= known
    having = {name for name, each in services.items() if "engine_login" in each.get("secrets", ())}
    assert having == {"engine", "flows", "inbox", "desk"}
    engine = services["engine"]["environment"]
    assert engine["PREFECT_SERVER_API_AUTH_STRING_FILE"] == "/run/secrets/engine_login"
    assert "*" not in engine["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"]
    for name in ("flows", "inbox", "desk"):
        given = services[name]["environment"]
        assert given["PREFECT_API_AUTH_STRING_FILE"] == "/run/secrets/engine_login"
    assert not any(name.startswith("PREFECT") for name in services["portal"]["environment"])
    assert services["portal"]["environment"]["NIGHTSCREEN_DATA_KEY_FILE"]


def locked(file: str) -> dict[str, str]:
    """Return each package of a lock with its version; each has the digests of its files."""
    found: dict[str, str] = {}
    text = (ROOT / file).read_text("utf-8").replace(" \\\n", " ")
    for line in text.splitlines()[1:]:
        entry = re.fullmatch(r"(\S+)==(\S+)((?: +--hash=sha256:[0-9a-f]{64})+)", line)
        assert entry, line
        found[canonicalize_name(entry[1])] = entry[2]
    return found


def test_everything_installed_or_built_with_is_pinned() -> None:
    """Each file by its digest, setuptools by one version everywhere, the base image by its own."""
    run, everything = locked("requirements.lock"), locked("requirements-dev.lock")
    assert run.items() <= everything.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["build-system"]["requires"] == [f"setuptools=={run['setuptools']}"]
    image = (DEPLOY / "Dockerfile").read_text("utf-8")
    pinned = r"^ARG BASE=python:3\.11\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?$"
    assert re.search(pinned, image, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", image, re.MULTILINE)) == {"${BASE}"}
    installs = [
        words
        for text in (image, (ROOT / "Makefile").read_text("utf-8").split("\nlock:")[0])
        for words in re.findall(r"(?:pip install|\$\(PIP\)) [^\n]*-r [^\n]*", text)
    ]
    assert len(installs) == 3
    assert all("--require-hashes" in words for words in installs)


def test_secrets_come_from_files(tmp_path: Path) -> None:
    """The command finds the value, and the name of the file is gone."""
    (tmp_path / "key").write_text("a key of\n")
    files = {
        f"{name}_FILE": str(tmp_path / "key")
        for name in (
            "NIGHTSCREEN_API_KEY",
            "PREFECT_API_AUTH_STRING",
            "PREFECT_SERVER_API_AUTH_STRING",
        )
    }
    done = subprocess.run(
        [str(DEPLOY / "entrypoint"), "sh", "-c", "env; umask"],
        env={"PATH": "/usr/bin:/bin", **files},
        capture_output=True,
        text=True,
        check=True,
    )
    for name in files:
        assert f"{name.removesuffix('_FILE')}=a key of\n" in done.stdout
    assert done.stdout.endswith("0077\n")
    assert "_FILE" not in done.stdout


def test_daily_copies_are_kept_in_number(tmp_path: Path) -> None:
    """The oldest go once the new one is whole; what is no copy stays; one copy a day."""
    now = [20_000 * DAY]
    home, backups = tmp_path / "home", tmp_path / "backups"
    settings = read_settings(home=home)
    with open_journal(home, clock=lambda: now[0]):
        pass
    (backups / "mine").mkdir(parents=True)
    (tmp_path / "words").write_text("a walk by the lagoon\n")
    for _ in range(3):
        done = back_up_dated(
            settings,
            str(backups),
            keep=2,
            passphrase_file=str(tmp_path / "words"),
            clock=lambda: now[0],
        )
        now[0] += DAY
    assert (done["key"], done["removed"]) == ("sealed", 1)
    assert sorted(each.name for each in backups.iterdir()) == ["2024-10-05", "2024-10-06", "mine"]
    restore(backups / "2024-10-06", tmp_path / "new", passphrase="a walk by the lagoon")
    now[0] -= DAY
    with pytest.raises(OutputError, match="holds something already"):
        back_up_dated(settings, str(backups), keep=2, clock=lambda: now[0])
    with pytest.raises(SettingsError, match="cannot be read"):
        back_up_dated(settings, str(backups), keep=2, passphrase_file=str(tmp_path / "none"))
    assert purge_due_now(settings)["removed_files"] == 0
