// RUN: ge-opt %s --split-input-file --parsing-diagnostics -p 'verify-level{level=tasks}' | filecheck %s

// What a program states about itself has the right type, or it is an error at its function.

// CHECK: error: 'npu_task.streams': expected an i64 that is not negative, not "two"
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {npu_task.streams = "two"} {
  func.return %x : tensor<4xf32>
}

// -----

// CHECK: error: 'npu_task.certificate': expected a dictionary, not 3 : i64{{$}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {npu_task.certificate = 3} {
  func.return %x : tensor<4xf32>
}

// -----

// CHECK: error: 'npu_task.no_reuse': expected a list of strings, not [1 : i64]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {npu_task.no_reuse = [1]} {
  func.return %x : tensor<4xf32>
}
