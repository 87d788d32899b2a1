"""Writes input files, good and bad, for run_errors.mlir: npz.py PREFIX"""

import sys

import numpy as np

prefix = sys.argv[1]
x, n = np.zeros((2, 3), np.float32), np.ones(4, np.int64)
np.savez(f"{prefix}.good.npz", x=x, n=n)
np.savez(f"{prefix}.missing.npz", n=n, y=x)
np.savez(f"{prefix}.dtype.npz", x=x.astype(np.float64), n=n)
np.savez(f"{prefix}.shape.npz", x=x[:, :2], n=n)
np.savez(f"{prefix}.dims.npz", x=x, n=n, m=np.ones(5, np.int64))
np.savez(f"{prefix}.objects.npz", x=np.array([{}]), n=n)
np.save(f"{prefix}.single.npy", x)
data = open(f"{prefix}.good.npz", "rb").read()
open(f"{prefix}.truncated.npz", "wb").write(data[: len(data) // 2])
damaged = bytearray(data)
damaged[70:90] = b"\xff" * 20
open(f"{prefix}.damaged.npz", "wb").write(damaged)
open(f"{prefix}.empty.npz", "wb").close()
