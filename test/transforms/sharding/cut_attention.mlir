// RUN: ge-opt %s -p 'cut-attention{parts=2}' --split-input-file | filecheck %s
// RUN: ge-opt %s -p cut-attention --split-input-file | filecheck %s --check-prefix=CLOCK

// The queries of each device in two halves: exchanges of both, attention of each with the rows of
// the mask for it, and their products. The mask is put in order once for both layers.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<1x4x8x16xf32>, %k: tensor<1x16x2x16xf32>, %v: tensor<1x16x2x16xf32>, %m: tensor<1x1x16x16xf32>, %w: tensor<128x32xf32>) -> (tensor<1x4x32xf32>, tensor<1x4x32xf32>) {
  %q = graph.all_to_all %x shape [1, 16, 8, 16] has <@mesh, [{}, {"tp":(1)4}, {}, {}]> to <@mesh, [{}, {}, {"tp":(1)4}, {}]> : (tensor<1x4x8x16xf32>) -> tensor<1x16x2x16xf32>
  %a = graph.attention %q, %k, %v mask %m value_tokens_first true result_tokens_first true query_tokens_first true key_tokens_first true : (tensor<1x16x2x16xf32>, tensor<1x16x2x16xf32>, tensor<1x16x2x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x16x2x16xf32>
  %b = graph.all_to_all %a shape [1, 16, 8, 16] has <@mesh, [{}, {}, {"tp":(1)4}, {}]> to <@mesh, [{}, {"tp":(1)4}, {}, {}]> : (tensor<1x16x2x16xf32>) -> tensor<1x4x8x16xf32>
  %r = graph.reshape %b shape [1, 4, 128] : (tensor<1x4x8x16xf32>) -> tensor<1x4x128xf32>
  %p = graph.matmul %r, %w : (tensor<1x4x128xf32>, tensor<128x32xf32>) -> tensor<1x4x32xf32>
  %q1 = graph.all_to_all %x shape [1, 16, 8, 16] has <@mesh, [{}, {"tp":(1)4}, {}, {}]> to <@mesh, [{}, {}, {"tp":(1)4}, {}]> : (tensor<1x4x8x16xf32>) -> tensor<1x16x2x16xf32>
  %a1 = graph.attention %q1, %v, %k mask %m value_tokens_first true result_tokens_first true query_tokens_first true key_tokens_first true : (tensor<1x16x2x16xf32>, tensor<1x16x2x16xf32>, tensor<1x16x2x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x16x2x16xf32>
  %b1 = graph.all_to_all %a1 shape [1, 16, 8, 16] has <@mesh, [{}, {}, {"tp":(1)4}, {}]> to <@mesh, [{}, {"tp":(1)4}, {}, {}]> : (tensor<1x16x2x16xf32>) -> tensor<1x4x8x16xf32>
  %r1 = graph.reshape %b1 shape [1, 4, 128] : (tensor<1x4x8x16xf32>) -> tensor<1x4x128xf32>
  %p1 = graph.matmul %r1, %w : (tensor<1x4x128xf32>, tensor<128x32xf32>) -> tensor<1x4x32xf32>
  return %p, %p1 : tensor<1x4x32xf32>, tensor<1x4x32xf32>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[M:.*]] = graph.reshape %m shape [1, 1, 4, 4, 16]
// CHECK-NEXT:  %[[M0:.*]] = graph.slice %[[M]] starts [0] ends [2] axes [3]
// CHECK-NEXT:  %[[M1:.*]] = graph.slice %[[M]] starts [2] ends [4] axes [3]
// CHECK-NEXT:  %[[R0:.*]] = graph.reshape %[[M0]] shape [1, 1, 8, 16]
// CHECK-NEXT:  %[[R1:.*]] = graph.reshape %[[M1]] shape [1, 1, 8, 16]
// CHECK-NEXT:  %[[X:.*]] = graph.reshape %x shape [1, 1, 4, 8, 16]
// CHECK-NEXT:  %[[X0:.*]] = graph.slice %[[X]] starts [0] ends [2] axes [2]
// CHECK-NEXT:  %[[X1:.*]] = graph.slice %[[X]] starts [2] ends [4] axes [2]
// CHECK-NEXT:  %[[Q0:.*]] = graph.all_to_all %[[X0]] shape [1, 4, 2, 8, 16] {{.*}} -> tensor<1x4x2x2x16xf32>
// CHECK-NEXT:  %[[Q1:.*]] = graph.all_to_all %[[X1]]
// CHECK-NEXT:  %[[H0:.*]] = graph.reshape %[[Q0]] shape [1, 8, 2, 16]
// CHECK-NEXT:  %[[A0:.*]] = graph.attention %[[H0]], %k, %v mask %[[R0]]
// CHECK-NEXT:  %[[B0:.*]] = graph.reshape %[[A0]] shape [1, 4, 2, 2, 16]
// CHECK-NEXT:  %[[Z0:.*]] = graph.all_to_all %[[B0]] {{.*}} -> tensor<1x1x2x8x16xf32>
// CHECK-NEXT:  %[[H1:.*]] = graph.reshape %[[Q1]] shape [1, 8, 2, 16]
// CHECK-NEXT:  %[[A1:.*]] = graph.attention %[[H1]], %k, %v mask %[[R1]]
// CHECK-NEXT:  %[[B1:.*]] = graph.reshape %[[A1]]
// CHECK-NEXT:  %[[Z1:.*]] = graph.all_to_all %[[B1]]
// CHECK-NEXT:  %[[V0:.*]] = graph.reshape %[[Z0]] shape [1, 1, 2, 128]
// CHECK-NEXT:  %[[P0:.*]] = graph.matmul %[[V0]], %w
// CHECK-NEXT:  %[[V1:.*]] = graph.reshape %[[Z1]]
// CHECK-NEXT:  %[[P1:.*]] = graph.matmul %[[V1]], %w
// CHECK-NEXT:  %[[C:.*]] = graph.concat %[[P0]], %[[P1]] axis 2
// CHECK-NEXT:  %[[P:.*]] = graph.reshape %[[C]] shape [1, 4, 32]
// CHECK:       graph.attention %{{.*}}, %v, %k mask %[[R0]]
// CHECK:       graph.attention %{{.*}}, %v, %k mask %[[R1]]
// CHECK:       return %[[P]], %

// So small a part takes as long as the whole.
// CLOCK-LABEL: func.func @main
// CLOCK-COUNT-2: graph.attention
// CLOCK-NOT:   graph.attention
// CLOCK:       return

// -----

// Where positions count, queries are not taken in another order.
graph.mesh @mesh ["tp"=4]
func.func @positions(%x: tensor<1x4x8x16xf32>, %k: tensor<1x16x2x16xf32>, %v: tensor<1x16x2x16xf32>) -> tensor<1x4x8x16xf32> {
  %q = graph.all_to_all %x shape [1, 16, 8, 16] has <@mesh, [{}, {"tp":(1)4}, {}, {}]> to <@mesh, [{}, {}, {"tp":(1)4}, {}]> : (tensor<1x4x8x16xf32>) -> tensor<1x16x2x16xf32>
  %a = graph.attention %q, %k, %v causal true value_tokens_first true result_tokens_first true query_tokens_first true key_tokens_first true : (tensor<1x16x2x16xf32>, tensor<1x16x2x16xf32>, tensor<1x16x2x16xf32>) -> tensor<1x16x2x16xf32>
  %b = graph.all_to_all %a shape [1, 16, 8, 16] has <@mesh, [{}, {}, {"tp":(1)4}, {}]> to <@mesh, [{}, {"tp":(1)4}, {}, {}]> : (tensor<1x16x2x16xf32>) -> tensor<1x4x8x16xf32>
  return %b : tensor<1x4x8x16xf32>
}
// CHECK-LABEL: func.func @positions
// CHECK-COUNT-1: graph.attention
// CHECK-NOT:   graph.attention
// CHECK:       return

// -----

// Nor where the result stays as it is: nothing is sent behind it.
graph.mesh @mesh ["tp"=4]
func.func @stays(%x: tensor<1x4x8x16xf32>, %k: tensor<1x16x2x16xf32>, %v: tensor<1x16x2x16xf32>) -> tensor<1x16x2x16xf32> {
  %q = graph.all_to_all %x shape [1, 16, 8, 16] has <@mesh, [{}, {"tp":(1)4}, {}, {}]> to <@mesh, [{}, {}, {"tp":(1)4}, {}]> : (tensor<1x4x8x16xf32>) -> tensor<1x16x2x16xf32>
  %a = graph.attention %q, %k, %v value_tokens_first true result_tokens_first true query_tokens_first true key_tokens_first true : (tensor<1x16x2x16xf32>, tensor<1x16x2x16xf32>, tensor<1x16x2x16xf32>) -> tensor<1x16x2x16xf32>
  return %a : tensor<1x16x2x16xf32>
}
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-1: graph.attention
// CHECK-NOT:   graph.attention
// CHECK:       return

// -----

// What is sent are rows of all heads, and no product follows.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<1x4x128xf32>, %k: tensor<1x16x2x16xf32>, %v: tensor<1x16x2x16xf32>) -> tensor<1x4x128xf32> {
  %q = graph.all_to_all %x shape [1, 16, 128] has <@mesh, [{}, {"tp":(1)4}, {}]> to <@mesh, [{}, {}, {"tp":(1)4}]> : (tensor<1x4x128xf32>) -> tensor<1x16x32xf32>
  %h = graph.reshape %q shape [1, 16, 2, 16] : (tensor<1x16x32xf32>) -> tensor<1x16x2x16xf32>
  %a = graph.attention %h, %k, %v value_tokens_first true result_tokens_first true query_tokens_first true key_tokens_first true : (tensor<1x16x2x16xf32>, tensor<1x16x2x16xf32>, tensor<1x16x2x16xf32>) -> tensor<1x16x2x16xf32>
  %r = graph.reshape %a shape [1, 16, 32] : (tensor<1x16x2x16xf32>) -> tensor<1x16x32xf32>
  %b = graph.all_to_all %r shape [1, 16, 128] has <@mesh, [{}, {}, {"tp":(1)4}]> to <@mesh, [{}, {"tp":(1)4}, {}]> : (tensor<1x16x32xf32>) -> tensor<1x4x128xf32>
  return %b : tensor<1x4x128xf32>
}
// CHECK-LABEL: func.func @main
// CHECK:       graph.all_to_all {{.*}} -> tensor<1x4x2x32xf32>
// CHECK:       graph.attention {{.*}} -> tensor<1x8x2x16xf32>
// CHECK-NEXT:  %[[R0:.*]] = graph.reshape %{{.*}} shape [1, 4, 2, 32]
// CHECK-NEXT:  %[[B0:.*]] = graph.all_to_all %[[R0]] {{.*}} -> tensor<1x1x2x128xf32>
// CHECK:       %[[C:.*]] = graph.concat %[[B0]], %{{.*}} axis 2
// CHECK-NEXT:  %[[L:.*]] = graph.reshape %[[C]] shape [1, 4, 128]
// CHECK-NEXT:  return %[[L]]

// -----

// 2,048 tokens and 32 heads on four devices: the clock finds two halves faster.
graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<1x512x32x128xf16>, %k: tensor<1x8x2048x128xf16>, %v: tensor<1x2048x8x128xf16>, %m: tensor<1x1x2048x2048xf16>, %w: tensor<4096x4096xf16>) -> tensor<1x512x4096xf16> {
  %q = graph.all_to_all %x shape [1, 2048, 32, 128] has <@mesh, [{}, {"tp":(1)4}, {}, {}]> to <@mesh, [{}, {}, {"tp":(1)4}, {}]> : (tensor<1x512x32x128xf16>) -> tensor<1x2048x8x128xf16>
  %a = graph.attention %q, %k, %v mask %m value_tokens_first true result_tokens_first true undefined guard query_tokens_first true : (tensor<1x2048x8x128xf16>, tensor<1x8x2048x128xf16>, tensor<1x2048x8x128xf16>, tensor<1x1x2048x2048xf16>) -> tensor<1x2048x8x128xf16>
  %b = graph.all_to_all %a shape [1, 2048, 32, 128] has <@mesh, [{}, {}, {"tp":(1)4}, {}]> to <@mesh, [{}, {"tp":(1)4}, {}, {}]> : (tensor<1x2048x8x128xf16>) -> tensor<1x512x32x128xf16>
  %r = graph.reshape %b shape [1, 512, 4096] : (tensor<1x512x32x128xf16>) -> tensor<1x512x4096xf16>
  %p = graph.matmul %r, %w : (tensor<1x512x4096xf16>, tensor<4096x4096xf16>) -> tensor<1x512x4096xf16>
  return %p : tensor<1x512x4096xf16>
}
// CLOCK-LABEL: func.func @main
// CLOCK:       graph.attention {{.*}} -> tensor<1x1024x8x128xf16>
// CLOCK:       graph.attention {{.*}} -> tensor<1x1024x8x128xf16>
// CLOCK-NOT:   graph.attention
// CLOCK:       return
