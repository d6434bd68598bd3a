"""What a server's options decide where a request is silent."""

from typing import TypeVar

import msgspec

from hookline_server.answers.settings import ResponseSettings
from hookline_server.protocol.generation import GenerationRequest, StreamOptions

Body = TypeVar("Body", bound=GenerationRequest)


def completed(body: Body, settings: ResponseSettings) -> Body:
    """Returns the request of a completion or chat as the server's options have it."""
    if settings.return_tokens_as_token_ids and body.return_tokens_as_token_ids is None:
        body = msgspec.structs.replace(body, return_tokens_as_token_ids=True)
    if settings.enable_force_include_usage and body.stream:
        options = body.stream_options or StreamOptions()
        options = msgspec.structs.replace(options, include_usage=True)
        body = msgspec.structs.replace(body, stream_options=options)
    return body
