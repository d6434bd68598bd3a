"""The worker side of KV transfers: a connector and the KV cache."""
