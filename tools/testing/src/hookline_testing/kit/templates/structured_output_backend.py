"""Structured-output backend `sample`: knows grammars that are a list of choices."""

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from hookline import hookimpl
from hookline.config.checks import refuse_unknown
from hookline.structured_outputs import GrammarKind
from hookline_grammars.backend import BackendContext, RefusedGrammarError
from hookline_grammars.spec import GrammarSpec

OPTION = "structured-outputs-config"


class SampleMatcher:
    """How far one output has matched the choices; used by one thread at a time."""

    def __init__(
        self, tokens: Sequence[bytes], choices: list[bytes], stops: Sequence[int]
    ) -> None:
        self._tokens = tokens
        self._choices = choices
        self._stops = frozenset(stops)
        self._taken: list[int] = []

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        """Writes [words] int32, of which bit i of word w allows token 32·w + i."""
        bits = np.zeros(mask.size * 32, np.uint8)
        allowed = [each for each in range(len(self._tokens)) if self._fits(each)]
        bits[allowed] = 1
        mask[:] = np.packbits(bits, bitorder="little").view(np.int32)

    def accept(self, token_id: int) -> bool:
        """Goes on by a token, if it is allowed."""
        if not self._fits(token_id):
            return False
        self._taken.append(token_id)
        return True

    def rollback(self, count: int) -> None:
        """Takes back the last tokens."""
        del self._taken[len(self._taken) - count :]

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token has been accepted."""
        return bool(self._taken) and self._taken[-1] in self._stops

    def forced(self, most: int) -> Sequence[int]:
        """Spells nothing ahead."""
        del most
        return ()

    def _fits(self, token_id: int) -> bool:
        if self.is_terminated:
            return False
        text = b"".join(self._tokens[each] for each in self._taken)
        if token_id in self._stops:
            return text in self._choices
        more = self._tokens[token_id] if token_id < len(self._tokens) else b""
        longer = text + more
        return bool(more) and any(each.startswith(longer) for each in self._choices)


class SampleBackend:
    """Compiles in one process, and matches in another."""

    def __init__(self, context: BackendContext) -> None:
        """Raises `ConfigError` for an option, as there are none."""
        refuse_unknown("sample", OPTION, context.options, ())
        self._tokens = context.tokens

    def compile(self, spec: GrammarSpec) -> bytes:
        """Returns the choices; the bytes go to the other process."""
        if spec.kind is not GrammarKind.CHOICE:
            raise RefusedGrammarError(f"sample knows choices only, not {spec.kind}")
        return spec.source.encode()

    def matcher(self, data: bytes, stop_token_ids: Sequence[int]) -> SampleMatcher:
        """Returns a matcher at the start of a text."""
        choices = msgspec.json.decode(data, type=list[str])
        texts = [each.encode() for each in choices]
        return SampleMatcher(self._tokens, texts, stop_token_ids)


@hookimpl
def create_grammar_backend(context: BackendContext) -> SampleBackend:
    """Called in each process that compiles or follows grammars."""
    return SampleBackend(context)
