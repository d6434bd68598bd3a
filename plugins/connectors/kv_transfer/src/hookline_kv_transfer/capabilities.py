"""Optional calls that the two sides of a KV connector can implement."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerCapabilities:
    """Declared by the scheduler's side; read once, when it is made.

    Attributes:
        receives_payloads: Whether it takes `TransferResults.payload` of the worker's
            side; it must then be a `ReceivingConnector`.
        has_tiers: Whether it reports statistics of storage tiers; it must then be a
            `TieredConnector`.
        tells_tier_events: Whether it also tells what happens in its tiers; it must then
            be a `TierEventConnector`.
        resets_cache: Whether it can drop what it keeps; it must then be a
            `ResettableConnector`.
        hit_source: Where all tokens that it loads come from: `host`, `disk` or `p2p`;
            empty if that is not known, or if its tiers tell.
    """

    receives_payloads: bool = False
    has_tiers: bool = False
    tells_tier_events: bool = False
    resets_cache: bool = False
    hit_source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCapabilities:
    """Declared by the worker's side; read once, when it is made.

    Attributes:
        needs_layers: Whether `wait_for_layer_load` and `save_kv_layer` are called
            around each layer's attention. Decode steps are faster without.
        works_in_ranks: Whether it works where several ranks share the layers. Each rank
            then has a worker's side of its own, with the blocks of its own heads, and
            another fingerprint. All get the same metadata. A transfer has ended once it
            has on all ranks; the scheduler's side gets the layout and the payloads of
            one of them.
        works_on_machines: Whether it also works where these ranks are on several
            machines.
    """

    needs_layers: bool = True
    works_in_ranks: bool = False
    works_on_machines: bool = False
