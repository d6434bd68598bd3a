"""What the KV of a model depends on, besides the tokens: a digest of all of it."""

import hashlib
import json

import torch
from transformers import PreTrainedModel

_VOLATILE = ("_name_or_path", "transformers_version")
"""Of a configuration: where it lies, and who wrote it."""


def fingerprint_of(model: PreTrainedModel) -> bytes:
    """A digest of a loaded model's weights and configuration.

    All weights count, each tensor by its name, form and the exact sum of its words:
    quick to make, and other for whatever training changes. It is no seal: whoever can
    write a checkpoint can make two with the same one.
    """
    config = model.config.to_dict()
    told = {key: value for key, value in config.items() if key not in _VOLATILE}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode())
    for name, weight in sorted(model.named_parameters()):
        form = (name, str(weight.dtype), tuple(weight.shape), _sum(weight.detach()))
        digest.update(repr(form).encode())
    return digest.digest()


def _sum(weight: torch.Tensor) -> int:
    """Of the words that a tensor consists of, modulo 2^64."""
    raw = weight.contiguous().flatten().view(torch.uint8)
    words = len(raw) // 8
    total = int(raw[: words * 8].view(torch.int64).sum())
    return (total + int(raw[words * 8 :].sum())) % 2**64
