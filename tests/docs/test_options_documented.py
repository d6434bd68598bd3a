"""docs/server.md has the options of the commands, and an example file that works."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from hookline_metrics.config import MetricsConfig
from hookline_pd_proxy.options import ROUTE_OPTIONS
from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.generate import GENERATE_OPTIONS
from hookline_server.cli.options.option import Kind, Option
from hookline_server.cli.options.server import server_options
from hookline_server.settings import ServerSettings

PAGE = Path(__file__).parents[2] / "docs" / "server.md"

OPTIONS: dict[str, Sequence[Option]] = {
    "serve": (*server_options(), *engine_options()),
    "route": ROUTE_OPTIONS,
    "generate": GENERATE_OPTIONS,
}


def listed(options: Iterable[Option]) -> str:
    """Returns the options as Markdown; those of a heading are together."""
    headings = list(dict.fromkeys(option.group for option in options))
    ordered = sorted(options, key=lambda option: headings.index(option.group))
    parts = []
    for heading, group in groupby(ordered, key=lambda option: option.group):
        lines = "\n".join(_line(option) for option in group)
        parts.append(f"**{heading}**\n\n{lines}")
    return "\n\n".join(parts)


def _line(option: Option) -> str:
    flag = f"[no-]{option.flag}" if option.kind is Kind.SWITCH else option.flag
    meaning = re.sub(r"\{[^}]*\}", r"`\g<0>`", option.help).replace("*", r"\*")
    values = f" One of {', '.join(option.choices)}." if option.choices else ""
    default = f" ({option.default})" if option.default else ""
    return f"- `--{flag}`{default}: {meaning}{values}"


@pytest.mark.parametrize("command", OPTIONS)
def test_list_is_that_of_the_options(command: str) -> None:
    """
    The list between a command's marks is made of its options: paste it if not.
    """
    text = PAGE.read_text("utf-8")
    found = re.search(
        rf"<!-- options of {command} -->\n\n(.*?)\n\n<!-- end -->", text, re.DOTALL
    )

    assert found is not None
    assert found[1] == listed(OPTIONS[command])


def test_example_file_works(tmp_path: Path) -> None:
    """
    The YAML file on the page is a valid configuration with the described values.
    """
    (content,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    file = tmp_path / "serve.yaml"
    file.write_text(content)

    arguments = read_arguments(
        "serve",
        "",
        OPTIONS["serve"],
        [f"--config={file}"],
        default_loggers=("prometheus", "logging"),
    )
    made = engine_config(arguments, in_process=False)

    assert arguments.make("server", ServerSettings).port == 8001
    assert made.cache.kv_cache_memory == 2 * 2**30
    assert made.speculative is not None
    assert made.observers.stat_loggers == ("prometheus", "logging", "request_log")
    assert made.observers.options["request_log"] == {"path": "/var/log/requests.jsonl"}
    assert MetricsConfig.of(made).labels == {"zone": "eu-1"}
    assert MetricsConfig.of(made).dialects == ("hookline", "vllm")
