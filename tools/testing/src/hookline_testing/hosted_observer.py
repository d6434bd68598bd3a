"""The inbox of an observer process in a thread of this process."""

import shutil
import threading
from types import TracebackType
from typing import Self

from hookline.config import EngineConfig
from hookline.frontend.observation import Observers
from hookline.frontend.observing import ObserverAddress
from hookline_observer.host import ObserverHost
from hookline_observer.merging import MergedNotices
from hookline_observer.messages import Alive
from hookline_process_engine.ipc import socket_folder
from hookline_process_engine.mailbox import make_key


class HostedObserver:
    """Does what an observer process does; a context manager.

    Attributes:
        observers: Its loggers.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._key = make_key()
        self._folder = socket_folder()
        self._incarnation = 0

    def address(self, index: int = 0) -> ObserverAddress:
        """Returns the address for front end `index`."""
        return ObserverAddress(self._folder, self._key, index)

    def begin(self) -> None:
        """Begins, for the first time or after `end`, with new loggers."""
        self._incarnation += 1
        self._is_ending = threading.Event()
        self.observers = Observers(self._config)
        hooks = tuple(sorted(self.observers.hooks))
        self._host = ObserverHost(
            self._folder,
            self._key,
            Alive(self._incarnation, hooks),
            self.observers,
            MergedNotices(self.observers, restarts=self._incarnation - 1),
            alive_seconds=0.1,
        )
        self._thread = threading.Thread(
            target=self._host.serve, args=(self._is_ending.is_set,), daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Takes what has arrived and ends."""
        self._is_ending.set()
        self._thread.join()
        self.observers.close(10)
        self._host.close()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        shutil.rmtree(self._folder, ignore_errors=True)
