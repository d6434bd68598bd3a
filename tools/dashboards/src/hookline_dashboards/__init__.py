"""The Grafana dashboard, recording rules and alerts, made from the catalogue."""
