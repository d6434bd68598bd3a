"""Turns a checkpoint into a running model in this process: the executor `uniproc`."""
