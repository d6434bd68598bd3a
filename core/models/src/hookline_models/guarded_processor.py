"""Runs a plugin's logits processor so that it fails only its own requests."""

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from hookline.engine.worker.input_batch import Int64
from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessor,
    SampledPositions,
)
from hookline.finish_cause import Corrupted, Failed, FinishCause
from hookline.request import Origin
from hookline.step import AdmittedSequence
from hookline_registry import Failure, isolate

_logger = logging.getLogger(__name__)

_NO_MAXIMUM = "it left no finite maximum: no token can be sampled"
_MAX_LOGGED = 10
"""Failures of one processor that are logged with their tracebacks."""


class GuardedProcessor:
    """A `LogitsProcessor` around another.

    The inner processor works on a copy of its requests' logits. A request for which it
    raises, returns something else than it should, or leaves no finite maximum, keeps
    its unchanged logits and is reported by `failures`.
    """

    def __init__(self, name: str, inner: LogitsProcessor) -> None:
        self.needs_prepare = inner.needs_prepare
        self._name = name
        self._inner = inner
        self._failures: dict[int, FinishCause] = {}
        self._not_admitted: set[int] = set()
        self._num_logged = 0

    def failures(self, rows: Int64) -> dict[int, FinishCause]:
        """Returns the causes of failed requests among batch rows."""
        if not self._failures:
            return {}
        return {
            row: self._failures[row] for row in rows.tolist() if row in self._failures
        }

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        outcome = isolate(self._inner.admit, row, sequence)
        if isinstance(outcome, bool):
            return outcome
        if isinstance(outcome, Failure):
            self._fail(np.array([row]), outcome.summary, outcome.error)
        else:
            reason = f"admit returned {type(outcome).__name__}, not bool"
            self._fail(np.array([row]), reason)
        self._not_admitted.add(row)
        return True

    def release(self, row: int) -> None:
        self._failures.pop(row, None)
        if row in self._not_admitted:
            self._not_admitted.remove(row)
            return
        outcome = isolate(self._inner.release, row)
        if isinstance(outcome, Failure):
            self._log(outcome.summary, outcome.error)

    def prepare(self, positions: SampledPositions) -> None:
        if len(working := self._working(positions)):
            outcome = isolate(self._inner.prepare, _renumbered(working))
            self._check(outcome, "prepare", working)

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        if not len(working := self._working(positions)):
            return
        at = torch.from_numpy(working.indices).to(logits.device)
        part = logits[at]
        outcome = isolate(self._inner.apply, part, _renumbered(working))
        if not self._check(outcome, "apply", working):
            return
        is_good = part.amax(-1).isfinite()
        if not bool(is_good.all()):
            # Where the model's logits were not finite, it is not to blame.
            is_its_fault = ~is_good & logits[at].amax(-1).isfinite()
            bad_rows = working.rows[is_its_fault.cpu().numpy()]
            if len(bad_rows):
                self._fail(bad_rows, _NO_MAXIMUM, kind=_corrupted)
            at, part = at[is_good], part[is_good]
        logits[at] = part

    def _working(self, positions: SampledPositions) -> SampledPositions:
        """Leaves out requests that have failed: they end with this step's result."""
        if not self._failures:
            return positions
        is_working = [row not in self._failures for row in positions.rows.tolist()]
        return positions.select(np.array(is_working, np.bool_))

    def _check(self, outcome: object, method: str, positions: SampledPositions) -> bool:
        if isinstance(outcome, Failure):
            self._fail(positions.rows, outcome.summary, outcome.error)
        elif outcome is not None:
            kind = type(outcome).__name__
            reason = f"{method} returned {kind}: it must change the logits in place"
            self._fail(positions.rows, reason)
        else:
            return True
        return False

    def _fail(
        self,
        rows: Int64,
        reason: str,
        error: BaseException | None = None,
        *,
        kind: Callable[[str], Failed] = Failed,
    ) -> None:
        cause = kind(f"logits processor {self._name!r} failed: {reason}")
        self._failures.update(dict.fromkeys(rows.tolist(), cause))
        self._log(reason, error)

    def _log(self, reason: str, error: BaseException | None) -> None:
        self._num_logged += 1
        if self._num_logged <= _MAX_LOGGED:
            message = "Logits processor %r failed: %s"
            _logger.error(message, self._name, reason, exc_info=error)


def _corrupted(detail: str) -> Failed:
    return Corrupted(detail, Origin.LOGITS_PROCESSOR)


def _renumbered(positions: SampledPositions) -> SampledPositions:
    """Replaces rows of the logits by rows of their copy."""
    return replace(positions, indices=np.arange(len(positions)))
