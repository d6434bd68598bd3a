"""An engine's start as spans."""

import secrets
from dataclasses import dataclass

from opentelemetry.sdk.trace import ReadableSpan

from hookline.clock import NANOSECONDS
from hookline.payloads import EngineFacts, StartupPhase
from hookline_otel.spans import SpanFactory


@dataclass(frozen=True, slots=True)
class StartTrace:
    """The start of an engine whose facts name at least one phase of it."""

    facts: EngineFacts

    @property
    def span_count(self) -> int:
        return 1 + len(self.facts.startup)

    def spans(self, factory: SpanFactory) -> list[ReadableSpan]:
        facts = self.facts
        root = factory.root(
            "engine start",
            min(phase.started_at for phase in facts.startup),
            max(map(_end, facts.startup)),
            trace_id=secrets.randbits(128) or 1,
            attributes={
                "hookline.engine_index": facts.engine_index,
                "hookline.model": facts.model_name,
                "hookline.architecture": facts.architecture,
                "hookline.dtype": facts.dtype,
                "hookline.executor": facts.executor,
                "hookline.num_kv_blocks": facts.num_kv_blocks,
            },
        )
        return [
            root,
            *(
                factory.child(root, phase.name, phase.started_at, _end(phase))
                for phase in facts.startup
            ),
        ]


def _end(phase: StartupPhase) -> int:
    return phase.started_at + round(phase.seconds * NANOSECONDS)
