"""Products of few rows on the GPU are right, and layers take them where planned."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

pytest.importorskip("triton", reason="Triton is not installed")

from hookline_kernels.decoder.gpu_layer_ops import GpuLayerOps
from hookline_kernels.gpu.thin import RowNorm, ThinPlan, thin_product
from hookline_kernels.gpu.thin_plans import plans_of
from hookline_kernels.layers import gated_reference, rms_norm_reference
from hookline_kernels.modules.pre_norm import PreNorm
from hookline_testing.essential import essential

EPSILON = 1e-6
WIDTH, OUTS = 80, 20
"""No powers of two, and not a whole number of tiles."""
PLAN = ThinPlan(16, 32)
DTYPES = [torch.bfloat16, torch.float32]
Randn = Callable[..., torch.Tensor]


@pytest.fixture(params=essential(DTYPES, torch.bfloat16), ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    chosen: torch.dtype = request.param
    return chosen


@pytest.fixture
def randn(dtype: torch.dtype, device: torch.device) -> Randn:
    """Draws tensors on the device, always the same ones."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype).to(device)

    return drawn


def assert_near(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Equal but for sums in another order, and what is rounded after them."""
    assert found.dtype == wanted.dtype
    units = 8 * torch.finfo(wanted.dtype).eps
    torch.testing.assert_close(found, wanted, rtol=units, atol=units)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("normed", [None, False, True])
@pytest.mark.parametrize("work", ["gated", "residual", "bias"])
def test_products_round_as_models_do(
    rows: int,
    normed: bool | None,
    work: str,
    randn: Randn,
) -> None:
    """With either norm in front, and a gate, a residual or a bias behind."""
    values = randn(rows, WIDTH + 16)[:, :WIDTH]
    weight = randn(2 * OUTS if work == "gated" else OUTS, WIDTH) / 8
    bias = None if work == "residual" else randn(len(weight))
    residual = randn(rows, OUTS) if work != "gated" else None
    norm = None if normed is None else RowNorm(randn(WIDTH), EPSILON, normed)
    inputs = values if norm is None else _normed(values, norm)
    wide = functional.linear(
        inputs.double(), weight.double(), None if bias is None else bias.double()
    )
    if residual is not None:
        wide += residual.double()
    wanted = wide.to(values.dtype)

    found = thin_product(
        values,
        weight,
        PLAN,
        norm=norm,
        gated=work == "gated",
        bias=bias,
        residual=residual,
    )

    assert_near(found, gated_reference(wanted) if work == "gated" else wanted)
    assert residual is None or found is residual


def _normed(values: torch.Tensor, norm: RowNorm) -> torch.Tensor:
    return rms_norm_reference(
        values, norm.weight, norm.epsilon, unit_offset=norm.unit_offset
    )


class Mlp(nn.Module):
    """A gated MLP as models have it."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        gated = self.act_fn(self.gate_proj(values)) * self.up_proj(values)
        found: torch.Tensor = self.down_proj(gated)
        return found


@torch.inference_mode()
def test_layers_of_few_rows_equal_those_of_many(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    """A norm, a gated MLP and its residual, by planned and by other rows."""
    monkeypatch.setattr(
        "hookline_kernels.decoder.gpu_layer_ops.plans_of",
        lambda _weight, **_: {1: PLAN, 2: PLAN},
    )
    torch.manual_seed(0)
    mlp, norm = Mlp(32, 48).to(device), nn.RMSNorm(32, eps=EPSILON).to(device)
    ops = GpuLayerOps()
    kernel, product = ops.norm(norm), ops.gated_mlp(mlp)
    assert kernel is not None
    assert product is not None
    layer = PreNorm(kernel, product)

    for rows in (1, 2, 3):
        hidden = torch.randn(rows, 32, device=device)
        wanted = mlp(norm(hidden)) + hidden
        assert_near(layer(hidden, hidden), wanted)
        assert_near(hidden, wanted)


def test_plans_are_of_large_weights_of_two_bytes(device: torch.device) -> None:
    """Small products are all launch, and others were not measured."""
    large = torch.empty(1024, 2048, dtype=torch.bfloat16, device=device)

    assert 1 in plans_of(large)
    assert not plans_of(large[:64])
    assert not plans_of(large.float())
    assert not plans_of(large.view(16, -1))
