// Weights go to a safetensors file beside the text, or nowhere when there is no file.
// RUN: ge-import %models/if_cond.tiny.onnx -o %t.mlir
// RUN: ge-opt %t.mlir | filecheck %s
// CHECK: builtin.module attributes {graph.payload = "payload.mlir.tmp.safetensors", graph.payload_hash = "{{[0-9a-f]+}}"} {
// RUN: ge-import %models/if_cond.tiny.onnx -o - | filecheck %s --check-prefix=NONE
// NONE: builtin.module {
// A model without payload keeps the keys.
// RUN: ge-import %models/bert_base.structure.onnx | filecheck %s --check-prefix=KEYS
// KEYS: graph.constant #graph.weight<"m.embeddings.word_embeddings.weight"> : tensor<30522x768xf32>
