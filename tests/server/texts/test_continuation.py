"""A prompt that ends inside of the final message is that of `transformers`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from hookline_server.texts.chat_template import ChatTemplate, TemplateRefusedError

TEMPLATES = {
    "as they are": "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
    "trimmed": "{% for m in messages %}{{ m.role }}:{{ m.content | trim }}</s>"
    "{% endfor %}",
    "last one apart": "{% for m in messages %}{% if loop.last %}<think></think>"
    "{{ m['content'].strip('\n') }}{% else %}{{ m['content'] }}{% endif %}|"
    "{% endfor %}",
}


def conversation(text: str) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": f"Say {text}"},
        {"role": "assistant", "content": text},
    ]


def continued(source: str, messages: list[dict[str, Any]]) -> str:
    return ChatTemplate(source, {}).render(
        messages,
        add_generation_prompt=False,
        continue_final_message=True,
        max_chars=10_000,
    )


@pytest.mark.parametrize("name", TEMPLATES)
@given(text=st.text("aB \n<>{%", max_size=8))
def test_prompt_is_that_of_transformers(name: str, text: str) -> None:
    """
    Whatever white space begins or ends the text, whether or not the template trims it.
    """
    messages = conversation(text)

    prompt = continued(TEMPLATES[name], messages)

    theirs: Any = render_jinja_template(  # whose annotation is wrong
        conversations=[messages],
        chat_template=TEMPLATES[name],
        continue_final_message=True,
    )
    assert [prompt] == theirs[0]


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content }}",
        "{% for m in messages %}{{ m.content[:2] }}{% endfor %}",
        "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
    ],
)
def test_a_template_that_changes_the_text_is_refused(source: str) -> None:
    """
    Where the message would end in the prompt is unknown then.
    """
    messages = [{"role": "assistant", "content": "Once"}]

    with pytest.raises(TemplateRefusedError, match="final message"):
        continued(source, [{"role": "user", "content": "Hi"}, *messages])


def test_messages_are_not_changed() -> None:
    """
    The caller's messages are as before.
    """
    messages = conversation("Once")

    continued(TEMPLATES["trimmed"], messages)

    assert messages == conversation("Once")
