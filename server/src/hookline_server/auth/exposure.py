"""Warns about addresses that others reach without a key."""

import logging
import socket

from hookline_processes.addresses import is_loopback
from hookline_server.auth.key import Scope
from hookline_server.auth.key_ring import KeyRing
from hookline_server.listening import Listening

logger = logging.getLogger(__name__)


def warn_if_open(listening: Listening, keys: KeyRing) -> None:
    """Logs one warning for each address beyond this machine that needs no key."""
    if is_wide(listening.api) and not keys.guards(Scope.SERVE):
        _warn("the API", listening.api)
    pages = listening.pages
    if pages is not None and is_wide(pages) and not keys.guards(Scope.METRICS):
        _warn("the metrics port", pages)


def is_wide(bound: socket.socket) -> bool:
    """Whether a bound socket can be reached from other machines."""
    return not is_loopback(bound.getsockname()[0])


def _warn(what: str, bound: socket.socket) -> None:
    host, port = bound.getsockname()[:2]
    logger.warning(
        "%s listens on %s port %d without an API key: whoever reaches it can use it. "
        "Set HOOKLINE_API_KEY or --api-keys, or listen on 127.0.0.1.",
        what,
        host,
        port,
    )
