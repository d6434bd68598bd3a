"""Loads the proposer and the KV connector that a configuration names."""
