"""Programs that tests need: a lack of them is a failure or has a reason."""

import os
import subprocess
from pathlib import Path

import pytest

from hookline_testing.debian_programs import MUST_INSTALL, needed_program

SCRIPT = Path(__file__).parents[3] / "tools" / "fetch_program.sh"
NAME = "hookline-has-no-such-program"


@pytest.fixture(autouse=True)
def nothing_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def test_unpacked_program_is_found(tmp_path: Path) -> None:
    """What was fetched is found where the script puts it."""
    program = tmp_path / "prometheus" / "usr" / "bin" / "promtool"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)

    assert needed_program("promtool", tmp_path) == program


def test_missing_program_fails_where_it_must_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all must be installed, a missing program is a failure that names it."""
    monkeypatch.setenv(MUST_INSTALL, "1")

    with pytest.raises(pytest.fail.Exception, match="there is no promtool"):
        needed_program("promtool", tmp_path)


def test_missing_program_skips_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere its tests are skipped."""
    monkeypatch.delenv(MUST_INSTALL, raising=False)

    with pytest.raises(pytest.skip.Exception, match="make programs"):
        needed_program("promtool", tmp_path)


def test_unreachable_packages_are_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no server of packages answered, tests are skipped with what was said."""
    monkeypatch.setenv(MUST_INSTALL, "1")
    fetch(tmp_path, tmp_path / "prometheus", "echo E: no route >&2; exit 100")

    with pytest.raises(pytest.skip.Exception, match="update failed: E: no route"):
        needed_program("promtool", tmp_path)


def test_another_trouble_is_no_reason(tmp_path: Path) -> None:
    """That a package does not exist is said, and leaves the lack a failure."""
    said = fetch(
        tmp_path, tmp_path / "prometheus", 'case "$*" in *install*) exit 100; esac'
    )

    assert "apt-get cannot install it" in said
    assert not (tmp_path / "prometheus.unreachable").exists()


def fetch(tmp_path: Path, folder: Path, apt_get: str) -> str:
    """Runs the script with an apt-get of the test's own; returns what it says."""
    stub = tmp_path / "apt-get"
    stub.write_text(f"#!/bin/sh\n{apt_get}\n")
    stub.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", SCRIPT, folder, NAME, NAME],
        env={"PATH": f"{tmp_path}{os.pathsep}{os.defpath}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
