"""The page while others feed and scrape: never torn, never stale."""

import gc
import threading
from collections.abc import Callable

import pytest
from prometheus_client import Metric

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import EngineConfig
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics import Recorder
from hookline_prometheus import PrometheusLogger
from hookline_prometheus.exposition import MediaType
from hookline_prometheus.options import Options
from hookline_prometheus.page import Page
from hookline_prometheus.process_families import KEPT_SECONDS, ProcessFamilies
from hookline_prometheus.rendered_page import RenderedPage
from hookline_testing.essential import essential
from hookline_testing.payloads import make_started, make_state, make_step

Scrape = Callable[[PrometheusLogger, str], tuple[str, str]]
Parse = Callable[[str, str], dict[str, Metric]]

FOUR_TOKENS = IterationStats(
    generation_tokens=4, inter_token_seconds=((0.01, 3), (0.03, 1))
)


class ObservedLock:
    """A lock that signals when a thread waits for it."""

    def __init__(self) -> None:
        self.arrivals = threading.Semaphore(0)
        self.lock = threading.Lock()

    def __enter__(self) -> None:
        self.arrivals.release()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


class GatedFamilies(ProcessFamilies):
    """A reading of the process that lasts until it is let go."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def render(self, media_type: MediaType) -> bytes:
        self.has_begun.set()
        assert self.may_end.wait(timeout=60)
        return super().render(media_type)


class Scraper(threading.Thread):
    """Renders on another thread and keeps the result."""

    def __init__(self, render: Callable[[], RenderedPage]) -> None:
        super().__init__()
        self.body = b""
        self._render = render
        self.start()

    def run(self) -> None:
        self.body = self._render().text


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def logger(clock: VirtualClock) -> PrometheusLogger:
    """Of an engine that has started."""
    logger = PrometheusLogger(EngineConfig(), clock=clock)
    logger.engine_started(make_started())
    return logger


def collections(page: str) -> float:
    """How often the interpreter has looked for garbage everywhere."""
    head = 'python_gc_collections_total{generation="2"} '
    [line] = [line for line in page.splitlines() if line.startswith(head)]
    return float(line.removeprefix(head))


@pytest.mark.parametrize(
    "media_type", essential(MediaType, MediaType.OPENMETRICS, slow=MediaType)
)
def test_no_page_is_torn(
    logger: PrometheusLogger, scrape: Scrape, parse: Parse, media_type: MediaType
) -> None:
    """Numbers that are fed together stand together on every page, and only rise."""
    pages: list[tuple[str, str]] = []
    is_over = threading.Event()

    def feed() -> None:
        while not is_over.is_set():
            logger.step_finished(make_step(FOUR_TOKENS))

    def read() -> None:
        pages.extend(scrape(logger, media_type) for _ in range(10))

    feeder = threading.Thread(target=feed)
    feeder.start()
    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    is_over.set()
    feeder.join()

    assert len(pages) == 20
    for page in pages:
        families = parse(*page)
        [tokens] = families["hookline_generation_tokens"].samples
        for name in (
            "hookline_inter_token_seconds",
            "vllm:inter_token_latency_seconds",
        ):
            found = {
                (sample.name.removeprefix(name), sample.labels.get("le")): sample.value
                for sample in families[name].samples
            }
            assert found["_count", None] == found["_bucket", "+Inf"] == tokens.value
            assert found["_bucket", "0.01"] == tokens.value * 3 / 4


def test_waiting_scrapes_share_a_rendering(logger: PrometheusLogger) -> None:
    """Scrapes that wait for the same moment get the same bytes, a later one others."""
    page = logger._pages[MediaType.TEXT]
    lock = ObservedLock()
    page._lock = lock  # type: ignore[assignment]

    with lock.lock:
        scrapers = [Scraper(page.render) for _ in range(3)]
        for _ in scrapers:
            assert lock.arrivals.acquire(timeout=60)
    for scraper in scrapers:
        scraper.join()
    later = page.render().text

    assert scrapers[0].body is scrapers[1].body is scrapers[2].body
    assert later == scrapers[0].body
    assert later is not scrapers[0].body


def test_scrape_is_not_answered_with_what_began_before_it() -> None:
    """A page that was begun before a change is not given to who asks after it."""
    recorder = Recorder(clock=VirtualClock())
    recorder.engine_started(make_started())
    families = GatedFamilies()
    page = Page(MediaType.TEXT, recorder, families, Options())
    line = b'hookline_requests_running{engine="0",model_name="tiny"} 7.0\n'

    early = Scraper(page.render)
    assert families.has_begun.wait(timeout=60)
    recorder.step_finished(make_step(scheduler=SchedulerStats(running=7)))
    late = Scraper(page.render)
    families.may_end.set()
    early.join()
    late.join()

    assert line not in early.body
    assert line in late.body


def test_ages_are_those_of_the_moment(
    logger: PrometheusLogger, scrape: Scrape, clock: VirtualClock
) -> None:
    """Time that passes shows on the next page, though nothing has happened."""
    line = 'hookline_snapshot_age_seconds{engine="0",model_name="tiny"} '
    _, before = scrape(logger, "")

    clock.sleep(0.25)

    _, after = scrape(logger, "")
    assert f"{line}0.0\n" in before
    assert f"{line}0.25\n" in after


def test_removed_families_leave_nothing_behind() -> None:
    """A page caches no more families than its recorder has."""
    clock = VirtualClock()
    recorder = Recorder(clock=clock)
    page = Page(MediaType.TEXT, recorder, ProcessFamilies(clock), Options())
    page.render()

    recorder._builders = recorder._builders[:3]
    page.render()

    assert list(page._blocks) == [family.name for family in recorder.snapshot()]
    assert len(page._blocks) == 3


def test_heartbeats_refresh_process_metrics(
    logger: PrometheusLogger, scrape: Scrape, clock: VirtualClock
) -> None:
    """The process is read again with a heartbeat, but not with each of many."""
    before = collections(scrape(logger, "")[1])

    gc.collect()
    logger.state_changed(make_state())
    at_once = collections(scrape(logger, "")[1])
    clock.sleep(1.0)
    without = collections(scrape(logger, "")[1])
    logger.state_changed(make_state())
    after = collections(scrape(logger, "")[1])

    assert before == at_once == without
    assert after > before


@pytest.mark.parametrize(
    "media_type", essential(MediaType, MediaType.TEXT, slow=MediaType)
)
def test_page_refreshes_them_without_heartbeats(
    logger: PrometheusLogger,
    scrape: Scrape,
    clock: VirtualClock,
    media_type: MediaType,
) -> None:
    """Process metrics on a page are at most two seconds old."""
    before = collections(scrape(logger, media_type)[1])
    gc.collect()

    clock.sleep(KEPT_SECONDS - 1 / NANOSECONDS)
    kept = collections(scrape(logger, media_type)[1])
    clock.sleep(1 / NANOSECONDS)
    renewed = collections(scrape(logger, media_type)[1])

    assert kept == before
    assert renewed > before
