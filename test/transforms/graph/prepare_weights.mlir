// RUN: ge-opt %s --split-input-file -p prepare-weights,eliminate-dead-code | filecheck %s

// Work on weights is done once, at load.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<4xf32>
  %0 = graph.neg %w : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.add %x, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
// CHECK:      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:   %[[P:.*]] = graph.constant #graph.weight<"prepared.0"> : tensor<4xf32>
// CHECK-NEXT:   graph.add %x, %[[P]] :
// CHECK:      func.func private @prepare() -> (tensor<4xf32> {graph.name = "prepared.0"}) {
// CHECK-NEXT:   %[[W:.*]] = graph.constant #graph.weight<"w">
// CHECK-NEXT:   %[[N:.*]] = graph.neg %[[W]] :
// CHECK-NEXT:   %[[E:.*]] = graph.exp %[[N]] :
// CHECK-NEXT:   func.return %[[E]] :

// -----

// An expression that blows up memory stays where it is.
func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %a = graph.constant #graph.weight<"a"> : tensor<1024x1xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<1x1024xf32>
  %0 = graph.add %a, %b : (tensor<1024x1xf32>, tensor<1x1024xf32>) -> tensor<1024x1024xf32>
  %1 = graph.mul %x, %0 : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  func.return %1 : tensor<1024x1024xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<1024x1024xf32>)
// CHECK:         graph.add
// CHECK-NOT:     @prepare

// -----

// In a branch and in the body of a loop too; but not what could fail where it would not run.
func.func @main(%c: tensor<i1>, %n: tensor<i64>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<f32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<4xf32>
  %0 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %b = graph.exp %w : (tensor<4xf32>) -> tensor<4xf32>
    %d = graph.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %go, %d : tensor<i1>, tensor<4xf32>
  }
  %k = graph.constant #graph.weight<"k"> : tensor<i64>
  %1, %2 = graph.if %c : (tensor<i1>) -> (tensor<4xf32>, tensor<f32>) {
    %b = graph.neg %w : (tensor<4xf32>) -> tensor<4xf32>
    %g = graph.gather %b, %k : (tensor<4xf32>, tensor<i64>) -> tensor<f32>
    graph.yield %b, %g : tensor<4xf32>, tensor<f32>
  } else {
    %z = graph.constant dense<0.0> : tensor<f32>
    graph.yield %x, %z : tensor<4xf32>, tensor<f32>
  }
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<f32>
}
// CHECK-LABEL: func.func @main(%c
// CHECK:         graph.loop
// CHECK-NEXT:      %[[E:.*]] = graph.constant #graph.weight<"prepared.0">
// CHECK-NEXT:      graph.add %a, %[[E]] :
// CHECK:         graph.if
// CHECK-NEXT:      %[[N:.*]] = graph.constant #graph.weight<"prepared.1">
// CHECK-NEXT:      %[[G:.*]] = graph.gather %[[N]],
// CHECK-NEXT:      graph.yield %[[N]], %[[G]] :
// CHECK:       @prepare()
// CHECK:         %[[E:.*]] = graph.exp
// CHECK:         %[[N:.*]] = graph.neg
// CHECK:         func.return %[[E]], %[[N]] :

// -----

// What is made from a fill (a mask that parts are written into) is prepared; the fill is not.
func.func @main(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %f = graph.fill 0.0 : f32 shape [64, 64] : () -> tensor<64x64xf32>
  %i = graph.constant dense<[[1], [2]]> : tensor<2x1xi64>
  %v = graph.constant #graph.weight<"v"> : tensor<2x64xf32>
  %0 = graph.scatter_nd %f, %i, %v : (tensor<64x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<64x64xf32>
  %1 = graph.add %x, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = graph.maximum %x, %f : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  func.return %1, %2 : tensor<64x64xf32>, tensor<64x64xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<64x64xf32>)
// CHECK-NEXT:    %[[F:.*]] = graph.fill
// CHECK-NEXT:    %[[P:.*]] = graph.constant #graph.weight<"prepared.0">
// CHECK-NEXT:    graph.add %x, %[[P]] :
// CHECK-NEXT:    graph.maximum %x, %[[F]] :
// CHECK:       func.func private @prepare()
// CHECK-NEXT:    graph.fill
// CHECK:         graph.scatter_nd

// -----

// A fill alone is nothing to prepare.
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %f = graph.fill 0.0 : f32 shape [64, 64] : () -> tensor<64x64xf32>
  %0 = graph.maximum %x, %f : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  func.return %0 : tensor<64x64xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<64x64xf32>)
// CHECK-NOT:     @prepare

// -----

// A gather of relative positions may grow further than a broadcast.
func.func @main(%x: tensor<60000x8xf32>) -> tensor<60000x8xf32> {
  %t = graph.constant #graph.weight<"t"> : tensor<1000x8xf32>
  %i = graph.constant #graph.weight<"i"> : tensor<60000xi64>
  %s = graph.constant #graph.weight<"s"> : tensor<60000x1xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<8xf32>
  %g = graph.gather %t, %i : (tensor<1000x8xf32>, tensor<60000xi64>) -> tensor<60000x8xf32>
  %0 = graph.add %x, %g : (tensor<60000x8xf32>, tensor<60000x8xf32>) -> tensor<60000x8xf32>
  %1 = graph.mul %s, %b : (tensor<60000x1xf32>, tensor<8xf32>) -> tensor<60000x8xf32>
  %2 = graph.add %0, %1 : (tensor<60000x8xf32>, tensor<60000x8xf32>) -> tensor<60000x8xf32>
  func.return %2 : tensor<60000x8xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<60000x8xf32>)
// CHECK:         %[[P:.*]] = graph.constant #graph.weight<"prepared.0"> : tensor<60000x8xf32>
// CHECK:         graph.add %x, %[[P]] :
// CHECK-NEXT:    graph.mul
// CHECK:       func.func private @prepare()
// CHECK-NOT:     graph.mul
// CHECK:         graph.gather

// -----

// A weight of the model may have such a name already.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<4xf32>
  %p = graph.constant #graph.weight<"prepared.0"> : tensor<4xf32>
  %0 = graph.neg %w : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.add %x, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.mul %1, %p : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<4xf32>)
// CHECK-DAG:     %[[N:.*]] = graph.constant #graph.weight<"prepared.1"> : tensor<4xf32>
// CHECK-DAG:     %[[P:.*]] = graph.constant #graph.weight<"prepared.0"> : tensor<4xf32>
// CHECK:         %[[A:.*]] = graph.add %x, %[[N]] :
// CHECK-NEXT:    graph.mul %[[A]], %[[P]] :
// CHECK:       func.func private @prepare() -> (tensor<4xf32> {graph.name = "prepared.1"})

// -----

// A weight in two shapes is stored once: its reshapes are views. One that is used in a single other
// shape is stored in that.
func.func @main(%x: tensor<4x4xf32>, %y: tensor<16xf32>) -> (tensor<4x4xf32>, tensor<16xf32>, tensor<16xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<4x4xf32>
  %0 = graph.add %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = graph.reshape %w shape [16] : (tensor<4x4xf32>) -> tensor<16xf32>
  %1 = graph.add %y, %f : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<4x4xf32>
  %g = graph.reshape %v shape [16] : (tensor<4x4xf32>) -> tensor<16xf32>
  %2 = graph.add %y, %g : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %0, %1, %2 : tensor<4x4xf32>, tensor<16xf32>, tensor<16xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<4x4xf32>, %y
// CHECK-NEXT:    %[[W:.*]] = graph.constant #graph.weight<"w"> : tensor<4x4xf32>
// CHECK-NEXT:    graph.add %x, %[[W]] :
// CHECK-NEXT:    %[[F:.*]] = graph.reshape %[[W]] shape
// CHECK-NEXT:    graph.add %y, %[[F]] :
// CHECK-NEXT:    %[[G:.*]] = graph.constant #graph.weight<"prepared.0"> : tensor<16xf32>
// CHECK-NEXT:    graph.add %y, %[[G]] :

// -----

// A weight that is quantized, and dequantized for a matmul or a sum, is prepared as integers; for any
// other user, or where the integers take no fewer bytes, as floats.
func.func @main(%x: tensor<4x64xf32>, %y: tensor<64x32xf32>) -> (tensor<4x32xf32>, tensor<64x32xf32>, tensor<4x1xf32>, tensor<64x32xf32>, tensor<64x32xf32>) {
  %w = graph.constant #graph.weight<"w"> : tensor<64x32xf32>
  %s = graph.constant #graph.weight<"s"> : tensor<32xf32>
  %q = graph.quantize %w, %s to i8 axis 1 : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xi8>
  %d = graph.dequantize %q, %s axis 1 : (tensor<64x32xi8>, tensor<32xf32>) -> tensor<64x32xf32>
  %0 = graph.matmul %x, %d : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<64x32xi8>
  %e = graph.dequantize %v, %s axis 1 : (tensor<64x32xi8>, tensor<32xf32>) -> tensor<64x32xf32>
  %1 = graph.add %y, %e : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %u = graph.constant #graph.weight<"u"> : tensor<64x1xi8>
  %t = graph.constant #graph.weight<"t"> : tensor<64x1xf32>
  %f = graph.dequantize %u, %t axis 0 block_size 1 : (tensor<64x1xi8>, tensor<64x1xf32>) -> tensor<64x1xf32>
  %2 = graph.matmul %x, %f : (tensor<4x64xf32>, tensor<64x1xf32>) -> tensor<4x1xf32>
  %a = graph.constant #graph.weight<"a"> : tensor<64x32xi8>
  %g = graph.dequantize %a, %s axis 1 : (tensor<64x32xi8>, tensor<32xf32>) -> tensor<64x32xf32>
  %3 = graph.mul %y, %g : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %b = graph.constant #graph.weight<"b"> : tensor<64x1xi8>
  %r = graph.constant dense<0.5> : tensor<f32>
  %h = graph.dequantize %b, %r : (tensor<64x1xi8>, tensor<f32>) -> tensor<64x1xf32>
  %4 = graph.add %y, %h : (tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>
  func.return %0, %1, %2, %3, %4 : tensor<4x32xf32>, tensor<64x32xf32>, tensor<4x1xf32>, tensor<64x32xf32>, tensor<64x32xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<4x64xf32>, %y
// CHECK-DAG:     %[[S:.*]] = graph.constant #graph.weight<"s"> : tensor<32xf32>
// CHECK-DAG:     %[[Q:.*]] = graph.constant #graph.weight<"prepared.0"> : tensor<64x32xi8>
// CHECK:         %[[D:.*]] = graph.dequantize %[[Q]], %[[S]] axis 1
// CHECK-NEXT:    graph.matmul %x, %[[D]] :
// CHECK:         %[[E:.*]] = graph.dequantize %v, %[[S]] axis 1
// CHECK-NEXT:    graph.add %y, %[[E]] :
// CHECK:         %[[F:.*]] = graph.constant #graph.weight<"prepared.1"> : tensor<64x1xf32>
// CHECK-NEXT:    graph.matmul %x, %[[F]] :
// CHECK:         %[[G:.*]] = graph.constant #graph.weight<"prepared.2"> : tensor<64x32xf32>
// CHECK-NEXT:    graph.mul %y, %[[G]] :
// CHECK:         %[[H:.*]] = graph.constant #graph.weight<"prepared.3"> : tensor<64x1xf32>
// CHECK-NEXT:    graph.add %y, %[[H]] :
// CHECK:       func.func private @prepare()
// CHECK-COUNT-3: graph.dequantize
// CHECK-NOT:     graph.dequantize

// -----

// In a branch a launch would dequantize what is dequantized around it, in each run.
func.func @main(%x: tensor<4x64xf32>, %c: tensor<i1>) -> tensor<4x32xf32> {
  %s = graph.constant #graph.weight<"s"> : tensor<32xf32>
  %v = graph.constant #graph.weight<"v"> : tensor<64x32xi8>
  %d = graph.dequantize %v, %s axis 1 : (tensor<64x32xi8>, tensor<32xf32>) -> tensor<64x32xf32>
  %z = graph.constant #graph.weight<"z"> : tensor<4x32xf32>
  %0 = graph.if %c : (tensor<i1>) -> tensor<4x32xf32> {
    %1 = graph.matmul %x, %d : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
    graph.yield %1 : tensor<4x32xf32>
  } else {
    graph.yield %z : tensor<4x32xf32>
  }
  func.return %0 : tensor<4x32xf32>
}
// CHECK-LABEL: func.func @main(%x: tensor<4x64xf32>, %c
// CHECK-NOT:     graph.dequantize
// CHECK:         graph.constant #graph.weight<"prepared.0"> : tensor<64x32xf32>
// CHECK:       func.func private @prepare()
// CHECK:         graph.dequantize
