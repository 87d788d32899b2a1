// With --poison, a plan that gives a slot away too early gives wrong numbers, not luck: %a is at
// the bytes of %b, whose last reader comes after %a is written.
// RUN: env GE_SANITIZE=0 ge-run %s | filecheck %s --check-prefix=PLAN
// RUN: env GE_SANITIZE=0 ge-run %s --poison | filecheck %s --check-prefix=PLAN
// PLAN: right: float32[2] = 5 7{{$}}
// PLAN: early: float32[2] = 6 8{{$}}
// Bytes that were never written.
// RUN: env GE_SANITIZE=0 ge-run %s | filecheck %s --check-prefix=LUCK
// LUCK: unwritten: float32[2]
// RUN: env GE_SANITIZE=0 ge-run %s --poison | filecheck %s --check-prefix=POISON
// POISON: unwritten: float32[2] = nan nan
npu_task.kernel @set on vector {
^bb0:
  %0 = graph.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %1 = graph.add %0, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  npu_task.return %1 : tensor<2xf32>
}
npu_task.kernel @increment on vector {
^bb0(%x: tensor<2xf32>):
  %0 = graph.constant dense<1.0> : tensor<f32>
  %1 = graph.add %x, %0 : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  npu_task.return %1 : tensor<2xf32>
}
func.func @main() -> (
    memref<2xf32, "hbm"> {graph.name = "right"},
    memref<2xf32, "hbm"> {graph.name = "early"},
    memref<2xf32, "hbm"> {graph.name = "unwritten"}) {
  %a = npu_task.slot arena 0 : memref<2xf32, "hbm">
  npu_task.launch @set on 0 outs(%a : memref<2xf32, "hbm">)
  %right = npu_task.slot io 0 : memref<2xf32, "hbm">
  npu_task.launch @increment on 0 ins(%a : memref<2xf32, "hbm">) outs(%right : memref<2xf32, "hbm">)
  // in place, and then one more reader of %a
  %b = npu_task.slot arena 0 : memref<2xf32, "hbm">
  npu_task.launch @increment on 0 ins(%a : memref<2xf32, "hbm">) outs(%b : memref<2xf32, "hbm">)
  %early = npu_task.slot io 512 : memref<2xf32, "hbm">
  npu_task.launch @increment on 0 ins(%a : memref<2xf32, "hbm">) outs(%early : memref<2xf32, "hbm">)
  %c = npu_task.slot arena 0 : memref<2xf32, "hbm">
  %unwritten = npu_task.slot io 1024 : memref<2xf32, "hbm">
  npu_task.copy %c to %unwritten on 0 : memref<2xf32, "hbm"> to memref<2xf32, "hbm">
  func.return %right, %early, %unwritten : memref<2xf32, "hbm">, memref<2xf32, "hbm">, memref<2xf32, "hbm">
}
