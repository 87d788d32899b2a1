// What elementwise ops make is not kept over the place where the most is kept (here before the
// softmax: %p, %e and %n would be): copies before the late users make it again from %p.
// RUN: ge-opt %s -p recompute-elementwise | filecheck %s
// The copies become part of launches, and no launch spans the place: the product leaves %p and %n.
// RUN: ge-opt %s -p 'recompute-elementwise,fuse-linear{target=910_merged},fuse-region{target=910_merged}' | filecheck %s --check-prefix=FUSED
// Memory level 3 does so, and says how many bytes that takes.
// RUN: ge-compile %s --target 310p3 --memory 2 -o - | filecheck %s --check-prefix=KEPT
// RUN: ge-compile %s --target 310p3 --memory 3 -o %t.mlir
// RUN: ge-opt %t.mlir -p verify-plan,verify-schedule | filecheck %s --check-prefix=PLAN

// CHECK-LABEL: func.func @main(
// CHECK-SAME:  fused_op.recomputed = 4 :
// CHECK:       [[P:%[a-zA-Z0-9_]+]] = graph.matmul %x, %w :
// CHECK-NEXT:  [[E:%[a-zA-Z0-9_]+]] = graph.exp [[P]] :
// CHECK-NEXT:  [[N:%[a-zA-Z0-9_]+]] = graph.neg [[E]] :
// CHECK-NEXT:  [[Q:%[a-zA-Z0-9_]+]] = graph.matmul [[N]], %w :
// CHECK-NEXT:  [[R:%[a-zA-Z0-9_]+]] = graph.softmax [[Q]] axis 1 {fused_op.phase = 1 : i64}
// CHECK-NEXT:  [[E2:%[a-zA-Z0-9_]+]] = graph.exp [[P]] {fused_op.phase = 1 : i64}
// CHECK-NEXT:  graph.mul [[E2]], [[R]] {fused_op.phase = 1 : i64}
// CHECK:       [[E3:%[a-zA-Z0-9_]+]] = graph.exp [[P]] {fused_op.phase = 1 : i64}
// CHECK-NEXT:  [[N3:%[a-zA-Z0-9_]+]] = graph.neg [[E3]] {fused_op.phase = 1 : i64}
// CHECK-NEXT:  graph.add [[N3]], {{.*}} {fused_op.phase = 1 : i64}

// FUSED:      %p, %n = fused_op.linear(%x, %w)
// FUSED:      [[Q:%[a-zA-Z0-9_]+]] = graph.matmul %n, %w :
// FUSED:      fused_op.region([[Q]], %p)
// FUSED:        graph.softmax
// FUSED:        graph.exp
// FUSED:        graph.neg

// KEPT: npu_task.arena_bytes = 16777216 :
// PLAN: fused_op.recomputed = 4 : i64, {{.*}}npu_task.arena_bytes = 12582912 :
func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<1024x1024xf32>
  %p = graph.matmul %x, %w : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %e = graph.exp %p : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %n = graph.neg %e : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %a = graph.relu %p : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %q = graph.matmul %n, %w : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %r = graph.softmax %q : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %1 = graph.mul %e, %r : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %2 = graph.matmul %1, %w : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %3 = graph.add %n, %2 : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %4 = graph.matmul %3, %a : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  func.return %4 : tensor<1024x1024xf32>
}
