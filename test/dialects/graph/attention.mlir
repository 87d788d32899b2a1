// RUN: ge-opt %s | ge-opt --print-op-generic | ge-opt | filecheck %s

// Attention with its masks, its scores, and rotary embedding.

// CHECK-LABEL: func.func @attention(
func.func @attention(%q: tensor<2x8x4x16xf16>, %k: tensor<2x2x?x16xf16>, %v: tensor<2x2x?x32xf16>, %mask: tensor<4x?xi1>, %bias: tensor<2x1x4x?xf16>, %lengths: tensor<2xi64>, %offset: tensor<1xi64>) {
  // CHECK-NEXT: %plain = graph.attention %q, %k, %v : (tensor<2x8x4x16xf16>, tensor<2x2x?x16xf16>, tensor<2x2x?x32xf16>) -> tensor<2x8x4x32xf16>
  %plain = graph.attention %q, %k, %v : (tensor<2x8x4x16xf16>, tensor<2x2x?x16xf16>, tensor<2x2x?x32xf16>) -> tensor<2x8x4x32xf16>
  // CHECK-NEXT: %masked = graph.attention %q, %k, %v mask %mask offset 3 scale 5.000000e-01 softcap 3.000000e+01 causal true : (tensor<2x8x4x16xf16>, tensor<2x2x?x16xf16>, tensor<2x2x?x32xf16>, tensor<4x?xi1>) -> tensor<2x8x4x32xf16>
  %masked = graph.attention %q, %k, %v mask %mask offset 3 scale 5.000000e-01 softcap 3.000000e+01 causal true : (tensor<2x8x4x16xf16>, tensor<2x2x?x16xf16>, tensor<2x2x?x32xf16>, tensor<4x?xi1>) -> tensor<2x8x4x32xf16>
  // CHECK-NEXT: %window = graph.attention %q, %k, %v mask %bias key_lengths %lengths offset %offset left_window 2 right_window 0 : (tensor<2x8x4x16xf16>, tensor<2x2x?x16xf16>, tensor<2x2x?x32xf16>, tensor<2x1x4x?xf16>, tensor<2xi64>, tensor<1xi64>) -> tensor<2x8x4x32xf16>
  %window = graph.attention %q, %k, %v mask %bias key_lengths %lengths offset %offset left_window 2 right_window 0 : (tensor<2x8x4x16xf16>, tensor<2x2x?x16xf16>, tensor<2x2x?x32xf16>, tensor<2x1x4x?xf16>, tensor<2xi64>, tensor<1xi64>) -> tensor<2x8x4x32xf16>
  // CHECK-NEXT: %two = graph.attention %q, %k, %v mask %bias, %mask fill -1.000000e+04 undefined guard : (tensor<2x8x4x16xf16>, tensor<2x2x?x16xf16>, tensor<2x2x?x32xf16>, tensor<2x1x4x?xf16>, tensor<4x?xi1>) -> tensor<2x8x4x32xf16>
  %two = graph.attention %q, %k, %v mask %bias, %mask fill -1.000000e+04 undefined guard : (tensor<2x8x4x16xf16>, tensor<2x2x?x16xf16>, tensor<2x2x?x32xf16>, tensor<2x1x4x?xf16>, tensor<4x?xi1>) -> tensor<2x8x4x32xf16>
  // CHECK-NEXT: %scores = graph.attention_scores weights %q, %k causal true : (tensor<2x8x4x16xf16>, tensor<2x2x?x16xf16>) -> tensor<2x8x4x?xf16>
  %scores = graph.attention_scores weights %q, %k causal true : (tensor<2x8x4x16xf16>, tensor<2x2x?x16xf16>) -> tensor<2x8x4x?xf16>
  func.return
}

// CHECK-LABEL: func.func @tokens_first(
func.func @tokens_first(%q: tensor<2x4x8x16xf32>, %k: tensor<2x?x2x16xf32>, %v: tensor<2x?x2x32xf32>) {
  // CHECK-NEXT: %0 = graph.attention %q, %k, %v value_tokens_first true result_tokens_first true query_tokens_first true key_tokens_first true : (tensor<2x4x8x16xf32>, tensor<2x?x2x16xf32>, tensor<2x?x2x32xf32>) -> tensor<2x4x8x32xf32>
  %0 = graph.attention %q, %k, %v value_tokens_first true result_tokens_first true query_tokens_first true key_tokens_first true : (tensor<2x4x8x16xf32>, tensor<2x?x2x16xf32>, tensor<2x?x2x32xf32>) -> tensor<2x4x8x32xf32>
  func.return
}

// CHECK-LABEL: func.func @integers(
func.func @integers(%q: tensor<2x8x4x16xi8>, %k: tensor<2x2x?x16xi8>, %f: tensor<2x8x4x16xf16>) {
  // CHECK-NEXT: %0 = graph.attention %q, %k, %k rounded_weights true value_scale 5.000000e-01 scale 1.000000e-03 : (tensor<2x8x4x16xi8>, tensor<2x2x?x16xi8>, tensor<2x2x?x16xi8>) -> tensor<2x8x4x16xf32>
  %0 = graph.attention %q, %k, %k rounded_weights true value_scale 5.000000e-01 scale 1.000000e-03 : (tensor<2x8x4x16xi8>, tensor<2x2x?x16xi8>, tensor<2x2x?x16xi8>) -> tensor<2x8x4x16xf32>
  // CHECK-NEXT: %1 = graph.attention %f, %f, %f rounded_weights true : (tensor<2x8x4x16xf16>, tensor<2x8x4x16xf16>, tensor<2x8x4x16xf16>) -> tensor<2x8x4x16xf16>
  %1 = graph.attention %f, %f, %f rounded_weights true : (tensor<2x8x4x16xf16>, tensor<2x8x4x16xf16>, tensor<2x8x4x16xf16>) -> tensor<2x8x4x16xf16>
  func.return
}

// CHECK-LABEL: func.func @rotary(
func.func @rotary(%x: tensor<1x8x?x64xf16>, %cos: tensor<1x1x?x16xf16>, %y: tensor<2x5x64xf32>, %t: tensor<5x32xf32>) {
  // CHECK-NEXT: %partial = graph.rotary_embedding %x, %cos, %cos : (tensor<1x8x?x64xf16>, tensor<1x1x?x16xf16>, tensor<1x1x?x16xf16>) -> tensor<1x8x?x64xf16>
  %partial = graph.rotary_embedding %x, %cos, %cos : (tensor<1x8x?x64xf16>, tensor<1x1x?x16xf16>, tensor<1x1x?x16xf16>) -> tensor<1x8x?x64xf16>
  // CHECK-NEXT: %pairs = graph.rotary_embedding %y, %t, %t interleaved true : (tensor<2x5x64xf32>, tensor<5x32xf32>, tensor<5x32xf32>) -> tensor<2x5x64xf32>
  %pairs = graph.rotary_embedding %y, %t, %t interleaved true : (tensor<2x5x64xf32>, tensor<5x32xf32>, tensor<5x32xf32>) -> tensor<2x5x64xf32>
  // CHECK-NEXT: %full = graph.rotary_embedding %y, %t, %t full_tables true : (tensor<2x5x64xf32>, tensor<5x32xf32>, tensor<5x32xf32>) -> tensor<2x5x64xf32>
  %full = graph.rotary_embedding %y, %t, %t full_tables true : (tensor<2x5x64xf32>, tensor<5x32xf32>, tensor<5x32xf32>) -> tensor<2x5x64xf32>
  func.return
}
