"""`hookline doctor`: what a server gets here, and what it lacks."""

from pathlib import Path

import pytest

from hookline_server.cli import main


def test_machine_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Memory, cores and folders have a row each.
    """
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    status = main(["doctor"])

    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines] == [
        *("what", "memory", "kills", "cores", "caches", "temporary")
    ]
    assert f"{tmp_path}/hookline/kernels" in lines[4]
    assert str(tmp_path) in lines[5]
    assert list(tmp_path.iterdir()) == [tmp_path / "hookline"]


def test_what_is_missing_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Where nothing can be written, the reasons are shown, and the status is 1.
    """
    file = tmp_path / "file"
    file.touch()
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(file))
    monkeypatch.setattr("hookline_host.folders._USUAL", ())

    status = main(["doctor"])

    shown = capsys.readouterr().out
    assert status == 1
    assert "no folder (" in shown
    assert "there is no home folder" in shown
    assert "set TMPDIR to one" in shown
