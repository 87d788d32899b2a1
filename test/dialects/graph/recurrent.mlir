// RUN: ge-opt %s | ge-opt --print-op-generic | ge-opt | filecheck %s

// The recurrent layers with all operands and attributes. S=5, B=3, I=4, H=6.

// CHECK-LABEL: func.func @rnn(
func.func @rnn(%x: tensor<5x3x4xf32>, %w: tensor<1x6x4xf32>, %r: tensor<1x6x6xf32>, %b: tensor<1x12xf32>) {
  // CHECK-NEXT: %y, %h = graph.rnn %x, %w, %r : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  %y, %h = graph.rnn %x, %w, %r : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  // CHECK-NEXT: %z, %l = graph.rnn %x, %w, %r bias %b direction reverse activations [leaky_relu] alphas [1.000000e-02] clip 3.000000e+00 : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>, tensor<1x12xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  %z, %l = graph.rnn %x, %w, %r bias %b direction reverse activations [leaky_relu] alphas [1.000000e-02] clip 3.000000e+00 : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>, tensor<1x12xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  // CHECK-NEXT: %u, %v = graph.rnn %x, %w, %r state_scale 7.812500e-03 :
  %u, %v = graph.rnn %x, %w, %r state_scale 7.812500e-03 : (tensor<5x3x4xf32>, tensor<1x6x4xf32>, tensor<1x6x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}

// CHECK-LABEL: func.func @gru(
func.func @gru(%x: tensor<?x?x4xf16>, %w: tensor<2x18x4xf16>, %r: tensor<2x18x6xf16>, %n: tensor<3xi32>, %i: tensor<2x3x6xf16>) {
  // CHECK-NEXT: %y, %h = graph.gru %x, %w, %r lengths %n initial_state %i linear_before_reset true direction bidirectional : (tensor<?x?x4xf16>, tensor<2x18x4xf16>, tensor<2x18x6xf16>, tensor<3xi32>, tensor<2x3x6xf16>) -> (tensor<?x2x3x6xf16>, tensor<2x3x6xf16>)
  %y, %h = graph.gru %x, %w, %r lengths %n initial_state %i linear_before_reset true direction bidirectional : (tensor<?x?x4xf16>, tensor<2x18x4xf16>, tensor<2x18x6xf16>, tensor<3xi32>, tensor<2x3x6xf16>) -> (tensor<?x2x3x6xf16>, tensor<2x3x6xf16>)
  func.return
}

// CHECK-LABEL: func.func @lstm(
func.func @lstm(%x: tensor<5x3x4xf32>, %w: tensor<1x24x4xf32>, %r: tensor<1x24x6xf32>, %s: tensor<1x3x6xf32>, %p: tensor<1x18xf32>) {
  // CHECK-NEXT: %y, %h, %c = graph.lstm %x, %w, %r : (tensor<5x3x4xf32>, tensor<1x24x4xf32>, tensor<1x24x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>)
  %y, %h, %c = graph.lstm %x, %w, %r : (tensor<5x3x4xf32>, tensor<1x24x4xf32>, tensor<1x24x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>)
  // CHECK-NEXT: %z, %l, %m = graph.lstm %x, %w, %r initial_state %s initial_cell %s peephole %p input_forget true : (tensor<5x3x4xf32>, tensor<1x24x4xf32>, tensor<1x24x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>, tensor<1x18xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>)
  %z, %l, %m = graph.lstm %x, %w, %r initial_state %s initial_cell %s peephole %p input_forget true : (tensor<5x3x4xf32>, tensor<1x24x4xf32>, tensor<1x24x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>, tensor<1x18xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>)
  // CHECK-NEXT: %a, %b, %d = graph.lstm %x, %w, %r quantize_state true : (tensor<5x3x4xf32>, tensor<1x24x4xf32>, tensor<1x24x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>)
  %a, %b, %d = graph.lstm %x, %w, %r quantize_state true : (tensor<5x3x4xf32>, tensor<1x24x4xf32>, tensor<1x24x6xf32>) -> (tensor<5x1x3x6xf32>, tensor<1x3x6xf32>, tensor<1x3x6xf32>)
  func.return
}
