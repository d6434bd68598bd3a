"""What a benchmark reads of a streamed chunk, whoever the server is."""

import msgspec

from hookline_bench.event_reader import EventStreamError

END = b"[DONE]"


class ChunkUsage(msgspec.Struct, frozen=True):
    """Tokens so far."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Delta(msgspec.Struct, frozen=True):
    """News of a chat's answer: text, thoughts, or calls."""

    content: object = None
    reasoning: object = None
    reasoning_content: object = None
    tool_calls: object = None


class ChunkChoice(msgspec.Struct, frozen=True):
    """News of a completion."""

    text: object = None
    delta: Delta | None = None
    token_ids: list[int] | None = None
    finish_reason: object = None

    @property
    def is_token(self) -> bool:
        """Whether a token came with it, as far as one can see.

        A token of half a character has no text in `/v1/completions`. In a chat,
        chunks without text tell the role or the end.
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
    """A chunk of its payload.

    Raises:
        EventStreamError: It is not a chunk, or tells of an error.
    """
    try:
        chunk = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventStreamError(f"an event is no chunk: {error}") from error
    if chunk.error is not None:
        shown = msgspec.json.encode(chunk.error).decode()
        raise EventStreamError(f"the server ended the stream with {shown}")
    return chunk
