"""The settings of `hookline bench serve`."""

import math
from dataclasses import dataclass

from hookline.config.options import check_options, option, section
from hookline.config.readers import parse_object
from hookline.exceptions import ConfigError
from hookline_bench.arrivals import Arrivals
from hookline_bench.client import ENDPOINTS, Backend
from hookline_bench.datasets.settings import DatasetSettings
from hookline_bench.options import DISABLE_TQDM, NUM_PROMPTS, PROMPTS
from hookline_bench.random_prompts import PromptShape
from hookline_bench.result_settings import ResultSettings
from hookline_bench.serve_numbers import LATENCY_METRICS
from hookline_bench.values import goodput, pair
from hookline_processes.addresses import (
    LARGEST_PORT,
    AddressError,
    read_host,
    read_url,
    url_of,
)
from hookline_processes.proxies import proxy_for
from hookline_registry.spelling import unknown

OBJECTIVES = ("ttft", "tpot", "e2el")

_HOST, _PORT = "127.0.0.1", 8000
_SERVER = "server"
_LOAD = "load"
_REPORT = "report"
_RESULT = "result file"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Options of the command; wrong ones raise `ConfigError`."""

    base_url: str | None = option(
        "URL of the server, without the path; takes precedence over host and port.",
        default=None,
        group=_SERVER,
        metavar="URL",
    )
    host: str = option(
        "Host of the server.", default=_HOST, group=_SERVER, read=read_host
    )
    port: int = option(
        "Port of the server.",
        default=_PORT,
        group=_SERVER,
        minimum=1,
        maximum=LARGEST_PORT,
    )
    backend: Backend = option(
        "API to use: completions or chat.", default=Backend.OPENAI, group=_SERVER
    )
    endpoint: str | None = option(
        "Path of the API.",
        default=None,
        group=_SERVER,
        metavar="PATH",
        shown_default="the backend's",
    )
    model: str | None = option(
        "Model name in requests.",
        default=None,
        group=_SERVER,
        metavar="NAME",
        shown_default="the first that the server lists",
    )
    headers: dict[str, str] = option(
        "Header of every request. OPENAI_API_KEY in the environment sets the "
        "bearer token.",
        default_factory=dict,
        repr=False,
        flag="header",
        group=_SERVER,
        read=pair,
    )
    extra_body: dict[str, object] = option(
        "Additional fields of every request, as a JSON object.",
        default_factory=dict,
        group=_SERVER,
        read=parse_object,
        json=True,
    )
    ready_check_timeout: float = option(
        "Maximum time to wait for a first successful response; 0 skips the check.",
        default=600.0,
        flag="ready-check-timeout-sec",
        group=_SERVER,
        metavar="SECONDS",
        minimum=0,
    )
    num_prompts: int = NUM_PROMPTS()
    dataset: DatasetSettings = section(PROMPTS, DatasetSettings)
    shape: PromptShape = section(PROMPTS, PromptShape)
    tokenizer: str | None = option(
        "Folder with tokenizer.json, or an installed model.",
        default=None,
        group=PROMPTS,
        metavar="FOLDER",
        shown_default="the model",
    )
    prompt_token_ids: bool = option(
        "Send token ids instead of text, which the server need not tokenize.",
        default=False,
        group=PROMPTS,
    )
    temperature: float | None = option(
        "Sampling temperature of every request.",
        default=None,
        group=PROMPTS,
        metavar="NUMBER",
        shown_default="the server's",
    )
    ignore_eos: bool = option(
        "Ask the server to generate past the end-of-sequence token.",
        default=True,
        group=PROMPTS,
    )
    continuous_usage: bool = option(
        "Ask the server for the number of tokens in each chunk.",
        default=False,
        group=PROMPTS,
    )
    seed: int = option(
        "Random seed of prompts and arrivals.", default=0, group=PROMPTS, minimum=0
    )
    arrivals: Arrivals = section(_LOAD, Arrivals)
    max_concurrency: int | None = option(
        "Maximum number of concurrent requests.",
        default=None,
        group=_LOAD,
        metavar="REQUESTS",
        minimum=1,
        shown_default="no limit",
    )
    num_warmups: int = option(
        "Number of requests before the measured ones.",
        default=0,
        group=_LOAD,
        metavar="COUNT",
        minimum=0,
    )
    percentile_metrics: tuple[str, ...] = option(
        f"Latencies to report, of {', '.join(LATENCY_METRICS)}.",
        default=("ttft", "tpot", "itl"),
        group=_REPORT,
        metavar="NAME,…",
        commas=True,
    )
    metric_percentiles: tuple[float, ...] = option(
        "Percentiles of each latency.",
        default=(99.0,),
        group=_REPORT,
        metavar="NUMBER,…",
        commas=True,
    )
    goodput: dict[str, float] = option(
        "Objectives in milliseconds that good requests meet, such as ttft:200 "
        "tpot:30 e2el:5000.",
        default_factory=dict,
        group=_REPORT,
        metavar="NAME:MS",
        read=goodput,
    )
    disable_tqdm: bool = DISABLE_TQDM()
    result: ResultSettings = section(_RESULT, ResultSettings)

    def __post_init__(self) -> None:
        check_options(self)
        try:
            read_url(self.root)
            read_url(self.url)
            proxy_for(self.url)
        except AddressError as error:
            given = "base-url" if self.base_url else "host"
            raise ConfigError(given, str(error)) from error
        if self.prompt_token_ids and self.backend is Backend.OPENAI_CHAT:
            raise ConfigError("prompt-token-ids", "chat requests can only carry text")
        if self.dataset.has_times and not self.arrivals.is_at_once:
            detail = f"the requests of {self.dataset.name} have times of their own"
            raise ConfigError("request-rate", detail)
        self.dataset.check_shape(self.shape)
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name in self.percentile_metrics:
            if name not in LATENCY_METRICS:
                detail = unknown("metric", name, LATENCY_METRICS)
                raise ConfigError("percentile-metrics", detail)
        if not all(0 <= each <= 100 for each in self.metric_percentiles):
            raise ConfigError("metric-percentiles", "must be 0 to 100")
        for name, most in self.goodput.items():
            if name not in OBJECTIVES:
                detail = unknown("objective", name, OBJECTIVES)
                raise ConfigError("goodput", detail)
            if most < 0:
                raise ConfigError("goodput", f"{name} must be at least 0")

    @property
    def is_addressed(self) -> bool:
        """Whether the address of a server is given."""
        return bool(self.base_url) or (self.host, self.port) != (_HOST, _PORT)

    @property
    def start_seconds(self) -> float:
        """How long to wait for a server that is started here."""
        return self.ready_check_timeout or math.inf

    @property
    def root(self) -> str:
        """URL of the server."""
        return (self.base_url or url_of(self.host, self.port)).rstrip("/")

    @property
    def url(self) -> str:
        """URL of the requests."""
        return self.root + (self.endpoint or ENDPOINTS[self.backend])

    @property
    def proxy(self) -> str | None:
        """URL of the proxy between here and the server; None for none."""
        return proxy_for(self.url)

    @property
    def fields(self) -> dict[str, object]:
        """Additional fields of every request."""
        if self.temperature is None:
            return self.extra_body
        return {"temperature": self.temperature, **self.extra_body}
