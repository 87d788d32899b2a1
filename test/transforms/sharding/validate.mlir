// RUN: ge-opt %s --validate -p 'annotate-shardings{mesh="dp=2,tp=4" rules="{\"x\": [[\"dp\"]], \"up\": [[], [\"tp\"]], \"down\": [[\"tp\"]], \"h\": [[\"tp\"]]}"},partition-spmd,fuse-linear,lower-to-tasks,bufferize-tasks,assign-streams,plan-memory' | filecheck %s

// From partition-spmd on the program of one device runs on all eight: each pass keeps the numbers.

// CHECK: graph.whole = array<i64: 6, 16>
func.func @main(%x: tensor<6x16xf32> {graph.name = "x"}) -> (tensor<6xf32> {graph.name = "y"}) {
  %up = graph.constant #graph.weight<"up"> : tensor<16x32xf32>
  %down = graph.constant #graph.weight<"down"> : tensor<32x16xf32>
  %0 = graph.matmul %x, %up : (tensor<6x16xf32>, tensor<16x32xf32>) -> tensor<6x32xf32>
  %1 = graph.relu %0 : (tensor<6x32xf32>) -> tensor<6x32xf32>
  %2 = graph.matmul %1, %down : (tensor<6x32xf32>, tensor<32x16xf32>) -> tensor<6x16xf32>
  %h = graph.softmax %2 axis 1 : (tensor<6x16xf32>) -> tensor<6x16xf32>
  %3 = graph.reduce max %h axes [1] keep_dims false : (tensor<6x16xf32>) -> tensor<6xf32>
  func.return %3 : tensor<6xf32>
}
