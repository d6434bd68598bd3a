"""Messages of `/v1/embeddings` and `/pooling`."""

from typing import Annotated

import msgspec

from hookline.exceptions import PromptTooLongError, RequestError
from hookline.pooling import TASKS, PoolingParams
from hookline.request_limits import EMBEDDED_INPUTS
from hookline_server.protocol.parameter_types import (
    AS_MANY_AS_FIT,
    CacheSalt,
    LastTokens,
    check_cache_salt,
    check_truncation,
)
from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.wire import Int64, Name

Input = str | list[int]

BASE64 = "base64"
ENCODINGS = ("float", BASE64)
DTYPES = ("float32",)
ENDS = ("native", "little")

Vector = Annotated[
    msgspec.Raw,
    msgspec.Meta(
        extra_json_schema={
            "anyOf": [
                {"type": "array", "items": {"type": "number"}},
                {"type": "string", "description": "float32 numbers in base64"},
            ]
        }
    ),
]
Vectors = Annotated[
    msgspec.Raw,
    msgspec.Meta(
        extra_json_schema={
            "anyOf": [
                {"type": "array", "items": {"type": "number"}},
                {
                    "type": "array",
                    "items": {"type": "array", "items": {"type": "number"}},
                },
                {"type": "string", "description": "float32 numbers in base64"},
            ]
        }
    ),
]


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to either path; null means a field's default."""

    input: str | list[str | Int64 | list[Int64]]
    model: str | None = None
    encoding_format: Annotated[Name, bounds(enum=ENCODINGS)] | None = None
    dimensions: Annotated[Int64, bounds(minimum=1)] | None = None
    normalize: bool | None = None
    use_activation: bool | None = None
    embed_dtype: Annotated[Name, bounds(enum=DTYPES)] | None = None
    endianness: Annotated[Name, bounds(enum=ENDS)] | None = None
    truncate_prompt_tokens: LastTokens | None = None
    add_special_tokens: bool | None = None
    priority: Int64 | None = None
    cache_salt: CacheSalt | None = None
    session_id: str | None = None

    @property
    def is_base64(self) -> bool:
        return self.encoding_format == BASE64

    @property
    def stream(self) -> None:
        """Vectors come all at once."""

    @property
    def kv_transfer_params(self) -> None:
        """Only completions and chats carry them."""

    @property
    def pooling_task(self) -> str:
        """The kind of vectors that it asks for."""
        return "embed"


class PoolingRequest(EmbeddingRequest, frozen=True, kw_only=True):
    """A request to `/pooling`."""

    task: Annotated[Name, bounds(enum=TASKS)] | None = None

    @property
    def pooling_task(self) -> str:
        return self.task or "embed"


class EmbeddingUsage(msgspec.Struct, frozen=True):
    """Tokens of all inputs."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingData(msgspec.Struct, frozen=True, kw_only=True):
    """The vector of one input: numbers, or their bytes in base64."""

    object: str = "embedding"
    index: int
    embedding: Vector


class PoolingData(msgspec.Struct, frozen=True, kw_only=True):
    """The vector of one input, or those of its tokens."""

    object: str = "pooling"
    index: int
    data: Vectors


class EmbeddingResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response of `/v1/embeddings`."""

    id: str
    object: str = "list"
    created: int
    model: str
    data: list[EmbeddingData]
    usage: EmbeddingUsage


class PoolingResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response of `/pooling`."""

    id: str
    object: str = "list"
    created: int
    model: str
    data: list[PoolingData]
    usage: EmbeddingUsage


def check(request: EmbeddingRequest) -> None:
    """Checks the options; raises `RequestError` if they are invalid."""
    if request.truncate_prompt_tokens is not None:
        check_truncation(request.truncate_prompt_tokens)
    if request.cache_salt is not None:
        check_cache_salt(request.cache_salt)
    if request.dimensions is not None and request.dimensions < 1:
        raise RequestError("dimensions must be at least 1", param="dimensions")
    _one_of(request, "encoding_format", ENCODINGS)
    _one_of(request, "embed_dtype", DTYPES)
    _one_of(request, "endianness", ENDS)


def pooling_params(request: EmbeddingRequest) -> PoolingParams:
    """Returns the pooling parameters of the request.

    Raises:
        RequestError: It contradicts itself on whether vectors are normalized.
    """
    normalize, activated = request.normalize, request.use_activation
    if None not in (normalize, activated) and normalize is not activated:
        raise RequestError(
            "normalize and use_activation mean the same, and contradict each other",
            param="normalize",
        )
    return PoolingParams(
        task=request.pooling_task,
        dimensions=request.dimensions,
        normalize=activated if normalize is None else normalize,
    )


def inputs(request: EmbeddingRequest) -> list[Input]:
    """Returns the inputs, one or several of the same kind.

    Raises:
        RequestError: They are of an unknown or of several kinds, or too many.
    """
    given = request.input
    if isinstance(given, str):
        return [given]
    if not given:
        raise RequestError("input must not be empty", param="input")
    numbers = [each for each in given if isinstance(each, int)]
    if numbers:
        if len(numbers) != len(given):
            raise _mixed()
        return [numbers]
    EMBEDDED_INPUTS.check(len(given))
    found: list[Input] = [each for each in given if not isinstance(each, int)]
    if len({type(each) for each in found}) != 1:
        raise _mixed()
    return found


def most_input_tokens(request: EmbeddingRequest, max_model_len: int) -> int | None:
    """Returns how many of an input's last tokens are kept; None keeps all."""
    most = request.truncate_prompt_tokens
    return max_model_len if most == AS_MANY_AS_FIT else most


def fitted(token_ids: list[int], most: int | None, max_model_len: int) -> list[int]:
    """Returns an input's tokens, cut to the last ones if that was asked for.

    Raises:
        RequestError: There are none, or too many.
    """
    if most is not None:
        token_ids = token_ids[-most:]
    if not token_ids:
        raise RequestError("input must not hold an empty text or list", param="input")
    if len(token_ids) > max_model_len:
        raise PromptTooLongError(len(token_ids), max_model_len, is_embedded=True)
    return token_ids


def _one_of(request: EmbeddingRequest, name: str, allowed: tuple[str, ...]) -> None:
    value = getattr(request, name)
    if value is not None and value not in allowed:
        raise RequestError(
            f"{name} must be {' or '.join(allowed)}, not {value!r}", param=name
        )


def _mixed() -> RequestError:
    return RequestError(
        "input must be a string, a list of strings, a list of token ids or a list of "
        "lists of token ids",
        param="input",
    )
