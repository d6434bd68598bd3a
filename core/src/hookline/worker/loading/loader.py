"""The phase `load_model`: weights read, probed and arranged for the forward pass."""

from functools import partial

from transformers import PreTrainedModel

from hookline.config.engine import EngineConfig
from hookline.config.executor import Kernels
from hookline.config.speculative import OPTION
from hookline.models.attention import AttentionSlot
from hookline.models.cost import cost_of
from hookline.models.description import ModelDescription, describe
from hookline.models.fingerprint import fingerprint_of
from hookline.models.layer_span import span_of
from hookline.models.loading import load_model
from hookline.models.probe import probe
from hookline.models.shared_weights import shared_weights, stored_tables
from hookline.plugin_loading.proposers import prepare_proposer
from hookline.spec_decode.proposer import (
    Proposer,
    feature_layers_of,
    needs_hidden_states,
)
from hookline.startup_timer import StartupTimer
from hookline.worker.cache_dtype import eight_bit_dtype
from hookline.worker.compiling.first_forward import first_forward
from hookline.worker.loaded_model import LoadedModel
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
    proposer: Proposer | None,
    uses_cache: bool,
    states_option: str = "",
    ranks: RankContext = SINGLE_RANK,
) -> LoadedModel:
    """Implements `LoadModel`."""
    eight_bits = eight_bit_dtype(config.cache, platform)
    with timer.phase("read config"):
        description = describe(config.model)
    max_model_len = description.max_model_len(config.model.max_model_len)
    ranks.begin_loading()
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
    shown = None if ranks.has_whole_tables else description
    needs_states = _show(config, timer, model, proposer, shown)
    choose = partial(
        choose_forward,
        model,
        probed,
        slot,
        block_size=config.cache.block_size,
        cache_dtype=cache_dtype,
        max_model_len=max_model_len,
        platform=platform,
        needs_hidden_states=needs_states or bool(states_option),
        states_option=OPTION if needs_states else states_option,
        feature_layers=feature_layers_of(proposer),
        reduce=ranks.reduce,
    )
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
        feature_layers=feature_layers_of(proposer),
        max_model_len=max_model_len,
        eos_token_ids=description.eos_token_ids,
        cost=cost.on_ranks(ranks.num_sharers),
        fingerprint=fingerprint,
        forward=ranks.whole_logits(first.forward, vocab_size),
        with_kernels=first.with_kernels,
    )


def _show(
    config: EngineConfig,
    timer: StartupTimer,
    model: PreTrainedModel,
    proposer: Proposer | None,
    description: ModelDescription | None,
) -> bool:
    """Shows the model to the proposer; returns whether it needs hidden states.

    The description is that of a model of which this rank has a part; None if whole.
    """
    if proposer is None or not needs_hidden_states(proposer):
        return False
    with timer.phase("prepare proposer"):
        target = (
            shared_weights(config.model.model, model)
            if description is None
            else stored_tables(config.model, description, model)
        )
        prepare_proposer(proposer, config, target)
    return True
