"""Counts the calls of our functions, by thread.

Until it is told to record, a recorder that watches a thread costs it little. A resumed
coroutine or generator counts as a call, as it does for Python.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple


class Called(NamedTuple):
    """A function that was called.

    Attributes:
        file: Its file, from its import package on.
        name: Its qualified name.
    """

    file: str
    name: str


Calls = dict[str, list[Called]]
"""By name of the thread, in order."""
Look = Callable[[object], None]


class CallRecorder:
    """Appends each call of our code to a list of its thread, while it records."""

    def __init__(self, root: Path) -> None:
        """Records calls of code below a folder, but not of its tools and tests."""
        self._root = f"{root}/"
        self._outside = (f"{root}/tools/", f"{root}/tests/", f"{root}/.venv/")
        self._known: dict[CodeType, Called | None] = {}
        self._calls: Calls = {}
        self._is_recording = False
        self._until: Called | None = None
        self._look: Look | None = None
        self._unseen: set[int] = set()

    def watch(self) -> None:
        """Watches this thread, and those that start from now on."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def remove(self) -> None:
        """Watches no more threads that start, nor this one."""
        threading.setprofile(None)
        sys.setprofile(None)

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Ignores the calls of this thread meanwhile."""
        own = threading.get_ident()
        self._unseen.add(own)
        try:
            yield
        finally:
            self._unseen.discard(own)

    def record(self, until: Called | None = None, look: Look | None = None) -> None:
        """Begins to record, from an empty list.

        Args:
            until: The last function to record; None for no end.
            look: Sees what is given to each function, and what it returns.
        """
        self._calls = {}
        self._until, self._look = until, look
        self._is_recording = True

    def stop(self) -> Calls:
        """Records no more; returns the calls."""
        self._is_recording = False
        calls, self._calls = self._calls, {}
        return calls

    def forget(self) -> None:
        """Forgets the calls of this thread, if it still records."""
        if self._is_recording:
            self._calls.pop(threading.current_thread().name, None)

    @property
    def count(self) -> int:
        """Number of calls since `record`."""
        return sum(map(len, list(self._calls.values())))

    def _profile(self, frame: FrameType, event: str, returned: object) -> None:
        if not self._is_recording or event not in {"call", "return"}:
            return
        code = frame.f_code
        try:
            called = self._known[code]
        except KeyError:
            called = self._known[code] = self._called(code)
        if called is None or threading.get_ident() in self._unseen:
            return
        if event == "return":
            if self._look is not None:
                self._look(returned)
            return
        name = threading.current_thread().name
        self._calls.setdefault(name, []).append(called)
        if self._look is not None:
            for each in _arguments(frame):
                self._look(each)
        if called == self._until:
            self._is_recording = False

    def _called(self, code: CodeType) -> Called | None:
        path = code.co_filename
        if not path.startswith(self._root) or path.startswith(self._outside):
            return None
        file = path.removeprefix(self._root).partition("/src/")[2]
        return Called(file or path, code.co_qualname)


def moves(calls: Iterable[Called]) -> int:
    """Counts the calls whose file is not that of the call before."""
    return sum(one.file != other.file for one, other in pairwise(calls))


def _arguments(frame: FrameType) -> Iterator[object]:
    code = frame.f_code
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        yield frame.f_locals.get(name)
