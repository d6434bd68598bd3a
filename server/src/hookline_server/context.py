"""The application keys through which handlers get engine, settings and streams."""

import time

from aiohttp import web

from hookline_server.api_keys import ApiKeys
from hookline_server.engine import ServingEngine
from hookline_server.settings import ServerSettings
from hookline_server.streams import OpenStreams

ENGINE: web.AppKey[ServingEngine] = web.AppKey("hookline_engine", ServingEngine)
SETTINGS: web.AppKey[ServerSettings] = web.AppKey("hookline_settings", ServerSettings)
OPEN_STREAMS: web.AppKey[OpenStreams] = web.AppKey("hookline_streams", OpenStreams)
API_KEYS: web.AppKey[ApiKeys] = web.AppKey("hookline_api_keys", ApiKeys)
STARTED: web.AppKey[int] = web.AppKey("hookline_started", int)


def fill(app: web.Application, engine: ServingEngine, settings: ServerSettings) -> None:
    """Sets the keys of a new application."""
    app[ENGINE] = engine
    app[SETTINGS] = settings
    app[API_KEYS] = ApiKeys(settings.api_key, settings.tenant_keys)
    app[OPEN_STREAMS] = OpenStreams()
    app[STARTED] = int(time.time())
