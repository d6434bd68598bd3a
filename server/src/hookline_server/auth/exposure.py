"""Warns about addresses that others reach without a key."""

import logging
import socket

from hookline_processes.addresses import is_loopback
from hookline_server.auth.key import Scope
from hookline_server.auth.key_ring import KeyRing
from hookline_server.listening import Bound, Listening

logger = logging.getLogger(__name__)


def warn_if_open(listening: Listening, keys: KeyRing) -> None:
    """Logs one warning for each address beyond this machine that needs no key."""
    if not keys.guards(Scope.SERVE):
        _warn("the API", listening.api)
    if listening.pages is not None and not keys.guards(Scope.METRICS):
        _warn("the metrics port", listening.pages)


def is_wide(bound: socket.socket) -> bool:
    """Whether a bound socket can be reached from other machines."""
    is_file = bound.family == socket.AF_UNIX
    return not (is_file or is_loopback(bound.getsockname()[0]))


def _warn(what: str, bound: Bound) -> None:
    if bound.tls is not None and bound.tls.is_guarded:
        return  # by certificates, which clients must have
    for host, port in (
        each.getsockname()[:2] for each in filter(is_wide, bound.sockets)
    ):
        logger.warning(
            "%s listens on %s port %d without an API key: whoever reaches it can use "
            "it. Set HOOKLINE_API_KEY or --api-keys, or listen on 127.0.0.1.",
            what,
            host,
            port,
        )
