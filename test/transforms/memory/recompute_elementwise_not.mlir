// What is kept, where an elementwise op in the same place would be computed again.
// RUN: ge-opt %s --load-plugin %S/Inputs/noise_plugin.py --split-input-file -p recompute-elementwise | filecheck %s

// CHECK-NOT: fused_op

// a random op gives something else each time
func.func @main(%p: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = acme.noisy %p : tensor<512x512xf32> -> tensor<512x512xf32>
  %q = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %r = graph.softmax %q : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.add %0, %r : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %1 : tensor<512x512xf32>
}

// -----

// a product is no elementwise op
func.func @main(%p: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = graph.matmul %p, %p : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %q = graph.softmax %0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %r = graph.softmax %q : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.add %0, %r : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %1 : tensor<512x512xf32>
}

// -----

// from what it is made of would take more bytes
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x256xf32> {
  %p = graph.matmul %x, %x : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %0 = graph.slice %p starts [0] ends [256] axes [1] : (tensor<512x512xf32>) -> tensor<512x256xf32>
  %q = graph.softmax %0 : (tensor<512x256xf32>) -> tensor<512x256xf32>
  %r = graph.softmax %q : (tensor<512x256xf32>) -> tensor<512x256xf32>
  %1 = graph.add %0, %r : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<512x256xf32>
  func.return %1 : tensor<512x256xf32>
}

// -----

// a result of the model has memory of its own
func.func @main(%x: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = graph.exp %x : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %q = graph.matmul %x, %x : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %r = graph.matmul %q, %0 : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %0, %r : tensor<512x512xf32>, tensor<512x512xf32>
}

// -----

// more than eight ops in a row
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %p = graph.matmul %x, %x : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.exp %p : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.neg %1 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %3 = graph.exp %2 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %4 = graph.neg %3 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %5 = graph.exp %4 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %6 = graph.neg %5 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %7 = graph.exp %6 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %8 = graph.neg %7 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %9 = graph.exp %8 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %q = graph.softmax %9 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %r = graph.softmax %q : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %a = graph.add %9, %r : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %a : tensor<512x512xf32>
}
