"""The phase `load_model`: weights read, probed and arranged for the forward pass."""

from functools import partial

from hookline.config.engine import EngineConfig
from hookline.models.attention import AttentionSlot
from hookline.models.cost import cost_of
from hookline.models.description import describe
from hookline.models.fingerprint import fingerprint_of
from hookline.models.layer_span import span_of
from hookline.models.loading import load_model
from hookline.models.probe import probe
from hookline.startup_timer import StartupTimer
from hookline.worker.compiling.first_forward import first_forward
from hookline.worker.extension import LoadedParts
from hookline.worker.followed_rows import FollowedRows
from hookline.worker.loaded_model import LoadedModel
from hookline.worker.loading.cache_dtype import eight_bit_dtype
from hookline.worker.loading.forward_choice import choose_forward
from hookline.worker.rank_context import SINGLE_RANK, RankContext
from hookline_kernels import Platform
from hookline_kernels.modules.quantized_layer import bits_in_words
from hookline_kernels.runtime.threads.choosing import leave_cores


def load(
    config: EngineConfig,
    platform: Platform,
    timer: StartupTimer,
    *,
    extensions: FollowedRows,
    ranks: RankContext = SINGLE_RANK,
) -> LoadedModel:
    """Implements `LoadModel`."""
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
            may_compile=config.executor.may_compile,
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
    uses_cache = extensions.uses_cache
    fingerprint = fingerprint_of(model, ranks.identity) if uses_cache else b""
    with timer.phase("adapt model"):  # takes the model apart
        first = first_forward(
            config,
            platform,
            choose,
            probed,
            model.dtype,
            cache_dtype,
            uses_cache=uses_cache,
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
