"""The engine that a request names: `X-data-parallel-rank`, as in vLLM."""

from aiohttp import web

from hookline.exceptions import RequestError
from hookline.payloads import EngineFacts

RANK_HEADER = "X-data-parallel-rank"
_MOST_DIGITS = 9


def requested_rank(request: web.Request, engine: EngineFacts) -> int | None:
    """Returns the index of the engine in the request's header, or None without it.

    Args:
        request: The request.
        engine: Facts of the first engine.

    Raises:
        RequestError: It is not the index of an engine.
    """
    text = request.headers.get(RANK_HEADER)
    if text is None:
        return None
    digits = text.strip()
    first, last = engine.engine_index, engine.engine_index + engine.data_parallel_size
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
    if not is_number or int(digits) not in range(first, last):
        raise RequestError(
            f"{RANK_HEADER} must be {_shown(first, last - 1)}", param=RANK_HEADER
        )
    return int(digits)


def _shown(first: int, last: int) -> str:
    if first == last:
        return f"{first}, the index of the only engine"
    return f"the index of an engine, {first} to {last}"
