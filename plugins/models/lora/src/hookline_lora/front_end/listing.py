"""The adapters of all engines as one list."""

from collections.abc import Sequence

from hookline_lora.messages import AdapterState, LoraAnswer
from hookline_metrics.adapters import AdapterLevel
from hookline_server.adapters import ServedAdapter

_BY_SPEED = (AdapterLevel.SLOT, AdapterLevel.MEMORY, AdapterLevel.DISK)


def served(answers: Sequence[LoraAnswer]) -> list[ServedAdapter]:
    """Returns each adapter once, by name, with the sums over the engines that have it.

    Its level is the fastest that it has in an engine.
    """
    found: dict[str, list[AdapterState]] = {}
    for answer in answers:
        for name, state in answer.adapters.items():
            found.setdefault(name, []).append(state)
    return [_joined(name, states) for name, states in sorted(found.items())]


def _joined(name: str, states: Sequence[AdapterState]) -> ServedAdapter:
    ref = states[0].ref
    return ServedAdapter(
        name=name,
        path=ref.path,
        digest=ref.digest,
        rank=ref.rank,
        targets=ref.targets,
        parent=ref.base_model_name,
        level=min((each.level for each in states), key=_BY_SPEED.index),
        pinned=any(each.ref.is_pinned for each in states),
        leaving=all(each.is_leaving for each in states),
        running=sum(each.running for each in states),
        waiting=sum(each.waiting for each in states),
        num_bytes=ref.num_bytes,
    )
