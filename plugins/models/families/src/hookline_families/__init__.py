"""Attention of families whose modules take no attention function, over a paged cache.

Some families of `transformers` compute attention in their modules, with a bias by
distance (ALiBi) or in a form of their own. After loading, each of these modules is
replaced by one here, which has the same weights and calls Hookline's attention.
"""
