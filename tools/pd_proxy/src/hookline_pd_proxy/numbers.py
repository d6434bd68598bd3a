"""The proxy's counters, and its page of metrics."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hookline_gateway.upstreams.instance import Instance
from hookline_pd_proxy.pools import Role
from hookline_pd_proxy.proxied_request import Plain

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)


class Endpoint(StrEnum):
    """Endpoint of a request."""

    COMPLETIONS = "completions"
    CHAT = "chat"
    OTHER = "other"


class Outcome(StrEnum):
    """Outcome of a request for its client."""

    COMPLETED = "completed"
    REFUSED = "refused"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    NO_INSTANCE = "no_instance"
    DEADLINE = "deadline"
    BROKEN = "broken"
    CLIENT_LEFT = "client_left"


class Fallback(StrEnum):
    """Why no prefill instance computed a prompt that was meant for one."""

    NO_INSTANCE = "no_instance"
    UNREACHABLE = "unreachable"
    DEADLINE = "deadline"
    FAILED = "failed"
    REFUSED = "refused"
    MALFORMED = "malformed"


class Release(StrEnum):
    """How a release of KV that nobody takes ended, at one prefill instance."""

    DONE = "done"
    UNKNOWN = "unknown"
    FAILED = "failed"


Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]
"""Suffix of the family's name, labels, and value."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric; its name is without the common prefix."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


class Histogram:
    """A histogram of seconds, as Prometheus defines it."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def samples(self) -> Iterator[Sample]:
        total = 0
        limits = (*(f"{bound:g}" for bound in self._bounds), "+Inf")
        for limit, count in zip(limits, self._counts, strict=True):
            total += count
            yield "_bucket", (("le", limit),), total
        yield "_sum", (), self._sum
        yield "_count", (), total


class Numbers:
    """Counters of one proxy; all label values come from fixed lists."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[Endpoint, Outcome]] = Counter()
        self._fallbacks: Counter[Fallback] = Counter()
        self._plain: Counter[Plain] = Counter()
        self._retries: Counter[Role] = Counter()
        self._releases: Counter[Release] = Counter()
        self._prefill = Histogram(SECONDS)
        self._first_token = Histogram(SECONDS)
        self._whole = Histogram(SECONDS)

    def ended(self, endpoint: Endpoint, outcome: Outcome) -> None:
        """Counts a finished request."""
        self._requests[endpoint, outcome] += 1

    def prefilled(self, seconds: float) -> None:
        """Records the time of a successful prefill, all attempts together."""
        self._prefill.observe(seconds)

    def first_token(self, seconds: float) -> None:
        """Records the time to a stream's first event, from its request's arrival."""
        self._first_token.observe(seconds)

    def completed(self, seconds: float) -> None:
        """Records the time of a completed request, from arrival to its last byte."""
        self._whole.observe(seconds)

    def released(self, outcome: Release) -> None:
        """Counts the end of a release."""
        self._releases[outcome] += 1

    def fell_back(self, reason: Fallback) -> None:
        """Counts a failed prefill, which a decode instance takes over."""
        self._fallbacks[reason] += 1

    def went_plain(self, reason: Plain) -> None:
        """Counts a prompt that is sent directly to a decode instance."""
        self._plain[reason] += 1

    def retried(self, role: Role) -> None:
        """Counts an attempt after the first one."""
        self._retries[role] += 1

    def page(self, instances: Sequence[Instance]) -> str:
        """Renders the metrics in Prometheus' text format."""
        return "".join(map(_written, (*self._counted(), *_states(instances))))

    def _counted(self) -> Iterator[Family]:
        yield Family(
            "requests_total",
            "counter",
            "Number of requests by endpoint and outcome.",
            (
                ("", (("endpoint", one), ("outcome", end)), self._requests[one, end])
                for one in Endpoint
                for end in Outcome
            ),
        )
        yield Family(
            "prefill_seconds",
            "histogram",
            "Time of successful prefills in seconds, all attempts together.",
            self._prefill.samples(),
        )
        yield Family(
            "time_to_first_token_seconds",
            "histogram",
            "Time from a request's arrival to the first event of its stream, both "
            "phases together, in seconds.",
            self._first_token.samples(),
        )
        yield Family(
            "request_seconds",
            "histogram",
            "Time from a completed request's arrival to the end of its response, in "
            "seconds.",
            self._whole.samples(),
        )
        yield Family(
            "releases_total",
            "counter",
            "Number of releases of KV that no decode instance took, by outcome.",
            (("", (("outcome", one),), self._releases[one]) for one in Release),
        )
        yield Family(
            "fallbacks_total",
            "counter",
            "Number of failed prefills that a decode instance took over, by cause.",
            (("", (("reason", one),), self._fallbacks[one]) for one in Fallback),
        )
        yield Family(
            "plain_total",
            "counter",
            "Number of requests sent directly to a decode instance, by reason.",
            (("", (("reason", one),), self._plain[one]) for one in Plain),
        )
        yield Family(
            "retries_total",
            "counter",
            "Number of attempts after the first one.",
            (("", (("role", one),), self._retries[one]) for one in Role),
        )


def _states(instances: Sequence[Instance]) -> Iterator[Family]:
    named = [((("role", one.role), ("instance", one.name)), one) for one in instances]
    yield Family(
        "instance_up",
        "gauge",
        "1 if the instance receives requests, otherwise 0.",
        (("", labels, each.is_up) for labels, each in named),
    )
    yield Family(
        "in_flight",
        "gauge",
        "Number of the proxy's open requests at the instance.",
        (("", labels, each.in_flight) for labels, each in named),
    )
    yield Family(
        "busy_seconds_total",
        "counter",
        "Time of the proxy's requests at the instance, in sum; its rate is their mean "
        "number.",
        (("", labels, each.busy_seconds) for labels, each in named),
    )
    yield Family(
        "instance_requests",
        "gauge",
        "Running and waiting requests of the instance, those of others included.",
        (("", labels, each.requests) for labels, each in named),
    )
    yield Family(
        "instance_kv_cache_usage_ratio",
        "gauge",
        "Fraction of the instance's KV cache in use.",
        (("", labels, each.kv_usage) for labels, each in named),
    )
    yield Family(
        "instance_saturation_ratio",
        "gauge",
        "Load of the instance relative to its saturation point, if it tells.",
        (
            ("", labels, each.saturation)
            for labels, each in named
            if each.saturation is not None
        ),
    )


def _written(family: Family) -> str:
    name = f"hookline_route_{family.name}"
    lines = [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
    for suffix, labels, value in family.samples:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
        block = f"{{{inside}}}" if inside else ""
        lines.append(f"{name}{suffix}{block} {float(value)!r}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
