// What stays as it is, where a pure op of the same size would be computed again.
// RUN: ge-opt %s --load-plugin %S/Inputs/noise_plugin.py --split-input-file -p 'lower-to-tasks,rematerialize' | filecheck %s

// CHECK-NOT: npu_task.recomputed

// a random op gives something else each time
func.func @main(%x: tensor<256x1024xf32>, %y: tensor<256x1024xf32>) -> tensor<256x1xf32> {
  %0 = acme.noisy %x : tensor<256x1024xf32> -> tensor<256x1024xf32>
  %2 = graph.reduce sum %0 axes [1] : (tensor<256x1024xf32>) -> tensor<256x1xf32>
  %3 = graph.exp %y : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %4 = graph.neg %3 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %5 = graph.abs %4 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %6 = graph.reduce sum %5 axes [1] : (tensor<256x1024xf32>) -> tensor<256x1xf32>
  %7 = graph.add %2, %6 : (tensor<256x1xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
  %8 = graph.mul %0, %7 : (tensor<256x1024xf32>, tensor<256x1xf32>) -> tensor<256x1024xf32>
  %9 = graph.reduce max %8 axes [1] : (tensor<256x1024xf32>) -> tensor<256x1xf32>
  func.return %9 : tensor<256x1xf32>
}

// -----

// a value that is small beside the others gains too little for its time
func.func @main(%x: tensor<16x1024xf32>, %y: tensor<256x1024xf32>) -> tensor<1x1xf32> {
  %0 = graph.exp %x : (tensor<16x1024xf32>) -> tensor<16x1024xf32>
  %2 = graph.reduce sum %0 axes [0, 1] : (tensor<16x1024xf32>) -> tensor<1x1xf32>
  %3 = graph.exp %y : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %4 = graph.neg %3 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %6 = graph.reduce sum %4 axes [0, 1] : (tensor<256x1024xf32>) -> tensor<1x1xf32>
  %7 = graph.add %2, %6 : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %8 = graph.mul %0, %7 : (tensor<16x1024xf32>, tensor<1x1xf32>) -> tensor<16x1024xf32>
  %9 = graph.reduce max %8 axes [0, 1] : (tensor<16x1024xf32>) -> tensor<1x1xf32>
  func.return %9 : tensor<1x1xf32>
}

// -----

// what a branch computes
func.func @main(%c: tensor<i1>, %x: tensor<256x1024xf32>, %y: tensor<256x1024xf32>) -> tensor<256x1xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<256x1024xf32> {
    %a = graph.exp %x : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
    graph.yield %a : tensor<256x1024xf32>
  } else {
    %b = graph.abs %x : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
    graph.yield %b : tensor<256x1024xf32>
  }
  %2 = graph.reduce sum %0 axes [1] : (tensor<256x1024xf32>) -> tensor<256x1xf32>
  %3 = graph.exp %y : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %4 = graph.neg %3 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %5 = graph.abs %4 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %6 = graph.reduce sum %5 axes [1] : (tensor<256x1024xf32>) -> tensor<256x1xf32>
  %7 = graph.add %2, %6 : (tensor<256x1xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
  %8 = graph.mul %0, %7 : (tensor<256x1024xf32>, tensor<256x1xf32>) -> tensor<256x1024xf32>
  %9 = graph.reduce max %8 axes [1] : (tensor<256x1024xf32>) -> tensor<256x1xf32>
  func.return %9 : tensor<256x1xf32>
}
