"""KV connectors: both sides around an engine that computes nothing."""

from collections.abc import Mapping
from typing import cast

from hookline.clock import VirtualClock
from hookline.config import EngineConfig
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline_kv_transfer.capabilities import SchedulerCapabilities, WorkerCapabilities
from hookline_kv_transfer.config import KVTransferConfig
from hookline_kv_transfer.connector import SchedulerConnector, WorkerConnector
from hookline_kv_transfer.context import ConnectorContext
from hookline_kv_transfer.messages import TransferResults
from hookline_registry import Failure
from hookline_testing.conformance.subject import Subject
from hookline_testing.conformance.watched import Watched
from hookline_testing.connected_core import connected_core
from hookline_testing.connectors import DictStore

_PROMPTS = (range(3, 30), range(3, 30), range(40, 51))
_TOKENS = 4


def check(subject: Subject) -> None:
    """Makes both sides, runs requests with equal prompts, and watches each call."""
    subject.refuses_unknown(lambda options: _context(subject, "scheduler", options))
    sides = [
        subject.create(context=_context(subject, role, subject.options))
        for role in ("scheduler", "worker")
    ]
    protocols = (SchedulerConnector, WorkerConnector)
    if None in sides or not all(map(subject.has, sides, protocols)):
        return
    kinds = (SchedulerCapabilities, WorkerCapabilities)
    for side, kind in zip(sides, kinds, strict=True):
        subject.typed(
            getattr(side, "capabilities", None), kind, "capabilities", type(side)
        )
    if subject.faults:
        return
    scheduler, worker = (Watched(each) for each in sides)
    ran = subject.call("the run of an engine", _run, scheduler, worker)
    for side in (scheduler, worker):
        for name, error in side.errors.items():
            subject.raised(name, error)
    if not isinstance(ran, Failure):
        _check_values(subject, scheduler, worker)


def _context(
    subject: Subject, role: str, options: Mapping[str, object]
) -> ConnectorContext:
    transfer = KVTransferConfig(
        kv_connector=subject.name, kv_connector_extra_config=dict(options)
    )
    return ConnectorContext(
        role=role, config=EngineConfig(), transfer=transfer, options=options
    )


def _run(scheduler: Watched, worker: Watched) -> None:
    """Runs requests one after another, so that the second can load the first's KV."""

    def sides(
        store: DictStore, clock: VirtualClock
    ) -> tuple[SchedulerConnector, WorkerConnector]:
        del store, clock
        return cast("SchedulerConnector", scheduler), cast("WorkerConnector", worker)

    connected = connected_core(DictStore(), sides=sides)
    for number, prompt in enumerate(_PROMPTS, 1):
        params = SamplingParams(max_tokens=_TOKENS, ignore_eos=True)
        connected.core.add(
            GenerateRequest(
                request_id=number, prompt_token_ids=list(prompt), params=params
            )
        )
        connected.run()
    connected.core.close()


def _check_values(subject: Subject, scheduler: Watched, worker: Watched) -> None:
    kind = scheduler.kind
    for value in scheduler.values("get_num_new_matched_tokens"):
        what = "what get_num_new_matched_tokens returns"
        code = getattr(kind, "get_num_new_matched_tokens", None)
        if subject.typed(value, tuple[int, bool], what, code):
            number, _ = cast("tuple[int, bool]", value)
            if number < 0:
                subject.fault(f"{what}: {number} tokens", code)
    for value in scheduler.values("build_connector_meta"):
        payload = getattr(value, "payload", b"")
        code = getattr(kind, "build_connector_meta", None)
        subject.typed(payload, bytes, "ConnectorMetadata.payload", code)
    for value in scheduler.values("request_finished"):
        wanted = tuple[bool, Mapping[str, object] | None]
        code = getattr(kind, "request_finished", None)
        subject.typed(value, wanted, "what request_finished returns", code)
    for value in worker.values("get_finished"):
        code = getattr(worker.kind, "get_finished", None)
        subject.typed(value, TransferResults, "what get_finished returns", code)
