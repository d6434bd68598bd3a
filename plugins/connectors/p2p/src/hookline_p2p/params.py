"""`kv_transfer_params`, which a router passes between engines; vLLM's names."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from hookline_p2p.transport import Peer

_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_MOST_LETTERS = 64


class Source(NamedTuple):
    """Where the KV of a prompt is kept.

    Attributes:
        peer: The producer.
        transfer_id: The producer's number for the blocks.
    """

    peer: Peer
    transfer_id: int


class RemotePrefill(NamedTuple):
    """Parameters of a request for decoding.

    Attributes:
        source: Where the blocks are.
        num_tokens: Number of tokens in them.
    """

    source: Source
    num_tokens: int


def prefill_params(source: Source, num_tokens: int) -> dict[str, object]:
    """Returns the parameters in the producer's answer, for the consumer."""
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_engine_id": source.peer.engine_id,
        "remote_request_id": str(source.transfer_id),
        "remote_host": source.peer.host,
        "remote_port": source.peer.port,
        "remote_num_tokens": num_tokens,
    }


def wants_remote_decode(params: Mapping[str, object] | None) -> bool:
    """Whether to keep the request's blocks for another engine."""
    return bool(params and params.get("do_remote_decode"))


def decoder_of(params: Mapping[str, object] | None) -> Peer | None:
    """Returns the decoder that a request for prefill names, or None.

    Raises:
        ValueError: Its host or port is invalid.
    """
    if not params or not params.get("remote_host"):
        return None
    return Peer("", _host(params), _port(params))


def remote_prefill(params: Mapping[str, object] | None) -> RemotePrefill | None:
    """Returns the parameters of a request that was prefilled elsewhere, or None.

    Raises:
        ValueError: A parameter is missing or invalid.
    """
    if not params or not params.get("do_remote_prefill"):
        return None
    engine_id = params.get("remote_engine_id")
    if not isinstance(engine_id, str) or not 0 < len(engine_id) <= _MOST_LETTERS:
        raise ValueError("remote_engine_id is missing")
    request_id = params.get("remote_request_id")
    if not isinstance(request_id, str) or not re.fullmatch(r"[0-9]{1,15}", request_id):
        raise ValueError("remote_request_id is missing")
    num_tokens = params.get("remote_num_tokens")
    if type(num_tokens) is not int or num_tokens < 0:
        raise ValueError("remote_num_tokens is missing")
    peer = Peer(engine_id, _host(params), _port(params))
    return RemotePrefill(Source(peer, int(request_id)), num_tokens)


def _host(params: Mapping[str, object]) -> str:
    host = params.get("remote_host")
    if not isinstance(host, str) or not _HOST.fullmatch(host):
        raise ValueError("remote_host is not a host")
    return host


def _port(params: Mapping[str, object]) -> int:
    port = params.get("remote_port")
    if type(port) is not int or not 0 < port < 1 << 16:
        raise ValueError("remote_port is not a port")
    return port
