// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: 'graph.softmax' op operand 'input': expected a ranked tensor of floats, not tensor<4xi32>
func.func @f(%x: tensor<4xi32>) {
  %0 = graph.softmax %x : (tensor<4xi32>) -> tensor<4xi32>
  func.return
}

// -----

// CHECK: error: 'graph.log_softmax' op axis 2 is out of range for rank 2{{$}}
func.func @f(%x: tensor<4x2xf32>) {
  %0 = graph.log_softmax %x axis 2 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.hardmax' op a tensor of rank 0 has no axis
func.func @f(%x: tensor<f32>) {
  %0 = graph.hardmax %x : (tensor<f32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: error: 'graph.layer_norm' op operand 'scale': expected a ranked tensor of floats, not tensor<2xi8>
func.func @f(%x: tensor<4x2xf32>, %s: tensor<2xi8>) {
  %0 = graph.layer_norm %x, %s : (tensor<4x2xf32>, tensor<2xi8>) -> tensor<4x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.layer_norm' op axis -3 is out of range for rank 2{{$}}
func.func @f(%x: tensor<4x2xf32>, %s: tensor<2xf32>) {
  %0 = graph.layer_norm %x, %s axis -3 : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.layer_norm' op bias of shape [3] does not broadcast to [4, 2]
func.func @f(%x: tensor<4x2xf32>, %s: tensor<2xf32>, %b: tensor<3xf32>) {
  %0 = graph.layer_norm %x, %s, %b : (tensor<4x2xf32>, tensor<2xf32>, tensor<3xf32>) -> tensor<4x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.layer_norm' op bias of shape [4, 2] does not broadcast to [1, 2]
func.func @f(%x: tensor<1x2xf32>, %s: tensor<2xf32>, %b: tensor<4x2xf32>) {
  %0 = graph.layer_norm %x, %s, %b : (tensor<1x2xf32>, tensor<2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.rms_norm' op scale of shape [3, 4, 2] does not broadcast to [4, 2]
func.func @f(%x: tensor<4x2xf32>, %s: tensor<3x4x2xf32>) {
  %0 = graph.rms_norm %x, %s : (tensor<4x2xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  func.return
}

// -----

// CHECK: error: 'graph.group_norm' op the input has batch and channels first, not [4]
func.func @f(%x: tensor<4xf32>, %s: tensor<4xf32>) {
  %0 = graph.group_norm %x, %s, %s groups 2 : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: error: 'graph.group_norm' op operand 'input': expected a ranked tensor of floats, not tensor<1x4xi8>
func.func @f(%x: tensor<1x4xi8>, %s: tensor<4xf32>) {
  %0 = graph.group_norm %x, %s, %s groups 2 : (tensor<1x4xi8>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4xi8>
  func.return
}

// -----

// CHECK: error: 'graph.group_norm' op 4 channels do not make 3 equal groups
func.func @f(%x: tensor<1x4xf32>, %s: tensor<4xf32>) {
  %0 = graph.group_norm %x, %s, %s groups 3 : (tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

// CHECK: error: 'graph.group_norm' op property 'groups': expected integer >= 1, got 0
func.func @f(%x: tensor<1x?xf32>, %s: tensor<?xf32>) {
  %0 = graph.group_norm %x, %s, %s groups 0 : (tensor<1x?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<1x?xf32>
  func.return
}

// -----

// CHECK: error: 'graph.group_norm' op operand 'bias': expected a vector of floats, not tensor<4x1xf32>
func.func @f(%x: tensor<1x4xf32>, %s: tensor<4xf32>, %b: tensor<4x1xf32>) {
  %0 = graph.group_norm %x, %s, %b groups 2 : (tensor<1x4xf32>, tensor<4xf32>, tensor<4x1xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

// CHECK: error: 'graph.batch_norm' op variance has 5 elements for 4 channels
func.func @f(%x: tensor<1x4x5xf32>, %s: tensor<4xf32>, %v: tensor<5xf32>) {
  %0 = graph.batch_norm %x, %s, %s, %s, %v : (tensor<1x4x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<5xf32>) -> tensor<1x4x5xf32>
  func.return
}

// -----

// CHECK: error: 'graph.batch_norm' op operand 'mean': expected a vector of floats, not tensor<4xi32>{{$}}
func.func @f(%x: tensor<1x4x5xf32>, %s: tensor<4xf32>, %m: tensor<4xi32>) {
  %0 = graph.batch_norm %x, %s, %s, %m, %s : (tensor<1x4x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xf32>) -> tensor<1x4x5xf32>
  func.return
}
