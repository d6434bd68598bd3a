"""How a model will be run, and what its KV cache takes, without loading it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from hookline.config.engine import EngineConfig
from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.engine.decoder.parts import NotDecoder
from hookline.exceptions import ConfigError
from hookline.model_description import ModelDescription
from hookline_host.memory import available_memory
from hookline_kernels import CPU
from hookline_models.checking.report import ArchitectureReport, CacheReport
from hookline_models.checking.sketch import sketch_model
from hookline_models.checkpoints.loading import load_model
from hookline_models.forwards.attention import AttentionSlot
from hookline_models.forwards.choice import choose_forward
from hookline_models.forwards.finding_parts import find_parts
from hookline_models.forwards.probe import probe, probe_shapes
from hookline_models.loading.loader import eight_bit_dtype
from hookline_models.machines.choosing import choose_machine
from hookline_models.machines.memory import SHARE_OF_FREE_MEMORY, count_blocks
from hookline_models.quantization import StoredTensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketched:
    """A model's layers, and how it will be run.

    Attributes:
        report: What is shown of them.
        layers: Shape of each layer's KV cache.
        cache_dtype: Data type of the KV cache.
    """

    report: ArchitectureReport
    layers: Sequence[LayerCache]
    cache_dtype: torch.dtype


def examine_architecture(
    config: EngineConfig,
    description: ModelDescription,
    max_model_len: int,
    tensors: Mapping[str, StoredTensor],
) -> Sketched:
    """Makes the modules without their numbers, and sees what they call.

    Raises:
        ModelLoadError: The model is not supported, or tensors do not fit it.
        ConfigError: The KV cache's data type is not supported.
    """
    name = config.model.model
    model = sketch_model(config.model, description, max_model_len, tensors)
    found = probe_shapes(name, model, AttentionSlot.install(model))
    forward, reason = "decoder", ""
    try:
        find_parts(model)
    except NotDecoder as error:
        forward, reason = "modules", str(error)
    dtype = eight_bit_dtype(config.cache, CPU) or model.dtype
    windows = Counter(
        each.window for each in found.attention if each.window is not None
    )
    report = ArchitectureReport(
        forward=forward,
        reason=reason,
        is_tried=False,
        layers=len(found.layers),
        sliding_windows=dict(windows),
        kv_bytes_per_token=sum(each.bytes_per_block(1, dtype) for each in found.layers),
    )
    return Sketched(report=report, layers=found.layers, cache_dtype=dtype)


def try_to_run(
    config: EngineConfig, description: ModelDescription, max_model_len: int
) -> tuple[str, str]:
    """Loads the first layers, one or more of each kind, and has them compute.

    Returns:
        What will compute the steps, and why it is not the decoder.

    Raises:
        ModelLoadError: The model cannot be served.
        ConfigError: The device does not exist.
    """
    name, few = config.model.model, replace(config.model, has_few_layers=True)
    platform = choose_machine(config.executor).platform
    may_compile = config.executor.may_compile
    model = load_model(
        few, description, max_model_len, platform.device, may_compile=may_compile
    )
    slot = AttentionSlot.install(model)
    probed = probe(name, model, slot, description.vocab_size)
    forward = choose_forward(
        model,
        probed,
        slot,
        block_size=config.cache.block_size,
        cache_dtype=eight_bit_dtype(config.cache, platform) or model.dtype,
        max_model_len=max_model_len,
        may_compile=may_compile,
        platform=platform,
    )
    return forward.name, forward.reason


def examine_cache(
    config: EngineConfig, found: Sketched, max_model_len: int, weight_bytes: int
) -> CacheReport | None:
    """Estimates how many tokens the KV cache holds in the memory that is free now.

    Returns:
        None if the system does not tell how much memory is free.

    Raises:
        ConfigError: Not one request of the maximum length fits.
    """
    free = available_memory()
    if free is None:
        return None
    room = int(max(0, free - weight_bytes) * SHARE_OF_FREE_MEMORY)
    blocks = count_blocks(
        config.cache,
        config.scheduler,
        found.layers,
        dtype=found.cache_dtype,
        max_model_len=max_model_len,
        room=lambda: room,
    )
    tokens = blocks * config.cache.block_size
    if tokens < max_model_len:
        raise ConfigError(
            "max-model-len",
            f"{max_model_len} tokens do not fit into the KV cache, which has room for "
            f"{tokens} beside the weights",
        )
    return CacheReport(tokens=tokens, free_bytes=free)
