"""An engine's start as spans."""

import os
from dataclasses import dataclass

from hookline.clock import NANOSECONDS
from hookline.payloads import EngineFacts
from hookline.startup_timer import StartupPhase
from hookline_otel.phases import Phase
from hookline_otel.spans import Root, encode_trace

TRACE_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class StartTrace:
    """The start of an engine; its facts have at least one startup phase."""

    facts: EngineFacts

    @property
    def num_parts(self) -> int:
        return 1 + len(self.facts.startup)

    def encode(self) -> list[bytes]:
        facts = self.facts
        parts = [_part(phase) for phase in facts.startup]
        root = Root(
            name="engine start",
            start=min(part.start for part in parts),
            end=max(part.end for part in parts),
            trace_id=os.urandom(TRACE_ID_BYTES),
            attributes=(
                ("hookline.engine_index", facts.engine_index),
                ("hookline.model", facts.model_name),
                ("hookline.architecture", facts.model.architecture),
                ("hookline.dtype", facts.model.dtype),
                ("hookline.executor", facts.executor),
                ("hookline.num_kv_blocks", facts.model.num_kv_blocks),
            ),
        )
        return encode_trace(root, parts)


def _part(phase: StartupPhase) -> Phase:
    end = phase.started_at + round(phase.seconds * NANOSECONDS)
    return Phase(phase.name, phase.started_at, end)
