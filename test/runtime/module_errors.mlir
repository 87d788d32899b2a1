// Modules that cannot be run.
// RUN: not ge-run %s 2>&1 | filecheck %s --check-prefix=WEIGHT
// WEIGHT: module_errors.mlir:9:8: error: weight 'w' is not in the payload; put the weights beside the model, or use --random-weights or --timing-only
// RUN: ge-run %s --random-weights | filecheck %s --check-prefix=RANDOM
// RANDOM: y: float32[2] =
// RUN: ge-run %s --timing-only 2>&1 | filecheck %s --check-prefix=TIME
// TIME: latency
func.func @main() -> (tensor<2xf32> {graph.name = "y"}) {
  %w = graph.constant #graph.weight<"w"> : tensor<2xf32>
  %0 = graph.constant #graph.weight<"v"> : tensor<2xf32>
  %1 = graph.mul %w, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %1 : tensor<2xf32>
}
