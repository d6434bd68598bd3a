"""Masks of a batch whose matchers work together, fail or are slow."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from hookline import SamplingParams
from hookline.engine.worker.input_batch import InputBatch
from hookline.engine.worker.sampling.logits_processor import SampledPositions
from hookline.finish_cause import Failed, Rejected
from hookline.step import AdmittedSequence
from hookline.structured_outputs import ReasoningSpan
from hookline_grammars import masks as grammar_masks
from hookline_grammars.backend import GrammarMatcher, RefusedGrammarError
from hookline_grammars.compiled import CompiledGrammar
from hookline_grammars.masks import GrammarMasks

VOCABULARY = 64
ALLOWED = 7
"""The word of each mask that is filled."""


class Counting:
    """Allows tokens below 32 and counts them; a grammar's bytes tell what is wrong."""

    is_terminated = False

    def __init__(self, fault: bytes, calls: list[str]) -> None:
        self.fault = fault
        self.calls = calls
        self.passed: list[int] = []

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        self.calls.append("fill")
        if self.fault == b"fill":
            raise RefusedGrammarError("too deep")
        mask[:] = 0 if self.fault == b"dead end" else ALLOWED

    def accept(self, token_id: int) -> bool:
        self.calls.append("accept")
        if self.fault == b"accept" and len(self.passed) == 1:
            raise ZeroDivisionError
        if token_id < 32:
            self.passed.append(token_id)
        return token_id < 32

    def rollback(self, count: int) -> None:
        del self.passed[len(self.passed) - count :]

    def forced(self, most: int) -> Sequence[int]:
        return (1,) * min(most, 0)

    @classmethod
    def fill_many(
        cls,
        matchers: "Sequence[Counting]",
        masks: npt.NDArray[np.int32],
        rows: Sequence[int],
    ) -> None:
        matchers[0].calls.append("fill many")
        if any(matcher.fault == b"fill" for matcher in matchers):
            raise RefusedGrammarError("one of them")
        for matcher, row in zip(matchers, rows, strict=True):
            masks[row] = 0 if matcher.fault == b"dead end" else ALLOWED

    @classmethod
    def accept_many(
        cls, matchers: "Sequence[Counting]", token_ids: Sequence[int]
    ) -> Sequence[bool]:
        matchers[0].calls.append("accept many")
        return [
            matcher.accept(token_id)
            for matcher, token_id in zip(matchers, token_ids, strict=True)
        ]


class Batch:
    """Requests with grammars, one token further in each step."""

    def __init__(self, *faults: bytes) -> None:
        self.calls: list[str] = []
        self.made: list[Counting] = []
        self.masks = GrammarMasks(self, VOCABULARY, may_compile=False)
        self.batch = InputBatch(len(faults), 32, 4)
        self.rows = [self._admit(at, fault) for at, fault in enumerate(faults)]

    def matcher(
        self,
        grammar: CompiledGrammar,
        stop_token_ids: Sequence[int],  # noqa: ARG002
        reasoning: ReasoningSpan | None = None,  # noqa: ARG002
    ) -> GrammarMatcher:
        self.made.append(Counting(grammar.data, self.calls))
        return self.made[-1]

    def _admit(self, request_id: int, fault: bytes) -> int:
        sequence = AdmittedSequence(
            request_id=request_id,
            token_ids=[40, 41],
            num_prompt_tokens=2,
            num_computed_tokens=0,
            block_ids=[0],
            params=SamplingParams(),
            eos_token_ids=(0,),
            bad_words_token_ids=(),
            sections={"grammars": CompiledGrammar(b"key", fault)},
        )
        row = self.batch.admit(sequence)
        assert self.masks.admit(row, sequence)
        return row

    def step(self, *tokens: int) -> list[int]:
        """Samples tokens, if any, then fills masks; returns a word of each."""
        if tokens:
            self.batch.token_ids[self.rows, self.batch.num_tokens[self.rows]] = tokens
            self.batch.num_tokens[self.rows] += 1
        self.calls.clear()
        positions = SampledPositions(
            indices=np.arange(len(self.rows)),
            rows=np.array(self.rows, np.int64),
            ends=self.batch.num_tokens[self.rows].copy(),
            nodes=None,
            batch=self.batch,
        )
        self.masks.prepare(positions)
        words: list[int] = self.masks._masks[:, 0].tolist()
        return words

    def failures(self) -> dict[int, object]:
        found = self.masks.failures(np.array(self.rows))
        return {self.rows.index(row): cause for row, cause in found.items()}


def test_all_requests_go_on_together() -> None:
    """
    One call for the tokens of all, and one for their masks.
    """
    batch = Batch(b"", b"", b"")

    assert batch.step() == [ALLOWED] * 3
    assert batch.step(1, 2, 3) == [ALLOWED] * 3
    assert batch.calls == ["accept many", *3 * ["accept"], "fill many"]
    assert [each.passed for each in batch.made] == [[1], [2], [3]]
    assert not batch.failures()


@pytest.mark.parametrize(
    ("fault", "kind"), [(b"fill", Rejected), (b"dead end", Rejected)]
)
def test_masks_that_fail_end_their_request_alone(fault: bytes, kind: type) -> None:
    """
    The others' masks are filled; the failed one's allows everything.
    """
    batch = Batch(b"", fault, b"")

    assert batch.step() == [ALLOWED, -1, ALLOWED]

    assert [*batch.failures()] == [1]
    assert isinstance(batch.failures()[1], kind)


def test_a_token_that_fails_ends_its_request_alone() -> None:
    """
    The others begin again with new matchers, and pass each of their tokens once.
    """
    batch = Batch(b"", b"accept", b"")
    batch.step()
    batch.step(1, 2, 3)

    assert batch.step(4, 5, 6) == [ALLOWED, -1, ALLOWED]

    assert [*batch.failures()] == [1]
    assert isinstance(batch.failures()[1], Failed)
    assert [each.passed for each in batch.made[-3:]] == [[1, 4], [2], [3, 6]]
    assert batch.step(7, 8, 9) == [ALLOWED, -1, ALLOWED]


def test_a_token_that_is_not_allowed_ends_its_request_alone() -> None:
    """
    It was sampled although its mask forbade it, which is an error of ours.
    """
    batch = Batch(b"", b"")
    batch.step()

    assert batch.step(1, 33) == [ALLOWED, -1]

    assert isinstance(batch.failures()[1], Failed)


def test_slow_batches_are_done_one_by_one_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    So that the time of each is known.
    """
    times = iter([0] * 2 + [100_000_000] * 2 + [0] * 1000)
    batch = Batch(b"", b"")
    monkeypatch.setattr(grammar_masks, "_STEPS_ALONE", 2)
    since: Callable[[int], int] = lambda begun: next(times)  # noqa: E731, ARG005
    monkeypatch.setattr(batch.masks._timer, "since", since)

    assert batch.step() == [ALLOWED] * 2
    called = []
    for token_id in range(4):
        assert batch.step(token_id, token_id) == [ALLOWED] * 2
        called.append("fill many" in batch.calls)

    assert called == [False, False, True, True]
