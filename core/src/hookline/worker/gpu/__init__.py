"""What a worker needs on a GPU only: graphs, pinned inputs, memory."""
