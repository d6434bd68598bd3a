"""Restricts sampling to what each request's grammar allows."""

import logging
import time
from collections.abc import Collection
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from hookline.finish_cause import Failed, FinishCause, Rejected
from hookline.stats import GrammarUse
from hookline.step.plan import AdmittedSequence
from hookline.structured.backend import GrammarMatcher, RefusedGrammarError
from hookline.structured.grammar_service import MatcherSource
from hookline.structured_outputs import REFUSED
from hookline.worker.drafting.verification import first_of_each
from hookline.worker.input_batch import Int32, Int64
from hookline.worker.sampling.processors.grammar_allowance import (
    TOKEN_NS,
    GrammarAllowance,
)
from hookline.worker.sampling.processors.quick_timer import QuickTimer
from hookline.worker.sampling.sampled_positions import SampledPositions
from hookline_kernels.token_mask import TokenMasking, choose_masking
from hookline_registry import Failure, isolate

_logger = logging.getLogger(__name__)

ALL = np.int32(-1)
"""A word of a mask that allows all of its 32 tokens."""

_MAX_LOGGED = 10
"""Failures that are logged with their tracebacks."""

DEAD_END = "no token can continue this output as its grammar requires"
TOO_SLOW = "following the grammar takes too much processor time for this output"


class _Row:
    """The matcher of one batch row.

    Attributes:
        num_matched: Number of tokens, prompt included, that the matcher has passed.
        spent_ns: Processor time that it has taken.
        drawn_ns: What it has drawn on the common store.
    """

    __slots__ = ("drawn_ns", "matcher", "num_matched", "sequence", "spent_ns")

    def __init__(self, sequence: AdmittedSequence) -> None:
        self.sequence = sequence
        self.matcher: GrammarMatcher | None = None
        self.num_matched = sequence.num_prompt_tokens
        self.spent_ns = self.drawn_ns = 0

    @property
    def excess_ns(self) -> int:
        """What it has taken beyond the time of its tokens."""
        outputs = self.num_matched - self.sequence.num_prompt_tokens
        return max(0, self.spent_ns - TOKEN_NS * outputs)


class GrammarMasks:
    """Makes every token impossible that a request's grammar does not allow.

    Matchers follow the tokens of their batch rows. A request that is admitted again
    after a preemption gets a new matcher, which passes the output so far.
    """

    needs_prepare = True

    def __init__(
        self,
        matchers: MatcherSource,
        vocab_size: int,
        *,
        may_compile: bool = True,
    ) -> None:
        """Starts without requests.

        Args:
            matchers: Makes matchers of compiled grammars.
            vocab_size: Width of the logits.
            may_compile: Whether a kernel may apply the masks.
        """
        self._matchers = matchers
        self._may_compile = may_compile
        self._masking: TokenMasking | None = None
        self._words = -(-vocab_size // 32)
        self._masks: Int32 = np.empty((0, self._words), np.int32)
        self._rows: dict[int, _Row] = {}
        self._allowance = GrammarAllowance()
        self._timer = QuickTimer()
        self._failures: dict[int, FinishCause] = {}
        self._num_logged = 0
        self._fill_ns = self._apply_ns = 0

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        if sequence.grammar is None:
            return False
        self._rows[row] = _Row(sequence)
        return True

    def release(self, row: int) -> None:
        del self._rows[row]
        self._failures.pop(row, None)

    @property
    def rows(self) -> Collection[int]:
        """Batch rows of requests with grammars."""
        return self._rows.keys()

    def fit(
        self, row: int, tokens: Int32, drafts: list[int], most: int
    ) -> tuple[int, list[int]]:
        """Fits drafts to a request's grammar.

        Args:
            row: Its batch row.
            tokens: Its tokens so far.
            drafts: The proposed drafts.
            most: Number of tokens to draft where the grammar forces them.

        Returns:
            How many of the drafts are forced, and the drafts: those proposed, unless
            they contradict what is forced, up to the first that is not allowed.
        """
        outcome = isolate(self._fitted, self._rows[row], tokens, drafts, most)
        if isinstance(outcome, Failure):
            return 0, []  # the next step's masks will fail, too
        return outcome

    def _fitted(
        self, row: _Row, tokens: Int32, drafts: list[int], most: int
    ) -> tuple[int, list[int]]:
        begun = self._timer.begin()
        try:
            matcher = self._advanced(row, tokens)
            if matcher.is_terminated:
                return 0, []
            forced = list(matcher.forced(most))
            agree = drafts[: len(forced)] == forced
            chosen = drafts if agree else forced
            passed = 0
            for token_id in chosen:
                if matcher.is_terminated or not matcher.accept(token_id):
                    break
                passed += 1
            if passed:
                matcher.rollback(passed)
        finally:
            self._charge(row, self._timer.since(begun))
        return min(passed, len(forced)), chosen[:passed]

    def take_use(self, forced_tokens: int) -> GrammarUse:
        """Returns the times since the last call, with a number of forced tokens.

        Drafts are fitted afterwards.
        """
        self._timer.mark()
        use = GrammarUse(self._fill_ns, self._apply_ns, forced_tokens)
        self._fill_ns = self._apply_ns = 0
        return use

    def failures(self, rows: Int64) -> dict[int, FinishCause]:
        """Returns the causes of failed requests among batch rows."""
        if not self._failures:
            return {}
        return {
            row: self._failures[row] for row in rows.tolist() if row in self._failures
        }

    def prepare(self, positions: SampledPositions) -> None:
        """Fills the masks of all positions, also of those behind drafts."""
        begun = time.perf_counter_ns()
        self._timer.mark()
        if self._masking is None:  # not before the first grammar
            self._masking = choose_masking(may_compile=self._may_compile)
        if len(self._masks) < len(positions):
            self._masks = np.empty((len(positions), self._words), np.int32)
        self._masks[: len(positions)] = ALL
        starts = [*first_of_each(positions.rows).tolist(), len(positions)]
        rows = positions.rows.tolist()
        for start, end in pairwise(starts):  # those of a request are adjacent
            row, masks = rows[start], self._masks[start:end]
            outcome = isolate(self._fill, self._rows[row], positions, start, masks)
            if isinstance(outcome, Failure):
                self._fail(row, outcome)
                masks[:] = ALL
        self._fill_ns += time.perf_counter_ns() - begun

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        assert self._masking is not None, "prepare comes first"
        begun = time.perf_counter_ns()
        masks = self._masks[: len(positions)]
        self._masking.apply(logits, positions.indices, masks)
        self._apply_ns += time.perf_counter_ns() - begun

    def _fill(
        self, row: _Row, positions: SampledPositions, start: int, masks: Int32
    ) -> None:
        """Fills the masks of one request's positions, if that is quick."""
        begun = self._timer.begin()
        try:
            self._fill_all(row, positions, start, masks)
        finally:
            self._charge(row, self._timer.since(begun))
        if not self._allowance.permits(row.excess_ns):
            raise TimeoutError

    def _charge(self, row: _Row, nanoseconds: int) -> None:
        """Adds to a row's time; draws what is beyond its tokens' on the store.

        In ambiguous grammars each token takes more time than the one before it.
        """
        row.spent_ns += nanoseconds
        if (more := row.excess_ns - row.drawn_ns) > 0:
            row.drawn_ns += more
            self._allowance.draw(more)

    def _fill_all(
        self, row: _Row, positions: SampledPositions, start: int, masks: Int32
    ) -> None:
        matcher = self._advanced(row, positions.tokens(start))
        if matcher.is_terminated:
            return  # it has ended; this step was planned before that was known
        _fill(matcher, masks[0])
        if len(masks) == 1:
            return
        part = positions.slice(start, start + len(masks))
        if part.nodes is None:
            _fill_chain(matcher, part, masks)
        else:
            _fill_tree(matcher, part, masks)

    def _advanced(self, row: _Row, tokens: Int32) -> GrammarMatcher:
        """Returns the row's matcher after all of its tokens."""
        if row.matcher is None:
            grammar = row.sequence.grammar
            assert grammar is not None
            params = row.sequence.params
            asked = params.structured_outputs
            row.matcher = self._matchers.matcher(
                grammar,
                params.stop_token_ids,
                None if asked is None else asked.reasoning,
            )
        for token_id in tokens[row.num_matched :].tolist():
            if not row.matcher.accept(token_id):
                raise ValueError(f"the grammar does not allow token {token_id}")
        row.num_matched = len(tokens)
        return row.matcher

    def _fail(self, row: int, failure: Failure) -> None:
        self._failures[row] = cause = _cause(failure)
        self._num_logged += 1
        if self._num_logged > _MAX_LOGGED:
            return
        if isinstance(cause, Rejected):
            _logger.warning("An output ends: %s", cause.message)
        else:
            _logger.error(
                "A grammar cannot be followed: %s",
                failure.summary,
                exc_info=failure.error,
            )


def _cause(failure: Failure) -> FinishCause:
    """Returns a refusal where a second try would end likewise."""
    if isinstance(failure.error, TimeoutError):
        return Rejected(kind=REFUSED, message=TOO_SLOW)
    if isinstance(failure.error, RefusedGrammarError):
        return Rejected(kind=REFUSED, message=str(failure.error))
    return Failed(f"structured outputs failed: {failure.summary}")


def _fill(matcher: GrammarMatcher, mask: npt.NDArray[np.int32]) -> None:
    matcher.fill(mask)
    if not mask.any():  # anything could be sampled otherwise
        raise RefusedGrammarError(DEAD_END)


def _fill_chain(
    matcher: GrammarMatcher, part: SampledPositions, masks: npt.NDArray[np.int32]
) -> None:
    """Fills the masks behind each draft, as far as the grammar allows the drafts.

    What is sampled behind a draft that it forbids is never kept.
    """
    drafts = part.tokens(len(part) - 1)[part.ends[0] :].tolist()
    passed = 0
    for token_id, mask in zip(drafts, masks[1:], strict=True):
        if not matcher.accept(token_id):
            break
        passed += 1
        if matcher.is_terminated:
            break
        _fill(matcher, mask)
    if passed:
        matcher.rollback(passed)


def _fill_tree(
    matcher: GrammarMatcher, part: SampledPositions, masks: npt.NDArray[np.int32]
) -> None:
    """Fills the masks behind each node, if the grammar allows the path to it."""
    root = int(part.ends[0])
    for at in range(1, len(part)):
        path, passed = part.tokens(at)[root:].tolist(), 0
        for token_id in path:
            if matcher.is_terminated or not matcher.accept(token_id):
                break
            passed += 1
        if passed == len(path) and not matcher.is_terminated:
            _fill(matcher, masks[at])
        if passed:
            matcher.rollback(passed)
