"""What the engine and the two sides of a KV connector tell one another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hookline.request import RequestFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorRequest:
    """A request as connectors see it; nothing of it may be changed.

    Attributes:
        request_id: Internal id, unique among the live requests.
        token_ids: Prompt, then output so far.
        num_prompt_tokens: Of these, the prompt.
        num_computed_tokens: So many have their K and V in the request's blocks.
        block_hashes: Of the full blocks of `token_ids`, chained, so that each stands
            for all tokens up to its end; equal in every engine with the same block
            size and hash algorithm.
        facts: Who asked.
        kv_transfer_params: What came with the request for the connector.
    """

    request_id: int
    token_ids: Sequence[int]
    num_prompt_tokens: int
    num_computed_tokens: int
    block_hashes: Sequence[bytes]
    facts: RequestFacts
    kv_transfer_params: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Blocks that were set aside for tokens which a connector offered.

    Attributes:
        transfer_id: Its number, never used again.
        request_id: For whom.
        block_ids: Where they go, in order.
        block_hashes: What goes there.
        is_async: Whether the request waits until it is reported, while others are
            computed; else it is part of the step that it is ordered with.
    """

    transfer_id: int
    request_id: int
    block_ids: Sequence[int]
    block_hashes: Sequence[bytes]
    is_async: bool


@dataclass(frozen=True, slots=True)
class BlockContent:
    """A full block of the prefix cache.

    Attributes:
        block_id: Where it is.
        block_hash: What is there.
    """

    block_id: int
    block_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """What a step does to blocks, beside the loads that were told before.

    Attributes:
        written: Blocks that are full, and findable, once the step is computed. Their
            content stays until the step has ended.
        evicted: Blocks that this step will overwrite. Their content is there until the
            first load of the step is started.
        cancelled: Loads and saves that the engine has given up, some of them perhaps
            before they began.
    """

    written: Sequence[BlockContent] = ()
    evicted: Sequence[BlockContent] = ()
    cancelled: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class ConnectorMetadata:
    """What the scheduler's side tells the worker's side for one step.

    Attributes:
        payload: The connector's own, such as msgpack.
    """

    payload: bytes


@dataclass(frozen=True, slots=True)
class FailedTransfer:
    """A load or a save that did not succeed.

    Attributes:
        transfer_id: Which.
        reason: A word of the connector's own; few different ones, for they are counted.
        num_loaded_blocks: Of a load, so many blocks from its first are filled rightly.
    """

    transfer_id: int
    reason: str
    num_loaded_blocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResults:
    """Transfers that reached their end since the last question.

    Attributes:
        loaded: Loads whose blocks are filled, all of them.
        saved: Saves whose blocks may be freed.
        failed: Both kinds.
        incidents: What else has gone wrong, and is no transfer's: how often, by reason;
            few different ones, for they are counted.
        payload: The connector's own, such as msgpack, for `update_connector_output` of
            the scheduler's side; empty if it has nothing to tell.
    """

    loaded: Sequence[int] = ()
    saved: Sequence[int] = ()
    failed: Sequence[FailedTransfer] = ()
    incidents: Mapping[str, int] = field(default_factory=dict)
    payload: bytes = b""
