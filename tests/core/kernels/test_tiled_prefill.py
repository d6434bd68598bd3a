"""Prefill on matrix tiles equals the reference."""

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from hookline_kernels import AttentionLayer, AttentionMetadata, new_keys, new_values
from hookline_kernels.attention import attend_written
from hookline_kernels.cpu.prefill_call import (
    Form,
    PrefillShape,
    fastest_form,
    possible_forms,
)
from hookline_kernels.cpu.tiled_prefill import TiledPrefill
from hookline_kernels.failure import KernelError

FORMS = possible_forms()
"""Those that this machine can compute; tiles may be emulated."""


@dataclass(frozen=True)
class Case:
    """Heads, and new and cached tokens of each request."""

    heads: int
    kv_heads: int
    dim: int
    block_size: int
    new: tuple[int, ...]
    cached: tuple[int, ...]
    window: int | None = None
    sinks: torch.Tensor | None = None
    slopes: torch.Tensor | None = None


def differences(
    case: Case,
    form: Form,
    *,
    poison: float = 0.0,
    dtype: torch.dtype = torch.bfloat16,
) -> float:
    """Largest difference from float32; unused blocks hold `poison`."""
    source = torch.Generator().manual_seed(11)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=source).to(dtype)

    lengths = [new + old for new, old in zip(case.new, case.cached, strict=True)]
    size, most = case.block_size, max(lengths)
    width = -(-most // size)
    blocks = width * len(lengths) + 2
    shape = (size, case.kv_heads, case.dim)
    keys = new_keys(blocks, *shape, dtype)
    values = new_values(blocks, *shape, dtype)
    keys.fill_(poison)
    values.fill_(poison)
    tables = torch.randperm(blocks, generator=source)[: width * len(lengths)]
    tables = tables.view(len(lengths), width)
    for table, length in zip(tables, lengths, strict=True):
        at = torch.arange(length)
        places = (table[at // size], at % size)
        keys[places] = numbers(length, *shape[1:])
        values[places] = numbers(length, *shape[1:])
    metadata = AttentionMetadata(
        slot_mapping=torch.zeros(0, dtype=torch.int64),
        block_tables=tables,
        query_lens=list(case.new),
        seq_lens=lengths,
        num_decodes=0,
        seq_lens_tensor=torch.tensor(lengths),
    )
    query = numbers(sum(case.new), case.heads + 3, case.dim)[:, : case.heads]
    tiled = TiledPrefill(
        PrefillShape(
            form=form,
            size=dtype.itemsize,
            group=case.heads // case.kv_heads,
            num_kv_heads=case.kv_heads,
            key_dim=case.dim,
            value_dim=case.dim,
            block_size=size,
            cache_format=dtype.itemsize,
        )
    )
    output = torch.full((sum(case.new), case.heads, case.dim), float("nan"))
    output = output.to(dtype)
    layer = AttentionLayer(
        keys,
        values,
        case.dim**-0.5,
        case.window,
        sinks=case.sinks,
        slopes=case.slopes,
    )
    tiled.prepare_step(metadata)
    tiled(query, layer, output)
    expected = attend_written(
        query.float(),
        query,
        query,
        replace(layer, keys=keys.float(), values=values.float()),
        metadata,
    )
    return float((output.float() - expected).abs().max())


CASES = [
    Case(2, 1, 64, 16, (2,), (0,)),
    Case(12, 4, 64, 16, (17, 300, 15), (5, 0, 700)),
    Case(4, 4, 32, 16, (1100,), (0,)),
    Case(8, 1, 96, 32, (33, 64), (0, 513)),
    Case(16, 8, 160, 16, (40,), (100,)),
    Case(12, 4, 64, 16, (530, 70), (0, 200), window=7),
    Case(12, 4, 64, 16, (530, 70), (0, 900), window=300),
]
USUAL = [Case(8, 1, 128, 32, (33, 64), (0, 513)), Case(16, 8, 256, 16, (40,), (100,))]
"""Widths that take longer to compile."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_the_reference(case: Case) -> None:
    """Tails of tiles and pieces, cached prefixes, windows and groups of all sizes."""
    assert differences(case, fastest_form(torch.bfloat16)) < 0.04


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("case", CASES + USUAL, ids=str)
def test_each_form_equals_the_reference(case: Case, form: Form) -> None:
    """Also those that are slower here than another."""
    assert differences(case, form) < 0.04


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_each_form_attends_in_a_window(form: Form) -> None:
    """One case of all forms, with the tails of everything."""
    case = Case(6, 2, 64, 16, (37, 2), (90, 0), window=70)
    assert differences(case, form) < 0.04


SINKS, SLOPES = torch.linspace(-3, 9, 6), 0.5 ** torch.arange(1, 7)
"""Sinks that take hardly any weight, and nearly all of it."""
BIASES = [
    {"sinks": SINKS},
    {"slopes": SLOPES},
    {"sinks": SINKS, "slopes": SLOPES, "window": 70},
]


@pytest.mark.parametrize("biases", BIASES, ids="-".join)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_each_form_takes_sinks_and_slopes(form: Form, biases: dict[str, Any]) -> None:
    """Groups of three heads, which no tile is a multiple of."""
    case = Case(6, 2, 64, 16, (37, 2, 130), (90, 0, 17), **biases)
    assert differences(case, form) < 0.04


@pytest.mark.parametrize("biases", [{"window": 70}, *BIASES], ids="-".join)
def test_float32_is_exact(biases: dict[str, Any]) -> None:
    """Neither queries, cache nor weights are rounded."""
    case = Case(6, 2, 48, 16, (37, 130), (90, 0), **biases)
    assert differences(case, Form.FLOATS, dtype=torch.float32) < 2e-5


def test_outputs_may_end_within_a_step() -> None:
    """16 numbers of bfloat16 are half of what is written at a time."""
    case = Case(2, 1, 48, 16, (37, 2), (90, 0))
    assert differences(case, Form.FLOATS) < 0.04


def test_requests_of_any_length() -> None:
    """Random lengths are right."""
    source = random.Random(5)  # noqa: S311 - a test
    for _ in range(12):
        count = source.randint(1, 4)
        case = Case(
            # shapes of other tests, whose kernels are compiled
            *source.choice([(12, 4, 64, 16), (2, 1, 64, 16), (4, 4, 32, 16)]),
            new=tuple(source.choice([2, 15, 16, 33, 100, 300]) for _ in range(count)),
            cached=tuple(source.choice([0, 5, 16, 100, 500]) for _ in range(count)),
            window=source.choice([None, 7, 64, 300]),
        )
        assert differences(case, fastest_form(torch.bfloat16)) < 0.04, case


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_unwritten_slots_are_not_read(form: Form) -> None:
    """Even NaN in the rest of a block has no effect."""
    case = Case(6, 2, 64, 16, (5, 18), (3, 20))
    assert differences(case, form, poison=float("nan")) < 0.04


@pytest.mark.parametrize(
    ("form", "key_dim", "block_size"),
    [(FORMS[0], 40, 16), (Form.FLOATS, 24, 16), (Form.FLOATS, 64, 4)],
)
def test_other_shapes_are_refused(form: Form, key_dim: int, block_size: int) -> None:
    """torch attends instead."""
    shape = PrefillShape(
        form=form,
        size=2,
        group=1,
        num_kv_heads=1,
        key_dim=key_dim,
        value_dim=64,
        block_size=block_size,
        cache_format=2,
    )

    with pytest.raises(KernelError, match=f"{form.value} do not fit"):
        TiledPrefill(shape)
