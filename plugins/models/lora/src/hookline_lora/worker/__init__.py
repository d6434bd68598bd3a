"""The worker's side: adapters in main memory, in slots, and in the steps' layers."""
