"""Stat loggers: hooks in their lane, pages in other threads, options."""

from collections.abc import Callable, Mapping, Sequence

from hookline import hookspecs
from hookline.config import EngineConfig, ExecutorConfig, ObserverConfig
from hookline.exceptions import ConfigError
from hookline.frontend.observation import Observers
from hookline.pages import (
    EventHandler,
    PageEvent,
    PageHandler,
    PageRequest,
    PageResponse,
)
from hookline.payloads import LoggerContext
from hookline_registry import BrokenPluginError, Failure, RegistryError, isolate
from hookline_testing.collected_routes import CollectedRoutes
from hookline_testing.conformance.observed_run import payloads
from hookline_testing.conformance.signatures import check_signature
from hookline_testing.conformance.subject import UNKNOWN, Subject

_ASKED = PageRequest(headers={}, query={})


def check(subject: Subject) -> None:
    """Makes a logger, tells it all that can happen, and asks for its pages."""
    given = {key: str(value) for key, value in subject.options.items()}
    context = LoggerContext(name=subject.name, config=EngineConfig(), options=given)
    names = [subject.registered]
    if "create_stat_logger" in subject.registry.hooks_of(subject.registered):
        made = subject.create(context=context)
        if made is None:
            return
        registered = isolate(subject.registry.register, made, "made")
        if isinstance(registered, Failure):
            subject.fault(str(registered.error))
            return
        names.append("made")
        for hook in subject.registry.hooks_of("made"):
            check_signature(subject, hook, getattr(type(made), hook, None))
    _check_options(subject, given)
    tell(subject, names)
    _check_pages(subject, names)


def tell(subject: Subject, names: list[str]) -> None:
    """Tells registered plugins all that can happen, in one thread and in order."""
    callers = subject.registry.callers(names)
    subject.call("its lane", _tell, subject, callers)


def _tell(
    subject: Subject, callers: Mapping[str, Sequence[Callable[..., object]]]
) -> None:
    broken: set[str] = set()
    for hook, payload in payloads():
        before = repr(payload)
        for call in callers.get(hook, ()):
            outcome = isolate(call, **{_argument(hook): payload})
            if isinstance(outcome, Failure) and hook not in broken:
                broken.add(hook)
                subject.raised(hook, outcome)
        if repr(payload) != before and hook not in broken:
            broken.add(hook)
            subject.fault(f"{hook} changed its argument, which other loggers get too")


def _argument(hook: str) -> str:
    function = getattr(hookspecs, hook)
    return str(function.__code__.co_varnames[0])


def _check_options(subject: Subject, given: Mapping[str, str]) -> None:
    """Has the logger refuse an option that there is not, as a server does."""
    observers = ObserverConfig(
        stat_loggers=(subject.name,),
        options={subject.name: {**given, UNKNOWN: "1"}},
    )
    config = EngineConfig(
        observers=observers, executor=ExecutorConfig(name="simulated")
    )
    made = isolate(Observers, config)
    if not isinstance(made, Failure):
        made.close(1.0)
        subject.fault(
            f"it takes the unknown option {UNKNOWN!r} in silence: declare its options "
            "in `add_cli_options`, or raise ConfigError",
            subject.factory,
        )
    elif not isinstance(made.error, ConfigError | BrokenPluginError | RegistryError):
        subject.fault(f"an unknown option raises {made.summary}", subject.factory)


def _check_pages(subject: Subject, names: list[str]) -> None:
    routes = CollectedRoutes()
    for name in names:
        if (call := subject.registry.caller(name, "add_routes")) is not None:
            subject.call("add_routes", call, routes=routes)
    for path, handler in {**routes.pages, **routes.posts}.items():
        _check_page(subject, path, handler)
    for path, stream in routes.streams.items():
        _check_stream(subject, path, stream)
    for path, folder in routes.folders.items():
        if not folder.is_dir():
            subject.fault(f"{path} serves {folder}, which is no folder")


def _check_page(subject: Subject, path: str, handler: PageHandler) -> None:
    page: object = subject.call(f"the page {path}", handler, _ASKED)
    if isinstance(page, str):
        instead = hookspecs.HANDLERS["add_routes"]
        subject.fault(f"the page {path} returns str: write `return {instead}`", handler)
    elif not isinstance(page, Failure):
        subject.typed(page, PageResponse, f"the page {path}", handler)


def _check_stream(subject: Subject, path: str, stream: EventHandler) -> None:
    events = subject.call(f"the events of {path}", stream, _ASKED)
    if isinstance(events, Failure):
        return
    event: object = subject.call(f"the events of {path}", next, events, None)
    if not isinstance(event, PageEvent | Failure | None):
        kind = type(event).__name__
        subject.fault(f"{path} yields {kind}, not PageEvent or None", stream)
    subject.call(f"the end of {path}", getattr(events, "close", lambda: None))
