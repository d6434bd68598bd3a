"""What `hookline bench serve` is asked to do."""

from dataclasses import dataclass, field

from hookline.exceptions import ConfigError
from hookline_bench.arrivals import Arrivals
from hookline_bench.client import ENDPOINTS, Backend
from hookline_bench.random_prompts import PromptShape
from hookline_bench.serve_numbers import LATENCY_METRICS

OBJECTIVES = ("ttft", "tpot", "e2el")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Options of the command; wrong ones raise `ConfigError`.

    Attributes:
        base_url: Of the server; made of host and port where it is not given.
        endpoint: Path of the API; the backend's own by default.
        model: What the server calls it; the first that it lists by default.
        tokenizer: A folder, or an installed model; the model by default.
        shape: How long the requests are.
        prompt_token_ids: Send token ids rather than text.
        temperature: The server's default where it is not given.
        continuous_usage: Ask the server how many tokens each chunk brings.
        arrivals: When they are sent.
        goodput: Objectives in milliseconds.
    """

    base_url: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    backend: Backend = Backend.OPENAI
    endpoint: str | None = None
    model: str | None = None
    tokenizer: str | None = None
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    extra_body: dict[str, object] = field(default_factory=dict)
    ready_check_timeout: float = 600.0
    num_prompts: int = 1000
    shape: PromptShape = field(default_factory=PromptShape)
    prompt_token_ids: bool = False
    temperature: float | None = None
    ignore_eos: bool = True
    continuous_usage: bool = False
    seed: int = 0
    num_warmups: int = 0
    arrivals: Arrivals = field(default_factory=Arrivals)
    max_concurrency: int | None = None
    percentile_metrics: tuple[str, ...] = ("ttft", "tpot", "itl")
    metric_percentiles: tuple[float, ...] = (99.0,)
    goodput: dict[str, float] = field(default_factory=dict)
    save_result: bool = False
    save_detailed: bool = False
    result_dir: str = "."
    result_filename: str | None = None
    label: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    disable_tqdm: bool = False

    def __post_init__(self) -> None:
        _at_least("num-prompts", self.num_prompts, 1)
        _at_least("max-concurrency", self.max_concurrency, 1)
        _at_least("num-warmups", self.num_warmups, 0)
        _at_least("seed", self.seed, 0)
        _at_least("ready-check-timeout-sec", self.ready_check_timeout, 0)
        if not self.root.startswith(("http://", "https://")):
            raise ConfigError("base-url", f"{self.root!r} does not begin with http://")
        if self.prompt_token_ids and self.backend is Backend.OPENAI_CHAT:
            raise ConfigError("prompt-token-ids", "a chat takes text only")
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name in self.percentile_metrics:
            if name not in LATENCY_METRICS:
                known = ", ".join(LATENCY_METRICS)
                detail = f"there is no metric {name!r}; there is {known}"
                raise ConfigError("percentile-metrics", detail)
        if not all(0 <= each <= 100 for each in self.metric_percentiles):
            raise ConfigError("metric-percentiles", "must be 0 to 100")
        for name, most in self.goodput.items():
            if name not in OBJECTIVES:
                known = ", ".join(OBJECTIVES)
                detail = f"there is no objective {name!r}; there is {known}"
                raise ConfigError("goodput", detail)
            if most < 0:
                raise ConfigError("goodput", f"{name} must not be negative")

    @property
    def root(self) -> str:
        """The server's URL."""
        return (self.base_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def url(self) -> str:
        """Where requests go."""
        return self.root + (self.endpoint or ENDPOINTS[self.backend])

    @property
    def fields(self) -> dict[str, object]:
        """What is put into every request."""
        if self.temperature is None:
            return self.extra_body
        return {"temperature": self.temperature, **self.extra_body}


def _at_least(option: str, value: float | None, least: float) -> None:
    if value is not None and not value >= least:
        raise ConfigError(option, f"must be at least {least:g}, not {value:g}")
