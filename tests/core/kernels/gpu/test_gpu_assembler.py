"""Triton assembles kernels with a ptxas that is sound."""

import logging
import os
from types import SimpleNamespace

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

from hookline_kernels.gpu import assembler

PATH = "TRITON_PTXAS_PATH"


@pytest.mark.parametrize(
    ("usual", "newer", "chosen"),
    [("12.8", "12.9", "newer"), ("12.9", "13.0", None), ("13.0", None, None)],
)
def test_a_sound_assembler_is_chosen(
    monkeypatch: pytest.MonkeyPatch, usual: str, newer: str | None, chosen: str | None
) -> None:
    """The usual one stays unless it is known to be wrong."""
    offer(monkeypatch, usual, newer)

    assembler.choose_assembler()

    assert os.environ.get(PATH) == chosen


def test_the_environment_chooses_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is set is left alone."""
    offer(monkeypatch, "12.8", "12.9")
    monkeypatch.setenv(PATH, "own")

    assembler.choose_assembler()

    assert os.environ[PATH] == "own"


def test_an_unsound_one_alone_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the variable to set where no sound assembler exists."""
    offer(monkeypatch, "12.8", None)

    with caplog.at_level(logging.WARNING):
        assembler.choose_assembler()

    assert PATH not in os.environ
    assert f"ptxas 12.8 may miscompile kernels: set {PATH}" in caplog.text


def offer(monkeypatch: pytest.MonkeyPatch, usual: str, newer: str | None) -> None:
    """Shows Triton's tools with these versions."""
    tools = SimpleNamespace(ptxas=SimpleNamespace(version=usual, path="usual"))
    if newer is not None:
        tools.ptxas_blackwell = SimpleNamespace(version=newer, path="newer")
    triton = SimpleNamespace(knobs=SimpleNamespace(nvidia=tools))
    monkeypatch.setattr(assembler, "triton", triton)
    monkeypatch.setenv(PATH, "to be removed")  # and to be restored after the test
    monkeypatch.delenv(PATH)
