"""Chooses the content coding of a scrape from its Accept-Encoding header."""

from collections.abc import Mapping

from hookline_prometheus.accept import parse

GZIP = "gzip"


def accepts_gzip(accept_encoding: str) -> bool:
    """Tells whether the client accepts gzip and does not prefer no coding to it.

    A client without the header gets no coding, because many do not decode any.
    """
    quality_of = {each.name: each.quality for each in parse(accept_encoding)}
    gzip = _quality(quality_of, GZIP, "x-gzip")
    return gzip > 0 and gzip >= _quality(quality_of, "identity")


def _quality(quality_of: Mapping[str, float], *names: str) -> float:
    named = [quality_of[name] for name in names if name in quality_of]
    return max(named, default=quality_of.get("*", 0.0))
