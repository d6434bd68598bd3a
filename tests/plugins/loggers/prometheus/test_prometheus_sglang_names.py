"""Values under SGLang's names that stand for other labels of ours."""

from collections.abc import Callable

from hookline_prometheus import PrometheusLogger

Scrape = Callable[[PrometheusLogger, str], tuple[str, str]]


def test_names_of_sglang_have_our_values(fed: PrometheusLogger, scrape: Scrape) -> None:
    """
    Pages of the KV cache are its blocks; a draft is a verification; answers count by
    the class of their status.
    """
    _, page = scrape(fed, "text/plain")
    lines = page.splitlines()

    def value(start: str, *parts: str) -> float:
        [found] = [
            line
            for line in lines
            if line.startswith(start) and all(part in line for part in parts)
        ]
        return float(found.rsplit(" ", 1)[1])

    size = value("sglang:page_size{")
    pages = value("sglang:num_pages{")
    labels = (f'page_size="{size:.0f}"', f'num_pages="{pages:.0f}"')
    assert value("sglang:cache_config_info{", *labels) == 1
    assert value("sglang:spec_verify_calls_total{") == 1
    assert value("sglang:http_responses_total{", 'status_code="2xx"') == 1
    name = "request_time_per_output_token_seconds_count{"
    assert value("sglang:time_per_output_token_seconds_count{") == value(
        f"hookline_{name}"
    )
