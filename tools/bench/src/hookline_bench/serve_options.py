"""The options of `hookline bench serve`."""

from hookline_bench.arrivals import RampUp
from hookline_bench.client import Backend
from hookline_bench.options import NUM_PROMPTS, PROMPTS, SHAPE_OPTIONS
from hookline_bench.report_options import REPORT_OPTIONS, RESULT_OPTIONS
from hookline_bench.serve_settings import ServeSettings
from hookline_bench.values import fields, pair, rate
from hookline_server.cli.parser import Kind, Option
from hookline_server.cli.values import number, whole

SERVER = "server"
LOAD = "load"

_DEFAULTS = ServeSettings()

SERVER_UNDER_TEST = (
    Option(
        flag="base-url",
        target="bench.base_url",
        group=SERVER,
        metavar="URL",
        help="the server, without the path; rather than host and port",
    ),
    Option(
        flag="host",
        target="bench.host",
        group=SERVER,
        help="of the server",
        default=_DEFAULTS.host,
    ),
    Option(
        flag="port",
        target="bench.port",
        group=SERVER,
        parse=whole,
        help="of the server",
        default=str(_DEFAULTS.port),
    ),
    Option(
        flag="backend",
        target="bench.backend",
        group=SERVER,
        choices=tuple(Backend),
        help="completions or chat",
        default=_DEFAULTS.backend,
    ),
    Option(
        flag="endpoint",
        target="bench.endpoint",
        group=SERVER,
        metavar="PATH",
        help="of the API (default: the backend's usual one)",
    ),
    Option(
        flag="model",
        target="bench.model",
        group=SERVER,
        metavar="NAME",
        help="what the server calls the model (default: the first that it lists)",
    ),
    Option(
        flag="header",
        target="bench.headers",
        group=SERVER,
        kind=Kind.MAP,
        parse=pair,
        metavar="KEY=VALUE",
        help="a header of every request; may be repeated; with OPENAI_API_KEY in the "
        "environment there is one for it",
    ),
    Option(
        flag="extra-body",
        target="bench.extra_body",
        group=SERVER,
        kind=Kind.MAP,
        parse=fields,
        metavar="JSON",
        help="fields of every request, as a JSON object; may be repeated",
    ),
    Option(
        flag="ready-check-timeout-sec",
        target="bench.ready_check_timeout",
        group=SERVER,
        parse=number,
        metavar="SECONDS",
        help="wait so long for a first good answer; 0 does not ask for one",
        default=f"{_DEFAULTS.ready_check_timeout:g}",
    ),
)

PROMPT_OPTIONS = (
    NUM_PROMPTS,
    *SHAPE_OPTIONS,
    Option(
        flag="tokenizer",
        target="bench.tokenizer",
        group=PROMPTS,
        metavar="FOLDER",
        help="a folder with tokenizer.json, or an installed model (default: the model)",
    ),
    Option(
        flag="prompt-token-ids",
        target="bench.prompt_token_ids",
        group=PROMPTS,
        kind=Kind.FLAG,
        help="send token ids rather than text, which spares the server's tokenizer",
    ),
    Option(
        flag="temperature",
        target="bench.temperature",
        group=PROMPTS,
        parse=number,
        metavar="NUMBER",
        help="of every request (default: the server's)",
    ),
    Option(
        flag="ignore-eos",
        target="bench.ignore_eos",
        group=PROMPTS,
        kind=Kind.SWITCH,
        help="ask the server to generate past the end of the text (default: yes)",
    ),
    Option(
        flag="continuous-usage",
        target="bench.continuous_usage",
        group=PROMPTS,
        kind=Kind.FLAG,
        help="ask the server how many tokens each chunk brings",
    ),
    Option(
        flag="seed",
        target="bench.seed",
        group=PROMPTS,
        parse=whole,
        help="of prompts and arrivals",
        default=str(_DEFAULTS.seed),
    ),
)

LOAD_OPTIONS = (
    Option(
        flag="request-rate",
        target="bench.arrivals.request_rate",
        group=LOAD,
        parse=rate,
        metavar="RPS",
        help="requests a second; inf sends all at once",
        default="inf",
    ),
    Option(
        flag="burstiness",
        target="bench.arrivals.burstiness",
        group=LOAD,
        parse=number,
        metavar="SHAPE",
        help="of the gamma distribution of the gaps: 1 is a Poisson process, less "
        "comes in bursts, more is regular",
        default="1",
    ),
    Option(
        flag="ramp-up-strategy",
        target="bench.arrivals.ramp_up_strategy",
        group=LOAD,
        choices=tuple(RampUp),
        help="change the rate from the first request to the last",
    ),
    Option(
        flag="ramp-up-start-rps",
        target="bench.arrivals.ramp_up_start_rps",
        group=LOAD,
        parse=number,
        metavar="RPS",
        help="rate of the first request",
    ),
    Option(
        flag="ramp-up-end-rps",
        target="bench.arrivals.ramp_up_end_rps",
        group=LOAD,
        parse=number,
        metavar="RPS",
        help="rate of the last request",
    ),
    Option(
        flag="max-concurrency",
        target="bench.max_concurrency",
        group=LOAD,
        parse=whole,
        metavar="REQUESTS",
        help="most requests open at once (default: no limit)",
    ),
    Option(
        flag="num-warmups",
        target="bench.num_warmups",
        group=LOAD,
        parse=whole,
        metavar="COUNT",
        help="requests that are sent before and not measured",
        default=str(_DEFAULTS.num_warmups),
    ),
)

SERVE_BENCH_OPTIONS = (
    *SERVER_UNDER_TEST,
    *PROMPT_OPTIONS,
    *LOAD_OPTIONS,
    *REPORT_OPTIONS,
    *RESULT_OPTIONS,
)
