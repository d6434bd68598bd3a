"""What it costs a step that several processes compute it."""

import msgspec


class RankUse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The ranks of one step; times are in ns.

    Attributes:
        exchange_ns: Time that the output rank spent on exchanges with the other ranks
            of its stage, waiting for them included.
        handover_ns: Time in which no rank could compute it: its plan was on its way to
            the ranks, or its result to the engine.
        expert_tokens: Number of pairs of a token and an expert that each rank computed,
            by rank, if each has whole experts; otherwise empty.
        expert_busiest_tokens: Number of such pairs that its ranks could have computed
            in the time of the busiest one, of any engine that shares the experts.
        expert_wait_ns: Time that the output rank waited for ranks of all engines that
            share the experts; 0 if no other engine does.
    """

    exchange_ns: int = 0
    handover_ns: int = 0
    expert_tokens: tuple[int, ...] = ()
    expert_busiest_tokens: int = 0
    expert_wait_ns: int = 0


NO_RANKS = RankUse()
