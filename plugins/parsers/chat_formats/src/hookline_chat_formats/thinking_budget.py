"""Ends reasoning between `<think>` and `</think>` after a number of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from hookline.exceptions import ConfigError
from hookline.model_description import find_folder
from hookline.step import AdmittedSequence
from hookline_processes.model_files import real_model_file

if TYPE_CHECKING:  # `hookline plugins` loads this module, and torch takes seconds
    import torch

    from hookline.engine.worker.sampling.logits_processor import (
        LogitsProcessorContext,
        SampledPositions,
    )

ARGUMENT = "thinking_token_budget"
"""Name of the request's argument in `vllm_xargs`, or `extra_args`."""

_OPEN, _CLOSE = "<think>", "</think>"
_PROMPT_TOKENS = 32
"""Tokens at the prompt's end among which a chat template may have begun reasoning."""

Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Budget:
    tokens: int
    num_prompt_tokens: int
    is_open: bool


class ThinkingBudget:
    """A logits processor: forces `</think>` when the reasoning has used its budget.

    Its state follows from the tokens alone, so that it also works for drafts.
    """

    needs_prepare = False

    def __init__(self, context: "LogitsProcessorContext") -> None:
        """Reads the tags' tokens.

        Raises:
            ConfigError: The model's folder has no `tokenizer.json`.
        """
        tokenizer = _tokenizer(context)
        self._open = _ids(tokenizer, _OPEN)
        self._close = _ids(tokenizer, _CLOSE)
        self._budgets: dict[int, _Budget] = {}

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        given = sequence.params.extra_args.get(ARGUMENT)
        if given is None:
            return False
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise ValueError(f"{ARGUMENT} must be a number of tokens, not {given!r}")
        prompt = np.asarray(sequence.token_ids[: sequence.num_prompt_tokens], np.int32)
        end = prompt[-_PROMPT_TOKENS:]
        is_open = _last(end, self._open) > _last(end, self._close)
        self._budgets[row] = _Budget(given, len(prompt), is_open)
        return True

    def release(self, row: int) -> None:
        del self._budgets[row]

    def prepare(self, positions: "SampledPositions") -> None:
        """Not needed."""

    def apply(self, logits: "torch.Tensor", positions: "SampledPositions") -> None:
        places = zip(positions.indices.tolist(), positions.rows.tolist(), strict=True)
        for at, (index, row) in enumerate(places):
            budget = self._budgets[row]
            output = positions.tokens(at)[budget.num_prompt_tokens :]
            token = self._forced(output, budget)
            if token is not None:
                logits[index] = float("-inf")
                logits[index, token] = 0.0

    def _forced(self, output: Tokens, budget: _Budget) -> int | None:
        """Returns the token that must come next; None leaves the choice free."""
        if _last(output, self._close) >= 0:
            return None
        start = 0
        if not budget.is_open:
            opened = _last(output, self._open)
            if opened < 0:
                return None
            start = opened + len(self._open)
        if len(output) - start < budget.tokens:
            return None
        return self._close[self._written(output[start:])]

    def _written(self, output: Tokens) -> int:
        """Returns how many tokens of `</think>` the output ends with."""
        most = min(len(self._close) - 1, len(output))
        for count in range(most, 0, -1):
            if output[-count:].tolist() == list(self._close[:count]):
                return count
        return 0


def _tokenizer(context: "LogitsProcessorContext") -> Tokenizer:
    model = context.config.model
    folder = Path(model.tokenizer or find_folder(model.model))
    try:
        file = real_model_file(folder, "tokenizer.json")
    except ValueError as error:
        raise ConfigError("logits-processor", f"{folder}: {error}") from error
    if not file.is_file():
        reason = f"thinking_budget needs {file}, which does not exist"
        raise ConfigError("logits-processor", reason)
    return Tokenizer.from_file(str(file))


def _ids(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False).ids)


def _last(tokens: Tokens, wanted: Sequence[int]) -> int:
    """Returns where the tokens last have this sequence; −1 if nowhere."""
    starts = np.flatnonzero(tokens[: len(tokens) - len(wanted) + 1] == wanted[0])
    if len(wanted) > len(tokens):
        return -1
    for start in starts[::-1].tolist():
        if tokens[start : start + len(wanted)].tolist() == list(wanted):
            return int(start)
    return -1
