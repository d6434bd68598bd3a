"""The interface of logits processors, built-in or of plugins, and what they get."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from hookline.engine.worker.input_batch import InputBatch, Int32, Int64
from hookline.finish_cause import FinishCause
from hookline.step import AdmittedSequence

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledPositions:
    """n positions whose logits one processor changes.

    A request without drafts has one position per step; one with drafts has several,
    and each sees the drafts before it as output.

    Attributes:
        indices: [n] row of the logits tensor for each position.
        rows: [n] batch row of each position's request.
        ends: [n] number of tokens before the sampled one.
        nodes: [n] node of the request's draft tree; None without trees.
        batch: Tokens of all requests.
    """

    indices: Int64
    rows: Int64
    ends: Int64
    nodes: Int64 | None
    batch: InputBatch

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def num_output_tokens(self) -> Int64:
        """[n] number of output tokens before the sampled one."""
        return self.ends - self.batch.num_prompt_tokens[self.rows]

    def tokens(self, at: int) -> Int32:
        """Returns prompt and output before position `at`: [ends[at]]; do not change."""
        node = 0 if self.nodes is None else int(self.nodes[at])
        return self.batch.history(int(self.rows[at]), int(self.ends[at]), node)

    def all_tokens(self) -> Int32:
        """Returns tokens of all positions, [n, max(ends)]; undefined after each end."""
        return self.batch.histories(self.rows, self.ends, self.nodes)

    def select(
        self, chosen: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice
    ) -> Self:
        """Returns the chosen positions; a slice of them is not copied.

        Args:
            chosen: Indices, a mask [n], or a slice of the n.
        """
        return replace(
            self,
            indices=self.indices[chosen],
            rows=self.rows[chosen],
            ends=self.ends[chosen],
            nodes=None if self.nodes is None else self.nodes[chosen],
        )


@runtime_checkable
class LogitsProcessor(Protocol):
    """Changes the logits of all requests that it applies to, once a step.

    It owns the state that it keeps per batch row. All methods but `prepare` run on the
    worker's thread, under `torch.inference_mode`, and delay the step.

    Attributes:
        needs_prepare: Whether `prepare` is called.
    """

    needs_prepare: bool

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        """A request joins the batch, for the first time or after a preemption.

        Args:
            row: Its batch row until `release`.
            sequence: Its tokens so far, stop tokens and sampling parameters.

        Returns:
            Whether the processor applies to this request.
        """

    def release(self, row: int) -> None:
        """The request that the processor applied to has left its batch row."""

    def prepare(self, positions: SampledPositions) -> None:
        """Computes ahead what `apply` needs, such as masks, while the model runs.

        Runs in its own thread and ends before `apply` is called with the same
        positions. Only called if `needs_prepare`, and if there are positions.
        """

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        """Changes `logits[positions.indices]` in place, and no other row.

        Args:
            logits: [S, vocabulary] float32 on the model's device.
            positions: At least one position of requests that the processor applies to.
        """


@runtime_checkable
class ReportingProcessor(LogitsProcessor, Protocol):
    """A processor that can fail for single requests."""

    def failures(self, rows: Int64) -> dict[int, FinishCause]:
        """Returns the causes of failed requests among batch rows.

        They end with this step's result.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitsProcessorContext:
    """Context from which a plugin's processor is built.

    Attributes:
        config: Configuration of the engine.
        vocab_size: Width of the logits.
        max_num_seqs: Number of batch rows.
        device: Device of the logits.
    """

    config: "EngineConfig"
    vocab_size: int
    max_num_seqs: int
    device: torch.device
