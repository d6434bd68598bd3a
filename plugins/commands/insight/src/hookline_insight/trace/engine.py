"""Draws an engine: its steps and what they cost, its queue, and its counters."""

from hookline_insight.activity import Activity, Span
from hookline_insight.company import prefills
from hookline_insight.trace.canvas import Canvas, Flows, Track
from hookline_insight.trace.excerpts import Window
from hookline_insight.trace.requests import RequestRows
from hookline_recording import RecordedStep

_COUNTERS = (
    ("running", "requests"),
    ("waiting", "requests"),
    ("held at gates", "requests"),
    ("KV blocks in use", "blocks"),
    ("KV blocks cached", "blocks"),
    ("tokens of a step", "tokens"),
)
_TOKENS = len(_COUNTERS) - 1


class EngineRows:
    """The rows of an engine itself.

    Attributes:
        steps: Steps drawn.
    """

    def __init__(self, canvas: Canvas, engine: Track, offset: int) -> None:
        """Prepares rows.

        Args:
            canvas: The trace.
            engine: The engine's rows.
            offset: From the monotonic clock to the trace's, ns.
        """
        self._canvas, self._engine, self._offset = canvas, engine, offset
        self._steps = canvas.track(engine, "steps")
        self._costs = canvas.track(engine, "costs of steps")
        self._obstacles = canvas.track(engine, "why none is admitted")
        self._forward: Track | None = None
        self._counters = [canvas.counter(engine, *each) for each in _COUNTERS]
        self._values: list[int | None] = [None] * len(_COUNTERS)
        self._obstacle = ""
        self.steps = 0

    def draw(self, window: Window, requests: RequestRows) -> None:
        """Draws a window; requests have been drawn to its end."""
        for span in window.spans():
            if span.activity is Activity.EXECUTE and span.step is not None:
                self._draw_step(window, span, span.step, requests)
            elif span.activity in (Activity.SCHEDULE, Activity.UPDATE):
                self._slice(self._steps, span.begin, span.end, span.activity.value)
        self._draw_obstacles(window)
        for state in window.explainer.recording.states:
            if window.has(state.at):
                values = (
                    state.running,
                    state.waiting,
                    sum((state.held or {}).values()),
                    state.kv_blocks_used,
                    state.kv_blocks_cached,
                )
                for index, value in enumerate(values):
                    self._count(index, state.at, value)

    def _draw_step(
        self, window: Window, span: Span, index: int, requests: RequestRows
    ) -> None:
        self.steps += 1
        explainer = window.explainer
        step = explainer.steps[index]
        tokens, prompts = step.request_tokens, prefills(step)
        notes: dict[str, int | float | str] = {
            "step": step.number,
            "requests": len(tokens),
            "tokens": sum(tokens.values()),
            "prompt_tokens": sum(prompts.values()),
        }
        computed = step.computed
        if computed is None:
            notes["end"] = "none yet"
        elif computed.ranks is not None:
            exchange, handover, experts = computed.ranks
            notes["exchange (ns)"] = exchange
            notes["handover (ns)"] = handover
            notes["wait for experts (ns)"] = experts
        if step.published is not None and step.published.evicted_blocks:
            notes["evicted_blocks"] = step.published.evicted_blocks
        begin, end = span.begin + self._offset, span.end + self._offset
        flows = self._flows(window, step, prompts, requests)
        self._canvas.enter(self._steps, begin, "step", notes, flows)
        self._canvas.leave(self._steps, end)
        self._count(_TOKENS, span.begin, sum(tokens.values()))
        at = span.begin
        for name, ns in explainer.step_parts(index, span.end - span.begin):
            self._slice(self._costs, at, at + ns, name)
            at += ns
        if computed is not None and computed.forward_ns:
            self._draw_forward(span, computed.forward_ns)

    def _draw_forward(self, span: Span, ns: int) -> None:
        """Draws the forward pass, which ends with its step and may begin before it."""
        if self._forward is None:
            self._forward = self._canvas.track(self._engine, "forward passes")
        begin = max(span.begin, span.end - ns) + self._offset
        self._canvas.enter(self._forward, begin, "forward pass", {"measured (ns)": ns})
        self._canvas.leave(self._forward, span.end + self._offset)

    def _flows(
        self,
        window: Window,
        step: RecordedStep,
        prompts: dict[int, int],
        requests: RequestRows,
    ) -> Flows:
        """Returns the arrows to a step: of prompts, of those that come, and that end.

        All others would be most of a trace, and hide these.
        """
        planned = step.planned
        assert planned is not None
        joined = {each for each, _ in planned.admitted or ()}
        through: list[int] = []
        ending: list[int] = []
        for request_id in step.request_ids or ():
            request = window.past.requests.get(request_id)
            if request is None:
                continue
            if request.finished is not None and request.steps[-1] == step.number:
                ending.append(requests.flow(request_id))
            elif (
                request_id in prompts
                or request_id in joined
                or request.steps[0] == step.number
            ):
                through.append(requests.flow(request_id))
        return Flows(through, ending)

    def _draw_obstacles(self, window: Window) -> None:
        """Draws why requests were not admitted, one slice while that lasts."""
        for at, obstacle in window.explainer.obstructions.reasons():
            if window.begin <= at < window.end and obstacle != self._obstacle:
                if self._obstacle:
                    self._canvas.leave(self._obstacles, at + self._offset)
                if obstacle:
                    self._canvas.enter(self._obstacles, at + self._offset, obstacle)
                self._obstacle = obstacle
        if window.is_last and self._obstacle:
            self._canvas.leave(self._obstacles, window.end + self._offset)

    def _count(self, index: int, at: int, value: int) -> None:
        if self._values[index] != value:
            self._values[index] = value
            self._canvas.count(self._counters[index], at + self._offset, value)

    def _slice(self, track: Track, begin: int, end: int, name: str) -> None:
        if end > begin:
            self._canvas.enter(track, begin + self._offset, name)
            self._canvas.leave(track, end + self._offset)
