"""`kv_transfer_params`, which a router passes between engines; vLLM's names."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hookline_p2p.transport import Peer
from hookline_processes.addresses import LARGEST_PORT, AddressError, read_host

_MOST_LETTERS = 64
_MOST_RANKS = 256


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
        sources: Where the blocks are, by rank of the producer.
        num_tokens: Number of tokens in them.
    """

    sources: tuple[Source, ...]
    num_tokens: int


def prefill_params(sources: Sequence[Source], num_tokens: int) -> dict[str, object]:
    """Returns the parameters in the producer's answer, for the consumer.

    Args:
        sources: Where the blocks are, by rank; all on one host.
        num_tokens: Number of tokens in them.
    """
    source = sources[0]
    params: dict[str, object] = {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_engine_id": source.peer.engine_id,
        "remote_request_id": str(source.transfer_id),
        "remote_host": source.peer.host,
        "remote_port": source.peer.port,
        "remote_num_tokens": num_tokens,
    }
    if len(sources) > 1:
        peers = [each.peer for each in sources]
        params["remote_ranks"] = [[each.engine_id, each.port] for each in peers]
    return params


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
    request_id = params.get("remote_request_id")
    if not isinstance(request_id, str) or not re.fullmatch(r"[0-9]{1,15}", request_id):
        raise ValueError("remote_request_id is missing")
    num_tokens = params.get("remote_num_tokens")
    if type(num_tokens) is not int or num_tokens < 0:
        raise ValueError("remote_num_tokens is missing")
    sources = tuple(Source(each, int(request_id)) for each in _peers(params))
    return RemotePrefill(sources, num_tokens)


def _peers(params: Mapping[str, object]) -> list[Peer]:
    """Returns the producer's ranks; one if it does not name them."""
    host, ranks = _host(params), params.get("remote_ranks")
    if ranks is None:
        return [Peer(_engine_id(params), host, _port(params))]
    if not isinstance(ranks, Sequence) or not 0 < len(ranks) <= _MOST_RANKS:
        raise ValueError("remote_ranks is not a list of ranks")
    found = []
    for rank in ranks:
        if not isinstance(rank, Sequence) or isinstance(rank, str) or len(rank) != 2:
            raise ValueError("remote_ranks has something that is no rank")
        own = {"remote_engine_id": rank[0], "remote_port": rank[1]}
        found.append(Peer(_engine_id(own), host, _port(own)))
    return found


def _engine_id(params: Mapping[str, object]) -> str:
    engine_id = params.get("remote_engine_id")
    if not isinstance(engine_id, str) or not 0 < len(engine_id) <= _MOST_LETTERS:
        raise ValueError("remote_engine_id is missing")
    return engine_id


def _host(params: Mapping[str, object]) -> str:
    host = params.get("remote_host")
    try:
        return read_host(host if isinstance(host, str) else "")
    except AddressError as error:
        raise ValueError("remote_host is not a host") from error


def _port(params: Mapping[str, object]) -> int:
    port = params.get("remote_port")
    if type(port) is not int or not 0 < port <= LARGEST_PORT:
        raise ValueError("remote_port is not a port")
    return port
