"""The options that make an `EngineConfig`, shared by `serve` and `generate`."""

from dataclasses import fields
from enum import StrEnum

from hookline.config import (
    CacheConfig,
    Device,
    Dtype,
    EngineConfig,
    ExecutorConfig,
    HashAlgorithm,
    Kernels,
    LoadFormat,
    ModelConfig,
    Policy,
    SchedulerConfig,
    SimulationConfig,
)
from hookline_server.cli.metrics_options import METRICS_OPTIONS
from hookline_server.cli.observer_options import (
    CACHE,
    OBSERVER_OPTIONS,
    RESIDENCY_OPTIONS,
)
from hookline_server.cli.parser import Kind, Option
from hookline_server.cli.values import (
    kv_events,
    kv_transfer,
    number,
    size,
    speculation,
    whole,
)

MODEL = "model"
SCHEDULER = "scheduler"
EXECUTOR = "executor"

SIMULATION_HELP = {
    "step_seconds": "simulated cost of a step",
    "prefill_token_seconds": "simulated cost of a prompt token",
    "decode_request_seconds": "simulated cost of a decoding request",
    "context_token_seconds": "simulated cost of a token of context",
    "draft_token_seconds": "simulated cost of a draft token that is verified",
}

_MODEL = ModelConfig()
_CACHE = CacheConfig()
_SCHEDULER = SchedulerConfig()


def _words(kind: type[StrEnum]) -> tuple[str, ...]:
    return tuple(member.value for member in kind)


MODEL_OPTIONS = (
    Option(
        flag="model",
        target="config.model.model",
        group=MODEL,
        metavar="MODEL",
        help="a folder with config.json, or the name of an installed model",
        default=_MODEL.model,
    ),
    Option(
        flag="served-model-name",
        target="config.model.served_model_name",
        group=MODEL,
        metavar="NAME",
        help="what clients call the model (default: its own name)",
    ),
    Option(
        flag="tokenizer",
        target="config.model.tokenizer",
        group=MODEL,
        metavar="FOLDER",
        help="a folder with a tokenizer (default: the model's)",
    ),
    Option(
        flag="dtype",
        target="config.model.dtype",
        group=MODEL,
        choices=_words(Dtype),
        help="of weights and KV cache; auto takes the checkpoint's",
        default=_MODEL.dtype,
    ),
    Option(
        flag="load-format",
        target="config.model.load_format",
        group=MODEL,
        choices=_words(LoadFormat),
        help="dummy makes random weights from config.json",
        default=_MODEL.load_format,
    ),
    Option(
        flag="max-model-len",
        target="config.model.max_model_len",
        group=MODEL,
        parse=whole,
        metavar="TOKENS",
        help="longest prompt plus output (default: the model's)",
    ),
    Option(
        flag="seed",
        target="config.model.seed",
        group=MODEL,
        parse=whole,
        help="for dummy weights and for requests without a seed",
        default=str(_MODEL.seed),
    ),
)

CACHE_OPTIONS = (
    Option(
        flag="block-size",
        target="config.cache.block_size",
        group=CACHE,
        parse=whole,
        metavar="TOKENS",
        help="tokens a block",
        default=str(_CACHE.block_size),
    ),
    Option(
        flag="num-kv-blocks",
        target="config.cache.num_kv_blocks",
        group=CACHE,
        parse=whole,
        metavar="BLOCKS",
        help="size of the pool in blocks (default: from the memory)",
    ),
    Option(
        flag="kv-cache-memory",
        target="config.cache.kv_cache_memory",
        group=CACHE,
        parse=size,
        metavar="SIZE",
        help="size of the pool as memory, such as 512MiB or 2GiB",
    ),
    Option(
        flag="kv-cache-prefault",
        target="config.cache.kv_cache_prefault",
        group=CACHE,
        parse=size,
        metavar="SIZE",
        help="memory of the pool to have ready soon after the start; 0 for none",
        default="1GiB",
    ),
    Option(
        flag="gpu-memory-utilization",
        target="config.cache.gpu_memory_utilization",
        group=CACHE,
        parse=number,
        metavar="SHARE",
        help="of a GPU's memory for weights, activations and the pool, where neither "
        "blocks nor memory are given; no effect on cpu",
        default=str(_CACHE.gpu_memory_utilization),
    ),
    Option(
        flag="enable-prefix-caching",
        target="config.cache.enable_prefix_caching",
        group=CACHE,
        kind=Kind.SWITCH,
        help="reuse the blocks of equal prefixes (default: yes)",
    ),
    Option(
        flag="prefix-caching-hash-algo",
        target="config.cache.hash_algorithm",
        group=CACHE,
        choices=_words(HashAlgorithm),
        help="of the blocks' chained hashes",
        default=_CACHE.hash_algorithm,
    ),
)

SCHEDULER_OPTIONS = (
    Option(
        flag="max-num-seqs",
        target="config.scheduler.max_num_seqs",
        group=SCHEDULER,
        parse=whole,
        metavar="REQUESTS",
        help="most requests in one step",
        default=str(_SCHEDULER.max_num_seqs),
    ),
    Option(
        flag="max-num-queued-reqs",
        target="config.scheduler.max_num_queued_reqs",
        group=SCHEDULER,
        parse=whole,
        metavar="REQUESTS",
        help="a server refuses requests beyond these with 503",
        default=str(_SCHEDULER.max_num_queued_reqs),
    ),
    Option(
        flag="max-num-batched-tokens",
        target="config.scheduler.max_num_batched_tokens",
        group=SCHEDULER,
        parse=whole,
        metavar="TOKENS",
        help="token budget of one step",
        default=str(_SCHEDULER.max_num_batched_tokens),
    ),
    Option(
        flag="enable-chunked-prefill",
        target="config.scheduler.enable_chunked_prefill",
        group=SCHEDULER,
        kind=Kind.SWITCH,
        help="compute a long prompt over several steps (default: yes)",
    ),
    Option(
        flag="long-prefill-token-threshold",
        target="config.scheduler.long_prefill_token_threshold",
        group=SCHEDULER,
        parse=whole,
        metavar="TOKENS",
        help="most prompt tokens of one request a step (default: the budget)",
    ),
    Option(
        flag="scheduling-policy",
        target="config.scheduler.policy",
        group=SCHEDULER,
        choices=_words(Policy),
        help="who is admitted first, and preempted last",
        default=_SCHEDULER.policy,
    ),
    Option(
        flag="async-scheduling",
        target="config.scheduler.async_scheduling",
        group=SCHEDULER,
        kind=Kind.SWITCH,
        help="plan the next step while one is computed (default: no)",
    ),
    Option(
        flag="speculative-config",
        target="config.speculative",
        group=SCHEDULER,
        parse=speculation,
        metavar="JSON",
        help="guess tokens and verify many at once, such as "
        '{"method": "ngram", "num_speculative_tokens": "auto"} (default: no)',
    ),
    Option(
        flag="kv-transfer-config",
        target="config.kv_transfer",
        group=SCHEDULER,
        parse=kv_transfer,
        metavar="JSON",
        help="have a plugin bring KV from elsewhere, and save it there, such as "
        '{"kv_connector": "shared_storage"} (default: no)',
    ),
    Option(
        flag="kv-events-config",
        target="config.kv_events",
        group=SCHEDULER,
        parse=kv_events,
        metavar="JSON",
        help="publish what the prefix cache gains and loses, such as "
        '{"enable_kv_cache_events": true} (default: no)',
    ),
)

EXECUTOR_OPTIONS = (
    Option(
        flag="engine",
        target="config.engine",
        group=EXECUTOR,
        metavar="NAME",
        help="an installed engine",
        default=EngineConfig().engine,
    ),
    Option(
        flag="in-process",
        target="config.in_process",
        group=EXECUTOR,
        kind=Kind.SWITCH,
        help="run the engine core in this process rather than in one of its own "
        "(default: no for serve, yes for generate)",
    ),
    Option(
        flag="executor",
        target="config.executor.name",
        group=EXECUTOR,
        metavar="NAME",
        help="an installed executor; simulated runs no model",
        default=ExecutorConfig().name,
    ),
    Option(
        flag="device",
        target="config.executor.device",
        group=EXECUTOR,
        choices=_words(Device),
        help="where the model runs; auto takes a GPU if torch finds one",
        default=Device.AUTO,
    ),
    Option(
        flag="enforce-eager",
        target="config.executor.enforce_eager",
        group=EXECUTOR,
        kind=Kind.SWITCH,
        help="on a GPU, use no CUDA graphs (default: no); no effect on cpu",
    ),
    Option(
        flag="threads",
        target="config.executor.threads",
        group=EXECUTOR,
        parse=whole,
        metavar="COUNT",
        help="torch's threads for one operation (default: one for small models, else "
        "torch's choice)",
    ),
    Option(
        flag="kernels",
        target="config.executor.kernels",
        group=EXECUTOR,
        choices=_words(Kernels),
        help="auto: the quickest that this machine has; torch: modules of transformers "
        "and plain tensor operations, the reference",
        default=Kernels.AUTO,
    ),
    *(
        Option(
            flag=f"simulated-{field.name.replace('_', '-')}",
            target=f"config.executor.simulation.{field.name}",
            group=EXECUTOR,
            parse=number,
            metavar="SECONDS",
            help=SIMULATION_HELP[field.name],
            default=str(field.default),
        )
        for field in fields(SimulationConfig)
    ),
)

CONFIG_FILE = Option(
    flag="config",
    target="run.config",
    group="configuration file",
    metavar="FILE",
    help="a YAML file with these options, without the dashes in front; "
    "the command line wins",
)

ENGINE_OPTIONS = (
    *MODEL_OPTIONS,
    *CACHE_OPTIONS,
    *RESIDENCY_OPTIONS,
    *SCHEDULER_OPTIONS,
    *EXECUTOR_OPTIONS,
    *OBSERVER_OPTIONS,
    *METRICS_OPTIONS,
    CONFIG_FILE,
)
