"""Masks of allowed tokens: the kernel does what the reference does."""

import numpy as np
import pytest
import torch

from hookline_kernels.token_mask import (
    REFERENCE_MASKING,
    apply_reference,
    choose_masking,
)

INFINITE = float("-inf")


def test_the_reference_reads_bits_in_order() -> None:
    """
    Bit i of word w stands for token 32·w + i.
    """
    logits = torch.zeros(1, 40)
    mask = np.array([[1 << 5, 1 << 2]], np.int32)

    apply_reference(logits, np.array([0]), mask)

    assert np.flatnonzero(logits[0] == 0).tolist() == [5, 34]


@pytest.mark.parametrize("width", [1, 31, 32, 33, 320, 4096, 70_001])
def test_the_kernel_equals_the_reference(width: int) -> None:
    """
    For any width, rows that are left out, and rows that lie apart in memory.
    """
    chosen = choose_masking()
    assert chosen.name == "compiled"
    generator = np.random.default_rng(width)
    whole = torch.randn(7, width + 3)
    logits, indices = whole[:, :width], np.array([1, 2, 6])
    words = -(-width // 32)
    masks = generator.integers(-(2**31), 2**31, (3, words)).astype(np.int32)
    masks[0], masks[1, ::2] = 0, -1
    expected = logits.clone()

    apply_reference(expected, indices, masks)
    beyond = whole[:, width:].clone()
    chosen.apply(logits, indices, masks)

    assert torch.equal(logits, expected)
    assert torch.equal(whole[:, width:], beyond)
    assert (logits[1] == INFINITE).all()


def test_kernels_can_be_turned_off() -> None:
    """
    Then torch applies the masks.
    """
    assert choose_masking(may_compile=False) is REFERENCE_MASKING
