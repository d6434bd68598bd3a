"""Starts the observer process, replaces it when it ends, and ends it."""

import logging
import os
import select
import shutil
import signal
import threading
import time

import msgspec

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError, HooklineError
from hookline.framed_pipes import framed
from hookline.frontend.restarts import RestartBudget
from hookline.frozen import plain
from hookline.observer_context import ObserverAddress
from hookline.owned_process import OwnedProcess
from hookline.transport.forked_children import release_in_forked_children
from hookline.transport.ipc import private_folder
from hookline.transport.mailbox import make_key
from hookline_observer.messages import Begin, Begun
from hookline_observer.process import (
    FAREWELL_SECONDS,
    FLUSH_SECONDS,
    HUNG_SECONDS,
)
from hookline_registry import RegistryError

MODULE = "hookline_observer.process"
START_SECONDS = 120.0
RESTARTS_PER_HOUR = 10
END_SECONDS = FLUSH_SECONDS + 2 * FAREWELL_SECONDS
_LOOK_SECONDS = 0.2
_log = logging.getLogger(__name__)


class ObserverProcess:
    """An observer process that this process owns; front ends reach it by its address.

    If it ends, another one takes its place under the same address, after a pause that
    grows, at most `RESTARTS_PER_HOUR` times.
    """

    def __init__(self, config: EngineConfig, *, pages: str = "") -> None:
        """Starts it and waits until its loggers are loaded.

        Args:
            config: The engine's configuration, with the loggers.
            pages: `module:attribute` of what serves the loggers' pages; empty if
                nobody does.

        Raises:
            ConfigError: An option of a logger is wrong, or the process did not start.
            RegistryError: A logger is unknown or broken.
        """
        self._config = config
        self._pages = pages
        self._key = make_key()
        self._incarnation = 0
        self._is_closing = threading.Event()
        self._folder = private_folder()
        self._latest: OwnedProcess | None = None
        release_in_forked_children(self._folder, self._pipes)
        try:
            self._latest = self._start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._watcher = threading.Thread(
            target=self._watch, name="hookline-observer-watch", daemon=True
        )
        self._watcher.start()

    @property
    def pid(self) -> int:
        """Id of the process that runs now, or ran last."""
        return self._process.pid

    def address(self, index: int = 0) -> ObserverAddress:
        """Returns the address for front end `index`."""
        return ObserverAddress(self._folder, self._key, index)

    def close(self, *, timeout_seconds: float = END_SECONDS) -> None:
        """Ends the process once its loggers have got what it has; callable twice.

        It is killed if that takes longer than `timeout_seconds`.
        """
        if self._is_closing.is_set():
            return
        self._is_closing.set()
        self._watcher.join()
        self._process.ask_to_end()
        self._process.end(timeout_seconds)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _pipes(self) -> list[int]:
        pipe = None if self._latest is None else self._latest.pipe
        return [] if pipe is None else [pipe]

    @property
    def _process(self) -> OwnedProcess:
        assert self._latest is not None, "the constructor has started it"
        return self._latest

    def _start(self) -> OwnedProcess:
        self._incarnation += 1
        said, begun = os.pipe()
        process = OwnedProcess(
            MODULE, (self._folder, begun), name="observer", pass_fds=(begun,)
        )
        os.close(begun)
        begin = Begin(self._key, self._incarnation, self._config, self._pages)
        body = msgspec.msgpack.encode(begin, enc_hook=plain)
        try:
            process.tell(framed(body))
            _wait_until_begun(said, process)
        except BaseException:
            process.kill()
            process.ask_to_end()
            process.end(0.0)
            raise
        finally:
            os.close(said)
        return process

    def _watch(self) -> None:
        """Replaces the process whenever it ends."""
        budget = RestartBudget(RESTARTS_PER_HOUR, SystemClock())
        while not self._is_closing.wait(_LOOK_SECONDS):
            if (reason := self._process.end_reason) is None:
                continue
            self._process.ask_to_end()
            self._process.end(0.0)
            if not self._replace(_plainer(reason), budget):
                return

    def _replace(self, reason: str, budget: RestartBudget) -> bool:
        """Returns False if the process is not replaced any more."""
        while (delay := budget.take()) is not None:
            _log.error(
                "the observer process has ended: %s; serving goes on without loggers, "
                "and it is replaced in %g s",
                reason,
                delay,
            )
            if self._is_closing.wait(delay):
                return False
            try:
                self._latest = self._start()
            except (HooklineError, RegistryError) as error:
                reason = str(error)
            else:
                _log.warning("the observer process has been replaced")
                return True
        _log.error(
            "the observer process has ended: %s; it is not replaced again, because it "
            "was %d times within an hour, and loggers get nothing any more",
            reason,
            RESTARTS_PER_HOUR,
        )
        return False


def _wait_until_begun(said: int, process: OwnedProcess) -> None:
    """Reads what the process says about its start.

    Raises:
        ConfigError: An option of a logger is wrong, or nothing came.
        RegistryError: A logger is unknown or broken.
    """
    poller = select.poll()
    poller.register(said, select.POLLIN | select.POLLHUP)
    words, deadline = b"", time.monotonic() + START_SECONDS
    # Its end closes the pipe, unless a process that it has started holds that, too.
    while time.monotonic() < deadline:
        has_ended = process.end_reason is not None
        if poller.poll(round(_LOOK_SECONDS * 1000)):
            if not (part := os.read(said, 65536)):
                break
            words += part
        elif has_ended:
            break
    if not words:
        detail = process.end_reason or "its process did not begin in time"
        raise ConfigError("observer-process", detail)
    begun = msgspec.msgpack.decode(words, type=Begun)
    if begun.kind == "config":
        raise ConfigError(begun.subject, begun.detail)
    if begun.kind:
        raise RegistryError(begun.detail)


def _plainer(reason: str) -> str:
    if signal.SIGALRM.name in reason:
        return f"a logger held its interpreter for more than {HUNG_SECONDS} s"
    return reason
