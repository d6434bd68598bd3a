"""Embeddings with vLLM: what an engine serves, its parameters, and its vectors."""

from typing import Any

from hookline.events import Finished
from hookline.exceptions import ConfigError
from hookline.pooling import POOLING, PooledVectors
from hookline.request import GenerateRequest
from hookline_pooling.facts import PoolingFacts
from hookline_pooling.pooling import REQUEST, PoolingType
from hookline_vllm_engine.binding import Binding

RUNNER = "pooling"
"""VLLM's runner that embeds, and generates nothing."""
_TASKS = {True: "token_embed", False: "embed"}


def pooling_facts(model: Any) -> PoolingFacts | None:
    """Returns how vLLM's model pools; None if it generates.

    Raises:
        ConfigError: It does something else, such as to classify.
    """
    if model.runner_type != RUNNER:
        return None
    pooler = model.pooler_config
    kind = str(pooler.get_seq_pooling_type())
    if model.convert_type == "classify" or kind not in set(PoolingType):
        reason = f"vLLM pools by {kind}, for --convert {model.convert_type}"
        raise ConfigError("engine-argument", f"{reason}: Hookline only has embeddings")
    normalize = pooler.use_activation
    return PoolingFacts(
        kind=PoolingType(kind),
        normalize=True if normalize is None else bool(normalize),
        hidden_size=int(model.embedding_size),
        dimensions=pooler.dimensions,
        is_matryoshka=bool(model.is_matryoshka),
        matryoshka_dimensions=tuple(model.matryoshka_dimensions or ()),
        is_alone=True,
    )


def pooling_params(request: GenerateRequest, vllm: Binding) -> Any:
    """Returns what a request asks of an embedding; None if it generates."""
    if (wanted := REQUEST.read(request.sections)) is None:
        return None
    return vllm.PoolingParams(
        task=_TASKS[wanted.kind is PoolingType.ALL],
        dimensions=wanted.dimensions,
        use_activation=wanted.normalize,
        skip_reading_prefix_cache=request.skip_reading_prefix_cache or None,
    )


def with_vectors(end: Finished, tensor: Any) -> Finished:
    """Returns the end of an embedded request with its vectors, for the client."""
    values = tensor.float().contiguous()
    count = 1 if values.ndim == 1 else len(values)
    vectors = PooledVectors(count, values.numpy().astype("<f4").tobytes())
    return Finished(
        end.request_id,
        end.at,
        end.cause,
        end.output_tokens,
        sections={POOLING: vectors},
    )
