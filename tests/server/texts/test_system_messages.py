"""System messages stand where a chat template takes them."""

from collections.abc import Sequence

import pytest

from hookline_server.texts.chat_template import ChatTemplate, TemplateRefusedError
from hookline_server.texts.system_messages import Message

ALL = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[reply]{% endif %}"
)
FIRST = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}[reply]"
)
SILENT = (
    "{% if messages[0].role == 'system' %}[system]{{ messages[0].content }}{% endif %}"
    "{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content }}"
    "{% endfor %}[reply]"
)
ATTRIBUTING = (
    "{% for m in messages %}{% if loop.first and m.role == 'system' %}[system]"
    "{% elif m.role == 'user' %}[user]{% else %}[assistant]{% endif %}{{ m.content }}"
    "{% endfor %}[reply]"
)
NEVER = (
    "{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}[reply]"
)
ALTERNATING = (
    "{% set start = 1 if messages[0].role == 'system' else 0 %}"
    "{% for m in messages %}{% if loop.index0 >= start and (m.role == 'user') != "
    "((loop.index0 - start) % 2 == 0) %}{{ raise_exception('roles must alternate') }}"
    "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}[reply]"
)
TALK: tuple[Message, ...] = (
    {"role": "system", "content": "a"},
    {"role": "user", "content": "b"},
    {"role": "system", "content": "c"},
    {"role": "assistant", "content": "d"},
    {"role": "user", "content": "e"},
    {"role": "system", "content": "f"},
)
MERGED = "[system]a\n\nc\n\nf[user]b[assistant]d[user]e[reply]"


def rendered(
    source: str, messages: Sequence[Message], *, continues: bool = False
) -> str:
    template = ChatTemplate(source, {})
    once, again = (
        template.render(
            messages,
            add_generation_prompt=not continues,
            continue_final_message=continues,
            max_chars=1000,
        )
        for _ in range(2)
    )
    assert once == again
    return once


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (ALL, "[system]a[user]b[system]c[assistant]d[user]e[system]f[reply]"),
        (FIRST, MERGED),
        (SILENT, MERGED),
        (ATTRIBUTING, MERGED),
        (ALTERNATING, MERGED),
        (NEVER, "[user]a\n\nc\n\nf\n\nb[assistant]d[user]e[reply]"),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "abcdef"),
    ],
)
def test_late_system_messages(source: str, expected: str) -> None:
    """In place where the template takes them, else merged into the first message."""
    assert rendered(source, TALK) == expected


def test_a_system_message_between_two_of_the_user() -> None:
    """Once it is moved they are one, as some templates want roles to alternate."""
    messages = [TALK[1], TALK[2], TALK[4]]

    assert rendered(ALTERNATING, messages) == "[system]c[user]b\n\ne[reply]"
    with pytest.raises(TemplateRefusedError, match="alternate"):
        rendered(ALTERNATING, [TALK[1], TALK[4]])


def test_a_template_without_system_messages() -> None:
    """A first one becomes part of the user's message; other refusals stay."""
    assert rendered(NEVER, TALK[:2]) == "[user]a\n\nb[reply]"
    assert rendered(NEVER, TALK[:1]) == "[user]a[reply]"
    with pytest.raises(TemplateRefusedError, match="alternate"):
        rendered(ALTERNATING, [TALK[0], TALK[3]])


def test_what_the_probe_did_not_foresee_is_tried_again() -> None:
    """A template may refuse a late system message after a tool's result only."""
    source = (
        "{% for m in messages %}{% if m.role == 'system' and loop.index0 > 0 and "
        "messages[loop.index0 - 1].role == 'tool' %}{{ raise_exception('no') }}"
        "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    )
    late = [TALK[1], {"role": "tool", "content": "x"}, TALK[2]]

    assert rendered(source, late) == "[system]c[user]b[tool]x"


def test_the_last_message_goes_on_after_system_messages_were_moved() -> None:
    """A reply that the request begins is still the last message."""
    text = rendered(FIRST, TALK[:4], continues=True)

    assert text == "[system]a\n\nc[user]b[assistant]d"
