"""Runs the layers of a pipeline stage that is not the last."""

from typing import Protocol, runtime_checkable

import numpy as np
import torch

from hookline.engine.decoder.forward_batch import ForwardBatch, IntermediateTensors
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.forward import Feed
from hookline.engine.worker.input_batch import InputBatch
from hookline.engine.worker.paged_cache import PagedCache
from hookline.stats.step_work import Execution
from hookline.step import StepPlan, StepResult
from hookline_kernels.runtime.stopwatch import Stopwatch
from hookline_ranks.pipeline import NEW_TOKENS
from hookline_ranks.stages.stage_links import StageLinks, StageStates

_NO_LOGITS = np.zeros(0, np.int64)


@runtime_checkable
class PassingForward(Protocol):
    """The forward pass of a pipeline stage that is not the last."""

    def bind(self, cache: PagedCache) -> None:
        """As `Forward.bind`."""
        ...

    def read_features(self, layers: tuple[int, ...]) -> None:
        """Has `passed_on` return the inputs of those layers that the stage has.

        Args:
            layers: Indices in the whole model.

        Raises:
            ConfigError: The model does not show the inputs of its layers.
        """
        ...

    def passed_on(self, batch: ForwardBatch) -> IntermediateTensors:
        """Returns what the next stage begins with, valid until the next call."""
        ...


class StageRunner:
    """Keeps the batch between steps, and passes hidden states on.

    It samples nothing: plans tell the sampled tokens once a step needs them, so that
    the next steps, of other requests, are computed before these tokens are known.
    """

    def __init__(
        self,
        forward: PassingForward,
        batch: InputBatch,
        *,
        feed: Feed,
        links: StageLinks,
        stopwatch: Stopwatch,
        extensions: FollowedRows | None = None,
    ) -> None:
        """Joins the parts of a worker.

        Args:
            forward: Computes hidden states; bound to a cache.
            batch: Rows of the running requests.
            feed: Brings inputs to the model's device.
            links: Lead to the next stage.
            stopwatch: Measures forward passes.
            extensions: The worker's sides of extensions; None without any.
        """
        self._forward = forward
        self._batch = batch
        self._feed = feed
        self._links = links
        self._stopwatch = stopwatch
        self._extensions = extensions
        self._starts = () if extensions is None else extensions.starts
        self._ends = () if extensions is None else extensions.ends

    @torch.inference_mode()
    def execute(self, plan: StepPlan) -> StepResult:
        """Applies the plan's changes to the batch, then computes the stage's layers."""
        for start in self._starts:
            start(plan)
        taken = self._compute(plan) if plan.request_ids else 0
        sections: dict[str, object] = {}
        for end in self._ends:
            end(sections)
        return StepResult(sections=sections, execution=Execution(forward_ns=taken))

    def _compute(self, plan: StepPlan) -> int:
        """Returns the duration of the forward pass, ns."""
        self._change_batch(plan)
        if (new := NEW_TOKENS.read(plan.sections)) is not None:
            self._batch.learn(new.token_ids)
        self._batch.grow(plan)
        inputs = self._batch.inputs(plan)
        batch = self._feed.batch(inputs, _NO_LOGITS)
        self._stopwatch.start()
        passed = self._forward.passed_on(batch)
        taken = self._stopwatch.stop()()
        forward_ns = self._links.forward_ns + taken
        self._links.send(StageStates(passed.hidden_states, forward_ns, passed.features))
        self._batch.advance_chunks(inputs)
        return taken

    def _change_batch(self, plan: StepPlan) -> None:
        extensions = self._extensions
        for request_id in plan.released:
            row = self._batch.remove_request(request_id)
            if extensions is not None:
                extensions.left(row)
        for sequence in plan.admitted:
            row = self._batch.admit(sequence)
            if extensions is not None:
                extensions.joined(row, sequence)
