"""The trial of a tokenizer in another process."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from hookline_processes.tokenizer_trial import tokenizer_refusal

FORK_SECONDS = 0.5
"""Time for a fork that nothing keeps from happening."""


def test_fork_waits_for_the_start_of_the_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A child that a logger forks meanwhile would hold the pipes of the trial."""
    (tmp_path / "tokenizer.json").write_text("{}")
    popen, forking = subprocess.Popen, threading.Thread(target=_fork)
    waited = []

    def start(*arguments: object, **options: object) -> object:
        forking.start()
        forking.join(FORK_SECONDS)
        waited.append(forking.is_alive())
        return popen(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", start)
    reason = tokenizer_refusal(tmp_path)
    forking.join()

    assert waited == [True]
    assert reason.startswith("its tokenizer.json is refused: ")


def test_folder_without_a_tokenizer_is_not_tried(tmp_path: Path) -> None:
    """There is nothing that could be refused."""
    assert not tokenizer_refusal(tmp_path)


def _fork() -> None:
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)
