"""How labels, numbers and descriptions are written, in text and in OpenMetrics."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from prometheus_client.utils import floatToGoString

from hookline.metrics import Exemplar, Family, Kind
from hookline_prometheus.exposition import MediaType

LARGEST_PLAIN = 999_999
"""Larger whole numbers get an exponent."""

LONGEST_EXEMPLAR = 128
"""Characters of an exemplar's labels, names included; OpenMetrics allows no more."""

number: Callable[[float], str] = floatToGoString
"""Writes a number as Go and prometheus_client do."""

Pairs = Sequence[tuple[str, str]]
"""Labels by name, their values escaped."""


def count(value: int) -> str:
    """The same for a whole number from 0 on, which most are, and faster."""
    return f"{value}.0" if value <= LARGEST_PLAIN else number(value)


def escaped(value: str) -> str:
    """A label's value between its quotes, the same in every format.

    Bytes that were not UTF-8 stand in Python strings as halves of a character. They
    can be written by no page, so they are told by their numbers.
    """
    if not value.isascii():
        value = value.encode(errors="backslashreplace").decode()
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def label_pairs(names: Sequence[str], values: Sequence[str]) -> Pairs:
    """The labels of a series, in the order in which they are written."""
    return sorted(zip(names, map(escaped, values), strict=True))


def label_block(pairs: Pairs) -> str:
    """Labels in their braces; nothing where there are none."""
    inside = ",".join(f'{name}="{value}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def bucket_blocks(pairs: Pairs, bounds: Sequence[float]) -> Sequence[str]:
    """The same for each bucket of a histogram: with `le`, in its place."""
    place = bisect_left(pairs, ("le",))
    before = "".join(f'{name}="{value}",' for name, value in pairs[:place])
    after = "".join(f',{name}="{value}"' for name, value in pairs[place:])
    limits = (*map(number, bounds), "+Inf")
    return [f'{{{before}le="{limit}"{after}}}' for limit in limits]


def exemplar_part(exemplar: Exemplar) -> str:
    """What follows a bucket's number; nothing for a trace id that is too long."""
    if len("trace_id") + len(exemplar.trace_id) > LONGEST_EXEMPLAR:
        return ""
    labels = label_block([("trace_id", escaped(exemplar.trace_id))])
    return f" # {labels} {number(exemplar.value)} {exemplar.at}"


def header(family: Family, media_type: MediaType) -> str:
    """The lines that describe a family."""
    name, unit = family.name, family.unit
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    if media_type is not MediaType.OPENMETRICS:
        # Here a counter's family is called as its samples are.
        name = f"{name}_total" if family.kind is Kind.COUNTER else name
        return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"
    text = text.replace('"', r"\"")
    lines = f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"
    # A unit is legal only where the name ends with it.
    return f"{lines}# UNIT {name} {unit}\n" if name.endswith(f"_{unit}") else lines
