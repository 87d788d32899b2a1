// RUN: ge-opt %s --split-input-file -p sort-groups{target=910b2} | filecheck %s

// A matrix is loaded once for each block of rows instead of once for each of 256 rows.
func.func @many(%x: tensor<256x1x4096xf16>, %w: tensor<8x14336x4096xf16>, %g: tensor<256xi64>) -> tensor<256x1x14336xf16> {
  %0 = graph.grouped_matmul %x, %w groups %g transpose_rhs true : (tensor<256x1x4096xf16>, tensor<8x14336x4096xf16>, tensor<256xi64>) -> tensor<256x1x14336xf16>
  func.return %0 : tensor<256x1x14336xf16>
}
// CHECK-LABEL: func.func @many(
// CHECK:         [[ENDS:%[0-9]+]] = graph.cumulative sum
// CHECK:         [[PLACE:%[0-9]+]] = graph.add {{.*}} -> tensor<256xi32>
// CHECK:         [[ROW:%[0-9]+]] = graph.scatter_elements {{%[0-9]+}}, [[PLACE]],
// CHECK:         [[X:%[0-9]+]] = graph.gather {{%[0-9]+}}, [[ROW]] :
// CHECK:         graph.grouped_matmul {{%[0-9]+}}, %w groups {{%[0-9]+}} given offsets transpose_rhs true : (tensor<256x4096xf16>, tensor<8x14336x4096xf16>, tensor<9xi32>)
// CHECK:         graph.gather {{%[0-9]+}}, [[PLACE]] :

// -----

// Not: few rows, small matrices, rows that stand together already, unknown numbers.
func.func @few(%x: tensor<4x1x4096xf16>, %w: tensor<8x14336x4096xf16>, %g: tensor<4xi64>, %y: tensor<64x1x32xf16>, %v: tensor<8x32x32xf16>, %h: tensor<64xi64>, %z: tensor<256x64x32xf16>, %i: tensor<256xi64>, %d: tensor<?x1x4096xf16>, %j: tensor<?xi64>) {
  %0 = graph.grouped_matmul %x, %w groups %g transpose_rhs true : (tensor<4x1x4096xf16>, tensor<8x14336x4096xf16>, tensor<4xi64>) -> tensor<4x1x14336xf16>
  %1 = graph.grouped_matmul %y, %v groups %h : (tensor<64x1x32xf16>, tensor<8x32x32xf16>, tensor<64xi64>) -> tensor<64x1x32xf16>
  %2 = graph.grouped_matmul %z, %v groups %i : (tensor<256x64x32xf16>, tensor<8x32x32xf16>, tensor<256xi64>) -> tensor<256x64x32xf16>
  %3 = graph.grouped_matmul %d, %w groups %j transpose_rhs true : (tensor<?x1x4096xf16>, tensor<8x14336x4096xf16>, tensor<?xi64>) -> tensor<?x1x14336xf16>
  func.return
}
// CHECK-LABEL: func.func @few(
// CHECK-COUNT-4: graph.grouped_matmul
// CHECK-NOT:     graph.gather

// -----

// Numbers that are known say how many rows each group has; sizes say where groups begin.
func.func @known(%x: tensor<6x1x64xf16>, %w: tensor<3x64x32xf16>, %y: tensor<6x64xf16>, %s: tensor<3xi64>) -> (tensor<6x1x32xf16>, tensor<6x32xf16>) {
  %g = graph.constant dense<[0, 0, 2, 2, -1, 2]> : tensor<6xi64>
  %0 = graph.grouped_matmul %x, %w groups %g : (tensor<6x1x64xf16>, tensor<3x64x32xf16>, tensor<6xi64>) -> tensor<6x1x32xf16>
  %1 = graph.grouped_matmul %y, %w groups %s given sizes : (tensor<6x64xf16>, tensor<3x64x32xf16>, tensor<3xi64>) -> tensor<6x32xf16>
  func.return %0, %1 : tensor<6x1x32xf16>, tensor<6x32xf16>
}
// CHECK-LABEL: func.func @known(
// CHECK:         graph.grouped_matmul {{%[0-9]+}}, %w rows [2, 0, 4] : (tensor<6x64xf16>, tensor<3x64x32xf16>) -> tensor<6x32xf16>
// CHECK:         [[ENDS:%[0-9]+]] = graph.cumulative sum
// CHECK:         [[FROM:%[0-9]+]] = graph.concat {{%[0-9]+}}, [[ENDS]] axis
// CHECK:         graph.grouped_matmul %y, %w groups [[FROM]] given offsets
