"""Engines that come and go while a server runs, when asked for or by load."""
