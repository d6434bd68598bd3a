"""An adapter: what identifies it, and what a request and a worker know of it."""

import msgspec

from hookline.sections import Section
from hookline_metrics.adapters import LORA

UNKNOWN = "model_not_found"
"""Kind of the refusal of requests whose adapter nobody has, or has any more."""


class AdapterRef(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter, as it is known everywhere outside of the workers.

    Attributes:
        name: Name by which requests ask for it.
        digest: SHA-256 over its configuration and weights, in hexadecimal digits. Two
            names of the same files have the same digest.
        path: Folder that it was read from.
        rank: Largest rank of its products.
        alpha: Its `lora_alpha`.
        targets: Names of the layers that it changes, such as `q_proj`, sorted.
        num_bytes: Bytes of its weights in memory.
        base_model_name: The base model that it names; None if it names none.
        is_pinned: Whether it stays in memory.
    """

    name: str
    digest: str
    path: str
    rank: int
    alpha: float
    targets: tuple[str, ...]
    num_bytes: int
    base_model_name: str | None = None
    is_pinned: bool = False


class AdapterUse(msgspec.Struct, frozen=True, array_like=True):
    """A request's section: the adapter that computes it.

    An engine that does not know the digest, because it has been started or joined since
    the adapter was loaded, reads the folder; if that has other content by now, the
    request ends with an error.

    Attributes:
        digest: That of its `AdapterRef`.
        name: Its name, for errors.
        path: Folder that it was read from.
    """

    digest: str
    name: str
    path: str


USE = Section(LORA, AdapterUse)
"""Which adapter computes a request."""
