"""The built package holds everything under one name and gets on with a lender's own folders."""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LINKS = ("data", "flows", "schemas", "tasks")
FOLDERS = ("client", "flows", "schemas", "storage", "tasks")
"""Names that a lender's own folders may well have."""
TEMPLATES = (".env.example", "prefect.yaml")
WANTED = [
    "py.typed",
    *TEMPLATES,
    "flows/work_pool.json",
    *(f"data/{each.relative_to(ROOT / 'data')}" for each in (ROOT / "data").rglob("*.toml")),
    *(f"data/{each.relative_to(ROOT / 'data')}" for each in (ROOT / "data").rglob("*.j2")),
    "data/samples/customers.csv",
    "data/names/families.csv",
    "sandbox/__main__.py",
    "sandbox/fiction.toml",
    "sandbox/service.toml",
]
"""What a run, a deployment or the demo reads, and a program that type-checks against us."""
BUILD = """
import sys
from setuptools.build_meta import build_sdist, build_wheel
folder = sys.argv[1]  # the backend writes its own words into sys.argv
build_wheel(folder)
build_sdist(folder)
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with wheel and sdist, built from a copy so that nothing stays behind here."""
    source = tmp_path_factory.mktemp("source")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(
        ["tar", "-cf", str(source / "all.tar"), "-T", "-"],
        cwd=ROOT,
        input=b"\n".join(n for n in listed.stdout.splitlines() if (ROOT / n.decode()).exists()),
        check=True,
    )
    subprocess.run(["tar", "-xf", "all.tar"], cwd=source, check=True)
    (source / "all.tar").unlink()
    folder = tmp_path_factory.mktemp("built")
    subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=source, check=True, capture_output=True
    )
    return folder


def test_wheel_and_sdist_hold_the_real_files_under_one_name(built: Path) -> None:
    """Nothing is installed beside the one package; its data is inside."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"nightscreen"}
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        members = {each.name.partition("/")[2]: each for each in sdist.getmembers()}
    for name in WANTED:
        assert f"nightscreen/{name}" in names
        assert members[name if name in TEMPLATES else f"nightscreen/{name}"].isfile()
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_installed_beside_folders_of_the_same_names(built: Path, tmp_path: Path) -> None:
    """A lender's own `flows/` or `client.py` is not mistaken for ours, nor ours for theirs."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "site")  # noqa: S202 - built from this tree
    beside = tmp_path / "beside"
    for name in FOLDERS:
        (beside / name).mkdir(parents=True)
        (beside / name / "__init__.py").write_text("raise ImportError('the wrong one')\n")
    (beside / "x.csv").write_text("customer_id,bvn\nC1,22123456789\n")
    program = (
        "import sys; sys.path.insert(1, sys.argv.pop(1))\n"
        "from nightscreen.cli.entry import run; import nightscreen; print(nightscreen.__file__)\n"
        "run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "site"), "inspect", "x.csv"],
        cwd=beside,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "site"))


def test_only_four_folders_are_links_into_the_package() -> None:
    """The layout that a user of Prefect looks for stands at the root; nothing else is a link."""
    listed = subprocess.run(
        ["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    links = {
        line.split("\t")[1]: (ROOT / line.split("\t")[1]).readlink().as_posix()
        for line in listed.stdout.splitlines()
        if line.startswith("120000")
    }
    assert links == {name: f"nightscreen/{name}" for name in LINKS}


def test_deployments_name_modules_that_are_installed() -> None:
    """A path would need a checkout."""
    document = yaml.safe_load((ROOT / "prefect.yaml").read_text("utf-8"))
    entrypoints = [each["entrypoint"] for each in document["deployments"]]
    assert entrypoints
    for entrypoint in entrypoints:
        module, _, flow = entrypoint.rpartition(".")
        assert module.startswith("nightscreen.flows.")
        tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())
        made = [node.targets for node in tree.body if isinstance(node, ast.Assign)]
        named = {node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}
        assert flow in named | {each.id for (each,) in made if isinstance(each, ast.Name)}
