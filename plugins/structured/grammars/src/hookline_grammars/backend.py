"""The interface of grammar backends, which are plugins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from hookline_grammars.spec import GrammarSpec

if TYPE_CHECKING:  # what only compiles need not load numpy
    import numpy as np
    import numpy.typing as npt


class RefusedGrammarError(Exception):
    """Raised for a grammar that is wrong, not supported or exceeds a limit.

    Its text is for the client.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendContext:
    """Context from which a backend is made, in each process that needs one.

    Attributes:
        tokens: The bytes of each token by its id; empty for special tokens and ids
            without a token, which no grammar allows.
        vocab_size: Width of the logits; at least the number of tokens.
        eos_token_ids: The model's end-of-text tokens; may be empty.
        options: The configuration's options of the backend.
    """

    tokens: Sequence[bytes]
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    options: Mapping[str, object]


class GrammarMatcher(Protocol):
    """How far one output has matched a grammar; used by one thread at a time.

    Its class may also have what `BatchMatcher` has.
    """

    def fill(self, mask: "npt.NDArray[np.int32]") -> None:
        """Writes which tokens may come next.

        Args:
            mask: [⌈vocabulary / 32⌉] int32, contiguous; bit i of word w stands for
                token 32·w + i, and 1 allows it. A stop token is allowed where the text
                is complete; nothing is where no token continues the text.

        Raises:
            RefusedGrammarError: A limit of the backend is exceeded; the output ends.
        """

    def accept(self, token_id: int) -> bool:
        """Goes on by a token; returns False, and stays, if it is not allowed.

        Raises:
            RefusedGrammarError: A limit of the backend is exceeded; the output ends.
            TimeoutError: It takes too much processor time; likewise.
        """

    def rollback(self, count: int) -> None:
        """Takes back the last `count` accepted tokens."""

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token has been accepted; nothing can follow it."""

    def forced(self, most: int) -> Sequence[int]:
        """Returns up to `most` tokens that spell what must follow; none if it is free.

        The model may spell it by other tokens: they are drafts, which it verifies.
        """


class BatchMatcher(GrammarMatcher, Protocol):
    """A `GrammarMatcher` of a kind that is faster for many outputs than one by one."""

    @classmethod
    def fill_many(
        cls,
        matchers: Sequence[Self],
        masks: "npt.NDArray[np.int32]",
        rows: Sequence[int],
    ) -> None:
        """Writes which tokens may come next for each of n matchers.

        Args:
            matchers: [n] matchers of this class, at least one.
            masks: [most, ⌈vocabulary / 32⌉] int32, contiguous; see `fill`.
            rows: [n] row of `masks` for each matcher.

        Raises:
            RefusedGrammarError: A matcher exceeds a limit; its `fill` raises it, too.
        """

    @classmethod
    def accept_many(
        cls, matchers: Sequence[Self], token_ids: Sequence[int]
    ) -> Sequence[bool]:
        """Goes on by a token with each of n matchers; returns which allow theirs.

        Raises:
            RefusedGrammarError: One of them exceeds a limit. None can be used then.
        """


class GrammarBackend(Protocol):
    """Compiles grammars in one process, and matches outputs with them in another.

    An entry point of the group `hookline.structured_output_backends` names a class or
    function that makes one of a `BackendContext`.
    """

    def compile(self, spec: GrammarSpec) -> bytes:
        """Compiles a grammar, in a process whose time and memory are limited.

        Raises:
            RefusedGrammarError: It is wrong, or the backend does not support it.
        """

    def matcher(self, data: bytes, stop_token_ids: Sequence[int]) -> GrammarMatcher:
        """Returns a matcher at the start of a text.

        Args:
            data: What `compile` has returned in another process.
            stop_token_ids: Tokens that end a complete text; at least one.
        """
