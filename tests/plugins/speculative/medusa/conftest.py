"""Small random heads for the models of tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hookline_medusa.checkpoint import save_heads
from hookline_medusa.heads import Head

MakeHeads = Callable[..., tuple[Head, ...]]


@pytest.fixture
def make_heads() -> MakeHeads:
    """Heads that guess anything, but each its own; weights that bfloat16 holds."""

    def make(
        count: int = 4,
        *,
        width: int = 64,
        vocabulary: int = 320,
        layers: int = 1,
        own_output: bool = True,
    ) -> tuple[Head, ...]:
        generator = torch.Generator().manual_seed(5)

        def random(*shape: int) -> torch.Tensor:
            values = torch.randn(shape, generator=generator) * 0.2
            return values.to(torch.bfloat16).float()

        return tuple(
            Head(
                tuple((random(width, width), random(width)) for _ in range(layers)),
                random(vocabulary, width) if own_output else None,
            )
            for _ in range(count)
        )

    return make


@pytest.fixture
def heads_folder(tmp_path: Path, make_heads: MakeHeads) -> Path:
    """Four heads for a model of 64 hidden numbers and 320 tokens."""
    save_heads(tmp_path / "heads", make_heads(), "a model")
    return tmp_path / "heads"
