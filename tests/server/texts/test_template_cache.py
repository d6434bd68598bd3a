"""Templates of requests beside the model's own."""

from hookline_server.texts.template_cache import MAX_TEMPLATES, TemplateCache


def test_templates_are_compiled_once() -> None:
    """
    The same source is the same template; the model's own is another one.
    """
    cache = TemplateCache({"default": "own {{ bos_token }}"}, {"bos_token": "<s>"})

    first = cache.get("{{ bos_token }}")

    assert cache.get("{{ bos_token }}") is first
    for template, expected in ((cache.get(None), "own <s>"), (first, "<s>")):
        rendered = template.render([], add_generation_prompt=True, max_chars=99)
        assert rendered == expected


def test_the_least_recently_used_goes() -> None:
    """
    However many templates requests have, few are kept, and always the model's own.
    """
    cache = TemplateCache({"default": "own"}, {})
    own, kept, lost = cache.get(None), cache.get("kept"), cache.get("lost")

    for number in range(MAX_TEMPLATES - 1):
        cache.get(f"{number}")
        cache.get("kept")

    assert len(cache._requested) == MAX_TEMPLATES
    assert cache.get("kept") is kept
    assert cache.get("lost") is not lost
    assert cache.get(None) is own
