"""Numbers of requests, which all of vLLM's processes make alike of its own ids."""

from hashlib import blake2b

from hookline.request_ids import COUNTER_BITS


def number_of(request_id: str) -> int:
    """Returns the number of a request by vLLM's internal id, which ends at random."""
    digest = blake2b(request_id.encode(), digest_size=COUNTER_BITS // 8).digest()
    return int.from_bytes(digest) or 1


def external_id(request_id: str) -> str:
    """Returns the id in the API of an internal one: without its random end."""
    return request_id.rpartition("-")[0] or request_id
