"""The number of threads that compute a step on CPUs, by the cores they really get."""
