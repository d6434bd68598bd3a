"""Usual decoders run by kernels, other models as modules, and all are right."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    GraniteConfig,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from hookline.engine.decoder import Decoder, NotDecoder
from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.worker.forward import Forward
from hookline.engine.worker.paged_cache import PagedCache
from hookline_kernels import KernelError
from hookline_kernels.decoder.cpu_layer_ops import CpuLayerOps
from hookline_kernels.decoder.rotary_table import GrowingRotaryTable
from hookline_kernels.modules.linears import is_worth_packing
from hookline_models.family import find_family
from hookline_models.forwards.attention import IMPLEMENTATION, AttentionSlot
from hookline_models.forwards.choice import choose_forward
from hookline_models.forwards.finding_parts import find_parts
from hookline_models.forwards.probe import probe
from hookline_testing.essential import essential
from hookline_testing.oracle import ESSENTIAL_FAMILIES, FAMILIES, SHAPE, VOCAB

BLOCK = 16
LIMIT = 256
DECODERS = {"llama", "qwen2", "qwen3", "mistral", "qwen3-moe", "mixtral", "gpt-oss"}
REASONS = {
    "gemma2": "its embedding is not a plain table",
    "gemma3": "its embedding is not a plain table",
    "phi3": "its layer has another structure: resid_attn_dropout, resid_mlp_dropout",
} | dict.fromkeys(
    ("gpt2", "bloom", "falcon", "falcon-alibi", "falcon-new", "mpt"),
    "its model has another structure: model, transformer",
)
REASONS |= dict.fromkeys(
    ("deepseek-v2", "deepseek-v3"),
    "its attention has another structure: k_proj, kv_a_layernorm",
)
OTHERS: dict[str, Callable[[], PreTrainedConfig]] = {
    "granite-scaled": lambda: GraniteConfig(
        **SHAPE,
        logits_scaling=4.0,
        residual_multiplier=0.5,
        embedding_multiplier=3.0,
        attention_multiplier=0.25,
    ),
    "cohere": lambda: CohereConfig(**SHAPE, logit_scale=0.25),
}


def build(config: PreTrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """A model with the same random weights, in any dtype."""
    torch.manual_seed(7)
    family = find_family("a model", config.model_type)
    attention = IMPLEMENTATION if family is None else family.attention
    model: PreTrainedModel = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation=attention
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)  # norms are all 1 at first
    model.train(mode=False)
    if family is not None:
        family.replace_attention(model)
    nn.Module.to(model, dtype)
    return model.requires_grad_(requires_grad=False)


class Served:
    """A model as the worker runs it, with its own cache."""

    def __init__(
        self, model: PreTrainedModel, *, limit: int = LIMIT, may_compile: bool = True
    ) -> None:
        slot = AttentionSlot.install(model)
        self.probed = probe("a model", model, slot, VOCAB)
        self._dtype, self._blocks = model.dtype, -(-limit // BLOCK)
        self._may_compile = may_compile
        self.forward: Forward = choose_forward(
            model,
            self.probed,
            slot,
            block_size=BLOCK,
            max_model_len=limit,
            may_compile=may_compile,
        )

    @torch.inference_mode()
    def logits(self, prompts: list[list[int]], steps: list[int]) -> torch.Tensor:
        """Logits of all tokens of equally long prompts, in steps of these lengths."""
        cache = PagedCache(
            self.probed.layers,
            len(prompts) * self._blocks,
            BLOCK,
            self._dtype,
            may_compile=self._may_compile,
        )
        self.forward.bind(cache)
        found, start = [], 0
        for count in steps:
            part = torch.arange(start, start + count)
            tokens = torch.tensor(prompts)[:, part].flatten()
            batch = self.batch(tokens, part, torch.arange(len(tokens)))
            logits = self.forward(batch)
            found.append(logits.unflatten(0, (len(prompts), count)).clone())
            start += count
        return torch.cat(found, 1)

    def batch(
        self, tokens: torch.Tensor, part: torch.Tensor, logits_indices: torch.Tensor
    ) -> ForwardBatch:
        """Tokens of prompts at the same positions."""
        prompts = len(tokens) // len(part)
        order = torch.randperm(
            prompts * self._blocks, generator=torch.Generator().manual_seed(1)
        )
        tables = order.view(prompts, -1)
        lengths = [int(part[-1]) + 1] * prompts
        return ForwardBatch(
            token_ids=tokens,
            positions=part.repeat(prompts),
            logits_indices=logits_indices,
            slot_mapping=(tables[:, part // BLOCK] * BLOCK + part % BLOCK).flatten(),
            block_tables=tables,
            query_lens=[len(part)] * prompts,
            seq_lens=lengths,
            num_decodes=prompts if len(part) == 1 else 0,
            seq_lens_tensor=torch.tensor(lengths),
        )


def prompts(length: int) -> list[list[int]]:
    source = torch.Generator().manual_seed(2)
    found: list[list[int]] = torch.randint(
        VOCAB, (3, length), generator=source
    ).tolist()
    return found


STEPS = [19, 1, 1, 7, 1]
"""Past the window of those that have one."""


def modules_logits(config: PreTrainedConfig, dtype: torch.dtype) -> torch.Tensor:
    """Logits of the model's own modules with plain attention."""
    served = Served(build(config, dtype), may_compile=False)
    assert served.forward.name == "modules"
    return served.logits(prompts(sum(STEPS)), STEPS)


def share(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Norm of the difference relative to the norm."""
    return float((found.float() - exact).norm() / exact.norm())


def test_each_family_is_listed() -> None:
    """A new family is listed as a decoder, or with the reason why not."""
    assert set(FAMILIES) == DECODERS | set(REASONS)


@pytest.mark.parametrize("family", essential(sorted(FAMILIES), *ESSENTIAL_FAMILIES))
def test_float32_gives_the_modules_logits(
    family: str, caplog: pytest.LogCaptureFixture
) -> None:
    """By the fastest way that fits; models that run as modules log why, once."""
    caplog.set_level("INFO", "hookline_models.forwards.choice")
    served = Served(build(FAMILIES[family](), torch.float32))

    found = served.logits(prompts(sum(STEPS)), STEPS)

    expected = modules_logits(FAMILIES[family](), torch.float32)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    reason = REASONS.get(family, "")
    assert served.forward.name == ("adapted modules" if reason else "decoder")
    assert reason in served.forward.reason
    assert bool(reason) == bool(served.forward.reason)
    assert caplog.text.count("the model runs as modules") == bool(reason)


@pytest.mark.parametrize("family", essential(sorted(FAMILIES), *ESSENTIAL_FAMILIES))
def test_bfloat16_is_as_near_to_float32_as_the_modules(family: str) -> None:
    """The error of bfloat16 grows by at most half in any step.

    The median of a step: rounding may route a token to another expert.
    """
    config = FAMILIES[family]()
    rounded = build(config, torch.bfloat16).float()
    exact = Served(rounded, may_compile=False).logits(prompts(sum(STEPS)), STEPS)
    modules = modules_logits(config, torch.bfloat16)
    served = Served(build(config, torch.bfloat16))

    found = served.logits(prompts(sum(STEPS)), STEPS)

    assert served.forward.name == "decoder" or family in REASONS
    assert found.dtype == torch.bfloat16
    for parts in zip(
        *(each.split(STEPS, 1) for each in (found, modules, exact)), strict=True
    ):
        own, modules_own = (
            ((part.float() - parts[2]).norm(dim=-1) / parts[2].norm(dim=-1)).median()
            for part in parts[:2]
        )
        assert own <= 1.5 * modules_own


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", OTHERS)
def test_near_decoders_give_correct_logits(name: str, dtype: torch.dtype) -> None:
    """Scaled logits or other rotary pairs are detected by a part or by the trial."""
    served = Served(build(OTHERS[name](), dtype))

    found = served.logits(prompts(sum(STEPS)), STEPS)

    assert served.forward.name == "adapted modules"
    assert served.forward.reason
    expected = modules_logits(OTHERS[name](), dtype).float()
    assert share(found, expected) <= {torch.float32: 1e-5, torch.bfloat16: 0.05}[dtype]


def test_only_selected_tokens_have_logits() -> None:
    """In the order of `logits_indices`."""
    served = Served(build(FAMILIES["qwen2"](), torch.float32))
    expected = served.logits(prompts(11), [11])
    tokens, part = torch.tensor(prompts(11)).flatten(), torch.arange(11)

    with torch.inference_mode():
        batch = served.batch(tokens, part, torch.tensor([32, 4, 10]))
        found = served.forward(batch)

    torch.testing.assert_close(
        found, torch.stack([expected[2, 10], expected[0, 4], expected[0, 10]])
    )


def test_prompts_beyond_the_first_angles_are_right() -> None:
    """The rotary table grows while requests run."""
    config = LlamaConfig(**{**SHAPE, "max_position_embeddings": 1400})
    steps = [900, 200, 1, 1]
    taken, plain = (
        Served(build(config, torch.float32), limit=1400, may_compile=may_compile)
        for may_compile in (True, False)
    )

    found, expected = (each.logits(prompts(1102), steps) for each in (taken, plain))

    assert taken.forward.name == "decoder"
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-4)


class Rotary(nn.Module):
    """Rotates like most models, and records the positions that were read."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.asked: list[int] = []
        self._speeds = torch.logspace(0, -3, width // 2)

    def forward(
        self, like: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.asked.append(int(positions.max()))
        turns = self.pairs(positions[..., None] * self._speeds)
        return turns.cos().to(like.dtype), turns.sin().to(like.dtype)

    def pairs(self, turns: torch.Tensor) -> torch.Tensor:
        return torch.cat((turns, turns), -1)


class Neighbours(Rotary):
    """Rotates neighbouring numbers."""

    def pairs(self, turns: torch.Tensor) -> torch.Tensor:
        return turns.repeat_interleave(2, -1)


def test_angles_grow_by_doubling_up_to_the_limit() -> None:
    """Positions that the model does not have are never read."""
    rotary = Rotary()
    angles = GrowingRotaryTable(rotary, torch.float32, 8, 5000)

    for positions in (1, 1024, 1025, 2048, 2049, 4000, 4097, 5000):
        angles.grow(positions)
        assert len(angles.table[0]) >= positions

    assert rotary.asked == [1023, 2047, 4095, 4999]
    expected = Rotary()(torch.empty(1), torch.arange(5000)[None])
    for side, wanted in zip(angles.table, expected, strict=True):
        assert torch.equal(side, wanted[0, :, :4])


def test_a_short_models_angles_end_with_it() -> None:
    """Even if it has fewer positions than the first table."""
    rotary = Rotary()

    angles = GrowingRotaryTable(rotary, torch.bfloat16, 8, 77)
    angles.grow(77)

    assert rotary.asked == [76]
    assert [side.shape for side in angles.table] == [(77, 4)] * 2
    assert {side.dtype for side in angles.table} == {torch.float32}
    assert all(torch.equal(side, side.bfloat16().float()) for side in angles.table)


@pytest.mark.parametrize(
    ("rotary", "reason"),
    [(Rotary(width=4), "a part of each head"), (Neighbours(), "pairs numbers")],
    ids=["partial", "neighbours"],
)
def test_other_rotary_embeddings_are_refused(rotary: Rotary, reason: str) -> None:
    """The kernel rotates whole heads, the first half with the second."""
    with pytest.raises(KernelError, match=reason):
        GrowingRotaryTable(rotary, torch.float32, 8, 100)


def test_a_trial_detects_a_model_with_other_computations() -> None:
    """A subclass with a decoder's parts and other logits runs as modules."""

    class Halved(type(build(FAMILIES["llama"](), torch.float32))):  # type: ignore[misc]
        def forward(self, *args: object, **others: object) -> object:
            output = super().forward(*args, **others)
            output.logits = output.logits / 2
            return output

    halved, plain = (build(FAMILIES["llama"](), torch.float32) for _ in range(2))
    halved.__class__ = Halved

    served = Served(halved)
    found = served.logits(prompts(20), [19, 1])

    assert served.forward.name == "adapted modules"
    assert "logits differ from the modules'" in served.forward.reason
    expected = Served(plain, may_compile=False).logits(prompts(20), [19, 1])
    torch.testing.assert_close(found, expected / 2, rtol=1e-4, atol=1e-4)


def test_layers_of_other_widths_are_refused() -> None:
    """There is no kernel for values that are narrower than keys."""
    model = build(FAMILIES["llama"](), torch.float32)
    probed = probe("a model", model, AttentionSlot.install(model), VOCAB)
    odd = replace(probed.layers[0], value_dim=8)

    with pytest.raises(NotDecoder, match="differ in width"):
        Decoder(
            find_parts(model),
            replace(probed, layers=(odd, *probed.layers[1:])),
            CpuLayerOps(),
            block_size=BLOCK,
            max_model_len=LIMIT,
        )


@pytest.mark.parametrize(
    "dtype", essential([torch.float32, torch.bfloat16], torch.bfloat16), ids=str
)
def test_modules_go_with_the_model(dtype: torch.dtype) -> None:
    """A decoder keeps each weight once, and none of the layers' modules."""
    model = build(FAMILIES["qwen3"](), dtype)
    modules = [model, *model.model.layers, *model.model.layers.modules()]
    products = [part.weight for part in model.model.layers.modules() if is_joined(part)]
    gone = [weakref.ref(each) for each in (*modules, *products)]

    served = Served(model)
    del model, modules, products
    gc.collect()

    assert served.forward.name == "decoder"
    assert not [each() for each in gone if each() is not None]


def is_joined(module: nn.Module) -> bool:
    """Whether the decoder copies a product's weight, to join or pack it."""
    packs = isinstance(module, nn.Linear) and is_worth_packing(module.weight)
    return isinstance(module, nn.Linear) and (packs or module.out_features != 64)
