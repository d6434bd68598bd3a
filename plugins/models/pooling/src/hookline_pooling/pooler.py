"""Pools hidden states of prompts that come in chunks."""

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

from hookline.engine.worker.extension import WorkerSide, WorkerStep
from hookline.finish_cause import Corrupted
from hookline.pooling import POOLING, PooledVectors
from hookline.request import Origin
from hookline.step import AdmittedSequence
from hookline_pooling.pooling import REQUEST, PooledStep, Pooling, PoolingType


class Pooler(WorkerSide):
    """The poolings of the requests in the batch, by row.

    A preempted request begins again: all of its hidden states are computed again, but
    for those of `LAST`, which may begin with a cached prefix.
    """

    states_option = "convert"

    def __init__(self) -> None:
        self._rows: dict[int, _Prompt] = {}

    def joined(self, row: int, sequence: AdmittedSequence) -> bool:
        """Begins the pooling of a request, if it has one."""
        if (pooling := REQUEST.read(sequence.sections)) is None:
            return False
        self._rows[row] = _Prompt(
            sequence.request_id, pooling, sequence.num_prompt_tokens
        )
        return True

    def left(self, row: int) -> None:
        """Forgets a request."""
        del self._rows[row]

    def computed(self, step: WorkerStep) -> None:
        """Adds a step's hidden states; the vectors of complete prompts are its result.

        A request whose vectors are not finite ends with an error.
        """
        states, inputs = step.hidden_states, step.inputs
        assert states is not None, "it needs them"
        found = {}
        starts, ends = inputs.query_starts.tolist(), inputs.seq_lens.tolist()
        for index, row in enumerate(inputs.rows.tolist()):
            if (prompt := self._rows.get(row)) is None:
                continue
            prompt.add(states[starts[index] : starts[index + 1]])
            if ends[index] < prompt.num_tokens:
                continue
            if (vectors := prompt.vectors()) is None:
                step.failed[prompt.request_id] = Corrupted(
                    "its hidden states are not finite", Origin.MODEL
                )
            else:
                found[prompt.request_id] = vectors
        if found:
            step.sections[POOLING] = PooledStep(found)


class _Prompt:
    """What is kept of one prompt's hidden states."""

    __slots__ = ("_kept", "_pooling", "num_tokens", "request_id")

    def __init__(self, request_id: int, pooling: Pooling, num_tokens: int) -> None:
        self.request_id = request_id
        self.num_tokens = num_tokens
        self._pooling = pooling
        self._kept: torch.Tensor | None = None

    def add(self, states: torch.Tensor) -> None:
        """Adds a chunk [tokens, hidden]."""
        chunk = _CHUNKS[self._pooling.kind](states)
        self._kept = _joined(self._pooling.kind, self._kept, chunk)

    def vectors(self) -> PooledVectors | None:
        """The vectors of the whole prompt; None if they are not finite."""
        assert self._kept is not None
        found = self._kept
        if self._pooling.kind is PoolingType.MEAN:
            found = found / self.num_tokens
        found = found[:, : self._pooling.dimensions].float()
        if self._pooling.normalize:
            found = functional.normalize(found, dim=1)
        if not bool(found.isfinite().all()):
            return None
        values = found.cpu().contiguous().numpy().astype("<f4", copy=False)
        return PooledVectors(len(values), values.tobytes())


_CHUNKS: Mapping[PoolingType, Callable[[torch.Tensor], torch.Tensor]] = {
    PoolingType.LAST: lambda states: states[-1:].clone(),
    PoolingType.CLS: lambda states: states[:1].clone(),
    PoolingType.MEAN: lambda states: states.sum(0, keepdim=True, dtype=torch.float32),
    PoolingType.ALL: torch.clone,
}
"""What a chunk adds; copied, because the step's states may share memory with others."""


def _joined(
    kind: PoolingType, kept: torch.Tensor | None, chunk: torch.Tensor
) -> torch.Tensor:
    if kept is None or kind is PoolingType.LAST:
        return chunk
    if kind is PoolingType.CLS:
        return kept
    return kept + chunk if kind is PoolingType.MEAN else torch.cat([kept, chunk])
