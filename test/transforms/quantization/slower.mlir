// RUN: ge-compile %s -o %t.mlir --quantize w4a16 --target 910b2 2>&1 | filecheck %s
// RUN: ge-compile %s -o %t.mlir --quantize w4a16 --target 910b2 --report %t.json
// RUN: cat %t.json | filecheck --check-prefix REPORT %s
// RUN: ge-compile %s -o %t.fp16.mlir --precision fp16 --target 910b2
// RUN: ge-run %t.fp16.mlir --timing-only --random-weights > %t.txt 2>&1
// RUN: ge-compile %s -o %t.mlir --quantize w4a16 --target 910b2 >> %t.txt 2>&1
// RUN: cat %t.txt | filecheck --check-prefix BESIDE %s

// Weights are dequantized for each block of 512 rows, and multiplied in f32. The report has both
// times.
func.func @main(%x: tensor<512x1024xf32>) -> tensor<512x1024xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<1024x1024xf32>
  %0 = graph.matmul %x, %w : (tensor<512x1024xf32>, tensor<1024x1024xf32>) -> tensor<512x1024xf32>
  %1 = graph.relu %0 : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %2 = graph.matmul %1, %w : (tensor<512x1024xf32>, tensor<1024x1024xf32>) -> tensor<512x1024xf32>
  func.return %2 : tensor<512x1024xf32>
}
// CHECK: w4a16: slower than fp16 on 910b2 ({{.*}} us, {{.*}} in fp16); --precision fp16 beside it may help
// REPORT: "us": {{[0-9.]+}}
// REPORT: "fp16_us": {{[0-9.]+}}
// Both are simulated: the time beside is that of the model in fp16.
// BESIDE: latency [[US:[0-9.]+]] us
// BESIDE: slower than fp16 on 910b2 ({{.*}} us, [[US]] in fp16)
