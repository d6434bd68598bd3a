"""What passes from one pipeline stage to the next."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import torch

from hookline.engine.decoder.forward_batch import ForwardBatch, IntermediateTensors
from hookline.engine.worker.forward import Feed
from hookline.engine.worker.input_batch import Int64, StepInputs


class StageStates(NamedTuple):
    """The results of the stages before, for one step.

    Attributes:
        hidden_states: [T, hidden], in memory of its own.
        forward_ns: Time of these stages' forward passes, ns.
        features: [T, hidden] inputs of earlier layers, by index; in memory of its own.
    """

    hidden_states: torch.Tensor
    forward_ns: int
    features: Mapping[int, torch.Tensor] = MappingProxyType({})


class PassedFeatures(NamedTuple):
    """Layers whose inputs a rank gets and passes on, in order of their index.

    Attributes:
        before: Those that come from the stage before.
        after: Those that go to the next one.
    """

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @classmethod
    def of(cls, feature_layers: Sequence[int], own: range) -> "PassedFeatures":
        """Returns what passes a stage, if the last one needs these layers' inputs.

        Args:
            feature_layers: Indices in the whole model.
            own: The stage's layers.
        """
        layers = sorted(set(feature_layers))
        return cls(
            tuple(each for each in layers if each < own.start),
            tuple(each for each in layers if each < own.stop),
        )


NO_FEATURES = PassedFeatures()


class StageLinks(Protocol):
    """One rank's links to its neighbours in a pipeline.

    Attributes:
        has_before: Whether there is a stage before this rank's.
        has_after: Whether there is a stage after it.
        forward_ns: Time of the forward passes of the stages before, for the step that
            was received last, ns.
    """

    has_before: bool
    has_after: bool
    forward_ns: int

    def open(self, width: int, dtype: torch.dtype, features: PassedFeatures) -> None:
        """Prepares for [T, width] hidden states of this dtype; again on wake-up.

        Args:
            width: The model's hidden size.
            dtype: Of hidden states and features.
            features: Layers whose inputs pass as well.
        """
        ...

    def receive(self) -> StageStates:
        """Waits for the next step's states, in the order of steps.

        Raises:
            RankError: They do not come.
        """
        ...

    def send(self, states: StageStates) -> None:
        """Passes a step's states on; they may change when it returns.

        Raises:
            RankError: The next stage does not take any.
        """
        ...


class LinkedFeed:
    """Adds the results of the stage before to each batch."""

    def __init__(self, feed: Feed, links: StageLinks) -> None:
        self._feed, self._links = feed, links

    def batch(self, inputs: StepInputs, logits_indices: Int64) -> ForwardBatch:
        """Implements `Feed`; waits for the stage before."""
        batch = self._feed.batch(inputs, logits_indices)
        states = self._links.receive()
        return batch.after(IntermediateTensors(states.hidden_states, states.features))
