// RUN: ge-opt %s -p 'fuse-linear{target=910b2}' --validate | filecheck %s

// Small weights take less time in one launch of their own than in that of their matmuls, which become
// one nevertheless.
func.func @siblings(%x: tensor<32x64xf16>) -> (tensor<32x64xf16>, tensor<32x64xf16>, tensor<32x64xf16>) {
  %w = graph.constant #graph.weight<"w"> : tensor<64x64xi8>
  %s = graph.constant #graph.weight<"s"> : tensor<64xf16>
  %v = graph.constant #graph.weight<"v"> : tensor<64x64xi8>
  %t = graph.constant #graph.weight<"t"> : tensor<64xf16>
  %u = graph.constant #graph.weight<"u"> : tensor<64x64xi8>
  %r = graph.constant #graph.weight<"r"> : tensor<64xf16>
  %0 = graph.dequantize %w, %s axis 0 : (tensor<64x64xi8>, tensor<64xf16>) -> tensor<64x64xf16>
  %1 = graph.matmul %x, %0 transpose_rhs true : (tensor<32x64xf16>, tensor<64x64xf16>) -> tensor<32x64xf16>
  %2 = graph.dequantize %v, %t axis 0 : (tensor<64x64xi8>, tensor<64xf16>) -> tensor<64x64xf16>
  %3 = graph.matmul %x, %2 transpose_rhs true : (tensor<32x64xf16>, tensor<64x64xf16>) -> tensor<32x64xf16>
  %4 = graph.dequantize %u, %r axis 0 : (tensor<64x64xi8>, tensor<64xf16>) -> tensor<64x64xf16>
  %5 = graph.matmul %x, %4 transpose_rhs true : (tensor<32x64xf16>, tensor<64x64xf16>) -> tensor<32x64xf16>
  func.return %1, %3, %5 : tensor<32x64xf16>, tensor<32x64xf16>, tensor<32x64xf16>
}
// CHECK-LABEL: func.func @siblings(
// CHECK-COUNT-3: graph.dequantize
// CHECK:         fused_op.linear(
// CHECK-NOT:       graph.dequantize
// CHECK-COUNT-3:   graph.matmul
