"""A digest of everything but the tokens that a model's KV depends on."""

import hashlib
import json

import torch
from transformers import PreTrainedModel

from hookline_models.forwards.layer_span import span_of

_VOLATILE = ("_name_or_path", "transformers_version")
"""Entries of a configuration that do not change what a model computes."""


def fingerprint_of(model: PreTrainedModel, rank: str = "") -> bytes:
    """Returns a digest of a loaded model's weights and configuration.

    That of a rank's part has its place among the ranks and stages, too.

    Args:
        model: The model.
        rank: Tells the ranks that share it apart; empty if there is one.

    Each tensor counts with its name, shape, dtype and the exact sum of its words, which
    is fast to compute and changes with any training. It is not cryptographic: two
    checkpoints with the same digest can be constructed.
    """
    config = model.config.to_dict()
    kept = {key: value for key, value in config.items() if key not in _VOLATILE}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode())
    digest.update(f"{rank}{span_of(model).identity}".encode())
    for name, weight in sorted(model.named_parameters()):
        entry = (name, str(weight.dtype), tuple(weight.shape), _sum(weight.detach()))
        digest.update(repr(entry).encode())
    return digest.digest()


def _sum(weight: torch.Tensor) -> int:
    """Returns the sum of a tensor's 64-bit words and remaining bytes, modulo 2^64."""
    raw = weight.contiguous().flatten().view(torch.uint8)
    if raw.storage_offset() % 8:  # a small part of a file
        raw = raw.clone()
    words = len(raw) // 8
    total = int(raw[: words * 8].view(torch.int64).sum())
    return (total + int(raw[words * 8 :].sum())) % 2**64
