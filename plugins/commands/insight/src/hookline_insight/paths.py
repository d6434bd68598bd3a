"""Paths of this distribution's pages."""

PATH = "/why"
