"""Options that several benchmarks have."""

from hookline_bench.random_prompts import PromptShape
from hookline_server.cli.parser import Kind, Option
from hookline_server.cli.values import number, whole

BENCHMARK = "benchmark"
PROMPTS = "prompts"

_SHAPE = PromptShape()

SHAPE_OPTIONS = (
    Option(
        flag="random-input-len",
        target="bench.shape.input_tokens",
        group=PROMPTS,
        parse=whole,
        metavar="TOKENS",
        help="length of each prompt, besides the common prefix",
        default=str(_SHAPE.input_tokens),
    ),
    Option(
        flag="random-output-len",
        target="bench.shape.output_tokens",
        group=PROMPTS,
        parse=whole,
        metavar="TOKENS",
        help="tokens asked for",
        default=str(_SHAPE.output_tokens),
    ),
    Option(
        flag="random-range-ratio",
        target="bench.shape.range_ratio",
        group=PROMPTS,
        parse=number,
        metavar="RATIO",
        help="draw both lengths from (1 − RATIO) to (1 + RATIO) times these",
        default=f"{_SHAPE.range_ratio:g}",
    ),
    Option(
        flag="random-prefix-len",
        target="bench.shape.prefix_tokens",
        group=PROMPTS,
        parse=whole,
        metavar="TOKENS",
        help="so many tokens more, the same at the beginning of all prompts",
        default=str(_SHAPE.prefix_tokens),
    ),
)

NUM_PROMPTS = Option(
    flag="num-prompts",
    target="bench.num_prompts",
    group=PROMPTS,
    parse=whole,
    metavar="COUNT",
    help="requests to send",
    default="1000",
)

OUTPUT_JSON = Option(
    flag="output-json",
    target="bench.output_json",
    group="output",
    metavar="FILE",
    help="also write the result there, as JSON",
)

DISABLE_TQDM = Option(
    flag="disable-tqdm",
    target="bench.disable_tqdm",
    group="output",
    kind=Kind.FLAG,
    help="draw no progress bar",
)
