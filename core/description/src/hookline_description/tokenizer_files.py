"""Reads facts of a tokenizer from its JSON files, without loading the tokenizer."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hookline.exceptions import ModelLoadError
from hookline.model_description import read_object
from hookline_description.sizes import short
from hookline_processes.model_files import LFS_REASON, is_lfs_pointer

CONFIG_FILE = "tokenizer_config.json"
_SPECIAL_FILE = "special_tokens_map.json"
_FILES = (
    CONFIG_FILE,
    _SPECIAL_FILE,
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFacts:
    """Facts of a tokenizer that its files state.

    Attributes:
        end: Its end-of-text token; None if it has none.
        end_id: The id of that token; None if it has none, or no file tells.
        is_end_unknown: Whether the same token stands for whatever has no token.
        source: Name of the file with that token.
        model_max_length: The longest text for its model, in tokens, if it says so.
    """

    end: str | None = None
    end_id: int | None = None
    is_end_unknown: bool = False
    source: str = CONFIG_FILE
    model_max_length: float | None = None


def read_tokenizer(model: str, folder: Path) -> TokenizerFacts:
    """Reads the files of a folder that has perhaps a tokenizer.

    Raises:
        ModelLoadError: A file is damaged, a pointer of Git LFS, or has a value of a
            wrong type.
    """
    for name in _FILES:
        if is_lfs_pointer(folder / name):
            raise ModelLoadError(model, f"{name} {LFS_REASON}")
    config = _read(model, folder / CONFIG_FILE)
    source, special = CONFIG_FILE, config
    if "eos_token" not in config:
        source, special = _SPECIAL_FILE, _read(model, folder / _SPECIAL_FILE)
    end = _text(model, source, special, "eos_token")
    limit = config.get("model_max_length")
    if isinstance(limit, bool) or not isinstance(limit, int | float) or limit < 1:
        limit = None
    return TokenizerFacts(
        end=end,
        end_id=None if end is None else _id_of(end, config, folder),
        is_end_unknown=end is not None
        and end == _text(model, source, special, "unk_token"),
        source=source,
        model_max_length=limit,
    )


def _read(model: str, path: Path) -> dict[str, object]:
    return read_object(model, path) if path.is_file() else {}


def _text(
    model: str, file: str, described: Mapping[str, object], name: str
) -> str | None:
    """Returns a special token's text, which is perhaps in an object."""
    found = described.get(name)
    text = found.get("content") if isinstance(found, dict) else found
    if text is None or isinstance(text, str):
        return text or None
    raise ModelLoadError(model, f"{file}: {name} is {short(found)}, not a token's text")


def _id_of(token: str, config: Mapping[str, object], folder: Path) -> int | None:
    """Returns a token's id, or None if no JSON file contains it."""
    added = config.get("added_tokens_decoder")
    for key, each in (added if isinstance(added, dict) else {}).items():
        if isinstance(each, dict) and each.get("content") == token and key.isdecimal():
            return int(key)
    for name in ("added_tokens.json", "tokenizer.json", "vocab.json"):
        path = folder / name
        if path.is_file():
            stat = path.stat()
            found = _id_in(path, token, (stat.st_mtime_ns, stat.st_size))
            if found is not None:
                return found
    return None


@lru_cache(maxsize=16)
def _id_in(path: Path, token: str, _stamp: tuple[int, int]) -> int | None:
    """Looks up a token in a file, which is large, and is read more than once.

    Returns None if the file cannot be read; loading the tokenizer reports the error.
    """
    try:
        found = read_object("", path)
    except ModelLoadError:
        return None
    added = found.get("added_tokens")
    for each in added if isinstance(added, list) else ():
        if isinstance(each, dict) and each.get("content") == token:
            return _number(each.get("id"))
    inner = found.get("model")
    vocabulary = inner.get("vocab") if isinstance(inner, dict) else found
    if isinstance(vocabulary, list):  # Unigram: texts and their scores
        texts = (each[0] if isinstance(each, list) else each for each in vocabulary)
        return next((at for at, text in enumerate(texts) if text == token), None)
    return _number(vocabulary.get(token)) if isinstance(vocabulary, dict) else None


def _number(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number else None  # type: ignore[return-value]
