"""What the scheduler's side, the workers and the front ends tell one another."""

from enum import StrEnum

import msgspec

from hookline.sections import Section
from hookline_lora.adapter import AdapterRef
from hookline_metrics.adapters import LORA, AdapterLevel

# -- scheduler and workers -----------------------------------------------------------


class AdapterOrders(msgspec.Struct, frozen=True, array_like=True):
    """Section of a plan: what workers do with adapters, in the order of the fields.

    Every rank gets the same orders. Reading happens beside the steps; all else before
    the step is computed.

    Attributes:
        drop: Digests whose weights leave main memory.
        load: Path by digest of adapters to read into main memory.
        fill: Digest by slot; a step computes with the adapters in slots only. A slot's
            former adapter leaves it.
    """

    drop: tuple[str, ...] = ()
    load: dict[str, str] = {}
    fill: dict[int, str] = {}


class LoadedWeights(msgspec.Struct, frozen=True, array_like=True):
    """An adapter that has been read into main memory.

    Attributes:
        seconds: How long it took.
        num_bytes: Bytes of its weights there.
    """

    seconds: float
    num_bytes: int


class AdapterReports(msgspec.Struct, frozen=True, array_like=True):
    """Section of a result: which orders to load have ended; of ranks, joined.

    Attributes:
        loaded: By digest.
        failed: Reason by digest.
    """

    loaded: dict[str, LoadedWeights] = {}
    failed: dict[str, str] = {}


ORDERS = Section(LORA, AdapterOrders)
REPORTS = Section(LORA, AdapterReports)

# -- front ends and engines ----------------------------------------------------------


class PrepareAdapter(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Read, check and load an adapter; no request can use it before `CommitAdapters`.

    Answered at once; `ListAdapters` shows how it goes.

    Attributes:
        ticket: Identifies the loading, in all engines.
        name: Name that requests will use.
        path: Folder with its files, which every engine and rank can read.
        base_model_name: The base model that the client names.
        is_pinned: Whether it stays in memory.
    """

    ticket: str
    name: str
    path: str
    base_model_name: str | None = None
    is_pinned: bool = False


class CommitAdapter(msgspec.Struct, frozen=True, tag=True):
    """Let requests use a prepared adapter, in place of one with the same name."""

    ticket: str


class AbandonAdapter(msgspec.Struct, frozen=True, tag=True):
    """Forget a prepared adapter, or one that is being prepared."""

    ticket: str


class UnloadMode(StrEnum):
    """What happens to an adapter's requests when it is unloaded."""

    WAIT = "wait"
    ABORT = "abort"


class UnloadAdapter(msgspec.Struct, frozen=True, tag=True):
    """Accept no new request with an adapter, and free its slot, memory and blocks.

    Answered at once; the adapter is listed as `leaving` until its requests have ended.
    Then its blocks are free. The prefix cache keeps their content until they are used
    for another, like that of all free blocks: nobody finds it unless the same files are
    loaded again.
    """

    name: str
    mode: UnloadMode = UnloadMode.WAIT


class PinAdapter(msgspec.Struct, frozen=True, tag=True):
    """Keep an adapter in memory, or no longer."""

    name: str
    is_pinned: bool = True


class ListAdapters(msgspec.Struct, frozen=True, tag=True):
    """Tell all adapters, and loadings that have not been committed.

    Attributes:
        known: Version of each engine, by its `boot`, whose adapters the asker knows; it
            is answered without adapters while they have not changed.
    """

    known: dict[str, int] = {}


LoraCommand = (
    PrepareAdapter
    | CommitAdapter
    | AbandonAdapter
    | UnloadAdapter
    | PinAdapter
    | ListAdapters
)


class AdapterState(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter of an engine.

    Attributes:
        ref: The adapter.
        level: Where its weights are.
        running: Number of its running requests.
        waiting: Number of its requests that wait, for whatever.
        is_leaving: Whether it takes no new requests and is unloaded after the last.
    """

    ref: AdapterRef
    level: AdapterLevel
    running: int = 0
    waiting: int = 0
    is_leaving: bool = False


class LoadingState(msgspec.Struct, frozen=True, kw_only=True):
    """A loading that has not been committed.

    Attributes:
        ref: What was read; None while it is read, and if that failed.
        is_ready: Whether it can be committed.
        error: Why it failed; None if it did not.
    """

    ref: AdapterRef | None = None
    is_ready: bool = False
    error: str | None = None


class LoraAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to any command.

    Attributes:
        error: Why the command was refused; None if it was not.
        boot: Identifies the process of the engine.
        version: Changes with every change of the engine's adapters.
        adapters: By name.
        loading: By ticket.
    """

    error: str | None = None
    boot: str = ""
    version: int = 0
    adapters: dict[str, AdapterState] = {}
    loading: dict[str, LoadingState] = {}


ANSWER = Section(LORA, LoraAnswer)
