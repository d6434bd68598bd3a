"""The tokens that end a model's texts: those of all files that name some.

The rule: what `generation_config.json`, `config.json` (and its `text_config`) and the
tokenizer name ends a text, whichever of them name it. A null is nobody's token. An id
outside of the vocabulary is none either; both are left out with a warning. That a
tokenizer's end-of-text token also pads does not matter, since padding ends a text, too.
If it also stands for unknown characters, it may be in the middle of a text: then it
counts only if nothing else is named.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hookline.exceptions import ModelLoadError
from hookline_description.sizes import short
from hookline_description.tokenizer_files import TokenizerFacts

FIELD = "eos_token_id"


@dataclass(frozen=True, slots=True)
class EndToken:
    """A token that ends texts, and the files that name it."""

    token_id: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndTokens:
    """The tokens that end a model's texts, and what was left out."""

    tokens: tuple[EndToken, ...]
    warnings: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids, in the order of the files."""
        return tuple(token.token_id for token in self.tokens)


def end_tokens(
    model: str,
    files: Sequence[tuple[str, Mapping[str, object]]],
    tokenizer: TokenizerFacts,
    vocab_size: int,
) -> EndTokens:
    """Returns the union of what the files and the tokenizer name.

    Args:
        model: The model's name, for errors.
        files: Contents of files or of their parts, by names for messages.
        tokenizer: What the tokenizer's files say.
        vocab_size: Number of token ids.

    Raises:
        ModelLoadError: A value is neither an id nor a list of ids.
    """
    found, warnings = dict[int, list[str]](), list[str]()

    def add(token_id: int, source: str) -> None:
        if not 0 <= token_id < vocab_size:
            warnings.append(
                f"{source}: {FIELD} {token_id} is outside of the vocabulary of "
                f"{vocab_size} tokens, and ends no text"
            )
        elif source not in (sources := found.setdefault(token_id, [])):
            sources.append(source)

    for source, described in files:
        for value in _listed(described.get(FIELD)):
            if value is None:
                warnings.append(f"{source}: {FIELD} has a null, which is left out")
            elif isinstance(value, int) and not isinstance(value, bool):
                add(value, source)
            else:
                raise ModelLoadError(
                    model,
                    f"{source}: {FIELD} is {short(described[FIELD])}, neither a token "
                    "id nor a list of token ids",
                )
    if tokenizer.end_id is not None and not (found and tokenizer.is_end_unknown):
        add(tokenizer.end_id, tokenizer.source)
    tokens = (EndToken(token_id, tuple(names)) for token_id, names in found.items())
    return EndTokens(tuple(tokens), tuple(warnings))


def without_nulls(config: Mapping[str, object]) -> dict[str, object]:
    """Returns a configuration without nulls among the ids of its end-of-text tokens.

    `transformers` refuses them.
    """
    cleaned = dict(config)
    if isinstance(text := config.get("text_config"), dict):
        cleaned["text_config"] = without_nulls(text)
    if isinstance(found := config.get(FIELD), list):
        cleaned[FIELD] = [each for each in found if each is not None] or None
    return cleaned


def _listed(value: object) -> Iterator[object]:
    """Yields the entries of a list, or the only value; a missing one is none."""
    if isinstance(value, list):
        yield from value
    elif value is not None:
        yield value
