"""A decoder with split weights, or split layers, equals the whole decoder."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel

from hookline.engine.decoder import Decoder
from hookline.engine.decoder.forward_batch import ForwardBatch, IntermediateTensors
from hookline.engine.worker.paged_cache import PagedCache
from hookline_kernels.decoder.cpu_layer_ops import CpuLayerOps
from hookline_kernels.gpu.graph_sizes import GraphSizes
from hookline_kernels.metadata import Layer
from hookline_kernels.modules.pre_norm import BlockProduct
from hookline_kernels.modules.reduction import ReducedProduct, reduced
from hookline_models.forwards.attention import IMPLEMENTATION, AttentionSlot
from hookline_models.forwards.finding_parts import find_parts
from hookline_models.forwards.layer_span import call_model
from hookline_models.forwards.probe import Probed, probe
from hookline_models.machines.cuda_graphs import GraphedForward
from hookline_models.machines.device_feed import DeviceFeed
from hookline_ranks.sharding.rank_reduction import RankReduction
from hookline_testing.oracle import SHAPE, VOCAB
from hookline_testing.rank_threads import ThreadGroup, on_ranks, thread_groups

BLOCK, TOKENS = 16, 21
PROMPT = torch.randint(VOCAB, (TOKENS,), generator=torch.Generator().manual_seed(4))


@dataclass
class Doubled:
    """The reduction of two ranks with equal parts."""

    is_capturable: bool = True
    is_recordable: bool = False
    adds_residual: bool = True

    def __call__(self, partial: torch.Tensor) -> torch.Tensor:
        return partial.mul_(2)


def joined(group: ThreadGroup) -> RankReduction:
    """A reduction that calls the other ranks."""
    reduce = RankReduction(group)
    reduce.join()
    return reduce


def build(dtype: torch.dtype) -> PreTrainedModel:
    """The same random weights each time."""
    torch.manual_seed(7)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(
        LlamaConfig(**SHAPE), dtype=torch.float32, attn_implementation=IMPLEMENTATION
    )
    model.train(mode=False)
    nn.Module.to(model, dtype)
    return model.requires_grad_(requires_grad=False)


def probed_of(model: PreTrainedModel) -> Probed:
    return probe("a model", model, AttentionSlot.install(model), VOCAB)


def decoder_of(model: PreTrainedModel, probed: Probed, ops: CpuLayerOps) -> Decoder:
    decoder = Decoder(
        find_parts(model), probed, ops, block_size=BLOCK, max_model_len=64
    )
    decoder.bind(PagedCache(probed.layers, 4, BLOCK, model.dtype))
    return decoder


def batch_of(start: int, end: int) -> ForwardBatch:
    """Tokens of the prompt, in blocks 2 and 1."""
    at, table = torch.arange(start, end), torch.tensor([2, 1])
    return ForwardBatch(
        token_ids=PROMPT[start:end],
        positions=at,
        logits_indices=torch.arange(end - start),
        slot_mapping=table[at // BLOCK] * BLOCK + at % BLOCK,
        block_tables=table[None],
        query_lens=[end - start],
        seq_lens=[end],
        num_decodes=int(end - start == 1),
        seq_lens_tensor=torch.tensor([end]),
    )


@torch.inference_mode()
def logits_of(decoder: Decoder) -> torch.Tensor:
    """A prompt, then single tokens, which are replayed where they can be."""
    parts = [(0, 10), *((at, at + 1) for at in range(10, TOKENS))]
    return torch.cat([decoder(batch_of(*part)).clone() for part in parts])


def part_of(model: PreTrainedModel, rank: int) -> PreTrainedModel:
    """Half of the heads and of the feed-forward width of each layer."""

    def cut(linear: nn.Linear, dim: int) -> None:
        linear.weight = nn.Parameter(
            linear.weight.chunk(2, dim)[rank].contiguous(), requires_grad=False
        )
        linear.out_features, linear.in_features = linear.weight.shape

    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        for linear in (attention.q_proj, attention.k_proj, attention.v_proj):
            cut(linear, 0)
        for linear in (mlp.gate_proj, mlp.up_proj):
            cut(linear, 0)
        for linear in (attention.o_proj, mlp.down_proj):
            cut(linear, 1)
    return model


def half_heads(probed: Probed) -> Probed:
    layers = tuple(
        replace(
            layer,
            num_heads=layer.num_heads // 2,
            num_kv_heads=layer.num_kv_heads // 2,
        )
        for layer in probed.layers
    )
    return replace(probed, layers=layers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_two_ranks_give_the_logits_of_one(dtype: torch.dtype) -> None:
    """Each has half of the heads and of the feed-forward layers, and sums twice."""
    model = build(dtype)
    probed = probed_of(model)
    expected = logits_of(decoder_of(model, probed, CpuLayerOps()))
    groups = thread_groups(2)
    decoders = [
        decoder_of(
            part_of(build(dtype), group.rank),
            half_heads(probed),
            CpuLayerOps(joined(group)),
        )
        for group in groups
    ]

    first, second = on_ranks([partial(logits_of, decoder) for decoder in decoders])

    steps = 1 + TOKENS - 10
    assert [group.calls for group in groups] == [2 * len(probed.layers) * steps] * 2
    assert torch.equal(first, second)
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 0.03}[dtype]
    assert (first - expected).float().norm() <= tolerance * expected.float().norm()


class Scaled:
    """A product that can add a residual by itself, also for rows in blocks."""

    def __init__(self) -> None:
        self.of_blocks = BlockProduct(3, self.multiply_blocks)

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        return 5 * values if residual is None else 5 * values + residual

    def multiply_blocks(
        self, values: torch.Tensor, rows: int, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        found = 7 * values[:rows]
        return found if residual is None else found + residual


@pytest.mark.parametrize("adds_residual", [True, False])
def test_one_rank_adds_the_residual(adds_residual: bool) -> None:
    """In its product's own pass, with rows and with rows in blocks."""
    product = reduced(Scaled(), Doubled(adds_residual=adds_residual))
    values, residual = torch.ones(4, 2), torch.full((4, 2), 100.0)
    added = 200.0 if adds_residual else 0.0

    assert torch.equal(product(values), torch.full((4, 2), 10.0))
    assert torch.equal(product(values, residual), torch.full((4, 2), 10.0 + added))
    assert product.of_blocks is not None
    least, multiply = product.of_blocks
    assert least == 3
    found = multiply(values, 4, residual)
    assert torch.equal(found, torch.full((4, 2), 14.0 + added))


def test_without_a_reduction_the_residual_is_fused() -> None:
    """The residual is added in the product's own pass, with nothing around it."""
    product = Scaled()

    assert reduced(product, None) is product
    assert isinstance(reduced(product, Doubled()), ReducedProduct)


@pytest.mark.parametrize("is_capturable", [True, False])
def test_a_graph_needs_a_reduction_that_it_can_capture(is_capturable: bool) -> None:
    """One that waits for other ranks on the host keeps layers out of graphs."""
    model = build(torch.float32)
    probed = probed_of(model)

    decoder = decoder_of(model, probed, CpuLayerOps(Doubled(is_capturable)))

    assert decoder.is_capturable == is_capturable


def stage_of(
    model: PreTrainedModel, probed: Probed, layers: slice
) -> tuple[PreTrainedModel, Probed]:
    """Some of the layers."""
    model.model.layers = model.model.layers[layers]
    own = replace(
        probed, layers=probed.layers[layers], attention=probed.attention[layers]
    )
    return model, own


@torch.inference_mode()
def test_a_stage_continues_from_the_previous_one() -> None:
    """Two pipeline stages give the logits of one, prompts and replayed decodes too."""
    model = build(torch.float32)
    probed = probed_of(model)
    expected = logits_of(decoder_of(model, probed, CpuLayerOps()))
    first, second = (
        decoder_of(*stage_of(build(torch.float32), probed, layers), CpuLayerOps())
        for layers in (slice(0, 1), slice(1, None))
    )
    found = []

    for start, end in [(0, 10), *((at, at + 1) for at in range(10, TOKENS))]:
        batch = batch_of(start, end)
        passed = IntermediateTensors(first.hidden(batch))
        found.append(second(replace(batch, intermediate=passed)).clone())

    torch.testing.assert_close(torch.cat(found), expected, rtol=1e-4, atol=1e-5)


def test_intermediate_tensors_are_not_for_modules() -> None:
    """A whole model's embed tokens, and refuse rather than ignore what they get."""
    model = build(torch.float32)
    batch = batch_of(0, 1)
    passed = IntermediateTensors(torch.zeros(1, SHAPE["hidden_size"]))

    with pytest.raises(ValueError, match="only a stage"):
        call_model(model, batch.token_ids, batch.positions, intermediate=passed)


class Replayed:
    """A graph that leaves another result than the layers."""

    output = torch.ones(1, SHAPE["hidden_size"])

    def replay(self) -> None:
        pass


def graphed_of(decoder: Decoder, probed: Probed) -> GraphedForward:
    """The decoder with a graph of one decode, bound to a cache."""
    feed = DeviceFeed(
        torch.device("cpu"),
        max_tokens=4,
        max_num_seqs=1,
        max_num_blocks=4,
        sizes=(sizes := GraphSizes((1,))),
    )
    graphed = GraphedForward(decoder, feed, sizes, lambda _: Replayed(), longest=64)
    graphed.bind(PagedCache(probed.layers, 4, BLOCK, torch.float32))
    return graphed


@torch.inference_mode()
def test_graphs_do_not_replay_intermediate_tensors() -> None:
    """A graph reads token ids; a later stage's step is launched."""
    model = build(torch.float32)
    probed = probed_of(model)
    decoder = decoder_of(model, probed, CpuLayerOps())
    graphed = graphed_of(decoder, probed)
    source = torch.Generator().manual_seed(3)
    passed = torch.randn(1, SHAPE["hidden_size"], generator=source)
    batch = replace(batch_of(0, 1), intermediate=IntermediateTensors(passed.clone()))

    found = graphed(batch).clone()

    expected = decoder(replace(batch, intermediate=IntermediateTensors(passed)))
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, graphed(replace(batch, intermediate=None)))


class Shifted:
    """Parts with adapters: the decoder's own layers, and logits that are 5 higher."""

    def __init__(self, decoder: Decoder) -> None:
        self.layers: Sequence[Layer] = decoder.layers
        self._decoder, self.embedded = decoder, 0

    def embed(self, hidden: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        self.embedded += len(batch.token_ids)
        return hidden

    def logits(self, states: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        assert len(states) == len(batch.logits_indices)
        return self._decoder.logits_of(states) + 5


@torch.inference_mode()
def test_steps_with_adapters_take_the_adapted_parts() -> None:
    """No graph replays them; all other steps are what they were."""
    model = build(torch.float32)
    probed = probed_of(model)
    decoder = decoder_of(model, probed, CpuLayerOps())
    expected = decoder_of(build(torch.float32), probed, CpuLayerOps())
    decoder.adapted = shifted = Shifted(decoder)
    graphed = graphed_of(decoder, probed)
    expected.bind(PagedCache(probed.layers, 4, BLOCK, model.dtype))
    batch = batch_of(0, 1)
    own = expected(batch)

    adapted = graphed(replace(batch, adapters=object()))

    torch.testing.assert_close(adapted, own + 5)
    assert shifted.embedded == 1
    torch.testing.assert_close(decoder(batch), own)
    assert shifted.embedded == 1
