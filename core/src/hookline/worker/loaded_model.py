"""A model as a worker gets it, and what loads it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from hookline.config.engine import EngineConfig
from hookline.cost import ModelCost
from hookline.models.layer_shapes import LayerAttention, LayerCache
from hookline.spec_decode.proposer import Proposer
from hookline.startup_timer import StartupTimer
from hookline.worker.forward import Forward
from hookline.worker.rank_context import RankContext
from hookline_kernels import Platform


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
        feature_layers: Layers whose inputs the proposer needs, which the output rank
            has prepared; empty on other ranks.
        max_model_len: Context length in tokens.
        eos_token_ids: Tokens that end its texts.
        cost: FLOPs and bytes of its steps, on all ranks together.
        fingerprint: Digest of weights and configuration; empty if nobody needs it.
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


class LoadModel(Protocol):
    """Loads the model of a configuration."""

    def __call__(
        self,
        config: EngineConfig,
        platform: Platform,
        timer: StartupTimer,
        *,
        proposer: Proposer | None,
        uses_cache: bool,
        states_option: str = ...,
        ranks: RankContext = ...,
    ) -> LoadedModel:
        """Loads the configured model and prepares the proposer for it.

        Args:
            config: The engine's configuration.
            platform: Platform of the model.
            timer: Measures the phases.
            proposer: Prepared with the model's weights if it needs hidden states.
            uses_cache: Whether an extension is shown the KV cache: `fingerprint` is
                computed, which reads all weights.
            states_option: The option for which extensions need hidden states; empty if
                they need none.
            ranks: What this rank has of those that share the model's layers.

        Raises:
            ModelLoadError: The model cannot be loaded or served.
            ConfigError: An option or the proposer does not fit the model.
        """
        ...
