"""Which of a model's files are downloaded: never pickles, never code."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from hookline_models.checkpoints.weight_names import SINGLE_FILE

WEIGHTS = ".safetensors"
TOKENIZERS = frozenset(
    {
        *("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"),
        *("spiece.model", "sentencepiece.bpe.model"),
    }
)
"""Files of which a folder with a tokenizer has at least one."""

_ORIGINAL = "consolidated"
"""Files with these names repeat the weights, in Mistral's own format."""
_TEXTS = (".json", ".jinja")
_VOCABULARIES = TOKENIZERS | {"merges.txt"}
_IN_FOLDERS = re.compile(r"\d+_[A-Za-z]+/config\.json|additional_chat_templates/.+")
"""Poolings of Sentence Transformers, and named templates."""


def needed(paths: Iterable[str], *, weights: bool) -> list[str]:
    """Returns the paths to download, of all that a model has.

    Args:
        paths: Paths in the model's repository.
        weights: Whether weights are needed as well.
    """
    found = plain(paths)
    texts = [each for each in found if _is_text(each)]
    return [*texts, *_weights(found)] if weights else texts


def plain(paths: Iterable[str]) -> list[str]:
    """Returns the paths that lead nowhere else and are not hidden, sorted."""
    return sorted(each for each in paths if _is_plain(each))


def _is_plain(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return "/".join(parts) == path and not any(each.startswith(".") for each in parts)


def _is_text(path: str) -> bool:
    if "/" in path:
        return path.endswith(_TEXTS) and _IN_FOLDERS.fullmatch(path) is not None
    return path.endswith(_TEXTS) or path in _VOCABULARIES


def _weights(paths: list[str]) -> list[str]:
    """Returns the weights once, as they are read: some repositories have two forms."""
    if SINGLE_FILE in paths:
        return [SINGLE_FILE]
    found = [each for each in paths if each.endswith(WEIGHTS) and "/" not in each]
    return [each for each in found if not each.startswith(_ORIGINAL)] or found
