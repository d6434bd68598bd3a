"""The workflows are linted, pinned, and publish nothing that was not tried."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))


def jobs(name: str) -> dict[str, dict[str, Any]]:
    loaded = yaml.safe_load((FOLDER / name).read_text("utf-8"))
    found: dict[str, dict[str, Any]] = loaded["jobs"]
    return found


def test_workflows_pass_the_linter() -> None:
    """
    Zizmor finds no way in for others' code, and no right that is not needed.
    """
    done = subprocess.run(
        [Path(sys.executable).with_name("zizmor"), "--offline", "--quiet", FOLDER],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_pinned(path: Path) -> None:
    """
    By their commits, with the version for readers.
    """
    used = re.findall(r"uses: (.+)", path.read_text("utf-8"))

    assert used
    for each in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_jobs_end_and_their_commands_exist(path: Path) -> None:
    """
    Each has a limit, and the targets of make that it names.
    """
    makefile = (ROOT / "Makefile").read_text("utf-8")
    text = path.read_text("utf-8")

    assert all(each["timeout-minutes"] <= 120 for each in jobs(path.name).values())
    for line in re.findall(r"run: make (.+)", text):
        for target in (each for each in line.split() if "=" not in each):
            assert f"\n{target}:" in makefile


def test_nothing_is_published_that_was_not_tried() -> None:
    """
    What publishes needs the job that installs and serves, which needs the build; only
    these jobs may write.
    """
    release = jobs("release.yml")

    assert release["try"]["needs"] == "build"
    assert release["publish"]["needs"] == release["images"]["needs"] == "try"
    writing = {
        name
        for name, each in release.items()
        if "write" in each.get("permissions", {}).values()
    }
    assert writing == {"publish", "images"}
    assert release["publish"]["environment"] == "pypi"


def test_images_are_those_of_the_recipe() -> None:
    """
    Every target is published, by the base that the distributions are tried on.
    """
    recipe = (ROOT / "deploy/docker/Dockerfile").read_text("utf-8")
    targets = re.findall(r"^FROM server AS (\w+)$", recipe, re.MULTILINE)
    release = jobs("release.yml")
    built = [
        each["target"] for each in release["images"]["strategy"]["matrix"]["include"]
    ]
    [base] = re.findall(r"^ARG BASE=python:(\d+\.\d+)\.\d+-(.+)$", recipe, re.MULTILINE)

    assert sorted(built) == sorted(targets)
    assert release["try"]["container"] == f"python:{'-'.join(base)}"
