"""Which errors an operation can have, and what they mean."""

from collections.abc import Mapping

from hookline_server.openapi.operation import Operation

MEANINGS: Mapping[int, str] = {
    400: "The request is invalid, or exceeds a limit; `param` names the field.",
    401: "The request has no valid key.",
    403: "The key lacks a permission, or a page of another site asks without a key.",
    404: "It does not exist, or the model is not served.",
    408: "The body came too slowly.",
    409: "The engine refuses the command in its present state.",
    413: "The body is too large.",
    429: "There is too much work, or the key's limits are used up.",
    500: "The server has failed; its log has the details.",
    503: "The engine does not accept requests now.",
    504: "The request was not finished in time.",
}


def errors_of(operation: Operation, *, is_timed: bool, is_guarded: bool) -> list[int]:
    """Returns the statuses of errors.

    Args:
        operation: The operation.
        is_timed: Whether it can have a deadline.
        is_guarded: Whether it needs a key.
    """
    found = {403, 500, *operation.errors}
    if is_timed:
        found |= {400, 504}
    if is_guarded:
        found |= {401, 429}
    if operation.body is not None:
        found |= {400, 408, 413}
    return sorted(found)
