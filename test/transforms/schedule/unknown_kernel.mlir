// RUN: ge-opt %s --verify-diagnostics -p assign-streams

func.func @main(%x: memref<4xf32, "hbm">) {
  // expected-error@+1 {{there is no kernel @neg_0; run lower-to-tasks}}
  npu_task.launch @neg_0 ins(%x : memref<4xf32, "hbm">) outs(%x : memref<4xf32, "hbm">)
  func.return
}
