"""Waits until an observer process has said how its start went."""

import threading

import msgspec

from hookline.exceptions import ConfigError
from hookline_observer.messages import Begun
from hookline_processes.supervised import Supervised
from hookline_registry import RegistryError

START_SECONDS = 120.0
_OPTION = "observer-process"


def wait_until_begun(process: Supervised, closing: threading.Event) -> None:
    """Receives what the process says about its start.

    Args:
        process: The process.
        closing: Set once nobody wants it any more.

    Raises:
        ConfigError: An option of a logger is wrong, nothing came, or `closing` is set.
        RegistryError: A logger is unknown or broken.
    """
    if (said := process.receive_bytes(START_SECONDS, closing)) is None:
        detail = process.end_reason or "its process did not begin in time"
        raise ConfigError(_OPTION, detail)
    try:
        begun = msgspec.msgpack.decode(said, type=Begun)
    except msgspec.MsgspecError as error:
        detail = process.end_reason or "its process ended while it began"
        raise ConfigError(_OPTION, f"{detail}: {error}") from error
    if begun.kind == "config":
        raise ConfigError(begun.subject, begun.detail)
    if begun.kind:
        raise RegistryError(begun.detail)
