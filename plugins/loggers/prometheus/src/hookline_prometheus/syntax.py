"""Syntax of labels, numbers and headers in classic text and in OpenMetrics."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from prometheus_client.utils import floatToGoString

from hookline_metrics import Exemplar, Family, Kind
from hookline_prometheus.exposition import MediaType

LARGEST_PLAIN = 999_999
"""Largest integer written without an exponent."""

LONGEST_EXEMPLAR = 128
"""OpenMetrics' limit on the characters of an exemplar's labels, names included."""

number: Callable[[float], str] = floatToGoString
"""Formats a number as Go and prometheus_client do."""

Pairs = Sequence[tuple[str, str]]
"""Labels by name, their values escaped."""


def count(value: int) -> str:
    """Formats a non-negative integer like `number`, but faster."""
    return f"{value}.0" if value <= LARGEST_PLAIN else number(value)


def escaped(value: str) -> str:
    """Escapes a label value, alike in every format.

    Lone surrogates, which stand for bytes that were not UTF-8, cannot be encoded; they
    are written as backslash escapes.
    """
    if not value.isascii():
        value = value.encode(errors="backslashreplace").decode()
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def label_pairs(names: Sequence[str], values: Sequence[str]) -> Pairs:
    """Returns the escaped labels of a series, sorted by name."""
    return sorted(zip(names, map(escaped, values), strict=True))


def label_block(pairs: Pairs) -> str:
    """Formats labels in braces; empty without labels."""
    inside = ",".join(f'{name}="{value}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def bucket_blocks(pairs: Pairs, bounds: Sequence[float]) -> Sequence[str]:
    """Formats labels in braces for each bucket, with `le` in its sorted place."""
    place = bisect_left(pairs, ("le",))
    before = "".join(f'{name}="{value}",' for name, value in pairs[:place])
    after = "".join(f',{name}="{value}"' for name, value in pairs[place:])
    limits = (*map(number, bounds), "+Inf")
    return [f'{{{before}le="{limit}"{after}}}' for limit in limits]


def exemplar_labels(exemplar: Exemplar) -> Pairs:
    """Returns an exemplar's labels; none if OpenMetrics forbids their length."""
    pairs = [("span_id", exemplar.span_id), ("trace_id", exemplar.trace_id)]
    known = [(name, value) for name, value in pairs if value]
    is_legal = sum(len(name) + len(value) for name, value in known) <= LONGEST_EXEMPLAR
    return known if is_legal else []


def exemplar_part(exemplar: Exemplar) -> str:
    """Formats a bucket's exemplar; empty if its labels are too long."""
    pairs = exemplar_labels(exemplar)
    if not pairs:
        return ""
    labels = label_block([(name, escaped(value)) for name, value in pairs])
    return f" # {labels} {number(exemplar.value)} {exemplar.at}"


def header(family: Family, media_type: MediaType) -> str:
    """Formats a family's HELP, TYPE and UNIT lines."""
    name, unit = family.name, family.unit
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    if media_type is not MediaType.OPENMETRICS:
        # In classic text a counter's family has the name of its samples.
        name = f"{name}_total" if family.kind is Kind.COUNTER else name
        return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"
    text = text.replace('"', r"\"")
    lines = f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"
    # A unit is allowed only if the name ends with it.
    return f"{lines}# UNIT {name} {unit}\n" if name.endswith(f"_{unit}") else lines
