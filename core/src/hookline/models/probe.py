"""Runs a few tokens through a model to learn its cache and to prove it servable."""

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from hookline.exceptions import ModelLoadError
from hookline.models.attention import AttentionSlot
from hookline_kernels import AttentionLayer, AttentionMetadata, paged_attention

_TOKENS = 6
_LEAST_SIMILARITY = 0.98
"""Cosine of logits computed alone and packed; kernels of other shapes round otherwise,
a layer that mixes neighbouring sequences is far below."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Shape of one layer's K and V, and how many heads attend to them.

    Attributes:
        num_heads: Heads of the queries.
        num_kv_heads: Heads of the cache.
        key_dim: Width of a key.
        value_dim: Width of a value.
    """

    num_heads: int
    num_kv_heads: int
    key_dim: int
    value_dim: int

    @property
    def products_per_pair(self) -> int:
        """Multiply-adds of a query with a key, and of the weight with its value."""
        return self.num_heads * (self.key_dim + self.value_dim)

    def bytes_per_token(self, element_size: int) -> int:
        return self.num_kv_heads * (self.key_dim + self.value_dim) * element_size


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """How one layer attends.

    Attributes:
        scale: Multiplies the scores.
        window: A token sees so many tokens, itself included; None sees all.
        softcap: Scores become softcap · tanh(score ÷ softcap); None leaves them.
    """

    scale: float
    window: int | None
    softcap: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a model showed of itself.

    Attributes:
        layers: Their caches, in order.
        attention: How each attends.
        prompts: Two sequences of tokens.
        logits: Of all their tokens in one batch, [tokens, vocabulary].
    """

    layers: tuple[LayerCache, ...]
    attention: tuple[LayerAttention, ...]
    prompts: tuple[list[int], list[int]]
    logits: torch.Tensor


class _Recorder:
    """Attends over contiguous sequences and notes each layer's shapes."""

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
    ) -> torch.Tensor:
        self.calls += 1
        self.layers[layer_index] = LayerCache(
            query.shape[1], key.shape[1], key.shape[2], value.shape[2]
        )
        self.attention[layer_index] = LayerAttention(scale, window, softcap)
        layer = AttentionLayer(key[:, None], value[:, None], scale, window, softcap)
        return paged_attention(query, layer, self._metadata())

    def _metadata(self) -> AttentionMetadata:
        """Each token is a block of its own."""
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
    """The model's KV layers, and what it makes of two prompts.

    Raises:
        ModelLoadError: It does not use the attention that it is given, in every layer
            once, or its tokens see more than attention lets them see.
    """
    if not all(getattr(module, "is_causal", True) for module in model.modules()):
        raise ModelLoadError(name, "its tokens see those after them; it is an encoder")
    recorder = _Recorder(model.device)
    slot.attend = recorder
    first = [token % vocab_size for token in range(3, 3 + _TOKENS)]
    second = [token % vocab_size for token in range(17, 17 + _TOKENS)]
    alone = _logits(model, recorder, [second])
    layers = model.config.get_text_config().num_hidden_layers
    if sorted(recorder.layers) != list(range(layers)) or recorder.calls != layers:
        raise ModelLoadError(
            name,
            f"{recorder.calls} of its {layers} layers use pluggable attention; layers "
            f"of another kind keep state that cannot be paged",
        )
    packed = _logits(model, recorder, [first, second])
    if not _are_alike(alone, packed[-_TOKENS:]):
        raise ModelLoadError(
            name,
            "tokens of one request change another's: the model mixes tokens outside of "
            "attention, or ignores positions, and cannot be batched",
        )
    return Probed(
        layers=tuple(recorder.layers[index] for index in range(layers)),
        attention=tuple(recorder.attention[index] for index in range(layers)),
        prompts=(first, second),
        logits=packed,
    )


def _are_alike(expected: torch.Tensor, found: torch.Tensor) -> bool:
    """Whether logits [n, vocabulary] differ by rounding only."""
    similarity = torch.cosine_similarity(expected.float(), found.float(), dim=-1)
    return bool(similarity.min() >= _LEAST_SIMILARITY)


@torch.inference_mode()
def _logits(
    model: PreTrainedModel, recorder: _Recorder, sequences: list[list[int]]
) -> torch.Tensor:
    recorder.lengths = [len(sequence) for sequence in sequences]
    recorder.calls = 0
    flat = [token for sequence in sequences for token in sequence]
    positions = [index for sequence in sequences for index in range(len(sequence))]
    logits = model(
        input_ids=torch.tensor([flat], device=recorder.device),
        position_ids=torch.tensor([positions], device=recorder.device),
        use_cache=False,
    ).logits[0]
    assert isinstance(logits, torch.Tensor)
    return logits
