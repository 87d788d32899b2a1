// RUN: %roundtrip | filecheck %s

// CHECK-LABEL: func.func @dft(
func.func @dft(%x: tensor<2x10x1xf32>, %y: tensor<2x6x2xf32>, %n: tensor<i64>) {
  // CHECK-NEXT: %full = graph.dft %x axis 1 : (tensor<2x10x1xf32>) -> tensor<2x10x2xf32>
  %full = graph.dft %x axis 1 : (tensor<2x10x1xf32>) -> tensor<2x10x2xf32>
  // CHECK-NEXT: %lower = graph.dft %x axis 1 onesided true : (tensor<2x10x1xf32>) -> tensor<2x6x2xf32>
  %lower = graph.dft %x axis -2 onesided true : (tensor<2x10x1xf32>) -> tensor<2x6x2xf32>
  // CHECK-NEXT: %padded = graph.dft %x length 16 axis 1 onesided true : (tensor<2x10x1xf32>) -> tensor<2x9x2xf32>
  %padded = graph.dft %x length 16 axis 1 onesided true : (tensor<2x10x1xf32>) -> tensor<2x9x2xf32>
  // CHECK-NEXT: %back = graph.dft %y axis 1 inverse true onesided true : (tensor<2x6x2xf32>) -> tensor<2x10x1xf32>
  %back = graph.dft %y axis 1 inverse true onesided true : (tensor<2x6x2xf32>) -> tensor<2x10x1xf32>
  // CHECK-NEXT: %complex = graph.dft %y axis 0 inverse true : (tensor<2x6x2xf32>) -> tensor<2x6x2xf32>
  %complex = graph.dft %y axis 0 inverse true : (tensor<2x6x2xf32>) -> tensor<2x6x2xf32>
  // CHECK-NEXT: %run_time = graph.dft %x length %n axis 1 : (tensor<2x10x1xf32>, tensor<i64>) -> tensor<2x?x2xf32>
  %run_time = graph.dft %x length %n axis 1 : (tensor<2x10x1xf32>, tensor<i64>) -> tensor<2x?x2xf32>
  // CHECK-NEXT: %any_axis = graph.dft %x length 8 axis %n : (tensor<2x10x1xf32>, tensor<i64>) -> tensor<?x?x2xf32>
  %any_axis = graph.dft %x length 8 axis %n : (tensor<2x10x1xf32>, tensor<i64>) -> tensor<?x?x2xf32>
  func.return
}

// CHECK-LABEL: func.func @stft(
func.func @stft(%x: tensor<1x128x1xf32>, %w: tensor<16xf32>, %n: tensor<i64>) {
  // CHECK-NEXT: %frames = graph.stft %x window %w frame_step 8 : (tensor<1x128x1xf32>, tensor<16xf32>) -> tensor<1x15x9x2xf32>
  %frames = graph.stft %x window %w frame_step 8 : (tensor<1x128x1xf32>, tensor<16xf32>) -> tensor<1x15x9x2xf32>
  // CHECK-NEXT: %boxed = graph.stft %x frame_step 8 frame_length 16 onesided false : (tensor<1x128x1xf32>) -> tensor<1x15x16x2xf32>
  %boxed = graph.stft %x frame_step 8 frame_length 16 onesided false : (tensor<1x128x1xf32>) -> tensor<1x15x16x2xf32>
  // CHECK-NEXT: %run_time = graph.stft %x frame_step %n frame_length %n : (tensor<1x128x1xf32>, tensor<i64>, tensor<i64>) -> tensor<1x?x?x2xf32>
  %run_time = graph.stft %x frame_step %n frame_length %n : (tensor<1x128x1xf32>, tensor<i64>, tensor<i64>) -> tensor<1x?x?x2xf32>
  func.return
}

// CHECK-LABEL: func.func @mel_weight_matrix(
func.func @mel_weight_matrix(%rate: tensor<i64>, %low: tensor<f32>, %high: tensor<f32>) {
  // CHECK-NEXT: %mels = graph.constant dense<8> : tensor<i64>
  %mels = graph.constant dense<8> : tensor<i64>
  // CHECK-NEXT: %length = graph.constant dense<16> : tensor<i32>
  %length = graph.constant dense<16> : tensor<i32>
  // CHECK-NEXT: %0 = graph.mel_weight_matrix %mels, %length, %rate, %low, %high : (tensor<i64>, tensor<i32>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<9x8xf32>
  %0 = graph.mel_weight_matrix %mels, %length, %rate, %low, %high : (tensor<i64>, tensor<i32>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<9x8xf32>
  // CHECK-NEXT: %1 = graph.mel_weight_matrix %rate, %rate, %rate, %low, %high to f16 : (tensor<i64>, tensor<i64>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<?x?xf16>
  %1 = graph.mel_weight_matrix %rate, %rate, %rate, %low, %high to f16 : (tensor<i64>, tensor<i64>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<?x?xf16>
  func.return
}
