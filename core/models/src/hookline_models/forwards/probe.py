"""Runs a few tokens through a model to find its KV layers and to check it."""

import math
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from hookline.engine.decoder.forward_batch import IntermediateTensors
from hookline.engine.decoder.layer_shapes import LayerAttention, LayerCache, ModelLayers
from hookline.exceptions import ModelLoadError
from hookline_kernels import AttentionMetadata, paged_attention
from hookline_kernels.cache_numbers import dtype_name
from hookline_models.checkpoints.finite import in_words, non_finite_weights
from hookline_models.forwards.attention import AttentionSlot
from hookline_models.forwards.layer_span import call_model, span_of

_TOKENS = 6
_HIDDEN_STATES = 31
_LEAST_SIMILARITY = 0.98
"""Minimum cosine similarity of logits computed alone and packed. Kernels of other
shapes round differently; a layer that mixes neighbouring sequences is far below."""
_TRIAL_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, AttributeError)
"""What modules raise whose sizes do not fit together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed(ModelLayers):
    """Results of probing a model.

    Attributes:
        prompts: Two sequences of tokens.
        logits: [tokens, vocabulary] of all their tokens, computed in one batch. For a
            pipeline stage that is not the last: hidden states [tokens, hidden].
        hidden_states: [tokens, hidden] with which a later stage begins, for the first
            token ids and, over again, all others; None for a first one.
    """

    prompts: tuple[list[int], list[int]]
    logits: torch.Tensor
    hidden_states: torch.Tensor | None = None

    def intermediate(self, token_ids: torch.Tensor) -> IntermediateTensors | None:
        """Returns what the stage begins with for [T] tokens; None for a first one."""
        if self.hidden_states is None:
            return None
        return IntermediateTensors(_hidden_of(self.hidden_states, token_ids))


class _Recorder:
    """Attends over contiguous sequences and records each layer's shapes."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.layers: dict[int, LayerCache] = {}
        self.attention: dict[int, LayerAttention] = {}
        self.calls = 0
        self.lengths: list[int] = []

    def __call__(
        self,
        layer_index: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: torch.Tensor | None = None,
        slopes: torch.Tensor | None = None,
        is_latent: bool = False,
    ) -> torch.Tensor:
        self.calls += 1
        self.layers[layer_index] = LayerCache(
            query.shape[1], key.shape[1], key.shape[2], value.shape[2], is_latent
        )
        if query.is_meta:  # has shapes, and no numbers
            self.attention[layer_index] = LayerAttention(scale, window, softcap)
            return query.new_empty(*query.shape[:2], value.shape[2])
        attention = self.attention[layer_index] = LayerAttention(
            scale, window, softcap, _by_head(sinks), _by_head(slopes)
        )
        layer = attention.over(key[:, None], value[:, None])
        return paged_attention(query, layer, self._metadata())

    def _metadata(self) -> AttentionMetadata:
        """Treats each token as a separate block."""
        total, width = sum(self.lengths), max(self.lengths)
        tables = torch.zeros(
            len(self.lengths), width, dtype=torch.int64, device=self.device
        )
        start = 0
        for index, length in enumerate(self.lengths):
            tables[index, :length] = torch.arange(
                start, start + length, device=self.device
            )
            start += length
        return AttentionMetadata(
            slot_mapping=torch.arange(total, device=self.device),
            block_tables=tables,
            query_lens=self.lengths,
            seq_lens=self.lengths,
            num_decodes=0,
            seq_lens_tensor=torch.tensor(self.lengths, device=self.device),
        )


def probe(
    name: str, model: PreTrainedModel, slot: AttentionSlot, vocab_size: int
) -> Probed:
    """Runs two prompts alone and in one batch.

    Args:
        name: The model's name, for errors.
        model: The loaded model.
        slot: Slot from which its modules call attention.
        vocab_size: Number of token ids.

    Raises:
        ModelLoadError: The model does not call the registered attention once in every
            layer, its tokens depend on others outside of attention, or its results are
            not finite.
    """
    if not all(getattr(module, "is_causal", True) for module in model.modules()):
        raise ModelLoadError(name, "its tokens attend to later ones; it is an encoder")
    recorder = _Recorder(model.device)
    slot.attend = recorder
    try:
        return _probe(name, model, recorder, vocab_size)
    except _TRIAL_ERRORS as error:
        reason = f"a trial of it fails: {type(error).__name__}: {str(error).strip()}"
        raise ModelLoadError(name, reason) from error


class NeedsNumbersError(ModelLoadError):
    """A model whose modules ask for numbers, and got a tensor that has only a shape."""


def probe_shapes(name: str, model: PreTrainedModel, slot: AttentionSlot) -> ModelLayers:
    """Returns the layers that a model without numbers (on `meta`) will have.

    Raises:
        ModelLoadError: Not every layer calls the registered attention, or sizes do not
            fit together.
        NeedsNumbersError: What is computed depends on numbers.
    """
    recorder = slot.attend = _Recorder(model.device)
    try:
        _logits(model, recorder, [list(range(_TOKENS))], None)
    except _TRIAL_ERRORS as error:
        reason = f"a trial of it fails: {type(error).__name__}: {str(error).strip()}"
        needs_numbers = model.device.type in str(error).lower()
        kind = NeedsNumbersError if needs_numbers else ModelLoadError
        raise kind(name, reason) from error
    return _layers_of(name, model, recorder)


def _layers_of(name: str, model: PreTrainedModel, recorder: _Recorder) -> ModelLayers:
    """Returns the layers that were called; raises `ModelLoadError` if not all were."""
    layers = len(span_of(model).of(model.config.get_text_config().num_hidden_layers))
    if sorted(recorder.layers) != list(range(layers)) or recorder.calls != layers:
        raise ModelLoadError(
            name,
            f"{recorder.calls} of its {layers} layers use pluggable attention; layers "
            f"of other kinds keep state that cannot be paged",
        )
    return ModelLayers(
        layers=tuple(recorder.layers[index] for index in range(layers)),
        attention=tuple(recorder.attention[index] for index in range(layers)),
    )


def _probe(
    name: str, model: PreTrainedModel, recorder: _Recorder, vocab_size: int
) -> Probed:
    first, second = (_prompt(model, vocab_size, start) for start in (3, 17))
    hidden = _random_hidden_states(model)
    alone = _logits(model, recorder, [second], hidden)
    found = _layers_of(name, model, recorder)
    packed = _logits(model, recorder, [first, second], hidden)
    for each in (alone, packed):
        if not bool((each < math.inf).all()):  # false for not-a-numbers, too
            raise ModelLoadError(name, _not_finite(model))
    if not _are_alike(alone, packed[-_TOKENS:]):
        raise ModelLoadError(
            name,
            "tokens of one request change another's: the model mixes tokens outside of "
            "attention or ignores positions, so it cannot be batched",
        )
    return Probed(
        layers=found.layers,
        attention=found.attention,
        prompts=(first, second),
        logits=packed,
        hidden_states=hidden,
    )


def _prompt(model: PreTrainedModel, vocab_size: int, start: int) -> list[int]:
    """Returns the first tokens from an id on whose embeddings are finite.

    A damaged row of the table harms the requests with its token, and no others.
    """
    table = getattr(model.get_input_embeddings(), "weight", None)
    found: list[int] = []
    for each in range(start, start + vocab_size):
        token = each % vocab_size
        row = table[token : token + 1] if isinstance(table, torch.Tensor) else None
        if row is None or bool(row.isfinite().all()):
            found.append(token)
        if len(found) == _TOKENS:
            break
    return [found[at % len(found)] for at in range(_TOKENS)] if found else [0] * _TOKENS


def _not_finite(model: PreTrainedModel) -> str:
    """Says which weights make a model's logits infinite or NaN."""
    if found := non_finite_weights(model):
        return f"all its logits are infinite or NaN, as weights are: {in_words(found)}"
    return (
        "its logits are infinite or NaN, though its weights are finite: they are too "
        f"large for {dtype_name(model.dtype)}"
    )


def _by_head(numbers: torch.Tensor | None) -> tuple[float, ...] | None:
    return None if numbers is None else tuple(numbers.tolist())


def _are_alike(expected: torch.Tensor, found: torch.Tensor) -> bool:
    """Whether logits [n, vocabulary] differ only by rounding."""
    similarity = torch.cosine_similarity(expected.float(), found.float(), dim=-1)
    return bool(similarity.min() >= _LEAST_SIMILARITY)


def _random_hidden_states(model: PreTrainedModel) -> torch.Tensor | None:
    """Makes up the results of the stages before this one; None for a first one."""
    if span_of(model).is_first:
        return None
    source = torch.Generator().manual_seed(_TOKENS)
    size = model.config.get_text_config().hidden_size
    made = torch.randn(_HIDDEN_STATES, size, generator=source)
    return made.to(model.device, model.dtype)


def _hidden_of(hidden_states: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    return hidden_states[token_ids % len(hidden_states)]


@torch.inference_mode()
def _logits(
    model: PreTrainedModel,
    recorder: _Recorder,
    sequences: list[list[int]],
    hidden: torch.Tensor | None,
) -> torch.Tensor:
    recorder.lengths = [len(sequence) for sequence in sequences]
    recorder.calls = 0
    flat = [token for sequence in sequences for token in sequence]
    positions = [index for sequence in sequences for index in range(len(sequence))]
    token_ids = torch.tensor(flat, device=recorder.device)
    begin = None if hidden is None else _hidden_of(hidden, token_ids)
    return call_model(
        model,
        token_ids,
        torch.tensor(positions, device=recorder.device),
        intermediate=None if begin is None else IntermediateTensors(begin),
    )
