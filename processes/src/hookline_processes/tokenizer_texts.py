"""What is known of tokenizers and their chat templates without their libraries."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

_VOCABULARIES = (
    *("tokenizer.json", "vocab.json", "vocab.txt"),
    *("tokenizer.model", "spiece.model", "sentencepiece.bpe.model"),
)
"""Files of which a folder with a tokenizer has at least one."""


def byte_level_alphabet() -> dict[str, int]:
    """Returns byte-level BPE's byte of each character (GPT-2, Radford et al. 2019)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(256 + index): byte for index, byte in enumerate(others)})
    return alphabet


def tokenizer_lack(folder: Path) -> str:
    """Returns what a folder lacks to have a tokenizer; empty if nothing is known."""
    found = [name for name in _VOCABULARIES if (folder / name).is_file()]
    if not found:
        names = ", ".join(_VOCABULARIES)
        return f"it has no tokenizer (none of {names}): --tokenizer names another"
    if found[0].endswith(".model") and find_spec("sentencepiece") is None:
        return f"{found[0]} is converted by a library: pip install sentencepiece"
    return ""


def template_source(given: str, named: Mapping[str, str]) -> str:
    """Returns a chat template.

    Args:
        given: Name of one of the model's, a file, or a template itself.
        named: The model's templates by name.

    Raises:
        ValueError: It is none of these.
    """
    if given in named:
        return named[given]
    try:
        return Path(given).read_text("utf-8")
    except (OSError, ValueError) as error:
        if "{" in given:
            return given
        names = ", ".join(named) or "none"
        raise ValueError(
            f"{given!r} is no file that can be read ({error}), nor the name of one of "
            f"the model's: {names}"
        ) from error
