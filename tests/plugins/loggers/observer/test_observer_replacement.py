"""A failed start of an observer process is logged and tried again, or given up."""

import math
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline import EngineConfig
from hookline.exceptions import ConfigError
from hookline_observer import beginning, owner
from hookline_observer.owner import ObserverProcess
from hookline_testing.own_time import Deadline

OBSERVER = """
import os
import time
from pathlib import Path

from hookline_processes.frames import frame, read_frame

starts = Path(__file__).with_name("starts")
with starts.open("a") as file:
    print(os.getpid(), file=file)
begun = frame(b"\\x80")  # an empty `Begun`
match (len(starts.read_text().split()), Path(__file__).with_name("case").read_text()):
    case 1, _:
        os.write(0, begun)  # then it ends
    case 2, "hangs":
        time.sleep(600)
    case 2, "half a message":
        os.write(0, begun[:-1])
    case 2, "another message":
        os.write(0, frame(b"\\x81"))
    case _:
        os.write(0, begun)
        while read_frame(0) is not None:
            pass
"""
"""An observer process that misbehaves at its second start."""

WAIT_SECONDS = 60.0


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = Deadline(WAIT_SECONDS)
    while not is_so():
        assert deadline.is_ahead
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


class Script:
    """The module of an observer process, and the ids of the processes that ran it."""

    name = "misbehaving_observer"

    def __init__(self, folder: Path, case: str) -> None:
        (folder / f"{self.name}.py").write_text(OBSERVER)
        (folder / "case").write_text(case)
        self._starts = folder / "starts"

    @property
    def pids(self) -> list[int]:
        if not self._starts.exists():
            return []
        return [int(each) for each in self._starts.read_text().split()]


@pytest.fixture
def make_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Script]:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(owner, "MODULE", Script.name)
    return lambda case: Script(tmp_path, case)


def test_observer_in_the_making_ends_when_closing_begins(
    make_script: Callable[[str], Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a replacement may take to begin, closing does not wait for it."""
    monkeypatch.setattr(beginning, "START_SECONDS", math.inf)
    script = make_script("hangs")
    observer = ObserverProcess(EngineConfig())
    wait_until(lambda: len(script.pids) == 2)

    observer.close()

    assert not any(map(is_alive, script.pids))


@pytest.mark.parametrize(
    ("case", "reason", "times"),
    [
        ("half a message", "its process ended with exit code 0", 2),
        ("another message", "truncated", 1),
    ],
)
def test_observer_that_ends_amid_its_first_words_is_replaced(
    make_script: Callable[[str], Script],
    caplog: pytest.LogCaptureFixture,
    case: str,
    reason: str,
    times: int,
) -> None:
    """What is no message is a failed start, which is logged and tried again."""
    script = make_script(case)
    observer = ObserverProcess(EngineConfig())

    wait_until(lambda: "the observer process has been replaced" in caplog.text)

    assert observer.pid == script.pids[2]
    assert caplog.text.count(reason) == times
    observer.close()


def test_observer_that_cannot_be_started_is_tried_again(
    make_script: Callable[[str], Script],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error of the kernel is a failed start, at first and when it is replaced."""
    make_script("works")
    popen, refused = subprocess.Popen, [False, True, True, False, True]

    def refuse_some(*arguments: object, **options: object) -> object:
        if refused.pop(0):
            raise BlockingIOError("no more processes")
        return popen(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", refuse_some)
    observer = ObserverProcess(EngineConfig())
    wait_until(lambda: "the observer process has been replaced" in caplog.text)
    observer.close()

    assert "its process cannot be started: no more processes" in caplog.text
    with pytest.raises(ConfigError, match="cannot be started: no more processes"):
        ObserverProcess(EngineConfig())
