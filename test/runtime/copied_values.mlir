// What control flow hands on is copied: the slot of an initial value, of a branch's value and of a
// scanned row is used again while the values live on. The checker says so, and the emulator agrees.
// RUN: ge-run %s --sanitize | filecheck %s
// CHECK:      kept: float32[2] = 1 2{{$}}
// CHECK-NEXT: chosen: float32[2] = 1 2{{$}}
// CHECK-NEXT: rows: float32[2, 2] = 2 4 2 4{{$}}
npu_task.kernel @double on vector {
^bb0(%x: tensor<2xf32>):
  %0 = graph.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  npu_task.return %0 : tensor<2xf32>
}
func.func @main() -> (
    memref<?xf32, "host"> {graph.name = "kept"},
    memref<?xf32, "host"> {graph.name = "chosen"},
    memref<2x2xf32, "host"> {graph.name = "rows"})
    attributes {npu_task.streams = 1 : i64, npu_task.arena_bytes = 2048 : i64} {
  %k = npu_task.constant dense<[1.0, 2.0]> : tensor<2xf32> as memref<2xf32, "hbm">
  %n = npu_task.constant dense<2> : tensor<i64> as memref<i64, "hbm">
  %p = npu_task.constant dense<true> : tensor<i1> as memref<i1, "hbm">
  %a = npu_task.slot arena 0 : memref<2xf32, "hbm">
  npu_task.copy %k to %a on 0 : memref<2xf32, "hbm"> to memref<2xf32, "hbm">
  %kept = npu_task.loop trip %n : memref<i64, "hbm"> inits(%a : memref<2xf32, "hbm">) -> memref<?xf32, "hbm"> order [0] stacked [] {
  ^bb0(%i: memref<i64, "hbm">, %g: memref<i1, "hbm">, %s: memref<?xf32, "hbm">):
    %z = npu_task.slot arena 0 : memref<2xf32, "hbm">
    npu_task.launch @double on 0 ins(%k : memref<2xf32, "hbm">) outs(%z : memref<2xf32, "hbm">)
    npu_task.yield %g, %s : memref<i1, "hbm">, memref<?xf32, "hbm">
  }
  %b = npu_task.slot arena 512 : memref<2xf32, "hbm">
  npu_task.copy %k to %b on 0 : memref<2xf32, "hbm"> to memref<2xf32, "hbm">
  %chosen = npu_task.if %p : memref<i1, "hbm"> -> memref<?xf32, "hbm"> order [0] {
    npu_task.yield %b : memref<2xf32, "hbm">
  } else {
    npu_task.yield %b : memref<2xf32, "hbm">
  }
  %c = npu_task.slot arena 512 : memref<2xf32, "hbm">
  npu_task.launch @double on 0 ins(%k : memref<2xf32, "hbm">) outs(%c : memref<2xf32, "hbm">)
  %rows = npu_task.slot arena 1024 : memref<2x2xf32, "hbm">
  npu_task.loop trip %n : memref<i64, "hbm"> scans(%rows : memref<2x2xf32, "hbm">) order [] stacked [1] {
  ^bb0(%j: memref<i64, "hbm">, %h: memref<i1, "hbm">):
    npu_task.yield %h, %c : memref<i1, "hbm">, memref<2xf32, "hbm">
  }
  %0 = npu_task.transfer %kept on 0 : memref<?xf32, "hbm"> to memref<?xf32, "host">
  %1 = npu_task.transfer %chosen on 0 : memref<?xf32, "hbm"> to memref<?xf32, "host">
  %2 = memref.alloc() : memref<2x2xf32, "host">
  npu_task.copy %rows to %2 on 0 : memref<2x2xf32, "hbm"> to memref<2x2xf32, "host">
  func.return %0, %1, %2 : memref<?xf32, "host">, memref<?xf32, "host">, memref<2x2xf32, "host">
}
