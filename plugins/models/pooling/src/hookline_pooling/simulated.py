"""Vectors where no model computes: they depend on the prompt alone."""

from collections.abc import Collection

import numpy as np

from hookline.pooling import PooledVectors
from hookline.step import AdmittedSequence
from hookline_pooling.facts import PoolingFacts
from hookline_pooling.pooling import REQUEST, PooledStep, Pooling, PoolingType


def simulated_vectors(
    sequences: Collection[AdmittedSequence], facts: PoolingFacts
) -> PooledStep | None:
    """Returns vectors for requests that are pooled; None if there are none."""
    poolings = {
        each.request_id: (each, pooling)
        for each in sequences
        if (pooling := REQUEST.read(each.sections)) is not None
    }
    if not poolings:
        return None
    return PooledStep(
        {
            request_id: _vectors(each.token_ids, pooling, facts.size(pooling))
            for request_id, (each, pooling) in poolings.items()
        }
    )


def _vectors(token_ids: Collection[int], pooling: Pooling, size: int) -> PooledVectors:
    count = len(token_ids) if pooling.kind is PoolingType.ALL else 1
    angles = np.arange(1, size + 1) * (1 + sum(token_ids) % 997)
    values = np.sin(angles[None] + np.arange(count)[:, None])
    if pooling.normalize:
        values /= np.linalg.norm(values, axis=1, keepdims=True)
    return PooledVectors(count, values.astype("<f4").tobytes())
