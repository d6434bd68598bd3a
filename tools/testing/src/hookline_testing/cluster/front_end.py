"""A front end of a simulated cluster: the product's, over links that take time."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice, product
from string import ascii_lowercase
from typing import TypeVar

from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hookline.clock import VirtualClock
from hookline.config import EngineConfig, ObserverConfig
from hookline.engine.commands import Command
from hookline.frontend.client_request import Deliver
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.observation import Observers
from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.tokenizer import Tokenizer
from hookline.transport.engine_client import EngineInfo, Received
from hookline_cluster.config import ClusterConfig, LoadBalancing
from hookline_cluster.extension import extend
from hookline_metrics import Recorder
from hookline_processes.tokenizer_texts import byte_level_alphabet
from hookline_testing.simulation import VOCAB_SIZE

T = TypeVar("T")
Post = Callable[[int, Command], None]
"""Takes the index of an engine, and a command for it."""


class LinkedClient:
    """An `EngineClient` whose messages go through the simulation's events."""

    owns_engines = True
    """No other client tells of deaths, and its observers hear of engines, too."""

    def __init__(
        self, index: int, engines: Mapping[int, EngineInfo], post: Post
    ) -> None:
        self.index = index
        self.owns_engines = index == 0
        self.engines = engines
        self._post = post
        self._arrived: deque[Received] = deque()

    @property
    def dropped(self) -> int:
        return 0

    def capability(self, kind: type[T]) -> T | None:
        del kind
        return None

    def send(self, engine_index: int, command: Command) -> None:
        self._post(engine_index, command)

    def arrive(self, received: Received) -> None:
        """Takes a message from an engine, which `receive` returns."""
        self._arrived.append(received)

    def receive(self, timeout_seconds: float) -> Received | None:
        del timeout_seconds
        return self._arrived.popleft() if self._arrived else None

    def close(self) -> None:
        self._arrived.clear()


class SimulatedFrontEnd:
    """Submits token prompts, and takes in what has arrived.

    Attributes:
        front_end: The product's front end.
    """

    def __init__(
        self,
        client: LinkedClient,
        balancing: LoadBalancing,
        clock: VirtualClock,
        *,
        tokenizer: Tokenizer,
        recorder: Recorder | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        config = EngineConfig(
            observers=ObserverConfig(stat_loggers=()),
            sections={"cluster": ClusterConfig(load_balancing=balancing)},
        )
        self.front_end = FrontEnd(
            client,
            tokenizer,
            Observers(config, recorder),
            extend=partial(extend, config),
            clock=clock,
        )

    def submit(
        self, prompt: list[int], max_tokens: int, client: str, deliver: Deliver
    ) -> int:
        """Submits a request that has just arrived; returns its engine's index."""
        prepared = self.front_end.prepare(
            prompt,
            SamplingParams(max_tokens=max_tokens, ignore_eos=True),
            facts=RequestFacts(tenant=client),
        )
        request = self.front_end.submit(
            prepared, deliver, arrived_at=self._clock.now(), is_streamed=False
        )
        return request.engine_index

    def take(self, received: Received) -> None:
        """Takes in an engine's message, as the receiving thread and the loop do."""
        self._client.arrive(received)
        while (each := self._client.receive(0.0)) is not None:
            self.front_end.engines.heard(each)
            self.front_end.on_message(each)


def thousand_tokens() -> Tokenizer:
    """Returns a byte-level tokenizer with as many tokens as simulated cores have."""
    vocabulary = byte_level_alphabet()
    for letters in islice(product(ascii_lowercase, repeat=3), VOCAB_SIZE - 256):
        vocabulary["".join(letters)] = len(vocabulary)
    inner = FastTokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=inner))
