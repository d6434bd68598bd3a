"""Stat logger `live`: a page, `/live/`, that shows what the engines do; `hookline top`.

Both read the rings of the flight recorders: they take nothing from the engines, show what
was before anybody looked, and also an engine that hangs.
"""
