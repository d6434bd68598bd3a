"""An engine's start as spans."""

from dataclasses import dataclass

from hookline.clock import NANOSECONDS
from hookline.payloads import EngineFacts
from hookline.startup_timer import StartupPhase
from hookline_otel.phases import Phase
from hookline_otel.tracing import Trace


@dataclass(frozen=True, slots=True)
class StartTrace:
    """The start of an engine; its facts have at least one startup phase."""

    facts: EngineFacts

    @property
    def num_parts(self) -> int:
        return 1 + len(self.facts.startup)

    def described(self) -> Trace:
        """Describes the start's span and its phases."""
        facts = self.facts
        parts = [_part(phase) for phase in facts.startup]
        return Trace(
            name="engine start",
            start=min(part.start for part in parts),
            end=max(part.end for part in parts),
            attributes=(
                ("hookline.engine_index", facts.engine_index),
                ("hookline.model", facts.model_name),
                ("hookline.architecture", facts.model.architecture),
                ("hookline.dtype", facts.model.dtype),
                ("hookline.executor", facts.executor),
                ("hookline.num_kv_blocks", facts.model.num_kv_blocks),
            ),
            phases=parts,
        )


def _part(phase: StartupPhase) -> Phase:
    end = phase.started_at + round(phase.seconds * NANOSECONDS)
    return Phase(phase.name, phase.started_at, end)
