// The place where the most is kept is before a branch: what is made and used inside of it is no
// matter of the place; what it uses from outside is made again in front of it.
// RUN: ge-opt %s -p recompute-elementwise | filecheck %s
// RUN: ge-compile %s --memory 3 -o %t.mlir
// RUN: ge-check %t.mlir | filecheck %s --check-prefix=PROVED

// CHECK-LABEL: func.func @main(
// CHECK-SAME:  fused_op.recomputed = 1 :
// CHECK:       [[P:%[a-zA-Z0-9_]+]] = graph.matmul %x, %w :
// CHECK-NEXT:  [[E:%[a-zA-Z0-9_]+]] = graph.exp [[P]] :
// CHECK-NEXT:  [[Q:%[a-zA-Z0-9_]+]] = graph.matmul [[E]], %w :
// CHECK-NEXT:  [[R:%[a-zA-Z0-9_]+]] = graph.softmax [[Q]] axis 1 {
// CHECK-NEXT:  [[E2:%[a-zA-Z0-9_]+]] = graph.exp [[P]] {fused_op.phase = 1 : i64}
// CHECK-NEXT:  graph.if %c :
// CHECK-NEXT:    [[N:%[a-zA-Z0-9_]+]] = graph.neg [[R]] :
// CHECK-NEXT:    [[T:%[a-zA-Z0-9_]+]] = graph.tanh [[N]] :
// CHECK-NEXT:    graph.mul [[T]], [[E2]] :
// PROVED: proved
func.func @main(%x: tensor<1024x1024xf32>, %c: tensor<i1>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<1024x1024xf32>
  %p = graph.matmul %x, %w : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %e = graph.exp %p : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %q = graph.matmul %e, %w : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %r = graph.softmax %q : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %y = graph.if %c : (tensor<i1>) -> tensor<1024x1024xf32> {
    %n = graph.neg %r : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %t = graph.tanh %n : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %m = graph.mul %t, %e : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    graph.yield %m : tensor<1024x1024xf32>
  } else {
    graph.yield %r : tensor<1024x1024xf32>
  }
  %z = graph.matmul %y, %p : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  func.return %y, %z : tensor<1024x1024xf32>, tensor<1024x1024xf32>
}
