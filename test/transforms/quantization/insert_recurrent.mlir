// RUN: ge-opt %s -p insert-quantization --split-input-file --remarks 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t
// RUN: ge-opt %s -p 'insert-quantization{scheme=dynamic}' --split-input-file | filecheck %s --check-prefix ALONE
// RUN: ge-opt %s -p 'insert-quantization,expand-layers{quantized=true},lower-quantization,prepare-weights' --split-input-file | filecheck %s --check-prefix LOOP

// Weights of a recurrent layer have scales by row, by int8 the input and the states are integers too.
func.func @main(%x: tensor<16x16x256xf32> {graph.range = [-1.0 : f64, 1.55 : f64]}) -> tensor<16x1x16x512xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<1x2048x256xf32>
  %r = graph.constant #graph.weight<"r"> : tensor<1x2048x512xf32>
  %y, %h, %c = graph.lstm %x, %w, %r {graph.range.0 = [-0.5 : f64, 0.635 : f64]} : (tensor<16x16x256xf32>, tensor<1x2048x256xf32>, tensor<1x2048x512xf32>) -> (tensor<16x1x16x512xf32>, tensor<1x16x512xf32>, tensor<1x16x512xf32>)
  func.return %y : tensor<16x1x16x512xf32>
}
// CHECK-LABEL: func.func @main(
// CHECK:      [[Q:%[0-9]+]] = graph.quantize %x, {{.*}} to i8 :
// CHECK-NEXT: [[X:%[0-9]+]] = graph.dequantize [[Q]],
// CHECK:      graph.reduce max %{{[0-9]+}} axes [0, 2]
// CHECK:      [[W:%[0-9]+]] = graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} axis 1 : (tensor<1x2048x256xi8>, tensor<2048xf32>)
// CHECK:      [[R:%[0-9]+]] = graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} axis 1 : (tensor<1x2048x512xi8>, tensor<2048xf32>)
// CHECK-NEXT: graph.lstm [[X]], [[W]], [[R]] state_scale 0.00{{(5|499999).*}} :
// CHECK-NOT:  graph.range

// Schemes that round activations otherwise leave it floats.
// ALONE:      [[W:%[0-9]+]] = graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} axis 1 :
// ALONE:      [[R:%[0-9]+]] = graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} axis 1 :
// ALONE-NEXT: graph.lstm %x, [[W]], [[R]] :

// A step multiplies the codes that the one before leaves.
// LOOP-LABEL: func.func @main(
// LOOP:       graph.matmul %{{[0-9]+}}, %{{[0-9]+}} transpose_rhs true : (tensor<256x256xi8>, tensor<2048x256xi8>) -> tensor<256x2048xi32>
// LOOP:       [[R:%[0-9]+]] = graph.constant #graph.weight<"prepared.{{[0-9]}}"> : tensor<2048x512xi8>
// LOOP:       graph.loop
// LOOP-SAME:  [[C:%[0-9]+]] = %{{[0-9]+}} : tensor<16x512xi8>)
// LOOP:       graph.matmul [[C]], [[R]] transpose_rhs true : (tensor<16x512xi8>, tensor<2048x512xi8>) -> tensor<16x2048xi32>
// LOOP:       [[N:%[0-9]+]] = graph.quantize %{{[0-9]+}}, %{{[0-9]+}} to i8 :
// LOOP:       graph.yield {{.*}}, [[N]], %{{[0-9]+}} :

// -----

// Small matmuls take as long in floats: the weights alone are integers, dequantized once, before
// the loop.
func.func @main(%x: tensor<5x2x8xf32> {graph.range = [-1.0 : f64, 1.0 : f64]}) -> tensor<5x2x2x6xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<2x18x8xf32>
  %r = graph.constant #graph.weight<"r"> : tensor<2x18x6xf32>
  %y, %h = graph.gru %x, %w, %r direction bidirectional linear_before_reset true {graph.range.0 = [-1.0 : f64, 1.0 : f64]} : (tensor<5x2x8xf32>, tensor<2x18x8xf32>, tensor<2x18x6xf32>) -> (tensor<5x2x2x6xf32>, tensor<2x2x6xf32>)
  func.return %y : tensor<5x2x2x6xf32>
}
// REMARK: 'y' in w8a16: integers would take {{[0-9.]+}} us longer
// CHECK-LABEL: func.func @main(
// CHECK:      graph.gru %x, %{{[0-9]+}}, %{{[0-9]+}} linear_before_reset true direction bidirectional :

// LOOP-LABEL: func.func @main(
// LOOP:       [[D:%[0-9]+]] = graph.dequantize %{{[0-9]+}}, %{{[0-9]+}} to f32 axis 0 : (tensor<18x6xi8>, tensor<18xf32>)
// LOOP:       graph.loop
// LOOP:       graph.matmul %{{[0-9]+}}, [[D]] transpose_rhs true : (tensor<2x6xf32>, tensor<18x6xf32>)
// LOOP:       graph.loop
