"""The phase `load_model`: weights read, probed and arranged for the forward pass."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from hookline.config import EngineConfig, Kernels
from hookline.cost import ModelCost
from hookline.models.attention import AttentionSlot
from hookline.models.cost import cost_of
from hookline.models.description import describe
from hookline.models.fingerprint import fingerprint_of
from hookline.models.layer_span import span_of
from hookline.models.loading import load_model
from hookline.models.probe import LayerAttention, LayerCache, probe
from hookline.models.quantized_layer import bits_in_words
from hookline.worker.cache_dtype import eight_bit_dtype
from hookline.worker.compiling.first_forward import first_forward
from hookline.worker.extension import LoadedParts
from hookline.worker.followed_rows import FollowedRows
from hookline.worker.forward import Forward, choose_forward
from hookline.worker.rank_context import SINGLE_RANK, RankContext
from hookline.worker.startup_timer import StartupTimer
from hookline_kernels import Platform
from hookline_kernels.runtime.threads.choosing import leave_cores


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model that is ready to compute, but for its KV cache.

    Attributes:
        architecture: The model's class.
        forward: Computes logits.
        layers: Shape of each layer's KV cache.
        attention: How each layer attends.
        dtype: Data type of weights and activations.
        cache_dtype: Data type of the KV cache.
        quantization: What quantized weights have; empty if none are quantized.
        vocab_size: Number of token ids.
        hidden_size: Width of the hidden states between layers.
        own_layers: The indices, in the whole model, of the layers that it has.
        feature_layers: Layers whose inputs an extension needs on this rank.
        max_model_len: Context length in tokens.
        eos_token_ids: Tokens that end its texts.
        cost: FLOPs and bytes of its steps, on all ranks together.
        fingerprint: Digest of weights and configuration; empty without a KV connector.
        with_kernels: Makes the forward pass with kernels, once they are compiled; None
            if `forward` is the final one.
    """

    architecture: str
    forward: Forward
    layers: tuple[LayerCache, ...]
    attention: tuple[LayerAttention, ...]
    dtype: torch.dtype
    cache_dtype: torch.dtype
    quantization: str
    vocab_size: int
    hidden_size: int
    own_layers: range
    feature_layers: tuple[int, ...]
    max_model_len: int
    eos_token_ids: tuple[int, ...]
    cost: ModelCost
    fingerprint: bytes
    with_kernels: Callable[[], Forward] | None = None

    @property
    def sliding_window(self) -> int | None:
        """Maximum number of tokens in a layer's sliding window; None without any."""
        windows = [each.window for each in self.attention if each.window is not None]
        return max(windows, default=None)

    @property
    def cache_key(self) -> tuple[object, ...]:
        """Equal for two models if either can go on with the KV cache of the other.

        The contents of the cache count only if both have a fingerprint.
        """
        return (
            self.layers,
            self.attention,
            self.dtype,
            self.cache_dtype,
            self.vocab_size,
            self.max_model_len,
            self.fingerprint,
        )


def load(
    config: EngineConfig,
    platform: Platform,
    timer: StartupTimer,
    *,
    extensions: FollowedRows,
    needs_fingerprint: bool,
    ranks: RankContext = SINGLE_RANK,
) -> LoadedModel:
    """Loads the configured model and prepares extensions for it.

    Args:
        config: The engine's configuration.
        platform: Platform of the model.
        timer: Measures the phases.
        extensions: The worker's sides of extensions.
        needs_fingerprint: Whether to compute `fingerprint`, which reads all weights.
        ranks: What this rank has of those that share the model's layers.

    Raises:
        ModelLoadError: The model cannot be loaded or served.
        ConfigError: An option or an extension does not fit the model.
    """
    eight_bits = eight_bit_dtype(config.cache, platform)
    with timer.phase("read config"):
        description = describe(config.model)
    max_model_len = description.max_model_len(config.model.max_model_len)
    ranks.begin_loading(looks_inside=extensions.looks_inside)
    with timer.phase("load weights"):
        model = load_model(
            config.model,
            description,
            max_model_len,
            platform.device,
            divide=ranks.divide,
            may_compile=config.executor.kernels is not Kernels.TORCH,
            cache_dtype=eight_bits,
        )
    cache_dtype = eight_bits or model.dtype
    slot = AttentionSlot.install(model)
    vocab_size = description.vocab_size
    with timer.phase("probe"):
        probed = probe(config.model.model, model, slot, vocab_size)
    span = span_of(model)
    cost = cost_of(model, probed.layers, cache_dtype)
    if config.executor.shares_cores:
        flops = cost.flops_per_token + cost.flops_per_sample
        leave_cores(config.executor.threads, flops)
    if extensions.prepares:
        parts = LoadedParts(
            model=model,
            description=description,
            attention=probed.attention,
            platform=platform,
            has_whole_tables=ranks.has_whole_tables,
        )
        with timer.phase("prepare extensions"):
            for prepare in extensions.prepares:
                prepare(parts)
    choose = partial(
        choose_forward,
        model,
        probed,
        slot,
        block_size=config.cache.block_size,
        cache_dtype=cache_dtype,
        max_model_len=max_model_len,
        platform=platform,
        states_option=extensions.states_option,
        feature_layers=extensions.feature_layers,
        reduce=ranks.reduce,
    )
    fingerprint = fingerprint_of(model, ranks.identity) if needs_fingerprint else b""
    with timer.phase("adapt model"):  # takes the model apart
        first = first_forward(
            config, platform, choose, probed, model.dtype, cache_dtype
        )
    return LoadedModel(
        architecture=type(model).__name__,
        layers=probed.layers,
        attention=probed.attention,
        dtype=model.dtype,
        cache_dtype=cache_dtype,
        quantization=bits_in_words(model),
        vocab_size=vocab_size,
        hidden_size=model.config.get_text_config().hidden_size,
        own_layers=range(span.start, span.start + len(probed.layers)),
        feature_layers=extensions.feature_layers,
        max_model_len=max_model_len,
        eos_token_ids=description.eos_token_ids,
        cost=cost.on_ranks(ranks.num_sharers),
        fingerprint=fingerprint,
        forward=ranks.whole_logits(first.forward, vocab_size),
        with_kernels=first.with_kernels,
    )
