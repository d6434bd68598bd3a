"""What a check of a model folder found."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from hookline.exceptions import ConfigError, ModelLoadError
from hookline_description.rope import Rope

T = TypeVar("T")


class Severity(StrEnum):
    """How bad a problem is: the model cannot be served, or not as one may expect."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a model."""

    severity: Severity
    text: str


@dataclass(slots=True)
class Problems:
    """What was found to be wrong, without what was said before."""

    found: list[Problem] = field(default_factory=list)

    def add(self, severity: Severity, text: str) -> None:
        """Adds a problem."""
        if all(each.text != text for each in self.found):
            self.found.append(Problem(severity, text))

    @property
    def has_errors(self) -> bool:
        return any(each.severity is Severity.ERROR for each in self.found)

    def result_of(self, examine: Callable[[], T]) -> T | None:
        """Returns what a function returns; None if it raises, which is an error."""
        try:
            return examine()
        except ModelLoadError as error:
            self.add(Severity.ERROR, error.reason)
        except ConfigError as error:
            self.add(Severity.ERROR, str(error))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeShare:
    """The tensors of one data type in the files.

    Attributes:
        dtype: Its name in safetensors files.
        tensors: Number of tensors.
        numbers: Number of their numbers.
        nbytes: Their bytes.
    """

    dtype: str
    tensors: int
    numbers: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """The files of weights.

    Attributes:
        read: Names of the files that are read.
        unused: Names of other safetensors files.
        shares: Their tensors, by data type.
        checked: Whether all numbers were read to find those that are not finite.
        non_finite: The tensors with infinite numbers or NaN, in words.
    """

    read: tuple[str, ...]
    unused: tuple[str, ...]
    shares: tuple[DtypeShare, ...]
    checked: bool
    non_finite: tuple[str, ...]

    @property
    def numbers(self) -> int:
        return sum(each.numbers for each in self.shares)

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerReport:
    """The tokenizer.

    Attributes:
        tokens: Number of its tokens.
        special: Its special tokens, the first few.
        has_chat_template: Whether conversations can be rendered.
        tool_parsers: Parsers of tool calls whose marks the chat template has.
        reasoning_parsers: Likewise of reasoning.
    """

    tokens: int
    special: tuple[str, ...]
    has_chat_template: bool
    tool_parsers: tuple[str, ...] = ()
    reasoning_parsers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureReport:
    """How the model will be run.

    Attributes:
        forward: `decoder`, or the `modules` of transformers, perhaps adapted.
        reason: Why it is not the decoder; empty if it is.
        is_tried: Whether its first layers have computed; else its parts tell.
        layers: Number of layers.
        sliding_windows: Number of layers by the tokens that they attend to, for those
            that do not attend to all.
        kv_bytes_per_token: Bytes of the KV cache that a token takes.
    """

    forward: str
    reason: str
    is_tried: bool
    layers: int
    sliding_windows: dict[int, int]
    kv_bytes_per_token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReport:
    """What the KV cache can hold on this machine, by its memory at present.

    Attributes:
        tokens: How many tokens fit beside the weights.
        free_bytes: Memory that is free for weights and cache.
    """

    tokens: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTokenReport:
    """A token that ends texts, and the files that name it."""

    token_id: int
    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReport:
    """The context's length, in tokens.

    Attributes:
        served: What is served with the options given; None if they ask for too much.
        most: What can be asked for.
        source: What that follows from.
        ropes: The rotary embeddings.
    """

    served: int | None
    most: int
    source: str
    ropes: tuple[Rope, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """What is known of a model; None is what could not be found out.

    Attributes:
        model: Its name or path.
        folder: Its folder.
        architecture: Its class.
        vocab_size: Number of token ids.
        quantization: How its weights are quantized; empty if they are not.
        generation: What requests get where they are silent.
        problems: What is wrong, the worst first.
    """

    model: str
    folder: str
    architecture: str | None
    vocab_size: int | None
    quantization: str
    generation: dict[str, int | float]
    context: ContextReport | None
    end_tokens: tuple[EndTokenReport, ...]
    tokenizer: TokenizerReport | None
    files: StoredFiles | None
    runs: ArchitectureReport | None
    cache: CacheReport | None
    problems: tuple[Problem, ...]

    @property
    def can_be_served(self) -> bool:
        """Whether nothing keeps the model from being served."""
        return all(each.severity is not Severity.ERROR for each in self.problems)
