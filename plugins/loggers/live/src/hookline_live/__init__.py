"""Stat logger `live`: a page that shows what the engines do; `hookline top`.

Both show what the rings of the flight recorders have: they take nothing from the
engines, show what was before anybody looked, and also an engine that hangs.
"""
