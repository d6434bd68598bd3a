"""Attaches Hookline's loggers to `vllm serve`.

Nothing here raises into vLLM or waits in its threads: what vLLM calls copies references
into a bounded queue, and a thread of our own does the rest.
"""
