"""Decides where a request's new tokens end it: at stop tokens and length limits.

Stop strings are found in the front end, where the text is.
"""

from collections.abc import Sequence

from hookline.finish_cause import FinishCause, LengthReached, StoppedByToken
from hookline.request import Request


def stop_after(
    request: Request, token_ids: Sequence[int]
) -> tuple[list[int], FinishCause | None]:
    """Cuts new tokens after the first that ends the request.

    Returns:
        The tokens to keep, and why the request ends with them; None if it goes on.
    """
    output = request.num_output_tokens
    # Sampled before `min_tokens` only if the grammar allows nothing else.
    params = request.params
    least = params.min_tokens if params.structured_outputs is None else 0
    for index, token_id in enumerate(token_ids):
        count = output + index + 1
        if token_id in request.stop_token_ids and count >= least:
            return list(token_ids[: index + 1]), StoppedByToken(token_id)
        if count >= request.max_tokens:
            return list(token_ids[: index + 1]), LengthReached()
    return list(token_ids), None
