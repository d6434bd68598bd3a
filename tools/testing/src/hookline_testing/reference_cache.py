"""Keeps on disk what `transformers` generates, which takes long to make.

An entry's key has everything that it depends on: the versions of torch and
`transformers`, the instructions that torch uses, the code here, the model's
configuration, and its weights as they are at the time.
"""

import hashlib
import os
from pathlib import Path

import msgspec
import torch
import transformers

from hookline_host.cache_folders import keep_cache


class Generated(msgspec.Struct, frozen=True):
    """An output of `generate`.

    Attributes:
        repetition_penalty: As was asked.
        prompt: Its token ids.
        count: How many tokens were asked for.
        tokens: The output, which may be shorter.
    """

    repetition_penalty: float
    prompt: list[int]
    count: int
    tokens: list[int]


class ReferenceCache:
    """Outputs of one model, in one file, to which several processes may append."""

    def __init__(self, model: transformers.PreTrainedModel, folder: Path) -> None:
        """Reads the outputs that are there.

        Args:
            model: Must not be changed while this is used.
            folder: Of the outputs of all models.
        """
        self._path = folder / f"{_digest_of(model)}.jsonl"
        self._found: dict[tuple[float, ...], Generated] = {}
        for line in self._path.read_bytes().splitlines() if self._path.exists() else ():
            self._keep(msgspec.json.decode(line, type=Generated))

    def find(
        self, prompt: list[int], count: int, repetition_penalty: float
    ) -> list[int] | None:
        """Returns the output, of at most so many tokens; None if it is not known."""
        found = self._found.get((repetition_penalty, *prompt))
        if found is None or found.count < count:
            return None
        return found.tokens[:count]

    def add(self, generated: Generated) -> None:
        """Keeps an output, here and on disk."""
        self._keep(generated)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = msgspec.json.encode(generated) + b"\n"
        descriptor = os.open(
            self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode=0o600
        )
        try:
            os.write(descriptor, line)  # at once: others append, too
        finally:
            os.close(descriptor)

    def _keep(self, generated: Generated) -> None:
        key = (generated.repetition_penalty, *generated.prompt)
        known = self._found.get(key)
        if known is None or known.count < generated.count:
            self._found[key] = generated


def reference_folder(code: Path) -> Path:
    """Returns the folder of outputs that this code makes.

    Args:
        code: File of the code that makes models and has them generate.
    """
    digest = hashlib.sha256()
    for part in (torch.__version__, transformers.__version__, _instructions()):
        digest.update(part.encode())
    for path in (code, Path(__file__)):
        digest.update(path.read_bytes())
    kept = keep_cache("references", digest.hexdigest()[:16])
    assert kept.folder is not None, kept
    return kept.folder


def _instructions() -> str:
    return str(torch.backends.cpu.get_cpu_capability())


def _digest_of(model: transformers.PreTrainedModel) -> str:
    """Returns a digest of the model's class, configuration and weights."""
    digest = hashlib.sha256(type(model).__name__.encode())
    digest.update(model.config.to_json_string().encode())
    if model.generation_config is not None:
        digest.update(model.generation_config.to_json_string().encode())
    digest.update(str(model.config._attn_implementation).encode())  # noqa: SLF001
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
