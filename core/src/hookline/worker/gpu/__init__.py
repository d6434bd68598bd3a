"""The worker's parts for GPUs: graphs, pinned inputs, memory."""
