"""The host that feeds the device: operations, their setups and caches, threads, captured graphs."""
