"""The fields of a streamed chunk that a benchmark reads, of any server."""

import msgspec

from hookline_bench.event_reader import EventStreamError

END = b"[DONE]"


class PromptDetails(msgspec.Struct, frozen=True):
    """Prompt tokens by where their KV came from."""

    cached_tokens: int | None = None


class ChunkUsage(msgspec.Struct, frozen=True):
    """Number of tokens so far."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None


class Delta(msgspec.Struct, frozen=True):
    """A part of a chat response: text, reasoning or tool calls."""

    content: object = None
    reasoning: object = None
    reasoning_content: object = None
    tool_calls: object = None


class ChunkChoice(msgspec.Struct, frozen=True):
    """A part of a completion."""

    text: object = None
    delta: Delta | None = None
    token_ids: list[int] | None = None
    finish_reason: object = None

    @property
    def is_token(self) -> bool:
        """Whether the part seems to contain a token.

        A token of half a character has no text in `/v1/completions`. Chunks of a chat
        without text contain the role or the end.
        """
        if self.delta is None:
            return bool(self.text) or (
                self.text is not None and self.finish_reason is None
            )
        delta = self.delta
        return bool(
            delta.content
            or delta.reasoning_content
            or delta.reasoning
            or delta.tool_calls
        )


class Chunk(msgspec.Struct, frozen=True):
    """One event of a stream."""

    choices: list[ChunkChoice] | None = None
    usage: ChunkUsage | None = None
    error: object = None


# A typed decoder skips what it is not asked for; a third of a microsecond a chunk.
_decode = msgspec.json.Decoder(Chunk).decode


def read_chunk(payload: bytes) -> Chunk:
    """Parses the payload of a chunk.

    Raises:
        EventStreamError: It is not a chunk, or reports an error.
    """
    try:
        chunk = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventStreamError(f"an event is not a chunk: {error}") from error
    if chunk.error is not None:
        shown = msgspec.json.encode(chunk.error).decode()
        raise EventStreamError(f"the server ended the stream with {shown}")
    return chunk
