// At level 2 an order is chosen before results are in place and parts are written where they belong.
// Here %a is written into %c, which takes no more than %a alone in the order of the program: that
// stays, where the order that is chosen needs both.
// RUN: ge-opt %s -p 'lower-to-tasks,order-tasks' | filecheck %s --check-prefix=CHOSEN
// RUN: ge-compile %s --fusion off --memory 1 -o - | filecheck %s
// RUN: ge-compile %s --fusion off --memory 2 -o - | filecheck %s
// RUN: ge-compile %s --fusion off --memory 3 -o - | filecheck %s
// So it is where only that order keeps a limit.
// RUN: ge-compile %s --fusion off --memory 2 --memory-limit 1536 --remarks -o - 2>&1 | filecheck %s --check-prefix=LIMIT
// CHOSEN: npu_task.order = "
// CHECK-NOT: npu_task.order
// CHECK: npu_task.arena_bytes = 1536 :
// LIMIT: over the memory limit; order: another order of the launches saves 1024 bytes
// LIMIT: npu_task.arena_bytes = 1536 :
func.func @main(%x: tensor<2x130xf16>, %y: tensor<2x130xf16>)
    -> (tensor<2x130xf16>, tensor<2x130xf16>, tensor<4x8xf16>, tensor<2x130xf16>) {
  %a = graph.add %x, %y : (tensor<2x130xf16>, tensor<2x130xf16>) -> tensor<2x130xf16>
  %b = graph.transpose %y permutation [0, 1] : (tensor<2x130xf16>) -> tensor<2x130xf16>
  %c = graph.concat %b, %a axis 0 : (tensor<2x130xf16>, tensor<2x130xf16>) -> tensor<4x130xf16>
  %n = graph.neg %a : (tensor<2x130xf16>) -> tensor<2x130xf16>
  %d = graph.sub %b, %x : (tensor<2x130xf16>, tensor<2x130xf16>) -> tensor<2x130xf16>
  %t = graph.tanh %b : (tensor<2x130xf16>) -> tensor<2x130xf16>
  %m = graph.mul %t, %a : (tensor<2x130xf16>, tensor<2x130xf16>) -> tensor<2x130xf16>
  %e = graph.sub %d, %d : (tensor<2x130xf16>, tensor<2x130xf16>) -> tensor<2x130xf16>
  %s = graph.slice %c starts [65] ends [73] axes [1] : (tensor<4x130xf16>) -> tensor<4x8xf16>
  func.return %n, %m, %s, %e : tensor<2x130xf16>, tensor<2x130xf16>, tensor<4x8xf16>, tensor<2x130xf16>
}
