"""Describes an adapter, without keeping its weights."""

import logging
from pathlib import Path, PurePath

import msgspec

from hookline_lora.adapter import AdapterRef
from hookline_lora.config import LoraConfig
from hookline_lora.files.header import ITEM_BYTES, Place
from hookline_lora.files.layout import opened
from hookline_lora.files.matching import Targets
from hookline_lora.files.numbers import are_finite, pieces
from hookline_lora.pacing import Rest, no_rest

_logger = logging.getLogger(__name__)


class AdapterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an adapter's files say.

    Attributes:
        digest: SHA-256 over all that its outputs depend on, in hexadecimal digits.
        rank: Largest rank of its products; 0 if it has only whole weights.
        alpha: Its `lora_alpha`.
        targets: Names of the layers that it changes, such as `q_proj`, sorted.
        num_bytes: Bytes of its weights in memory.
        base_model_name: The base model that it names; None if it names none.
    """

    digest: str
    rank: int
    alpha: float
    targets: tuple[str, ...]
    num_bytes: int
    base_model_name: str | None

    def named(
        self,
        name: str,
        path: str,
        *,
        base_model_name: str | None = None,
        is_pinned: bool = False,
    ) -> AdapterRef:
        """Returns the adapter under a name; a given base model is preferred."""
        return AdapterRef(
            name=name,
            digest=self.digest,
            path=path,
            rank=self.rank,
            alpha=self.alpha,
            targets=self.targets,
            num_bytes=self.num_bytes,
            base_model_name=base_model_name or self.base_model_name,
            is_pinned=is_pinned,
        )


def describe_adapter(
    path: Path,
    *,
    targets: Targets,
    config: LoraConfig,
    number_bytes: int | None = None,
    base: str | None = None,
    rest: Rest = no_rest,
) -> AdapterFacts:
    """Checks an adapter's files, every number included, and describes them.

    Takes as long as reading the files, on one thread; the interpreter's lock is free
    most of the time. Needs a few MiB of memory, whatever their size.

    Args:
        path: The adapter's folder.
        targets: (in, out) features of the base's modules that can have adapters, by
            their full names, such as `model.layers.0.self_attn.q_proj`; of an embedding
            (vocabulary, width).
        config: Limits of ranks and layers.
        number_bytes: Bytes of a number in memory; None for those in the file.
        base: The base model's name or path; a warning is logged if the adapter names
            another.
        rest: Called after each piece of work.

    Raises:
        AdapterError: It cannot be used with this base.
    """
    with opened(path, targets, config) as layout:
        digest = layout.started_digest()
        for name, place in layout.places():
            for _, bits in pieces(layout.file, place, rest):
                if not are_finite(bits, place.dtype):
                    raise ValueError(f"{name} has numbers that are infinite or NaN")
                digest.update(bits.data)
        peft = layout.config
        if base is not None:
            _warn_of_another_base(path, peft.base_model_name, base)
        return AdapterFacts(
            digest=digest.hexdigest(),
            rank=max((each.rank for each in layout.products), default=0),
            alpha=peft.alpha,
            targets=layout.changed(),
            num_bytes=sum(
                _bytes_of(place, number_bytes) for _, place in layout.places()
            ),
            base_model_name=peft.base_model_name,
        )


def _bytes_of(place: Place, number_bytes: int | None) -> int:
    stored = ITEM_BYTES[place.dtype]
    return place.num_bytes // stored * (number_bytes or stored)


def _warn_of_another_base(path: Path, named: str | None, base: str) -> None:
    """Names of the same model end alike, wherever it is."""
    if named is None or _last(named) == _last(base):
        return
    _logger.warning(
        "the adapter %s names the base model %s; it is served with %s, whose layers "
        "have the same shapes",
        path,
        named,
        base,
    )


def _last(name: str) -> str:
    return PurePath(name.replace("\\", "/")).name.lower()
