"""NPUs that are known by name: `*.toml`."""

DEFAULT_TARGET = "910b2"  # a chip that was measured
