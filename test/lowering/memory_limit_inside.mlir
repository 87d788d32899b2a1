// Where the peak is inside of a loop, the error says that buffers there stay on the device.
// RUN: not ge-compile %s --fusion off --memory-limit 1M -o %t.mlir 2>&1 | filecheck %s
// CHECK:      error: the arena needs {{[0-9]+}} bytes, its limit is 1048576;
// CHECK:      note: the peak is at {{.*}}, with {{[0-9]+}} buffers
// CHECK:      note: that is inside of loop ({{.*}}): what is made there is neither computed again nor taken to the host
// CHECK:      note: spill: host memory for buffers
func.func @main(%x: tensor<256x1024xf32>, %n: tensor<i64>) -> tensor<256x1024xf32> {
  %0 = graph.softmax %x : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %1 = graph.exp %0 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %2 = graph.loop (%i, %go) trip %n : tensor<i64> carry (%v = %1 : tensor<256x1024xf32>) -> (tensor<256x1024xf32>) {
    %3 = graph.transpose %v permutation [1, 0] : (tensor<256x1024xf32>) -> tensor<1024x256xf32>
    %4 = graph.softmax %3 : (tensor<1024x256xf32>) -> tensor<1024x256xf32>
    %5 = graph.transpose %4 permutation [1, 0] : (tensor<1024x256xf32>) -> tensor<256x1024xf32>
    graph.yield %go, %5 : tensor<i1>, tensor<256x1024xf32>
  }
  %6 = graph.add %0, %2 : (tensor<256x1024xf32>, tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %7 = graph.softmax %6 : (tensor<256x1024xf32>) -> tensor<256x1024xf32>
  func.return %7 : tensor<256x1024xf32>
}
