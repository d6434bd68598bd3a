"""A front end whose engines come and go, driven by a test."""

from functools import partial
from pathlib import Path

from hookline.config import CacheConfig, EngineConfig, ExecutorConfig, ModelConfig
from hookline.frontend.client_request import Delivery
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.observation import Observers
from hookline.sampling_params import SamplingParams
from hookline.tokenizer import Tokenizer
from hookline_cluster.config import ClusterConfig, LoadBalancing
from hookline_cluster.extension import ClusterExtension
from hookline_cluster.scaling.engine_scaling import EngineScaling
from hookline_metrics import Family, Recorder
from hookline_simulated.config import SimulationConfig
from hookline_testing.elastic_engines import InprocElasticClient

MOST_TURNS = 20_000


class ElasticFrontEnd:
    """A front end whose engines come and go, driven by a test.

    Attributes:
        client: Starts engines when the test says so.
        extension: Has the front end follow them.
        scaling: Adds and removes them.
        news: What each request's client got.
        sizes: For whoever wants to note the number of engines.
    """

    def __init__(
        self, folder: Path, balancing: LoadBalancing = LoadBalancing.SCORE
    ) -> None:
        """Starts one engine of the model in a folder, simulated."""
        config = EngineConfig(
            model=ModelConfig(model=str(folder)),
            cache=CacheConfig(num_kv_blocks=64),
            executor=ExecutorConfig(name="simulated"),
            sections={
                "simulated": SimulationConfig(
                    step_seconds=0.0002, decode_request_seconds=0.0
                ),
                "cluster": ClusterConfig(load_balancing=balancing),
            },
        )
        self.client = InprocElasticClient(config)
        self.recorder = Recorder(config)
        self.front_end = FrontEnd(
            self.client,
            Tokenizer.load(folder),
            Observers(config, self.recorder),
            extend=partial(ClusterExtension, config, follows_saturation=True),
        )
        assert isinstance(self.front_end.extension, ClusterExtension)
        self.extension = self.front_end.extension
        assert isinstance(self.extension.scaling, EngineScaling)
        self.scaling = self.extension.scaling
        self.news: list[list[Delivery]] = []
        self.sizes: list[int] = []

    def submit(self, max_tokens: int = 4, to: int | None = None) -> int:
        """Submits a request; returns the index of its engine."""
        self.news.append([])
        prepared = self.front_end.prepare(
            [3 + len(self.news), *[4] * 40],
            SamplingParams(max_tokens=max_tokens, ignore_eos=True),
        )
        return self.front_end.submit(
            prepared, self.news[-1].append, arrived_at=0, is_streamed=False, to=to
        ).engine_index

    def take(self) -> None:
        """Takes in what has come."""
        if (received := self.client.receive(0.001)) is not None:
            self.front_end.on_message(received)

    def grow(self, number: int) -> None:
        """Brings the engines to a greater number, whose starts succeed."""
        self.scaling.want(number)
        self.client.get_ready()
        self.drive()

    def drive(self) -> None:
        """Takes everything in until all requests have ended and nobody leaves."""
        for _ in range(MOST_TURNS):
            self.take()
            state, are_open = self.scaling.state, self.front_end.engines.num_unconfirmed
            if not (are_open or state.leaving or state.starting):
                return
        raise AssertionError(f"{self.scaling.state} goes on")

    @property
    def ends(self) -> list[type]:
        """What each client got last, by its class."""
        return [type(each[-1]) for each in self.news]

    def totals(self, name: str) -> dict[str, float]:
        """Sums of a family's samples by engine."""
        found: dict[str, float] = {}
        for family in self.recorder.snapshot():
            if family.name == name:
                _add_up(family, found)
        return found


def _add_up(family: Family, sums: dict[str, float]) -> None:
    place = family.label_names.index("engine")
    for sample in family.samples:
        assert isinstance(sample.value, float)
        engine = sample.labels[place]
        sums[engine] = sums.get(engine, 0.0) + sample.value
