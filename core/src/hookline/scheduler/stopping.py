"""When a request ends by itself: stop tokens and lengths. Knows no strings."""

from collections.abc import Sequence

from hookline.request import FinishReason, Request


def stop_after(
    request: Request, token_ids: Sequence[int]
) -> tuple[list[int], FinishReason | None, str]:
    """Cuts new tokens after the one that ends the request, if one does.

    Returns:
        The tokens to keep, and the reason and cause of the end (None, "" for none).
        The cause of a stop is the token's id.
    """
    output = request.num_output_tokens
    for index, token_id in enumerate(token_ids):
        count = output + index + 1
        if token_id in request.stop_token_ids and count >= request.params.min_tokens:
            return list(token_ids[: index + 1]), FinishReason.STOP, str(token_id)
        if count >= request.max_tokens:
            return list(token_ids[: index + 1]), FinishReason.LENGTH, ""
    return list(token_ids), None, ""
