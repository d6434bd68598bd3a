"""All logits processors of a worker, in the order in which they are applied."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch

from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessor,
    ReportingProcessor,
    SampledPositions,
)
from hookline.finish_cause import FinishCause
from hookline.step import AdmittedSequence
from hookline_registry.isolation import isolate


class LogitsProcessors:
    """Calls each processor with the positions of its own requests.

    Owns one thread, only if a processor computes ahead.

    Attributes:
        is_active: [max_num_seqs] whether any processor applies to a batch row.
        prepares: Whether any of them computes ahead.
    """

    def __init__(
        self, max_num_seqs: int, processors: Sequence[LogitsProcessor] = ()
    ) -> None:
        self._processors = tuple(processors)
        self._reporting = [
            each for each in self._processors if isinstance(each, ReportingProcessor)
        ]
        self._applies = np.zeros((len(self._processors), max_num_seqs), np.bool_)
        self.is_active = np.zeros(max_num_seqs, np.bool_)
        self._preparing = [
            index
            for index, processor in enumerate(self._processors)
            if processor.needs_prepare
        ]
        self.prepares = bool(self._preparing)
        self._thread: ThreadPoolExecutor | None = None
        if self._preparing:
            self._thread = ThreadPoolExecutor(1, "hookline-logits-processors")
        self._prepared: Future[None] | None = None

    def admit(self, row: int, sequence: AdmittedSequence) -> None:
        """Shows a request that joins the batch to every processor."""
        for index, processor in enumerate(self._processors):
            self._applies[index, row] = processor.admit(row, sequence)
        self.is_active[row] = self._applies[:, row].any()

    def release(self, row: int) -> None:
        """Drops the processors' state of a request that leaves the batch."""
        if not self.is_active[row]:
            return
        for index in np.flatnonzero(self._applies[:, row]).tolist():
            self._processors[index].release(row)
        self._applies[:, row] = self.is_active[row] = False

    def reset(self, row: int) -> None:
        """Drops what processors have of a request, after `admit` has raised an error.

        It is unknown what they have, so they may raise errors, too.
        """
        for processor in self._processors:
            isolate(processor.release, row)
        self._applies[:, row] = self.is_active[row] = False

    def prepare(self, positions: SampledPositions) -> None:
        """Starts what processors compute ahead, for the next `apply`."""
        if self._thread is None or not self.is_active[positions.rows].any():
            return
        work = [
            (self._processors[index], own)
            for index in self._preparing
            if len(own := self._own(index, positions))
        ]
        if work:
            self._prepared = self._thread.submit(_prepare, work)

    def apply(
        self, logits: torch.Tensor, positions: SampledPositions
    ) -> dict[int, FinishCause]:
        """Changes logits [S, vocabulary] float32 in place.

        Returns:
            Causes by batch row of the requests for which a processor failed.
        """
        if self._prepared is not None:
            self._prepared.result()
            self._prepared = None
        for index, processor in enumerate(self._processors):
            if len(own := self._own(index, positions)):
                processor.apply(logits, own)
        failed: dict[int, FinishCause] = {}
        for processor in self._reporting:
            failed |= processor.failures(positions.rows)
        return failed

    def close(self) -> None:
        """Ends the thread."""
        if self._thread is not None:
            self._thread.shutdown()

    def _own(self, index: int, positions: SampledPositions) -> SampledPositions:
        """Returns the positions of requests that a processor applies to."""
        applies = self._applies[index][positions.rows]
        return positions if applies.all() else positions.select(applies)


@torch.inference_mode()
def _prepare(work: Sequence[tuple[LogitsProcessor, SampledPositions]]) -> None:
    for processor, positions in work:
        processor.prepare(positions)
