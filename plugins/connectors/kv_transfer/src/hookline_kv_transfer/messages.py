"""Messages between the engine and the two sides of a KV connector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hookline.request import RequestFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorRequest:
    """A request as connectors see it; nothing in it can be changed.

    Attributes:
        request_id: Internal id, unique among the live requests.
        token_ids: Prompt, then output so far.
        num_prompt_tokens: Number of prompt tokens.
        num_computed_tokens: Number of tokens whose K and V are in the request's blocks.
        block_hashes: Hashes of the full blocks of `token_ids`, chained, so that each
            covers all tokens up to its end; equal in every engine with the same block
            size and hash algorithm.
        facts: Client, tenant and priority of the request.
        kv_transfer_params: The client's parameters for the connector.
    """

    request_id: int
    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    num_computed_tokens: int
    block_hashes: tuple[bytes, ...]
    facts: RequestFacts
    kv_transfer_params: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Blocks allocated for tokens that a connector offered.

    Attributes:
        transfer_id: Number of the transfer; unique.
        request_id: Id of the request.
        block_ids: Blocks to fill, in order.
        block_hashes: Hashes of their content.
        is_async: Whether the request waits for the load while others are computed;
            otherwise the load is part of the step that starts it.
    """

    transfer_id: int
    request_id: int
    block_ids: tuple[int, ...]
    block_hashes: tuple[bytes, ...]
    is_async: bool


@dataclass(frozen=True, slots=True)
class BlockContent:
    """A full block of the prefix cache.

    Attributes:
        block_id: Id of the block.
        block_hash: Hash of its content.
    """

    block_id: int
    block_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A step's effects on blocks, besides its loads.

    Attributes:
        written: Blocks that the step fills and caches; valid until the step ends.
        evicted: Blocks that the step overwrites; valid until its first load starts.
        spoilt: Hashes of blocks that turned out to hold wrong keys and values after
            they had been cached: what is stored of them must not be loaded.
        cancelled: Loads and saves that the engine cancelled, maybe before they started.
    """

    written: tuple[BlockContent, ...] = ()
    evicted: tuple[BlockContent, ...] = ()
    spoilt: tuple[bytes, ...] = ()
    cancelled: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectorMetadata:
    """Orders of the scheduler's side for the worker's side in one step.

    Attributes:
        payload: Bytes in the connector's own format.
    """

    payload: bytes


@dataclass(frozen=True, slots=True)
class FailedTransfer:
    """A load or a save that did not succeed.

    Attributes:
        transfer_id: Number of the transfer.
        reason: The connector's reason, as a label value: use few different ones.
        num_loaded_blocks: Number of leading blocks of a load that are valid.
    """

    transfer_id: int
    reason: str
    num_loaded_blocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResults:
    """Transfers that ended since the last call.

    Attributes:
        loaded: Loads whose blocks are all filled.
        saved: Saves whose blocks may be freed.
        failed: Failed loads and saves.
        incidents: Failures that belong to no transfer: number by reason, a label value.
        payload: Bytes for `update_connector_output` of the scheduler's side; empty if
            there is nothing to report.
    """

    loaded: Sequence[int] = ()
    saved: Sequence[int] = ()
    failed: Sequence[FailedTransfer] = ()
    incidents: Mapping[str, int] = field(default_factory=dict)
    payload: bytes = b""
