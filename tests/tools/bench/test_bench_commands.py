"""`hookline bench` from end to end."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from hookline_bench import BENCHMARKS
from hookline_bench.compare import CompareSettings
from hookline_bench.latency import LatencySettings
from hookline_bench.serve import divided, joined_objectives
from hookline_bench.serve_settings import ServeSettings
from hookline_bench.startup import StartupSettings
from hookline_bench.sweep import SweepSettings
from hookline_bench.throughput import ThroughputSettings
from hookline_server.cli import main
from hookline_server.cli.options.derived import derived
from hookline_testing.scripted_server import FakeEngine, client_of
from hookline_testing.table_walk import for_each_row

QUICK = ["--executor=simulated", "--simulated-step-seconds=0", "--disable-tqdm"]
SETTINGS = (
    *(ServeSettings, LatencySettings, ThroughputSettings, StartupSettings),
    *(CompareSettings, SweepSettings),
)
FLAGS = {option.flag for kind in SETTINGS for option in derived(kind, "bench")}
PERCENTAGES = ["10", "25", "50", "75", "90", "99"]
MODEL = ["--model=demo", "--ready-check-timeout-sec=0"]
SHORT = ["--random-input-len=8", "--random-output-len=5", "--disable-tqdm"]


def test_latency_reports_average_and_percentiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    `bench latency` prints the field's lines and writes its fields.
    """
    file = tmp_path / "latency.json"
    argv = ["--num-iters=3", "--num-iters-warmup=1", "--output-len=4"]

    status = main(["bench", "latency", *argv, f"--output-json={file}", *QUICK])

    first, *lines = capsys.readouterr().out.splitlines()
    result = json.loads(file.read_text())
    assert status == 0
    assert first == f"Avg latency: {result['avg_latency']} seconds"
    assert lines == [
        f"{each}% percentile latency: {result['percentiles'][each]} seconds"
        for each in PERCENTAGES
    ]
    assert result["model_id"] == "demo"
    assert len(result["latencies"]) == 3
    assert len(result["prefill_times"]) == len(result["decode_times"]) == 3
    for phase in ("queue_times", "prefill_times", "decode_times"):
        assert all(0 <= each <= max(result["latencies"]) for each in result[phase])


def test_latency_has_the_names_of_vllm_s_example(tmp_path: Path) -> None:
    """`--input-tokens` and `--output_tokens` are the lengths, with `=` or without."""
    file = tmp_path / "latency.json"
    argv = ["--input-tokens", "8", "--output_tokens=5", "--batch-size=2"]
    short = ["--num-iters=1", "--num-iters-warmup=0", f"--output-json={file}"]

    assert main(["bench", "latency", *argv, *short, *QUICK]) == 0
    assert len(json.loads(file.read_text())["latencies"]) == 1


def test_throughput_takes_the_prompts_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ShareGPT's conversations have their own lengths; too long ones are left out."""
    short, long = "How are you today, my friend?", "word " * 400
    replied = "I am well today, thank you."
    turns = [(short, replied), (long, replied), (short, replied)]
    entries = [
        {"conversations": [{"value": asked}, {"value": replied}]}
        for asked, replied in turns
    ]
    dataset, file = tmp_path / "sharegpt.json", tmp_path / "out.json"
    dataset.write_text(json.dumps(entries))
    argv = ["--dataset-name=sharegpt", f"--dataset-path={dataset}"]
    more = ["--num-prompts=3", "--max-model-len=64", f"--output-json={file}"]

    status = main(["bench", "throughput", *argv, *more, *QUICK])
    told = capsys.readouterr().err
    refused = main(["bench", "throughput", *argv, "--random-input-len=9", *QUICK])

    result = json.loads(file.read_text())
    assert status == 0
    assert result["num_requests"] == 2
    assert all(4 <= length < 64 for length in result["input_lens"])
    assert "1 prompts do not fit into 64 tokens and are left out" in told
    assert refused == 2
    assert "sharegpt has lengths of its own" in capsys.readouterr().err


def test_sweep_draws_measured_and_modelled_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for each batch size, the fields, and a plot; a simulation has no model."""
    file, plot = tmp_path / "sweep.json", tmp_path / "roofline.svg"
    costs = ["--simulated-step-seconds=0.002", "--simulated-decode-request-seconds=0"]
    argv = ["--batch-sizes=1,2,4", "--output-len=3", "--num-iters=1"]
    out = [f"--output-json={file}", f"--plot={plot}", "--disable-tqdm"]

    status = main(["bench", "sweep", *argv, *out, "--executor=simulated", *costs])
    refused = main(["bench", "sweep", "--batch-sizes=3000", *QUICK])

    result = json.loads(file.read_text())
    told = capsys.readouterr()
    assert (status, refused) == (0, 2)
    assert result["batch_sizes"] == [1, 2, 4]
    assert all(each > 0 for each in result["step_seconds"])
    assert result["modelled_step_seconds"] is None
    assert "B_sat measured: " in told.out
    assert "3000 is above max-num-seqs" in told.err
    assert plot.read_text().startswith("<svg ")


def test_options_of_a_server_follow_two_dashes() -> None:
    """`bench serve` starts a server with them; without dashes there is none."""
    assert divided(["--num-prompts", "3"]) == (["--num-prompts", "3"], None)
    assert divided(["--seed=1", "--", "demo", "--", "x"]) == (
        ["--seed=1"],
        ["demo", "--", "x"],
    )
    assert divided(["--"]) == ([], [])


@pytest.mark.exhaustive
def test_serve_measures_a_server_that_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is ready before the first request, and gone in the end."""
    file = tmp_path / "serve.json"
    argv = ["--num-prompts=3", *SHORT, f"--output-json={file}"]
    server = ["--", "demo", "--executor=simulated", "--stat-logger=none"]

    status = main(["bench", "serve", *argv, *server])
    refused = main(["bench", "serve", "--port=8001", *server])

    assert status == 0
    assert json.loads(file.read_text())["completed"] == 3
    assert refused == 2
    assert "is that of the server which `--` starts" in capsys.readouterr().err


def test_throughput_reports_requests_and_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    `bench throughput` prints the field's lines and writes its fields.
    """
    file = tmp_path / "throughput.json"
    argv = ["--num-prompts=6", "--num-warmups=2", *SHORT, f"--output-json={file}"]

    status = main(["bench", "throughput", *argv, *QUICK])

    result = json.loads(file.read_text())
    seconds = result["elapsed_time"]
    assert status == 0
    assert capsys.readouterr().out == (
        f"Throughput: {6 / seconds:.2f} requests/s, {78 / seconds:.2f} total tokens/s, "
        f"{30 / seconds:.2f} output tokens/s\n"
        "Total num prompt tokens:  48\n"
        "Total num output tokens:  30\n"
    )
    assert result["num_requests"] == 6
    assert result["total_num_tokens"] == 78
    assert result["requests_per_second"] == 6 / seconds
    assert result["tokens_per_second"] == 78 / seconds
    assert result["input_lens"] == [8] * 6
    assert result["output_lens"] == [5] * 6
    phases = [result[f"{each}_times"] for each in ("queue", "prefill", "decode")]
    for latency, *parts in zip(result["latencies"], *phases, strict=True):
        assert sum(parts) <= latency + 1e-6 <= seconds + 1e-6


@pytest.mark.exhaustive
def test_startup_reports_cold_and_warm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    `bench startup` starts servers, with all options that are not its own.
    """
    file = tmp_path / "startup.json"
    own = ["--num-iters-cold=1", "--num-iters-warmup=0", "--num-iters-warm=2"]

    status = main(["bench", "startup", *own, f"--output-json={file}", *QUICK])

    shown = capsys.readouterr().out
    result = json.loads(file.read_text())
    assert status == 0
    assert "STARTUP TIME BENCHMARK RESULTS" in shown
    assert "\nCold startup:\nAvg startup time: " in shown
    assert re.search(r"\nStartup time percentiles:\n  10%: \d+\.\d\d seconds\n", shown)
    assert len(result["warm_startup_times"]) == 2
    assert set(result["cold_startup_percentiles"]) == {
        "10",
        "25",
        "50",
        "75",
        "90",
        "99",
    }
    assert result["avg_cold_start_engine_time"] > 0


async def bench_serve(server: BaseTestServer, *argv: str) -> int:
    root = server.make_url("")
    base = [f"--base-url={root}", "--tokenizer=demo", "--prompt-token-ids"]
    # The command has an event loop of its own.
    return await asyncio.to_thread(main, ["bench", "serve", *base, *SHORT, *argv])


async def test_serve_measures_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    `bench serve` measures a server, reports, and writes a descriptively named file.
    """
    engine = FakeEngine(["a", "bcd", "e"])
    argv = ["--num-prompts=7", "--max-concurrency=3", "--num-warmups=2"]
    argv += ["--goodput", "ttft:60000", "e2el:60000", "--save-detailed"]
    argv += [f"--result-dir={tmp_path}/new", "--metadata=commit=abc", "--label=mine"]

    async with client_of(engine) as client:
        status = await bench_serve(client.server, *argv)

    shown = capsys.readouterr().out
    (file,) = (tmp_path / "new").iterdir()
    result = json.loads(file.read_text())
    assert status == 0
    assert len(engine.streams) == 7 + 2 + 1
    assert re.search(r"^Successful requests: +7 +$", shown, re.MULTILINE)
    assert re.search(r"^Total generated tokens: +35 +$", shown, re.MULTILINE)
    assert re.fullmatch(r"mine-infqps-concurrency3-fake-\d{8}-\d{6}\.json", file.name)
    assert result["commit"] == "abc"
    assert result["request_rate"] == "inf"
    assert result["request_goodput"] == result["request_throughput"]
    assert result["total_input_tokens"] == 56
    assert result["output_lens"] == [5] * 7


async def test_serve_sends_the_prompts_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Conversations are sent as they are, at the length of each line, once; the result
    has the measurements of each request.
    """
    chats = [[{"role": "system", "content": "Be brief."}], [{"role": "user"}]]
    lines = [{"messages": each, "output_tokens": 3} for each in chats]
    dataset, file = tmp_path / "prompts.jsonl", tmp_path / "new" / "result.json"
    dataset.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    bodies = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.Response(body=b'data: {"choices":[{"text":"a"}]}\n\n')

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    async with TestServer(app) as server:
        root = f"--base-url={server.make_url('')}"
        argv = ["--backend=openai-chat", "--model=m", "--tokenizer=demo", root]
        argv += ["--dataset-name=custom", f"--dataset-path={dataset}", "--disable-tqdm"]
        argv += [f"--output-json={file}", "--ready-check-timeout-sec=0"]
        status = await asyncio.to_thread(main, ["bench", "serve", *argv])

    result = json.loads(file.read_text())
    assert status == 0
    assert [body["messages"] for body in bodies] == chats
    assert [body["max_tokens"] for body in bodies] == [3, 3]
    assert result["num_prompts"] == result["completed"] == len(result["ttfts"]) == 2
    assert result["dataset_name"] == "custom"
    assert "Successful requests:" in capsys.readouterr().out


async def test_serve_replays_a_trace(tmp_path: Path) -> None:
    """
    The requests of a trace are sent in the order of its times, with its lengths, and
    the result says so.
    """
    lines = [
        {"timestamp": 40, "input_length": 9, "output_length": 2},
        {"timestamp": 10, "input_length": 7, "output_length": 5},
    ]
    dataset, file = tmp_path / "trace.jsonl", tmp_path / "result.json"
    dataset.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    argv = ["--dataset-name=mooncake", f"--dataset-path={dataset}", "--tokenizer=demo"]
    argv += ["--prompt-token-ids", "--mooncake-slowdown-factor=0.5", "--disable-tqdm"]
    argv += [f"--output-json={file}", "--ready-check-timeout-sec=0"]
    engine = FakeEngine(["abc"])

    async with client_of(engine) as client:
        argv.append(f"--base-url={client.server.make_url('')}")
        status = await asyncio.to_thread(main, ["bench", "serve", *argv])

    result = json.loads(file.read_text())
    assert status == 0
    assert result["input_lens"] == [7, 9]
    assert [stream.params.max_tokens for stream in engine.streams] == [5, 2]
    assert result["request_rate"] == "trace"
    assert result["mooncake_slowdown_factor"] == 0.5


async def test_serve_continues_after_failures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    Failures are counted and logged once per reason; others are measured.
    """
    asked = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked % 3 == 0:
            raise web.HTTPTooManyRequests(text="too many")
        return web.Response(body=b'data: {"choices":[{"text":"a"}]}\n\n')

    app = web.Application()
    app.router.add_post("/v1/completions", answer)
    async with TestServer(app) as server:
        status = await bench_serve(
            server, "--model=m", "--num-prompts=9", "--ready-check-timeout-sec=0"
        )

    shown = capsys.readouterr()
    assert status == 0
    assert "3 requests failed: EventStreamError: 429 Too Many Requests" in shown.err
    assert shown.err.count("\n") == 1
    assert re.search(r"^Failed requests: +3 +$", shown.out, re.MULTILINE)


async def test_serve_fails_if_everything_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    If no request succeeded, the report shows it and the status is 1.
    """
    app = web.Application()
    async with TestServer(app) as server:
        status = await bench_serve(
            server, "--model=m", "--num-prompts=2", "--ready-check-timeout-sec=0"
        )

    assert status == 1
    assert "404" in capsys.readouterr().err


def test_objectives_may_be_several_words() -> None:
    """
    What follows `--goodput` and looks like an objective is one.
    """
    argv = ["--goodput", "ttft:1", "tpot:2", "--model", "a:b", "--goodput", "e2el:3"]

    assert joined_objectives(argv) == [
        *("--goodput", "ttft:1,tpot:2", "--model", "a:b", "--goodput", "e2el:3")
    ]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["nonsense"], "unknown benchmark 'nonsense'"),
        (["latensy"], "unknown benchmark 'latensy'; did you mean latency?"),
        (["serve", "--ready-check-timeout=2"], "mean --ready-check-timeout-sec?"),
        (["serve", "--num-prompts=0"], "num-prompts: must be at least 1"),
        (["serve", "--max-concurrency=0"], "max-concurrency: must be at least 1"),
        (["serve", "--request-rate=0"], "request-rate: must be above 0"),
        (["serve", "--request-rate=nan"], "not a finite number"),
        (["serve", "--burstiness=-1"], "burstiness: must be above 0"),
        (["serve", "--ramp-up-strategy=linear"], "ramp-up-start-rps: is required"),
        (["serve", "--ramp-up-end-rps=3"], "ramp-up-strategy: is required"),
        (["serve", "--random-input-len=0"], "random-input-len: must be at least 1"),
        (["serve", "--random-range-ratio=1"], "random-range-ratio: must be"),
        (["serve", "--percentile-metrics=ttft,x"], "unknown metric 'x'"),
        (["serve", "--metric-percentiles=101"], "metric-percentiles: must be"),
        (["serve", "--metric-percentiles=a"], "'a' is not a number"),
        (["serve", "--goodput", "ttft"], "'ttft' is not NAME:MILLISECONDS"),
        (["serve", "--goodput", "itl:3"], "unknown objective 'itl'"),
        (["serve", "--goodput", "ttft:-3"], "ttft must be at least 0"),
        (["serve", "--metadata=x"], "'x' is not KEY=VALUE"),
        (["serve", "--extra-body=[1]"], "is not a JSON object"),
        (["serve", "--extra-body={"], "is not JSON"),
        (["serve", "--host=::1:80:x"], "'::1:80:x' is not a host"),
        (["serve", "--base-url=http://::1:80"], "stands in brackets, http://[::1]"),
        (["serve", "--base-url=http://a b"], "is not a URL such as http://HOST:PORT"),
        (["serve", "--port=0"], "port: must be 1 to 65535, not 0"),
        (["serve", "--base-url=localhost"], "is not a URL such as http://HOST:PORT"),
        (["serve", "--header=a=b\nc", "--model=demo"], "is not a valid header"),
        (["serve", "--model=no-such", "--tokenizer=no-such"], "tokenizer: 'no-such'"),
        (
            ["serve", "--backend=openai-chat", "--prompt-token-ids"],
            "prompt-token-ids: chat requests can only carry text",
        ),
        (
            ["serve", "--port=1", "--ready-check-timeout-sec=0"],
            "base-url: cannot read http://127.0.0.1:1/v1/models: Connection refused",
        ),
        (
            ["serve", "--port=1", "--ready-check-timeout-sec=0.2"],
            "/v1/models after 0.2 s: Connection refused",
        ),
        (["serve", "--dataset-name=custom"], "dataset-path: is required"),
        (["serve", "--dataset-path=x"], "dataset-name: is required by dataset-path"),
        (
            ["serve", "--dataset-name=sharegpt", "--dataset-path=no-such", *MODEL],
            "dataset-path: cannot read no-such: No such file or directory",
        ),
        (
            ["serve", "--dataset-name=custom", "--dataset-path=x", SHORT[0]],
            "dataset-name: custom has lengths of its own",
        ),
        (
            [
                "serve",
                "--dataset-name=mooncake",
                "--dataset-path=x",
                "--request-rate=2",
            ],
            "request-rate: the requests of mooncake have times of their own",
        ),
        (["serve", "--custom-output-len=3"], "needs dataset-name custom"),
        (["serve", "--sharegpt-output-len=3"], "needs dataset-name sharegpt"),
        (["serve", "--mooncake-slowdown-factor=3"], "needs dataset-name mooncake"),
        (["latency", "--batch-size=0"], "batch-size: must be at least 1"),
        (["latency", "--num-iters-warmup=-1"], "num-iters-warmup: must be"),
        (["throughput", "--num-prompts=0"], "num-prompts: must be at least 1"),
        (["throughput", "--num-warmups=-1"], "num-warmups: must be at least 0"),
        (["startup", "--num-iters-warm=-1"], "num-iters-warm: must be at least 0"),
        (
            ["startup", "--num-iters-cold=0", "--num-iters-warm=0"],
            "num-iters-warm: must be at least 1",
        ),
        (["startup", "--nonsense", "--disable-tqdm"], "--nonsense"),
        (["startup", "--ready-check-timeout-sec=0"], "must be above 0, not 0"),
        (
            ["startup", "--ready-check-timeout-sec=0.001", "--disable-tqdm"],
            "the server is not ready after 0.001 s",
        ),
    ],
    ids=" ".join,
)
def test_wrong_input_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], argv: list[str], complaint: str
) -> None:
    """
    Wrong input ends the command with one line on standard error and status 2.
    """
    status = main(["bench", *argv])

    error = capsys.readouterr().err
    assert status == 2
    assert error.startswith("hookline: error: ")
    assert error.count("\n") == 1
    assert complaint in error


@for_each_row("flag", sorted(FLAGS))
def test_every_option_is_documented(flag: str) -> None:
    """
    Each option stands in docs/benchmarks.md.
    """
    docs = Path(__file__).parents[3] / "docs" / "benchmarks.md"

    text = docs.read_text("utf-8").replace("[no-]", "")

    assert re.search(rf"--{flag}(?![\w-])", text)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_writes_its_result(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Each benchmark has the option that writes its result to a file.
    """
    with pytest.raises(SystemExit):
        main(["bench", name, "--help=all"])

    assert re.search(r"^  --output-json FILE", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_bench_alone_lists_its_benchmarks(
    capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    """
    Without a benchmark the command lists the available ones.
    """
    assert main(["bench", *argv]) == 0

    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in BENCHMARKS)
