"""Generates the Grafana dashboard, recording rules and alerts from the catalogue."""
