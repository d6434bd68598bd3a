"""Command lines as vLLM's users type them."""

from importlib import import_module
from operator import attrgetter

import pytest

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError, RequestError
from hookline.sampling_params import GuidedDecodingParams, SamplingParams
from hookline_kv_transfer import KVTransferConfig
from hookline_server.cli import main
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.arguments import (
    Arguments,
    engine_config,
    read_arguments,
)
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.options.peers import ADVICE
from hookline_server.cli.options.server import server_options
from hookline_server.cli.options.spelling import respelt
from hookline_testing.table_walk import for_each_row

OPTIONS = [*server_options(), *engine_options()]
PARSER = make_parser("serve", "Serves.", OPTIONS, operand="model")


def read(*argv: str) -> Arguments:
    return read_arguments(
        "serve", "Serves.", OPTIONS, argv, default_loggers=("logging",), operand="model"
    )


def config(*argv: str) -> EngineConfig:
    return engine_config(read(*argv), in_process=False)


@pytest.mark.parametrize(
    "argv",
    [
        ("folder", "--max-num-seqs", "4"),
        ("--max-num-seqs=4", "folder"),
        ("--max-num-seqs", "4", "folder"),
        ("--model", "folder", "--max-num-seqs", "4"),
        ("--max_num_seqs", "4", "--model", "folder", "folder"),
    ],
)
def test_a_model_needs_no_flag(argv: tuple[str, ...]) -> None:
    """The model may stand before and behind options; underscores are dashes."""
    made = config(*argv)

    assert made.model.model == "folder"
    assert made.scheduler.max_num_seqs == 4


def test_keys_of_json_options_are_options() -> None:
    """Keys join the option's JSON and win; texts need no quotes, lists grow by `+`."""
    made = config(
        "--speculative-config.method",
        "ngram",
        "--speculative_config",
        '{"method": "other", "num_speculative_tokens": 2, "prompt": {"b": 1, "c": 2}}',
        "--speculative-config.num_speculative_tokens=3",
        "--speculative-config.prompt.b=true",
        "--speculative-config.words+=first",
        "--speculative-config.words+",
        "second",
    ).speculative

    assert made is not None
    assert made == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt": {"b": True, "c": 2},
        "words": ["first", "second"],
    }


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("SharedStorageConnector", "shared_storage"),
        ("NixlConnector", "p2p"),
        ("OffloadingConnector", "cpu_offload"),
        ("of_the_users", "of_the_users"),
    ],
)
def test_connectors_have_the_names_of_vllm(theirs: str, ours: str) -> None:
    """vLLM's names mean the connector that does the same; others stay as they are."""
    made = config(f"--kv-transfer-config.kv_connector={theirs}").kv_transfer

    assert made is not None
    assert KVTransferConfig.from_mapping(made).kv_connector == ours
    assert KVTransferConfig(kv_connector=theirs).section() == {"kv_connector": ours}


def test_examples_of_vllm_run_as_written() -> None:
    """Former names of structured outputs, and a connector with its role as a word."""
    choice = ["Positive", "Negative"]
    guided = GuidedDecodingParams(choice=choice)  # type: ignore[arg-type]
    params = SamplingParams(guided_decoding=guided)
    transfer = import_module("hookline.config").KVTransferConfig(
        kv_connector="SharedStorageConnector",
        kv_role="kv_producer",
        kv_connector_extra_config={"shared_storage_path": "local_storage"},
    )

    assert params == SamplingParams(structured_outputs=guided)
    assert params.guided_decoding is None
    assert (transfer.kv_connector, transfer.loads) == ("shared_storage", False)
    with pytest.raises(RequestError, match="not both"):
        SamplingParams(guided_decoding=guided, structured_outputs=guided)
    with pytest.raises(ConfigError, match="kv_role must be one of"):
        KVTransferConfig.from_mapping({"kv_connector": "x", "kv_role": "both"})


@pytest.mark.parametrize(
    ("argv", "field", "value"),
    [
        ("--max-model-len 1k", "model.max_model_len", 1000),
        ("--max-model-len 1K", "model.max_model_len", 1024),
        ("--max-model-len 1.5k", "model.max_model_len", 1500),
        ("--max-model-len auto", "model.max_model_len", None),
        ("--max-model-len -1", "model.max_model_len", None),
        ("--dtype half", "model.dtype", "float16"),
        ("--kv-cache-memory-bytes 8G", "cache.kv_cache_memory", 8 * 2**30),
        ("--kv-cache-memory 8g", "cache.kv_cache_memory", 8 * 10**9),
        ("--num-gpu-blocks-override 7", "cache.num_kv_blocks", 7),
        ("--long-prefill-token-threshold 0", "scheduler.enable_chunked_prefill", True),
        ("--no-enable-lora --disable-log-requests", "model.model", "demo"),
        ("--nnodes 1 --tokenizer-mode auto", "model.model", "demo"),
        ("--load-format auto", "model.load_format", "safetensors"),
        (
            "--kv-offloading-size 0.5 --kv-offloading-backend native",
            "kv_transfer",
            {
                "kv_connector": "cpu_offload",
                "kv_connector_extra_config": {"cpu_bytes_to_use": 2**29},
            },
        ),
        (
            "--spec-method ngram --spec-tokens 3",
            "speculative",
            {"method": "ngram", "num_speculative_tokens": 3},
        ),
    ],
)
def test_values_mean_what_vllm_means(argv: str, field: str, value: object) -> None:
    """Words, units, other names and what is so anyway."""
    assert attrgetter(field)(config(*argv.split())) == value


def test_short_names_and_disabled_statistics() -> None:
    """`-tp 1` is one rank, and no logger is in use after `--disable-log-stats`."""
    arguments = read("-tp", "1", "--disable-log-stats")

    assert (
        engine_config(arguments, in_process=False).parallel == EngineConfig().parallel
    )
    assert arguments.loggers == ()


def test_experts_are_whole_by_a_short_name() -> None:
    """`-ep`, with at least two ranks, of one engine or of two."""
    made = engine_config(read("-tp", "2", "-ep"), in_process=False)

    several = engine_config(read("-ep", "-dp", "2"), in_process=False)

    assert made.parallel.enable_expert_parallel
    assert (made.spreads_experts, several.spreads_experts) == (False, True)
    with pytest.raises(ConfigError, match="enable-expert-parallel: requires tensor"):
        engine_config(read("-ep"), in_process=False)


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ("a b", "unrecognized arguments: a b; did you mean --model a?"),
        ("a --model b", "a and --model b contradict each other"),
        ("a --max-num-seq 3", "--max-num-seq; did you mean --max-num-seqs?"),
        ("--speculative-config.method", "expected one argument"),
        (
            "--speculative-config.a=1 --speculative-config.a.b=1",
            "a has a value already",
        ),
        ("--speculative-config.a=1 --speculative-config.a+=1", "a is not a list"),
        ("--speculative-config x --speculative-config.a=1", "'x' is not a JSON object"),
        (
            "--in-process --speculative-config.methods x",
            "unknown key 'methods'; did you mean method?",
        ),
        ("a --max-tenant 3", "--max-tenant; did you mean --max-tenants?"),
        ("a --max-lones 3", "unrecognized arguments: --max-lones"),
        ("a --dtype-of-x 3", "unrecognized arguments: --dtype-of-x"),
        ("--dtype.a=1", "unrecognized arguments: --dtype.a; did you mean --dtype?"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    argv: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each mistake ends with one line that names it."""
    assert main(["serve", *argv.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(complaint)


@for_each_row("flag", ADVICE)
def test_options_of_other_engines_get_advice(flag: str) -> None:
    """An option of vLLM or SGLang that is missing here is answered by what to use."""
    with pytest.raises(UsageError, match="is not an option of Hookline: "):
        parse(PARSER, respelt([f"--{flag}=?"], OPTIONS))
    assert flag not in {each.flag for each in OPTIONS}
