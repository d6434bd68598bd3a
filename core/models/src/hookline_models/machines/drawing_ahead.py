"""Samples a step on the device, before the host knows its tokens."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from hookline.engine.worker.input_batch import Int64
from hookline.engine.worker.sampling.sampler import Samples
from hookline.finish_cause import Corrupted
from hookline.request import Origin
from hookline_models.machines.device_feed import DeviceFeed
from hookline_models.sampling.sampler import Sampler


def drawn_ahead(
    feed: DeviceFeed, sampler: Sampler, logits: torch.Tensor, rows: Int64
) -> Callable[[], Samples]:
    """Implements `DrawAhead`: the feed keeps the tokens for the next step."""
    return partial(_samples, feed.keep(sampler.draw(logits, rows)))


def _samples(read: Callable[[], Int64]) -> Samples:
    """Waits for the tokens; a missing one means that its logits were not finite."""
    tokens = read()
    places = np.flatnonzero(tokens < 0).tolist() if tokens.min(initial=0) < 0 else []
    cause = Corrupted.logits(Origin.MODEL, is_served=False)
    return Samples(np.maximum(tokens, 0), corrupted=dict.fromkeys(places, cause))
