"""Describes in one line what computes an engine's steps."""

from collections.abc import Iterable

from hookline.worker.forward import Forward
from hookline.worker.machine import Machine
from hookline_kernels import ChosenAttention
from hookline_kernels.sampling import ChosenSampling


def kernels_in_use(
    forward: Forward,
    attention: Iterable[ChosenAttention],
    sampling: ChosenSampling,
    machine: Machine,
    reason_without_graphs: str,
    *,
    weights: str,
) -> str:
    """Names each part, and for each that is not the fastest the reason.

    The CPU's instruction set, which all of them may use, comes last.
    """
    parts = [(forward.name, forward.reason)]
    if weights:
        parts.append((weights, ""))
    parts += [(f"{each.name} attention", each.reason) for each in attention]
    parts.append((f"{sampling.name} sampling", sampling.reason))
    if machine.platform.is_gpu and reason_without_graphs:
        parts.append(("no CUDA graphs", reason_without_graphs))
    if machine.isa:
        parts.append((f"instructions up to {machine.isa}", ""))
    words = [f"{name} ({reason})" if reason else name for name, reason in parts]
    return ", ".join(dict.fromkeys(words))
