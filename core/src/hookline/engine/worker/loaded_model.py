"""A model as a worker gets it, and what loads it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from hookline.engine.decoder.layer_shapes import ModelLayers
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.forward import Forward
from hookline.engine.worker.rank_context import RankContext
from hookline.step import ModelShape
from hookline_kernels import Platform

if TYPE_CHECKING:  # they are only read
    from hookline.config.engine import EngineConfig
    from hookline.engine.worker.machine import Upgrade
    from hookline.startup_timer import StartupTimer


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel(ModelLayers):
    """A model that is ready to compute, but for its KV cache.

    Attributes:
        shape: What is known of the model before it has a KV cache.
        forward: Computes logits.
        dtype: Data type of weights and activations.
        cache_dtype: Data type of the KV cache.
        quantization: What quantized weights have; empty if none are quantized.
        hidden_size: Width of the hidden states between layers.
        own_layers: The indices, in the whole model, of the layers that it has.
        feature_layers: Layers whose inputs an extension needs on this rank.
        fingerprint: Digest of weights and configuration; empty if nobody needs it.
        upgrade: Replaces `forward` by kernels later; None if it is the final one.
    """

    shape: ModelShape
    forward: Forward
    dtype: torch.dtype
    cache_dtype: torch.dtype
    quantization: str
    hidden_size: int
    own_layers: range
    feature_layers: tuple[int, ...]
    fingerprint: bytes
    upgrade: "Upgrade | None" = None

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
            self.shape.vocab_size,
            self.shape.max_model_len,
            self.fingerprint,
        )


class LoadModel(Protocol):
    """Loads the model of a configuration."""

    def __call__(
        self,
        config: "EngineConfig",
        platform: Platform,
        timer: "StartupTimer",
        *,
        extensions: FollowedRows,
        ranks: RankContext = ...,
        cache_key: tuple[object, ...] | None = ...,
    ) -> LoadedModel:
        """Loads the configured model and prepares extensions for it.

        Args:
            config: The engine's configuration.
            platform: Platform of the model.
            timer: Measures the phases.
            extensions: The worker's sides of extensions. If one is shown the KV cache,
                `fingerprint` is computed, which reads all weights.
            ranks: What this rank has of those that share the model's layers.
            cache_key: That of the cache that it must fit; None if there is none yet.

        Raises:
            ModelLoadError: The model cannot be loaded or served, or has changed so that
                it does not fit the cache.
            ConfigError: An option or an extension does not fit the model.
        """
