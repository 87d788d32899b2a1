// RUN: ge-opt %s | ge-opt --print-op-generic | ge-opt | filecheck %s

// Softmax and its kin, and the normalizations.

// CHECK-LABEL: func.func @softmax(
func.func @softmax(%x: tensor<2x3x?xf16>) {
  // CHECK-NEXT: %softmax = graph.softmax %x axis 2 : (tensor<2x3x?xf16>) -> tensor<2x3x?xf16>
  %softmax = graph.softmax %x : (tensor<2x3x?xf16>) -> tensor<2x3x?xf16>
  // CHECK-NEXT: %axis = graph.softmax %x axis 1 : (tensor<2x3x?xf16>) -> tensor<2x3x?xf16>
  %axis = graph.softmax %x axis 1 : (tensor<2x3x?xf16>) -> tensor<2x3x?xf16>
  // CHECK-NEXT: %flat = graph.softmax %x axis 1 flatten true : (tensor<2x3x?xf16>) -> tensor<2x3x?xf16>
  %flat = graph.softmax %x axis 1 flatten true : (tensor<2x3x?xf16>) -> tensor<2x3x?xf16>
  // CHECK-NEXT: %log = graph.log_softmax %x axis 0 : (tensor<2x3x?xf16>) -> tensor<2x3x?xf16>
  %log = graph.log_softmax %x axis 0 : (tensor<2x3x?xf16>) -> tensor<2x3x?xf16>
  // CHECK-NEXT: %hard = graph.hardmax %x axis 2 : (tensor<2x3x?xf16>) -> tensor<2x3x?xf16>
  %hard = graph.hardmax %x : (tensor<2x3x?xf16>) -> tensor<2x3x?xf16>
  func.return
}

// CHECK-LABEL: func.func @trailing(
func.func @trailing(%x: tensor<?x4x8xf32>, %s: tensor<8xf32>, %s2: tensor<4x8xf32>) {
  // CHECK-NEXT: %layer = graph.layer_norm %x, %s, %s axis 2 : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %layer = graph.layer_norm %x, %s, %s : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  // CHECK-NEXT: %scaled = graph.layer_norm %x, %s2 axis 1 epsilon 1.000000e-12 : (tensor<?x4x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32>
  %scaled = graph.layer_norm %x, %s2 axis 1 epsilon 1.000000e-12 : (tensor<?x4x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32>
  // CHECK-NEXT: %rms = graph.rms_norm %x, %s axis 2 epsilon 1.000000e-06 : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %rms = graph.rms_norm %x, %s epsilon 1.000000e-06 : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  func.return
}

// CHECK-LABEL: func.func @channels(
func.func @channels(%x: tensor<2x6x?xf32>, %u: tensor<2x?x5xf16>, %s: tensor<6xf32>) {
  // CHECK-NEXT: %group = graph.group_norm %x, %s, %s groups 3 : (tensor<2x6x?xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x?xf32>
  %group = graph.group_norm %x, %s, %s groups 3 : (tensor<2x6x?xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x?xf32>
  // CHECK-NEXT: %instance = graph.group_norm %u, %s, %s groups 6 : (tensor<2x?x5xf16>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x5xf16>
  %instance = graph.group_norm %u, %s, %s groups 6 : (tensor<2x?x5xf16>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x5xf16>
  // CHECK-NEXT: %batch = graph.batch_norm %x, %s, %s, %s, %s epsilon 1.000000e-03 : (tensor<2x6x?xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x?xf32>
  %batch = graph.batch_norm %x, %s, %s, %s, %s epsilon 1.000000e-03 : (tensor<2x6x?xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x?xf32>
  func.return
}
