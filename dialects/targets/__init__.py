"""NPUs that are known by name: `*.toml`."""

DEFAULT_TARGET = "910_merged"
KERNEL_TARGET = "910b2"  # of kernels of tiles: it states what instructions cost
