"""The interface of logits processors, built-in or of plugins."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch

from hookline.finish_cause import FinishCause
from hookline.step import AdmittedSequence
from hookline.worker.input_batch import Int64
from hookline.worker.sampling.sampled_positions import SampledPositions

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig


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
