// Symbolic dimensions keep their names, or are fixed by --dim and --shape (which fixes them in
// every input).
// RUN: ge-import %models/bert_base.ts.dynamic.onnx | filecheck %s --check-prefix=FREE
// FREE: %input_ids: tensor<?x?xi64> {graph.name = "input_ids", graph.dims = ["batch", "sequence"]}
// FREE-SAME: %attention_mask: tensor<?x?xi64> {graph.name = "attention_mask", graph.dims = ["batch", "sequence"]}

// RUN: ge-import %models/bert_base.ts.dynamic.onnx --dim batch=2 | filecheck %s --check-prefix=DIM
// DIM: %input_ids: tensor<2x?xi64> {graph.name = "input_ids", graph.dims = ["", "sequence"]}

// RUN: ge-import %models/bert_base.ts.dynamic.onnx --shape input_ids=2x16 | filecheck %s --check-prefix=SHAPE
// SHAPE: %input_ids: tensor<2x16xi64> {graph.name = "input_ids"}
// SHAPE-SAME: %token_type_ids: tensor<2x16xi64> {graph.name = "token_type_ids"}
// SHAPE-SAME: -> (tensor<2x16x64xf32> {graph.name = "last_hidden_state"}

// RUN: not ge-import %models/bert_base.ts.dynamic.onnx --dim bacth=2 2>&1 | filecheck %s --check-prefix=TYPO
// TYPO: bert_base.ts.dynamic.onnx: error: there is no dimension 'bacth'; did you mean 'batch'?

// RUN: not ge-import %models/bert_base.ts.dynamic.onnx --shape input_idx=2x16 2>&1 | filecheck %s --check-prefix=NAME
// NAME: error: there is no input 'input_idx'; did you mean 'input_ids'?

// RUN: not ge-import %models/bert_base.ts.dynamic.onnx --shape input_ids=2 2>&1 | filecheck %s --check-prefix=RANK
// RANK: error: input 'input_ids' has rank 2 ([batch, sequence]), but the shape [2] is given

// RUN: not ge-import %models/bert_base.ts.dynamic.onnx --shape input_ids=2x16 --dim batch=3 2>&1 | filecheck %s --check-prefix=CLASH
// CLASH: error: input 'input_ids' is [batch, sequence], so the shape [2, 16] does not fit: batch is 3{{$}}

// RUN: not ge-import %models/bert_base.ts.dynamic.onnx --shape input_ids=2xa 2>&1 | filecheck %s --check-prefix=NUMBER
// NUMBER: error: --shape input_ids=2xa: '2xa' is not a shape such as 1x3x224x224 or

// RUN: not ge-import %models/bert_base.ts.dynamic.onnx --dim batch 2>&1 | filecheck %s --check-prefix=VALUE
// VALUE: error: --dim batch: expected NAME=2{{$}}
