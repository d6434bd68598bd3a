"""The records of front ends, which complete those of engines.

Each front end has a ring of its own, whose records are added to what is saved of the
engines' rings. Times are wall-clock ns; durations are of its monotonic clock, in ns.
"""

import msgspec

FRONT_END_NUMBERS = 1 << 62
"""Records of front ends have numbers from here on, each front end its own ones."""
NUMBERS_OF_FRONT_END = 1 << 40


class Served(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """A completion as the front end saw it, once it has ended.

    Attributes:
        at: When this was written.
        engine_index: Index of the engine.
        request_id: Internal id; 0 of a request that was rejected.
        client_id: The client's own id.
        response_id: Id of the response.
        tenant: Tenant that it is accounted to.
        reason: Coarse reason of the end for its client.
        kind: Name of its cause; of a rejection, its error code.
        arrived: When it arrived; 0 if it was rejected.
        queued: When its engine queued it: the recording has that time, too, on the
            engine's clock, which ties the clocks together.
        prepared_ns: From its arrival to its sending, which includes the tokenizer.
        first_token_ns: From its arrival to the first token's arrival here.
        ended_ns: From its arrival to its end for its client.
        is_streamed: Whether the client got tokens as they were generated.
        output_tokens: Number of generated tokens.
        misses: Objectives that it missed.
    """

    at: int
    engine_index: int = 0
    request_id: int = 0
    client_id: str = ""
    response_id: str = ""
    tenant: str | None = None
    reason: str = ""
    kind: str = ""
    arrived: int = 0
    queued: int | None = None
    prepared_ns: int | None = None
    first_token_ns: int | None = None
    ended_ns: int = 0
    is_streamed: bool = False
    output_tokens: int = 0
    misses: list[str] = []


class Answered(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """An HTTP response to a request for the engine, once it has been sent.

    Attributes:
        at: When this was written, wall-clock ns.
        client_id: The client's own id, which its completions have, too.
        route: Template of the route.
        status: Status of the response; 499 if the client left.
        begun: When the request's head was there, wall-clock ns.
        first_byte_ns: From then to the first byte of the response's body.
        last_byte_ns: From then to its last one.
        unread_ns: Time in which it waited for its client to read.
        request_bytes: Size of the request's body.
        response_bytes: Size of the response's body.
    """

    at: int
    client_id: str = ""
    route: str = ""
    status: int = 0
    begun: int = 0
    first_byte_ns: int | None = None
    last_byte_ns: int = 0
    unread_ns: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
