"""Runs the layers of a pipeline stage that is not the last."""

import numpy as np
import torch

from hookline.kv_transfer.layout import KVLayout
from hookline.step.plan import StepPlan, StepResult
from hookline.worker.feed import Feed
from hookline.worker.forward import Forward
from hookline.worker.input_batch import InputBatch
from hookline.worker.stage_links import StageLinks, StageStates
from hookline.worker.stopwatch import Stopwatch

_NO_LOGITS = np.zeros(0, np.int64)


class StageRunner:
    """Keeps the batch between steps, and passes hidden states on.

    It samples nothing: plans tell the sampled tokens once a step needs them, so that
    the next steps, of other requests, are computed before these tokens are known.
    """

    kv_layout: KVLayout | None = None

    def __init__(
        self,
        forward: Forward,
        batch: InputBatch,
        *,
        feed: Feed,
        links: StageLinks,
        stopwatch: Stopwatch,
    ) -> None:
        """Joins the parts of a worker.

        Args:
            forward: Computes hidden states; bound to a cache.
            batch: Rows of the running requests.
            feed: Brings inputs to the model's device.
            links: Lead to the next stage.
            stopwatch: Measures forward passes.
        """
        self._forward = forward
        self._batch = batch
        self._feed = feed
        self._links = links
        self._stopwatch = stopwatch

    @torch.inference_mode()
    def execute(self, plan: StepPlan) -> StepResult:
        """Applies the plan's changes to the batch, then computes the stage's layers."""
        if not plan.request_ids:
            return StepResult()
        for request_id in plan.released:
            self._batch.release(request_id)
        for sequence in plan.admitted:
            self._batch.admit(sequence)
        self._batch.learn(plan.new_token_ids)
        self._batch.grow(plan)
        inputs = self._batch.inputs(plan)
        batch = self._feed.batch(inputs, _NO_LOGITS)
        self._stopwatch.start()
        hidden = self._forward(batch)
        self._stopwatch.stop()
        taken = self._stopwatch.nanoseconds()
        self._links.send(StageStates(hidden, self._links.forward_ns + taken))
        self._batch.advance_chunks(inputs)
        return StepResult(forward_ns=taken)
