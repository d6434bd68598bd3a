"""Templates are rendered as `transformers` renders them, within limits."""

from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from hookline_server.texts.chat_template import (
    ChatTemplate,
    OutputTooLongError,
    TemplateRefusedError,
)

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be <brief> & \u00e9xact."},
    {"role": "user", "content": " Hi\n"},
    {"role": "assistant", "content": "Hello."},
]
TEMPLATES = {
    "chatml": "{% for m in messages %}\n  {{- '<|' + m.role + '|>' }}\n"
    "{{ m.content }}\n{% endfor %}\n"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "json": "{{ bos_token }}{{ messages | tojson(indent=2) }}{{ tools is none }}",
    "namespace": "{% set ns = namespace(n=0) %}{% for m in messages %}"
    "{% set ns.n = ns.n + 1 %}{% if loop.last %}{% break %}{% endif %}{% endfor %}"
    "{{ ns.n }}{{ dict(a=1)['a'] }}",
    "generation": "{% for m in messages %}{% generation %}{{ m['content'] | trim }}"
    "{% endgeneration %}{% endfor %}",
    "slices": "{{ messages[1:][0]['content'].strip().split('i')[0] }}",
}
REFUSED = {
    "its own exception": "{{ raise_exception('roles must alternate') }}",
    "attributes of classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "changes of its input": "{{ messages.append(1) }}",
    "a division by zero": "{{ 1 / 0 }}",
    "a syntax error": "{% for %}",
    "private names": "{% set ns = namespace(_x=1) %}",
}


def render(source: str, *, max_chars: int = 100_000) -> str:
    template = ChatTemplate(source, {"bos_token": "<s>"})
    return template.render(MESSAGES, add_generation_prompt=True, max_chars=max_chars)


@pytest.mark.parametrize("name", TEMPLATES)
def test_rendering_is_that_of_transformers(name: str) -> None:
    """Blocks are trimmed, filters and tags are the same."""
    rendered: Any = render_jinja_template(  # whose annotation is wrong
        conversations=[MESSAGES],
        chat_template=TEMPLATES[name],
        add_generation_prompt=True,
        bos_token="<s>",  # noqa: S106 - no secret
    )

    assert [render(TEMPLATES[name])] == rendered[0]


def test_calls_and_tools_are_rendered_as_by_transformers() -> None:
    """Templates iterate over arguments, and take what is undefined for nothing."""
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": "\u00e9"}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "1", "tool_call_id": "call_1"},
    ]
    variables = {
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "enable_thinking": False,
    }
    source = (
        "{% for t in tools %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
        "{{ m.role }}{% if m.tool_calls %}{% for c in m.tool_calls %}"
        "{{ c.function.name }}{% for k, v in c.function.arguments | items %}"
        "{{ k }}={{ v }}{% endfor %}{% endfor %}{% endif %}{{ m.reasoning_content }}"
        "{% endfor %}{% if enable_thinking is defined and not enable_thinking %}"
        "<think>{% endif %}"
    )

    rendered = ChatTemplate(source, {}).render(
        messages, variables=variables, add_generation_prompt=True, max_chars=10_000
    )

    theirs: Any = render_jinja_template(
        conversations=[messages],
        chat_template=source,
        add_generation_prompt=True,
        **variables,  # type: ignore[arg-type]
    )
    assert theirs[0] == [rendered]
    assert rendered.endswith("fa=\u00e9tool<think>")


def test_variables_replace_nothing() -> None:
    """Messages and special tokens are the server's, whatever a client sends."""
    template = ChatTemplate(
        "{{ bos_token }}{{ messages | length }}", {"bos_token": "<s>"}
    )

    rendered = template.render(
        MESSAGES,
        variables={"messages": [], "bos_token": "x"},
        add_generation_prompt=True,
        max_chars=100,
    )

    assert rendered == "<s>3"


@pytest.mark.parametrize("name", REFUSED)
def test_a_template_can_refuse_but_not_escape(name: str) -> None:
    """Errors in it, and what the sandbox forbids, are refusals with a reason."""
    with pytest.raises(TemplateRefusedError):
        render(REFUSED[name])


def test_output_is_bounded() -> None:
    """Rendering stops soon after the limit."""
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}xxxx{% endfor %}"

    with pytest.raises(OutputTooLongError):
        render(endless + "{% endfor %}", max_chars=1000)
