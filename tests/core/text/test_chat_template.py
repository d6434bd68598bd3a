"""Templates are rendered as `transformers` renders them, within limits."""

from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from hookline.text.chat_template import (
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
