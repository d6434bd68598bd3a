"""A digest of a model's folder that tells one model from another without loading it."""

import hashlib
from pathlib import Path

_DESCRIPTIONS = ("config.json", "generation_config.json", "tokenizer.json")
_WEIGHTS = "*.safetensors"
_SAMPLES = 16
_SAMPLE_BYTES = 16 * 1024
_DIGITS = 16


def digest_of_folder(folder: Path) -> str:
    """Returns a digest of a model's descriptions, tokenizer and weights.

    Descriptions and tokenizer count whole, files of weights with their names, sizes and
    some samples: a training changes nearly all weights. It reads at most a quarter of a
    MiB of each of them, and is not made to withstand forgery.

    Raises:
        OSError: A file cannot be read.
    """
    digest = hashlib.sha256()
    for path in [folder / name for name in _DESCRIPTIONS]:
        if path.is_file():
            _update(digest, path.name, path.read_bytes())
    for path in sorted(folder.glob(_WEIGHTS)):
        size = path.stat().st_size
        _update(digest, f"{path.name} {size}", _samples(path, size))
    return digest.hexdigest()[:_DIGITS]


def _update(digest: "hashlib._Hash", name: str, content: bytes) -> None:
    digest.update(f"{name} {len(content)}\n".encode())
    digest.update(content)


def _samples(path: Path, size: int) -> bytes:
    """Returns parts of a file at equal distances, the first and the last included."""
    last = max(0, size - _SAMPLE_BYTES)
    places = sorted({last * each // (_SAMPLES - 1) for each in range(_SAMPLES)})
    found = []
    with path.open("rb") as file:
        for place in places:
            file.seek(place)
            found.append(file.read(_SAMPLE_BYTES))
    return b"".join(found)
