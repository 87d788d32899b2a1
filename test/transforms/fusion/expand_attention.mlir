// RUN: ge-opt %s --split-input-file -p expand-attention | filecheck %s

// Rows of the query, keys, values and results of 3136 elements: no tile of them fits on a core.
func.func @channels(%q: tensor<1x3x32x3136xf32>, %k: tensor<1x3x32x3136xf32>, %v: tensor<1x3x32x3136xf32>, %m: tensor<32x32xf32>) -> tensor<1x3x32x3136xf32> {
  %y = graph.attention %q, %k, %v mask %m scale 5.000000e-01 undefined nan : (tensor<1x3x32x3136xf32>, tensor<1x3x32x3136xf32>, tensor<1x3x32x3136xf32>, tensor<32x32xf32>) -> tensor<1x3x32x3136xf32>
  func.return %y : tensor<1x3x32x3136xf32>
}
// CHECK-LABEL: func.func @channels(
// CHECK:         %[[K:.*]] = graph.transpose %k permutation [0, 1, 3, 2]
// CHECK-NEXT:    %[[S:.*]] = graph.matmul %q, %[[K]] :
// CHECK-NEXT:    %[[C:.*]] = graph.constant dense<5.000000e-01>
// CHECK-NEXT:    %[[SCALED:.*]] = graph.mul %[[S]], %[[C]] :
// CHECK-NEXT:    %[[M:.*]] = graph.add %[[SCALED]], %m :
// CHECK-NEXT:    %[[P:.*]] = graph.softmax %[[M]] axis 3 :
// CHECK-NEXT:    %[[Y:.*]] = graph.matmul %[[P]], %v :
// CHECK-NEXT:    func.return %[[Y]] :

// -----

// Three query heads for a key head are rows of one matmul; tokens come before heads.
func.func @shared_keys(%q: tensor<1x32x6x3136xf32>, %k: tensor<1x32x2x3136xf32>, %v: tensor<1x32x2x3136xf32>) -> tensor<1x32x6x3136xf32> {
  %y = graph.attention %q, %k, %v value_tokens_first true result_tokens_first true undefined nan query_tokens_first true key_tokens_first true : (tensor<1x32x6x3136xf32>, tensor<1x32x2x3136xf32>, tensor<1x32x2x3136xf32>) -> tensor<1x32x6x3136xf32>
  func.return %y : tensor<1x32x6x3136xf32>
}
// CHECK-LABEL: func.func @shared_keys(
// CHECK:         %[[Q:.*]] = graph.transpose %q permutation [0, 2, 1, 3]
// CHECK-NEXT:    %[[ROWS:.*]] = graph.reshape %[[Q]] {{.*}} -> tensor<1x2x96x3136xf32>
// CHECK-NEXT:    %[[K:.*]] = graph.transpose %k permutation [0, 2, 3, 1]
// CHECK-NEXT:    %[[S:.*]] = graph.matmul %[[ROWS]], %[[K]] :
// CHECK-NEXT:    graph.reshape %[[S]] {{.*}} -> tensor<1x6x32x32xf32>
// CHECK:         %[[P:.*]] = graph.softmax
// CHECK-NEXT:    %[[ALL:.*]] = graph.reshape %[[P]] {{.*}} -> tensor<1x2x96x32xf32>
// CHECK-NEXT:    %[[V:.*]] = graph.transpose %v permutation [0, 2, 1, 3]
// CHECK-NEXT:    %[[O:.*]] = graph.matmul %[[ALL]], %[[V]] :
// CHECK-NEXT:    %[[HEADS:.*]] = graph.reshape %[[O]] {{.*}} -> tensor<1x6x32x3136xf32>
// CHECK-NEXT:    %[[Y:.*]] = graph.transpose %[[HEADS]] permutation [0, 2, 1, 3]
// CHECK-NEXT:    func.return %[[Y]] :

// -----

// What fits stays, what is of unknown sizes too, and what counts by its position.
func.func @stays(%q: tensor<1x3x32x64xf32>, %d: tensor<1x3x32x?xf32>, %w: tensor<1x3x32x3136xf32>) -> (tensor<1x3x32x64xf32>, tensor<1x3x32x?xf32>, tensor<1x3x32x3136xf32>) {
  %0 = graph.attention %q, %q, %q : (tensor<1x3x32x64xf32>, tensor<1x3x32x64xf32>, tensor<1x3x32x64xf32>) -> tensor<1x3x32x64xf32>
  %1 = graph.attention %d, %d, %d : (tensor<1x3x32x?xf32>, tensor<1x3x32x?xf32>, tensor<1x3x32x?xf32>) -> tensor<1x3x32x?xf32>
  %2 = graph.attention %w, %w, %w causal true : (tensor<1x3x32x3136xf32>, tensor<1x3x32x3136xf32>, tensor<1x3x32x3136xf32>) -> tensor<1x3x32x3136xf32>
  func.return %0, %1, %2 : tensor<1x3x32x64xf32>, tensor<1x3x32x?xf32>, tensor<1x3x32x3136xf32>
}
// CHECK-LABEL: func.func @stays(
// CHECK-NEXT:    graph.attention %q, %q, %q :
// CHECK-NEXT:    graph.attention %d, %d, %d :
// CHECK-NEXT:    graph.attention %w, %w, %w causal
// CHECK-NEXT:    func.return
