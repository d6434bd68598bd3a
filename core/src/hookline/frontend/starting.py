"""Starts a front end: loggers, tokenizer and engine."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import cast

from hookline.config.engine import OWN_ENGINE, EngineConfig
from hookline.config.model import ModelConfig
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.frontend.extension import Extend, ExtendsFrontEnds
from hookline.frontend.front_end import FLUSH_SECONDS, FrontEnd
from hookline.frontend.observation import Observers
from hookline.frontend.observing import ObserverAddress, ObserverContext, Observing
from hookline.model_description import find_folder
from hookline.plugins.calling import call_plugin, find_hook, hook_of
from hookline.plugins.kinds import ENGINE, OBSERVERS
from hookline.tokenizer import Tokenizer
from hookline.transport.engine_client import EngineClient
from hookline.transport.native import connect as drive
from hookline.transport.native import find_cluster, is_driven
from hookline_kernels.runtime.openmp import wait_patiently
from hookline_processes.tokenizer_trial import tokenizer_refusal
from hookline_registry import installed

Connect = Callable[[EngineConfig], EngineClient]
_OBSERVER = "process"
_OBSERVER_OPTION = "observer-process"

Observe = Callable[[EngineConfig, object | None], Observing]
"""Loads the loggers; its second argument gets the same payloads, without a lane."""


def observe(
    config: EngineConfig,
    recorder: object | None = None,
    *,
    pages: str = "",
    address: ObserverAddress | None = None,
) -> Observing:
    """Loads the loggers, in this process or in an observer process.

    Args:
        config: The engine's configuration.
        recorder: Gets the same payloads as the loggers, without a lane.
        pages: `module:attribute` of what serves pages in an observer process.
        address: An observer process that another front end of the same engines owns.

    Raises:
        ConfigError: An option does not fit, a recorder wants an observer process, or no
            plugin provides one.
        RegistryError: A logger is unknown or broken.
    """
    if address is None and not config.observers.observer_process:
        return Observers(config, recorder)
    if recorder is not None:
        raise ConfigError(
            _OBSERVER_OPTION, "is for servers; LLM keeps its loggers in its process"
        )
    if not installed(OBSERVERS.group):
        raise ConfigError(_OBSERVER_OPTION, "needs the distribution hookline-observer")
    context = ObserverContext(config=config, pages=pages, address=address)
    connected = call_plugin(OBSERVERS, _OBSERVER, context, option=_OBSERVER_OPTION)
    if connected is None:
        raise ConfigError(
            _OBSERVER_OPTION, f"the plugin {_OBSERVER!r} connected no observers"
        )
    return cast("Observing", connected)


def start_front_end(
    config: EngineConfig,
    recorder: object | None = None,
    *,
    observe: Observe = observe,
    connect: Connect | None = None,
) -> FrontEnd:
    """Loads loggers, tokenizer and engine; the cheapest fail first.

    Args:
        config: The engine's configuration.
        recorder: Gets the same payloads as the loggers, without a lane.
        observe: Loads the loggers.
        connect: Connects to engines; by default starts those of the configuration.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        RegistryError: A plugin is unknown or broken.
    """
    if config.in_process:
        wait_patiently()
    observers = observe(config, recorder)
    try:
        start = connect or _connecting(config.engine)
        tokenizer, client = _start_both(start, config)
    except BaseException:
        observers.close(FLUSH_SECONDS)
        raise
    return FrontEnd(
        client,
        tokenizer,
        observers,
        config=config.observers,
        sleep_policy=config.scheduler.sleep_policy,
        is_foreign=config.engine != OWN_ENGINE,
        # In a process of its own a driven engine is audited there, by all requests.
        is_alone=connect is None
        and (config.in_process or not is_driven(config.engine)),
        extend=_installed_extension(config),
    )


def tokenizer_folder(config: EngineConfig) -> Path:
    """Returns where the tokenizer is, as the user, the engine or the model says.

    Raises:
        ModelLoadError: The model is not found.
        RegistryError: The engine is unknown, denied or broken.
    """
    if config.model.tokenizer:
        return Path(config.model.tokenizer)
    if config.engine != OWN_ENGINE:
        find = find_hook(ENGINE, config.engine, "find_tokenizer")
        if find is not None and (folder := find(context=config)) is not None:
            return cast("Path", folder)
    return find_folder(config.model.model)


def _installed_extension(config: EngineConfig) -> Extend | None:
    if (cluster := find_cluster()) is None:
        return None
    return partial(cast("ExtendsFrontEnds", cluster).extend, config)


def _connecting(name: str) -> Connect:
    """Returns what connects to the engines of a plugin."""
    if is_driven(name):
        return drive
    connect = hook_of(ENGINE, name)
    return lambda config: cast("EngineClient", connect(context=config))


def _start_both(
    connect: Connect, config: EngineConfig
) -> tuple[Tokenizer, EngineClient]:
    """Loads the tokenizer while the engine starts."""
    folder = tokenizer_folder(config)
    with ThreadPoolExecutor(max_workers=1) as pool:
        loading = pool.submit(load_tokenizer, folder, config.model)
        if _may_be_unknown(config.model.chat_template):
            loading.result()  # it is not the model that such a mistake waits for
        client = connect(config)
    if (error := loading.exception()) is not None:
        client.close()
        raise error
    return loading.result(), client


def _may_be_unknown(template: str | None) -> bool:
    if template is None or "{" in template:
        return False
    return not os.path.isfile(template)  # noqa: PTH113 - it may be no path at all


def load_tokenizer(folder: Path, config: ModelConfig) -> Tokenizer:
    """Loads a tokenizer that another process has loaded and tried without harm.

    Raises:
        ConfigError: The chat template that was asked for cannot be read.
        ModelLoadError: It cannot be loaded, or harms the process that loads it.
    """
    if reason := tokenizer_refusal(folder):
        raise ModelLoadError(str(folder), reason)
    tokenizer = Tokenizer.load(folder, config.tokenizer_mode)
    if config.chat_template is not None:
        tokenizer.use_template(config.chat_template)
    return tokenizer
