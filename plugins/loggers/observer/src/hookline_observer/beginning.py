"""Waits until an observer process has said how its start went."""

import os
import select
import threading
import time

import msgspec

from hookline.exceptions import ConfigError
from hookline_observer.messages import Begun
from hookline_processes.supervised import OwnedProcess
from hookline_registry import RegistryError

START_SECONDS = 120.0
_LOOK_SECONDS = 0.2
_OPTION = "observer-process"


def wait_until_begun(
    said: int, process: OwnedProcess, closing: threading.Event
) -> None:
    """Reads what the process says about its start.

    Args:
        said: The pipe through which it says it.
        process: The process.
        closing: Set once nobody wants it any more.

    Raises:
        ConfigError: An option of a logger is wrong, nothing came, or `closing` is set.
        RegistryError: A logger is unknown or broken.
    """
    words = _words(said, process, closing)
    if not words:
        detail = process.end_reason or "its process did not begin in time"
        raise ConfigError(_OPTION, detail)
    try:
        begun = msgspec.msgpack.decode(words, type=Begun)
    except msgspec.MsgspecError as error:
        detail = process.end_reason or "its process ended while it began"
        raise ConfigError(_OPTION, f"{detail}: {error}") from error
    if begun.kind == "config":
        raise ConfigError(begun.subject, begun.detail)
    if begun.kind:
        raise RegistryError(begun.detail)


def _words(said: int, process: OwnedProcess, closing: threading.Event) -> bytes:
    """Returns all that came until the pipe closed, or until the time was over."""
    poller = select.poll()
    poller.register(said, select.POLLIN | select.POLLHUP)
    words, deadline = b"", time.monotonic() + START_SECONDS
    # Its end closes the pipe, unless a process that it has started holds that, too.
    while time.monotonic() < deadline and not closing.is_set():
        has_ended = process.end_reason is not None
        if poller.poll(round(_LOOK_SECONDS * 1000)):
            if not (part := os.read(said, 65536)):
                break
            words += part
        elif has_ended:
            break
    return words
