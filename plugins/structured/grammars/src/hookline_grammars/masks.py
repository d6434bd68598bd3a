"""Restricts sampling to what each request's grammar allows."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import torch

from hookline.engine.worker.input_batch import InputBatch, Int32, Int64
from hookline.engine.worker.sampling.logits_processor import SampledPositions
from hookline.finish_cause import Failed, FinishCause, Rejected
from hookline.step import AdmittedSequence
from hookline_grammars.allowance import (
    TOKEN_NS,
    GrammarAllowance,
)
from hookline_grammars.backend import GrammarMatcher, RefusedGrammarError
from hookline_grammars.compiled import GRAMMAR
from hookline_grammars.cpu_timer import CpuTimer
from hookline_grammars.draft_masks import (
    DEAD_END,
    fill_behind,
)
from hookline_grammars.many_matchers import accept_tokens, fill_masks
from hookline_grammars.own_backends import MatcherSource
from hookline_grammars.row import GrammarRow
from hookline_grammars.spec import REFUSED
from hookline_kernels.draft_verification import first_of_each
from hookline_kernels.token_mask import TokenMasking, choose_masking
from hookline_metrics.grammars import GrammarUse
from hookline_registry import Failure, isolate

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_logger = logging.getLogger(__name__)

ALL = np.int32(-1)
"""A word of a mask that allows all of its 32 tokens."""

_MAX_LOGGED = 10
"""Failures that are logged with their tracebacks."""

_STEPS_ALONE = 64
_QUICK_NS = 50_000
"""For one of many masks; usually it takes a tenth of that."""

_NARROW = 64
"""Tokens that a mask allows at most where text is forced: the text's beginnings."""

TOO_SLOW = "following the grammar takes too much processor time for this output"


@dataclass(frozen=True, slots=True)
class _Part:
    """The positions of one request in a step.

    Attributes:
        row: The request's batch row.
        matcher: Its matcher, after the tokens before the first position.
        start: Index of the first position.
        end: Index behind the last position; the others are behind drafts.
    """

    row: GrammarRow
    matcher: GrammarMatcher
    start: int
    end: int


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
        self._rows: dict[int, GrammarRow] = {}
        self._allowance = GrammarAllowance()
        self._timer = CpuTimer()
        self._failures: dict[int, FinishCause] = {}
        self._num_logged = 0
        self._fill_ns = self._apply_ns = 0
        self._steps_alone = 0
        self._narrow: set[int] = set()

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        if GRAMMAR.name not in sequence.sections:
            return False
        self._rows[row] = GrammarRow(row, sequence, self._matchers)
        return True

    def release(self, row: int) -> None:
        del self._rows[row]
        self._failures.pop(row, None)

    @property
    def rows(self) -> Collection[int]:
        """Batch rows of requests with grammars."""
        return self._rows.keys()

    def may_force(self, row: int) -> bool:
        """Returns whether its grammar may force a request's next tokens.

        It does not where the last masks allow more tokens than any one text begins
        with. Forced text is therefore found one token late, but costs nothing else.
        """
        return row in self._narrow

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
        self, row: GrammarRow, tokens: Int32, drafts: list[int], most: int
    ) -> tuple[int, list[int]]:
        begun = self._timer.begin()
        try:
            matcher = row.advanced(tokens)
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
        begun = time.thread_time_ns()  # the model uses the same cores meanwhile
        self._timer.mark()
        if self._masking is None:  # not before the first grammar
            self._masking = choose_masking(may_compile=self._may_compile)
        if len(self._masks) < len(positions):
            self._masks = np.empty((len(positions), self._words), np.int32)
        masks = self._masks[: len(positions)]
        masks[:] = ALL
        parts = self._parts(positions)
        self._fill_first(parts, masks)
        self._fill_behind(parts, positions, masks)
        if self._failures:  # what is sampled then is never kept
            failed = np.isin(positions.rows, list(self._failures))
            masks[failed] = ALL
        num_allowed = np.bitwise_count(masks).sum(axis=1)
        self._narrow = set(positions.rows[num_allowed <= _NARROW].tolist())
        self._fill_ns += time.thread_time_ns() - begun

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        assert self._masking is not None, "prepare comes first"
        begun = time.perf_counter_ns()
        masks = self._masks[: len(positions)]
        self._masking.apply(logits, positions.indices, masks)
        self._apply_ns += time.perf_counter_ns() - begun

    def _parts(self, positions: SampledPositions) -> list[_Part]:
        """Returns the parts of requests whose outputs go on, with their matchers."""
        firsts = first_of_each(positions.rows)  # those of a request are adjacent
        rows = [self._rows[row] for row in positions.rows[firsts].tolist()]
        ends = positions.ends[firsts].tolist()
        starts = [*firsts.tolist(), len(positions)]
        if not self._steps_alone:
            self._advance_together(rows, ends, positions.batch)
        parts = []
        for row, end, (start, behind) in zip(rows, ends, pairwise(starts), strict=True):
            matcher = row.matcher
            if matcher is None or row.num_matched < end:
                matcher = self._attempt(row, row.advanced, positions.tokens(start))
            elif row.drawn_ns and not self._is_in_time(row):
                matcher = None
            # One has ended if this step was planned before that was known.
            if matcher is not None and not matcher.is_terminated:
                parts.append(_Part(row, matcher, start, behind))
        return parts

    def _advance_together(
        self, rows: Sequence[GrammarRow], ends: Sequence[int], batch: InputBatch
    ) -> None:
        """Passes the newest token of all requests that have one, if that works."""
        chosen, matchers, places = [], [], []
        for row, end in zip(rows, ends, strict=True):
            matcher = row.matcher
            if matcher is not None and end == row.num_matched + 1:
                chosen.append(row)
                matchers.append(matcher)
                places.append(end - 1)
        newest = batch.token_ids[[row.index for row in chosen], places].tolist()
        outcome = self._together(accept_tokens, matchers, newest)
        if isinstance(outcome, Failure):  # which of them has passed is not known
            for row in chosen:
                row.begin_again()
            return
        for row, is_allowed in zip(chosen, outcome, strict=True):
            row.num_matched += is_allowed

    def _fill_first(self, parts: Sequence[_Part], masks: Int32) -> None:
        """Fills the masks before drafts: all together, as long as that is quick."""
        starts = [part.start for part in parts]
        is_filled = False
        if not self._steps_alone:
            matchers = [part.matcher for part in parts]
            outcome = self._together(fill_masks, matchers, masks, starts)
            is_filled = not isinstance(outcome, Failure)
        if not is_filled:
            self._steps_alone = max(0, self._steps_alone - 1)
            for part in parts:
                self._attempt(part.row, part.matcher.fill, masks[part.start])
        is_open = np.bitwise_or.reduce(masks[starts], axis=1).tolist()
        for part, any_token in zip(parts, is_open, strict=True):
            is_new = part.row.index not in self._failures
            if is_new and not any_token:  # anything could be sampled otherwise
                self._fail(part.row, RefusedGrammarError(DEAD_END))

    def _together(
        self,
        call: Callable[Concatenate[Sequence[GrammarMatcher], Parameters], Result],
        matchers: Sequence[GrammarMatcher],
        *arguments: Parameters.args,
        **keywords: Parameters.kwargs,
    ) -> Result | Failure:
        """Does something for many requests at once.

        The time of each is not known then, and not counted. After a slow step they are
        timed one by one for a while.
        """
        begun = self._timer.begin()
        outcome = isolate(call, matchers, *arguments, **keywords)
        if self._timer.since(begun) > TOKEN_NS + _QUICK_NS * len(matchers):
            self._steps_alone = _STEPS_ALONE
        return outcome

    def _fill_behind(
        self, parts: Sequence[_Part], positions: SampledPositions, masks: Int32
    ) -> None:
        """Fills the masks behind drafts."""
        for part in parts:
            start, end = part.start, part.end
            if end - start > 1 and part.row.index not in self._failures:
                drafted = positions.select(slice(start, end))
                self._attempt(
                    part.row, fill_behind, part.matcher, drafted, masks[start:end]
                )

    def _attempt(
        self,
        row: GrammarRow,
        call: Callable[Parameters, Result],
        *arguments: Parameters.args,
        **keywords: Parameters.kwargs,
    ) -> Result | None:
        """Does something for a row and counts its time; returns None if that fails."""
        begun = self._timer.begin()
        outcome = isolate(call, *arguments, **keywords)
        self._charge(row, self._timer.since(begun))
        if isinstance(outcome, Failure):
            self._fail(row, outcome.error)
            return None
        return outcome if self._is_in_time(row) else None

    def _is_in_time(self, row: GrammarRow) -> bool:
        """Whether a row may go on; otherwise it fails."""
        if self._allowance.permits(row.excess_ns):
            return True
        self._fail(row, TimeoutError())
        return False

    def _charge(self, row: GrammarRow, nanoseconds: int) -> None:
        """Adds to a row's time; draws what is beyond its tokens' on the store.

        In ambiguous grammars each token takes more time than the one before it.
        """
        row.spent_ns += nanoseconds
        if (more := row.excess_ns - row.drawn_ns) > 0:
            row.drawn_ns += more
            self._allowance.draw(more)

    def _fail(self, row: GrammarRow, error: BaseException) -> None:
        self._failures[row.index] = cause = _cause(error)
        self._num_logged += 1
        if self._num_logged > _MAX_LOGGED:
            return
        if isinstance(cause, Rejected):
            _logger.warning("An output ends: %s", cause.message)
        else:
            _logger.error("A grammar cannot be followed", exc_info=error)


def _cause(error: BaseException) -> FinishCause:
    """Returns a refusal where a second try would end likewise."""
    if isinstance(error, TimeoutError):
        return Rejected(kind=REFUSED, message=TOO_SLOW)
    if isinstance(error, RefusedGrammarError):
        return Rejected(kind=REFUSED, message=str(error))
    return Failed(f"structured outputs failed: {Failure(error).summary}")
