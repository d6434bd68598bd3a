"""What a machine or container gives to a process: memory, cores, folders."""
