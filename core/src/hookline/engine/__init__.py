"""The engine: scheduler, KV cache, worker, one decoder, and the loop around them.

It is closed: of Hookline, it imports the types of requests, steps and events, and the
kernels. Features attach as extensions (`scheduler/extension.py` and
`worker/extension.py`); `hookline.engine_setup` gives it what it is made of.
"""
