"""Reads a model's description from the JSON files of its folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hookline.config.model import ModelConfig
from hookline.exceptions import ModelLoadError
from hookline.model_description import ModelDescription, find_folder
from hookline_description.context_length import ContextLength, context_length
from hookline_description.end_tokens import EndTokens, end_tokens
from hookline_description.overriding import read_config_file
from hookline_description.sampling_defaults import (
    GENERATION_FILE,
    ReadDefaults,
    read_generation,
    sampling_defaults,
)
from hookline_description.sizes import check_sizes, is_length
from hookline_description.tokenizer_files import TokenizerFacts, read_tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDescription:
    """A model's description, and what it follows from.

    Attributes:
        description: What engines need.
        config: The contents of `config.json`.
        generation: The contents of `generation_config.json`; empty without the file.
        sampling: What requests get where they are silent.
        end_tokens: What ends texts, and which files say so.
        context: The context's length, and the rotary embeddings.
        tokenizer: What the tokenizer's files say.
    """

    description: ModelDescription
    config: Mapping[str, object]
    generation: Mapping[str, object]
    sampling: ReadDefaults
    end_tokens: EndTokens
    context: ContextLength
    tokenizer: TokenizerFacts

    def warnings(self, max_model_len: int | None = None) -> list[str]:
        """Returns what whoever serves the model should know, each in one clause.

        Args:
            max_model_len: The configured context length.
        """
        found = [*self.end_tokens.warnings, *self.sampling.warnings]
        context = self.context
        if max_model_len is None and context.default < context.most:
            kind = next(each.kind for each in context.ropes if each.has_short_form)
            found.append(
                f"its context is {context.default} tokens; for up to {context.most}, "
                f"give max-model-len, and all requests get the frequencies of its "
                f"rotary embedding ({kind}) for that length"
            )
        return found


def read_description(config: ModelConfig) -> ReadDescription:
    """Reads a model's description, and what it follows from.

    Raises:
        ModelLoadError: The description is missing, damaged or incomplete.
    """
    name, folder = config.model, find_folder(config.model)
    whole = read_config_file(config, folder)
    text = whole.get("text_config")
    inner = text if isinstance(text, dict) else whole
    architectures = whole.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    generation = read_generation(config, folder)
    tokenizer = read_tokenizer(name, Path(config.tokenizer or folder))
    vocab_size = inner.get("vocab_size")
    if not is_length(vocab_size):
        raise ModelLoadError(name, "config.json has no valid vocab_size")
    context = context_length(name, inner, tokenizer.model_max_length)
    parts = [(GENERATION_FILE, generation), ("config.json", whole)]
    if inner is not whole:
        parts.append(("config.json's text_config", inner))
    ends = end_tokens(name, parts, tokenizer, vocab_size)
    sampling = sampling_defaults(config, generation)
    check_sizes(name, whole)
    check_sizes(name, inner)
    return ReadDescription(
        description=ModelDescription(
            folder=folder,
            architecture=str(names[0]) if names else str(whole.get("model_type")),
            vocab_size=vocab_size,
            max_position_embeddings=context.most,
            eos_token_ids=ends.ids,
            default_max_model_len=context.default,
            length_source=context.source,
            sampling=sampling.sampling,
        ),
        config=whole,
        generation=generation,
        sampling=sampling,
        end_tokens=ends,
        context=context,
        tokenizer=tokenizer,
    )


def describe(config: ModelConfig) -> ModelDescription:
    """Reads a model's description.

    Raises:
        ModelLoadError: The description is missing, damaged or incomplete.
    """
    return read_description(config).description
