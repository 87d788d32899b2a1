"""ge: a graph compiler for NPUs, and the emulated NPU that runs what it makes."""
