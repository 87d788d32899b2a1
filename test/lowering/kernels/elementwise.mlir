// RUN: ge-opt %s -p lower-kernels{target=910b2} | filecheck %s

// Boxes of two rows; what all of them need is loaded before the loop.
// CHECK:      tile.kernel @region_0_tiles(%in0: memref<2x300x700xf32>, %in1: memref<1x1x700xf32>, %in2: memref<2x1x1xf32>, %out0: memref<2x300x700xf32>) cores 48 {
// CHECK:        [[B:%.+]] = tile.alloc : !tile.tile<1x704xf32, ub>
// CHECK:        [[V:%.+]] = tile.view %in1[{{.+}}] sizes [1, 1, 704] : memref<1x1x700xf32>
// CHECK:        tile.load [[V]] to [[B]] pad 1.0{{$}}
// CHECK:        scf.for
// CHECK-NOT:      memref<1x1x700xf32>
// CHECK:          tile.map ins(%{{.+}}, [[B]], %{{.+}}) outs(
// CHECK:            graph.add %{{.+}}, %{{.+}} : (tensor<{{[0-9]+}}x704xf32>, tensor<1x704xf32>)
// CHECK-NEXT:       graph.mul %{{.+}}, %{{.+}} : (tensor<{{[0-9]+}}x704xf32>, tensor<1x1xf32>)
// CHECK-NEXT:       tile.yield
// CHECK:          tile.store
npu_task.kernel @region_0 on vector {
^bb0(%x: tensor<2x300x700xf32>, %b: tensor<700xf32>, %s: tensor<2x1x1xf32>):
  %r = fused_op.region(%x, %b, %s) : (tensor<2x300x700xf32>, tensor<700xf32>, tensor<2x1x1xf32>) -> tensor<2x300x700xf32> {
  ^bb1(%0: tensor<2x300x700xf32>, %1: tensor<700xf32>, %2: tensor<2x1x1xf32>):
    %3 = graph.add %0, %1 : (tensor<2x300x700xf32>, tensor<700xf32>) -> tensor<2x300x700xf32>
    %4 = graph.mul %3, %2 : (tensor<2x300x700xf32>, tensor<2x1x1xf32>) -> tensor<2x300x700xf32>
    fused_op.yield %4 : tensor<2x300x700xf32>
  }
  npu_task.return %r : tensor<2x300x700xf32>
}

// One box a core: no loop. A number is in the text.
// CHECK:      tile.kernel @select_0_tiles(%in0: memref<20x1xi64>, %in1: memref<1x50xi64>, %in2: memref<20x50xf16>, %out0: memref<20x50xf16>) cores 1 {
// CHECK-NOT:    scf.for
// CHECK:        graph.compare le %{{.+}}, %{{.+}} : (tensor<20x1xi64>, tensor<1x64xi64>) -> tensor<20x64xi1>
// CHECK-NEXT:   graph.constant dense<5.000000e-01> : tensor<1x1xf16>
// CHECK-NEXT:   graph.select
npu_task.kernel @select_0 on vector {
^bb0(%x: tensor<20x1xi64>, %y: tensor<1x50xi64>, %z: tensor<20x50xf16>):
  %h = graph.constant dense<0.5> : tensor<f16>
  %r = fused_op.region(%x, %y, %z, %h) : (tensor<20x1xi64>, tensor<1x50xi64>, tensor<20x50xf16>, tensor<f16>) -> tensor<20x50xf16> {
  ^bb1(%0: tensor<20x1xi64>, %1: tensor<1x50xi64>, %2: tensor<20x50xf16>, %3: tensor<f16>):
    %4 = graph.compare le %0, %1 : (tensor<20x1xi64>, tensor<1x50xi64>) -> tensor<20x50xi1>
    %5 = graph.select %4, %2, %3 : (tensor<20x50xi1>, tensor<20x50xf16>, tensor<f16>) -> tensor<20x50xf16>
    fused_op.yield %5 : tensor<20x50xf16>
  }
  npu_task.return %r : tensor<20x50xf16>
}
