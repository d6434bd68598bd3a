"""What `LLM.embed` and `LLM.encode` return, with the names of vLLM."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hookline.exceptions import RequestError
from hookline.outputs import RequestMetrics, RequestOutput
from hookline.pooling import PooledVectors

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PoolingOutput:
    """The vectors of a prompt.

    Attributes:
        data: [count, size]: one vector, or one per prompt token.
    """

    data: Float32

    @property
    def embedding(self) -> list[float]:
        """The vector of a prompt that has one."""
        found: list[float] = self.data[0].tolist()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolingRequestOutput:
    """The output of one prompt.

    Attributes:
        outputs: Its vectors.
        prompt_token_ids: Tokens of the prompt.
        cached_tokens: Number of prompt tokens that were found in a prefix cache.
        request_id: The client's id of the request, or the engine's if it has none.
        prompt: Text of the prompt; None if it was given as token ids.
        metrics: Times of the request.
    """

    outputs: PoolingOutput
    prompt_token_ids: list[int]
    cached_tokens: int
    request_id: str
    prompt: str | None
    metrics: RequestMetrics | None


def as_array(vectors: PooledVectors) -> Float32:
    """Returns vectors as [count, size]."""
    values = np.frombuffer(vectors.values, "<f4").astype(np.float32, copy=False)
    return values.reshape(vectors.count, -1)


def pooling_output(output: RequestOutput) -> PoolingRequestOutput:
    """Returns the output of an embedding request.

    Raises:
        RequestError: The request ended without its vectors.
    """
    if output.vectors is None:
        ended = output.outputs[0]
        why = f": {ended.stop_reason}" if ended.stop_reason else ""
        raise RequestError(
            f"a prompt was not embedded: its request ended by "
            f"{ended.finish_reason}{why}"
        )
    return PoolingRequestOutput(
        outputs=PoolingOutput(as_array(output.vectors)),
        prompt_token_ids=output.prompt_token_ids,
        cached_tokens=output.cached_tokens,
        request_id=output.request_id,
        prompt=output.prompt,
        metrics=output.metrics,
    )
