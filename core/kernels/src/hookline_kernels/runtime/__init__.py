"""How a process computes on this machine: threads, memory, and what it imports.

It knows torch and the system, and no engine.
"""
