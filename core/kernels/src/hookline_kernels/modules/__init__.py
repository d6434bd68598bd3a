"""Modules of models by kernels: norms, products, gated MLPs.

A module is recognised by its structure, never by a family's name, and replaced only
after a trial: the new one must agree with the old one on random numbers.
"""
