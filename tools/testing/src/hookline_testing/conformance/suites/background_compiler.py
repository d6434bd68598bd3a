"""Background compilers: the forward pass that a worker starts with."""

from collections.abc import Callable
from typing import cast

from hookline.config import EngineConfig
from hookline.engine.worker.forward import Forward
from hookline_kernels import Platform
from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Has it choose a forward pass."""
    import torch  # noqa: PLC0415 - as compilers do

    from hookline_models.forwards.first_forward import (  # noqa: PLC0415
        FirstForward,
        ModelToRun,
    )

    made = subject.create()
    if made is None:
        return
    if not callable(made):
        subject.fault("it gives nothing to call", subject.factory)
        return
    start = cast("Callable[..., object]", made)
    model = ModelToRun(
        config=EngineConfig(),
        platform=cast("Platform", None),
        layers=(),
        dtype=torch.float32,
        cache_dtype=torch.float32,
        may_change=False,
    )
    chosen: list[bool] = []
    forward = cast("Forward", object())

    def choose(*, may_compile: bool, why_torch: str = "") -> Forward:
        del why_torch
        chosen.append(may_compile)
        return forward

    first = subject.call("the choice of a forward pass", start, model, choose)
    if isinstance(first, Failure):
        return
    if not isinstance(first, FirstForward):
        kind = type(first).__name__
        subject.fault(f"it chooses {kind}, not a FirstForward", start)
    elif first.forward is not forward and chosen:
        subject.fault("FirstForward.forward is not what `choose` returned", start)
