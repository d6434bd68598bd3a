"""The part of a request's record that only the scheduler reads."""

import msgspec


class Needs(msgspec.Struct, frozen=True, array_like=True):
    """What else the scheduler reads of a request.

    Attributes:
        timeout_seconds: Time until its deadline; None without one.
        is_prefill_only: Whether nothing is sampled for it.
        skips_cache: Whether all of its prompt is computed.
        client: Who pays for it, and for whom.
        weight: The payer's share under the policy `fair`.
        is_moved: Whether an engine that has ended has received it.
    """

    timeout_seconds: float | None = None
    is_prefill_only: bool = False
    skips_cache: bool = False
    client: tuple[str, str] = ("", "")
    weight: float = 1.0
    is_moved: bool = False


NO_NEEDS = Needs()
