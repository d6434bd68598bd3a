"""What requests ask for in headers: objectives, a session, an engine."""

import re

from hookline.config.readers import read_slo
from hookline.exceptions import RequestError
from hookline.payloads import EngineFacts
from hookline.request import SESSION_ID, Slo

SLO_HEADER = "X-Hookline-SLO"
SESSION_HEADER = "X-Session-ID"
RANK_HEADER = "X-data-parallel-rank"
"""The engine, as in vLLM."""

_SESSION_ID = re.compile(SESSION_ID)
_MOST_DIGITS = 9


def requested_slo(text: str) -> Slo:
    """Returns the objectives of a header; raises `RequestError` if it is invalid."""
    try:
        return read_slo(text)
    except ValueError as error:
        raise RequestError(f"{SLO_HEADER}: {error}", param=SLO_HEADER) from error


def requested_rank(text: str, engine: EngineFacts) -> int:
    """Returns the index of the engine that a header names.

    Args:
        text: The header.
        engine: Facts of the first engine.

    Raises:
        RequestError: It is not the index of an engine.
    """
    digits = text.strip()
    first, last = engine.engine_index, engine.engine_index + engine.data_parallel_size
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
    if not is_number or int(digits) not in range(first, last):
        raise RequestError(
            f"{RANK_HEADER} must be {_shown(first, last - 1)}", param=RANK_HEADER
        )
    return int(digits)


def named_session(header: str, in_body: str | None) -> str | None:
    """Returns the session that a request names.

    The body's `session_id` prevails over the header, as in vLLM.

    Raises:
        RequestError: It is invalid.
    """
    name, session = "session_id", in_body
    if session is None:
        name, session = SESSION_HEADER, header.strip()
        if not session:
            return None
    if _SESSION_ID.fullmatch(session) is None:
        raise RequestError(
            f"{name} must have 1 to 256 visible ASCII characters, no spaces", param=name
        )
    return session


def _shown(first: int, last: int) -> str:
    if first == last:
        return f"{first}, the index of the only engine"
    return f"the index of an engine, {first} to {last}"
