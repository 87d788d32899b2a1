// RUN: %roundtrip | filecheck %s

// Each activation function, without and with attributes.

// CHECK-LABEL: func.func @defaults(
func.func @defaults(%x: tensor<4x?xf32>) {
  // CHECK-NEXT: %relu = graph.relu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %relu = graph.relu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %sigmoid = graph.sigmoid %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %sigmoid = graph.sigmoid %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %silu = graph.silu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %silu = graph.silu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %gelu = graph.gelu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %gelu = graph.gelu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %softplus = graph.softplus %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %softplus = graph.softplus %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %softsign = graph.softsign %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %softsign = graph.softsign %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %mish = graph.mish %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %mish = graph.mish %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %elu = graph.elu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %elu = graph.elu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %selu = graph.selu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %selu = graph.selu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %celu = graph.celu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %celu = graph.celu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %leaky_relu = graph.leaky_relu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %leaky_relu = graph.leaky_relu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %thresholded_relu = graph.thresholded_relu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %thresholded_relu = graph.thresholded_relu %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %hard_sigmoid = graph.hard_sigmoid %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %hard_sigmoid = graph.hard_sigmoid %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %hard_swish = graph.hard_swish %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %hard_swish = graph.hard_swish %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %shrink = graph.shrink %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %shrink = graph.shrink %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  func.return
}

// CHECK-LABEL: func.func @attributes(
func.func @attributes(%x: tensor<4x?xf32>) {
  // CHECK-NEXT: %0 = graph.silu %x alpha 2.000000e+00 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %0 = graph.silu %x alpha 2.000000e+00 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %1 = graph.gelu %x approximate tanh : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %1 = graph.gelu %x approximate tanh : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %2 = graph.gelu %x approximate sigmoid : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %2 = graph.gelu %x approximate sigmoid : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %3 = graph.elu %x alpha 5.000000e-01 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %3 = graph.elu %x alpha 5.000000e-01 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %4 = graph.selu %x alpha 2.000000e+00 gamma 3.000000e+00 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %4 = graph.selu %x alpha 2.000000e+00 gamma 3.000000e+00 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %5 = graph.celu %x alpha 2.000000e+00 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %5 = graph.celu %x alpha 2.000000e+00 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %6 = graph.leaky_relu %x alpha 1.000000e-01 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %6 = graph.leaky_relu %x alpha 1.000000e-01 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %7 = graph.thresholded_relu %x alpha 2.000000e+00 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %7 = graph.thresholded_relu %x alpha 2.000000e+00 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %8 = graph.hard_sigmoid %x alpha 5.000000e-01 beta 2.500000e-01 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %8 = graph.hard_sigmoid %x alpha 5.000000e-01 beta 2.500000e-01 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  // CHECK-NEXT: %9 = graph.shrink %x bias 1.500000e+00 lambd 2.000000e+00 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %9 = graph.shrink %x bias 1.500000e+00 lambd 2.000000e+00 : (tensor<4x?xf32>) -> tensor<4x?xf32>
  func.return
}

// CHECK-LABEL: func.func @slopes(
func.func @slopes(%x: tensor<2x4x?xf32>, %slope: tensor<4x1xf32>) {
  // CHECK-NEXT: %0 = graph.prelu %x, %slope : (tensor<2x4x?xf32>, tensor<4x1xf32>) -> tensor<2x4x?xf32>
  %0 = graph.prelu %x, %slope : (tensor<2x4x?xf32>, tensor<4x1xf32>) -> tensor<2x4x?xf32>
  func.return
}
