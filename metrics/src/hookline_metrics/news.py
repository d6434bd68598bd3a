"""What has happened to extensions since the last output, in parts that metrics read."""

from collections.abc import Iterator

from hookline.sections import Sections
from hookline_metrics.adapters import ADAPTER_NEWS
from hookline_metrics.grammars import GRAMMAR_NEWS
from hookline_metrics.transfer_stats import TRANSFER_NEWS


def news_of(sections: Sections) -> Iterator[object]:
    """Yields the parts of the extensions' news."""
    if grammars := GRAMMAR_NEWS.read(sections):
        yield from grammars.compilings
    if transfers := TRANSFER_NEWS.read(sections):
        yield from transfers.loads
        yield from transfers.events
    if adapters := ADAPTER_NEWS.read(sections):
        yield from adapters.waits
        yield from adapters.loads
        yield from adapters.usages
        if adapters.residency is not None:
            yield adapters
