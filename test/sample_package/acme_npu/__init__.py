"""What Acme adds to ge. Tools load this when they start; what it names is imported when it is used.

`ops.py` has two ops, one of which the compiler keeps down to the program, with a numpy kernel
(`kernels.py`) and a tile program (`tiles.py`). The other is written as ops of ge by a pass
(`passes.py`), which also has a rule of the graph level and a fusion with a kernel of its own.
"""

import ge

PACKAGE = ge.Package(
    dialects={"acme": "acme_npu.ops:Acme"},
    passes={
        "acme-lower-twice": "acme_npu.passes:LowerTwicePass",
        "acme-find-clipped": "acme_npu.passes:FindClippedPass",
        "acme-fuse-clipped": "acme_npu.passes:FuseClippedPass",
    },
    kernels=["acme_npu.kernels"],
    tiles=["acme_npu.tiles"],
    onnx={"com.acme": "acme_npu.onnx_ops"},
    targets={"acme1": "acme_npu:acme1.toml"},
    operations={"AcmeTwice": "acme_npu.host"},
)
