"""What one engine does, from the records of its ring."""

from collections.abc import Callable
from itertools import islice
from typing import assert_never

from hookline_live.blocks import BlockMap
from hookline_live.columns import MOST_TENANTS, Columns
from hookline_live.costs import Costs
from hookline_live.frame import EngineFrame, OwnerState
from hookline_live.requests import Request, Requests
from hookline_recording.checkpoint_schema import Checkpoint
from hookline_recording.costs import StepSize
from hookline_recording.front_end_schema import Answered, Served
from hookline_recording.schema import (
    OBSTACLES,
    Arrived,
    Blocked,
    Command,
    Computed,
    Ended,
    Gated,
    Header,
    KeyFrame,
    Planned,
    Published,
    Record,
)

_WAITING = frozenset(("queued", "gated", "preempted"))
_MOST_PLANS = 16
"""Plans whose ends are awaited; of more, the oldest one's was lost."""


class EngineView:
    """An engine as it is after some of its records; all of them in order.

    Attributes:
        header: What it is.
        at: Time of the last record, of the engine's clock.
    """

    def __init__(self, header: Header) -> None:
        self.header = header
        self.at = header.monotonic
        self._offset = header.wall - header.monotonic
        self._columns = Columns(self.wall_of)
        self._blocks = BlockMap(header.num_kv_blocks)
        self._requests = Requests(self._columns, self._blocks)
        self._plans: dict[int, tuple[tuple[int, ...], Planned]] = {}
        self._ids: tuple[int, ...] = ()
        self._last_plan = 0
        self._costs = Costs()
        self._state: Published | None = None
        self._obstacle = 0
        self._failure: str | None = None

    def wall_of(self, at: int) -> int:
        """Returns the wall clock, in ns, of a moment of the engine's clock."""
        return at + self._offset

    def clock_of(self, wall: int) -> int:
        """Returns the engine's clock at a moment of the wall clock, in ns."""
        return wall - self._offset

    def add(self, record: Record) -> None:
        """Takes the next record."""
        self.at = max(self.at, record.at)
        match record:
            case Published():
                self._published(record)
            case Planned():
                self._planned(record)
            case Arrived():
                self._requests.arrived(record)
            case Ended():
                self._failure = record.error
            case Gated():
                self._requests.gated(record)
            case Blocked():
                self._obstacle = record.obstacle
            case Computed() | Command() | KeyFrame() | Served() | Answered():
                pass  # a step's end has its result
            case Checkpoint():
                pass  # replays begin there
            case _:
                assert_never(record)

    def forget(self) -> None:
        """Forgets what happened, but not how it is."""
        self._requests.settle()
        self._requests.forget_ended()
        self._costs.share_out()
        self._columns.pop()

    def frame(self, wall: int, most_rows: int) -> EngineFrame:
        """Returns what happened since the last one, and how it is; then forgets it.

        Args:
            wall: The moment that times are relative to, in ns.
            most_rows: Maximum number of requests described; the ones that wait longest
                and took longest come first.
        """
        self._requests.settle()
        self._costs.share_out()
        header, state = self.header, self._state
        known = list(self._requests.known.values())
        changed = [each for each in known if each.has_changed]
        changed.sort(key=_begin)
        end = self.clock_of(wall)
        held = {} if state is None else state.held or {}
        running = 0 if state is None else state.running
        waiting = 0 if state is None else state.waiting + sum(held.values())
        is_obstructed = waiting and self._obstacle < len(OBSTACLES)
        frame = EngineFrame(
            index=header.engine_index,
            pid=header.pid,
            model=header.model,
            executor=header.executor,
            state="running" if running or waiting else "idle",
            reason=self._failure or "",
            step=self._last_plan,
            num_blocks=header.num_kv_blocks,
            max_running=header.max_num_seqs,
            max_tokens=header.max_num_batched_tokens,
            columns=self._columns.pop(),
            rows=[each.row(end) for each in changed[:most_rows]],
            omitted=len(changed[most_rows:]),
            progress=_progress(known, most_rows),
            cells=self._blocks.cells(),
            cell_blocks=self._blocks.cell_blocks,
            holders=self._blocks.holders(),
            tenants=self._owners(known, lambda each: each.tenant),
            adapters=self._owners(known, lambda each: each.adapter)
            if any(each.adapter for each in known)
            else [],
            running=running,
            waiting=waiting,
            held=held,
            used=0 if state is None else state.kv_blocks_used,
            reusable=0 if state is None else state.kv_blocks_cached,
            obstacle=OBSTACLES[self._obstacle] if is_obstructed else "",
        )
        for each in changed[:most_rows]:
            each.has_changed = False
        self._requests.forget_ended()
        return frame

    # -- parts -------------------------------------------------------------------

    def _planned(self, plan: Planned) -> None:
        if plan.request_ids is not None:
            self._ids = tuple(plan.request_ids)
        elif self._last_plan and plan.step != self._last_plan + 1:
            self._ids = ()  # the plan that has them may be missing
        self._last_plan = plan.step
        self._obstacle = plan.obstacle
        for request_id, blocks in (plan.new_blocks or {}).items():
            self._blocks.hold(request_id, blocks)
        self._plans[plan.step] = self._ids, plan
        if len(self._plans) > _MOST_PLANS:
            del self._plans[min(self._plans)]

    def _published(self, output: Published) -> None:
        if output.wall:
            self._offset = output.wall - output.clock_at
        columns, requests, state = self._columns, self._requests, self._state
        if columns.is_over(output.at):
            requests.settle()
            columns.go_to(output.at)
        events = output.events
        if events is not None:
            requests.happened(events)
        obstacle = self._obstacle if output.waiting else 0
        if output.step is not None:
            plan = self._stepped(output)
            obstacle = 0 if plan is None else plan.obstacle
        if state is not None and obstacle and obstacle < len(OBSTACLES):
            name, obstacles = OBSTACLES[obstacle], columns.now.obstacles
            held_back = (output.at - state.at) // 1000
            obstacles[name] = obstacles.get(name, 0) + held_back
        if events is not None:
            requests.ended(events)
        now = columns.now
        now.running, now.used = output.running, output.kv_blocks_used
        now.waiting = output.waiting + sum((output.held or {}).values())
        now.reusable = output.kv_blocks_cached
        self._state = output

    def _stepped(self, output: Published) -> Planned | None:
        """Takes a step's end; returns its plan, unless it was overwritten."""
        step = output.step or 0
        ids, plan = self._plans.pop(step, ((), None))
        computed = output.computed
        if plan is None or computed is None:
            return plan
        now = self._columns.now
        execute = computed.at - plan.at - output.waited_ns
        forward = min(computed.forward_ns, execute)
        planning = plan.at - output.started_at + output.updated_ns
        now.steps += 1
        now.plan_us += planning // 1000
        now.forward_us += forward // 1000
        decodes = max(0, len(ids) - plan.prefill_requests)
        size = StepSize(decodes, plan.prefill_tokens)
        self._costs.computed(now, size, execute)
        took = (planning + execute) // 1000
        if took >= now.longest_us:
            now.longest_us, now.longest_step = took, step
        tokens = len(ids) if plan.num_tokens is None else sum(plan.num_tokens)
        now.prefill += plan.prefill_tokens
        now.decode += tokens - plan.prefill_tokens
        counts = computed.counts
        if computed.tokens is not None:
            counts = {each: len(new) for each, new in computed.tokens.items()}
        if plan.drafts:
            self._drafted(plan.drafts, counts or {})
        if plan.request_ids is not None:
            self._requests.admitted(ids, plan.at)
        self._requests.sampled(ids, counts, output.at)
        return plan

    def _drafted(
        self, drafts: dict[int, int | list[int]], counts: dict[int, int]
    ) -> None:
        now = self._columns.now
        for request_id, draft in drafts.items():
            now.drafted += draft if isinstance(draft, int) else len(draft)
            now.accepted += max(0, counts.get(request_id, 1) - 1)

    def _owners(
        self, known: list[Request], owner_of: Callable[[Request], str]
    ) -> list[OwnerState]:
        """Returns those with most open requests; all others are the last one."""
        found: dict[str, OwnerState] = {}
        for each in known:
            if each.end:
                continue
            name = owner_of(each)
            owner = found.setdefault(name, OwnerState(name))
            if each.phase in _WAITING:
                owner.waiting += 1
            else:
                owner.running += 1
            owner.blocks += self._blocks.held_by(each.facts.request_id)
        ranked = sorted(found.values(), key=lambda each: -(each.running + each.waiting))
        others = OwnerState(None)
        for left_out in ranked[MOST_TENANTS:]:
            others.running += left_out.running
            others.waiting += left_out.waiting
            others.blocks += left_out.blocks
        return ranked[:MOST_TENANTS] + ([others] if ranked[MOST_TENANTS:] else [])


def _begin(request: Request) -> int:
    return request.facts.at


def _progress(known: list[Request], most: int) -> list[int]:
    found: list[int] = []
    for each in islice((each for each in known if not each.end), most):
        if each.output:
            found += (each.facts.request_id, each.output)
    return found
