"""Models with several chat templates, and servers with another one than the model's."""

import asyncio
import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from hookline import LLM, AsyncEngine, ConfigError, EngineConfig, ModelConfig
from hookline.tokenizer import Tokenizer
from hookline_server.cli import main
from hookline_server.texts.chat_template import TemplateRefusedError
from hookline_server.texts.given_template import check_given_template
from hookline_server.texts.template_cache import TemplateCache
from hookline_server.texts.tokenizer_info import tokenizer_info
from hookline_testing.byte_tokenizer import save_byte_tokenizer
from hookline_testing.oracle import Oracle

MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "look"}}]
VARIABLES: tuple[dict[str, Any], ...] = ({}, {"tools": TOOLS})
SOURCES = {
    "default": "plain {{ messages[0].content }}",
    "tool_use": "with {{ tools[0].function.name }}",
    "rag": "documents",
}


def save(folder: Path, sources: dict[str, str], *, as_list: bool = False) -> None:
    """Writes a tokenizer with templates, as present or former versions do."""
    save_byte_tokenizer(folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    config.pop("chat_template", None)
    if as_list:
        config["chat_template"] = [
            {"name": name, "template": source} for name, source in sources.items()
        ]
    else:
        others = folder / "additional_chat_templates"
        others.mkdir()
        for name, source in sources.items():
            own = folder / "chat_template.jinja"
            path_of = own if name == "default" else others / f"{name}.jinja"
            path_of.write_text(source, "utf-8")
    path.write_text(json.dumps(config))


def rendered(tokenizer: Tokenizer, template: str | None = None, **given: Any) -> str:
    """What a text process renders."""
    cache = TemplateCache(tokenizer.templates, {})
    return cache.get(template, has_tools=bool(given.get("tools"))).render(
        MESSAGES, variables=given, add_generation_prompt=True, max_chars=999
    )


@pytest.mark.parametrize("as_list", [False, True], ids=["files", "list"])
def test_tools_choose_a_template_as_in_transformers(
    tmp_path: Path, as_list: bool
) -> None:
    """Online and offline, from files or from a list; a name chooses any."""
    save(tmp_path, SOURCES, as_list=as_list)
    tokenizer = Tokenizer.load(tmp_path)

    assert dict(tokenizer.templates) == SOURCES
    for given in VARIABLES:
        expected = tokenizer.inner.apply_chat_template(
            MESSAGES, tokenize=False, **given
        )
        assert rendered(tokenizer, **given) == expected
        assert tokenizer.decode(
            tokenizer.render_chat(MESSAGES, variables=given)
        ) == str(expected)
    assert rendered(tokenizer, tools=TOOLS) == "with look"
    assert rendered(tokenizer, "rag", tools=TOOLS) == "documents"
    assert tokenizer_info(tokenizer)["chat_template"] == SOURCES


def test_several_templates_without_a_default(tmp_path: Path) -> None:
    """Who has no tools is told which there are, and how to choose one."""
    save(tmp_path, {"tool_use": "with tools", "rag": "documents"}, as_list=True)
    tokenizer = Tokenizer.load(tmp_path)

    assert rendered(tokenizer, tools=TOOLS) == "with tools"
    with pytest.raises(
        TemplateRefusedError, match=r"rag.* no default; --chat-template"
    ):
        rendered(tokenizer)


@pytest.mark.parametrize("kind", ["file", "name", "text"])
def test_a_server_has_the_template_that_was_given(tmp_path: Path, kind: str) -> None:
    """It renders all conversations, also those with tools."""
    save(tmp_path / "model", SOURCES)
    path = tmp_path / "mine.jinja"
    path.write_text("mine {{ messages[0].content }}", "utf-8")
    given = {"file": str(path), "name": "rag", "text": "{{ 'mine' }} Hi"}[kind]
    tokenizer = Tokenizer.load(tmp_path / "model")

    tokenizer.use_template(given)

    expected = "documents" if kind == "name" else "mine Hi"
    for variables in VARIABLES:
        tokens = tokenizer.render_chat(MESSAGES, variables=variables)
        assert tokenizer.decode(tokens) == expected
        assert rendered(tokenizer, **variables) == expected


def test_an_engine_has_it_too(llama: Oracle, tmp_path: Path) -> None:
    """`LLM` takes the option of servers, and names what it cannot read."""
    path = tmp_path / "mine.jinja"
    path.write_text("Q: {{ messages[0].content }}", "utf-8")

    with LLM(str(llama.folder), chat_template=str(path)) as llm:
        (output,) = llm.chat(MESSAGES, use_tqdm=False)
        prompt = llm.front_end.tokenizer.decode(output.prompt_token_ids)
    with pytest.raises(ConfigError, match=r"no file .* one of the model's") as caught:
        LLM(str(llama.folder), chat_template=f"{path}.missing")

    assert prompt == "Q: Hi"
    assert caught.value.option == "chat-template"


def test_a_wrong_name_is_known_before_the_model_loads(llama: Oracle) -> None:
    """The tokenizer has the names: no engine starts when none of them is meant."""

    def connect(config: EngineConfig) -> NoReturn:
        pytest.fail(f"{config.model.model} was loaded")

    model = ModelConfig(model=str(llama.folder), chat_template="rag")
    with pytest.raises(ConfigError, match=r"'rag' is no file .* one of the model's"):
        asyncio.run(AsyncEngine.start(EngineConfig(model=model), connect=connect))


def test_a_wrong_file_or_text_is_known_before_anything_starts(tmp_path: Path) -> None:
    """It is one sentence; names, and what is right, pass."""
    path, broken = tmp_path / "mine.jinja", tmp_path / "broken.txt"
    path.write_text("{% generation %}{{ messages | tojson }}{% endgeneration %}")
    broken.write_text("a\n{% if x %}")
    for given in (None, "rag", str(path), "{{ 'mine' }}"):
        check_given_template(given)

    for given, reason in {
        f"{path}.missing": r"mine.jinja.missing cannot be read: No such file",
        "absent.jinja": "cannot be read: No such file",
        str(tmp_path): "cannot be read: Is a directory",
        str(broken): r"broken.txt is no Jinja template: line 2: Unexpected end",
        "{{ x | nothing }}": "the template is no Jinja template: line 1: No filter",
    }.items():
        with pytest.raises(ConfigError, match=reason) as caught:
            check_given_template(given)
        assert caught.value.option == "chat-template"


def test_commands_look_at_it_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is asked for that takes time: no model is looked for, and no port."""
    given = ["maker/absent", "--chat-template=absent.jinja"]
    files = ["--input-file=absent", "--output-file=none"]

    assert main(["serve", *given]) == 2
    assert main(["run-batch", *given, *files]) == 2

    line = "hookline: error: chat-template: absent.jinja cannot be read: No such file"
    assert capsys.readouterr().err.count(line) == 2
