// Heads of size 0: shapes with a 0 are taken as they are written.
// RUN: ge-opt %s -p find-attention | filecheck %s
// RUN: ge-run %s --level program | filecheck %s --check-prefix=NUMBERS
// CHECK: graph.reshape %0 shape [4, 1, 8, 0] allow_zero true
// CHECK: graph.attention %
// CHECK: func.return
// NUMBERS: result0: float32[4, 8, 0]
func.func @main(%0: tensor<4x8x0xf32>, %1: tensor<4x0x8xf32>, %2: tensor<8x8xi1>, %3: tensor<4x8x0xf32>) -> tensor<4x8x0xf32> {
    %4 = graph.constant dense<1.000000e+00> : tensor<f32>
    %5 = graph.constant dense<0xff800000> : tensor<f32>
    %6 = graph.matmul %0, %1 : (tensor<4x8x0xf32>, tensor<4x0x8xf32>) -> tensor<4x8x8xf32>
    %7 = graph.mul %6, %4 : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8x8xf32>
    %8 = graph.select %2, %7, %5 : (tensor<8x8xi1>, tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8x8xf32>
    %9 = graph.softmax %8 : (tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %10 = graph.matmul %9, %3 : (tensor<4x8x8xf32>, tensor<4x8x0xf32>) -> tensor<4x8x0xf32>
    func.return %10 : tensor<4x8x0xf32>
}
