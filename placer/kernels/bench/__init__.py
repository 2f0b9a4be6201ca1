"""The benchmark: engines on public and generated graphs beside published figures."""
