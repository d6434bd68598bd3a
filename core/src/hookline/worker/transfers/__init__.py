"""The worker side of KV transfers: a connector beside the KV cache."""
