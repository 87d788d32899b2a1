// Each rule says what it did, and where it nearly matched: which condition failed, and what that
// costs.
// RUN: ge-opt %s --split-input-file --verify-diagnostics -p 'fuse-linear{target=910_merged},fuse-conv{target=910_merged},fuse-attention{target=910_merged},fuse-norm{target=910_merged},fuse-region{target=910_merged}' | filecheck %s
// CHECK: func.func @lacking(

// An activation that the kernel lacks.
func.func @lacking(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  // expected-remark@+1 {{fuse-activation missed: the epilogue has no atan (about}}
  %1 = graph.atan %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %1 : tensor<8x64xf32>
}

// -----

// A fusion that would close a cycle: the residual needs the product.
func.func @cycle(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1, %i = graph.top_k %0 k 64 : (tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xi64>)
  // expected-remark@+1 {{fuse-residual missed: a path around them would become a cycle (about}}
  %2 = graph.add %0, %1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %2 : tensor<8x64xf32>
}

// -----

// What makes the product larger.
func.func @broadcasts(%x: tensor<1x64xf32>, %w: tensor<64x32xf32>, %b: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<1x64xf32>, tensor<64x32xf32>) -> tensor<1x32xf32>
  // expected-remark@+1 {{fuse-residual missed: it broadcasts the matmul (about}}
  %1 = graph.add %0, %b : (tensor<1x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}

// -----

// A row that does not fit on the core: the launch comes apart when it is whole.
func.func @rows(%q: tensor<64x32xf32>, %k: tensor<65536x32xf32>) -> tensor<64x65536xf32> {
  %0 = graph.matmul %q, %k transpose_rhs true : (tensor<64x32xf32>, tensor<65536x32xf32>) -> tensor<64x65536xf32>
  // expected-remark@+1 {{fuse-linear missed: with it there is no tile program: no block of it fits on a core}}
  %1 = graph.softmax %0 : (tensor<64x65536xf32>) -> tensor<64x65536xf32>
  func.return %1 : tensor<64x65536xf32>
}

// -----

// Softmax over columns.
func.func @columns(%q: tensor<64x32xf32>, %k: tensor<32x64xf32>) -> tensor<64x64xf32> {
  %0 = graph.matmul %q, %k : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  // expected-remark@+1 {{fuse-softmax missed: its rows are not rows of the matmul (about}}
  %1 = graph.softmax %0 axis 0 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  func.return %1 : tensor<64x64xf32>
}

// -----

// What every tile of queries would compute again on the keys.
func.func @keys(%q: tensor<1x2x1024x16xf32>, %k: tensor<1x2x1024x16xf32>, %v: tensor<1x2x1024x16xf32>) -> tensor<1x2x1024x16xf32> {
  // expected-remark@+1 {{fuse-loads missed: each tile of queries would compute it again (about}}
  %1 = graph.tanh %k : (tensor<1x2x1024x16xf32>) -> tensor<1x2x1024x16xf32>
  // expected-remark@+1 {{fuse-attention applied}}
  %3 = graph.attention %q, %1, %v : (tensor<1x2x1024x16xf32>, tensor<1x2x1024x16xf32>, tensor<1x2x1024x16xf32>) -> tensor<1x2x1024x16xf32>
  func.return %3 : tensor<1x2x1024x16xf32>
}

// -----

// Rows and columns.
func.func @norms(%x: tensor<8x64xf32>, %s: tensor<64xf32>, %t: tensor<8xf32>) -> tensor<64x8xf32> {
  %0 = graph.rms_norm %x, %s : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  // expected-remark@+1 {{fuse-users applied}}
  %1 = graph.transpose %0 permutation [1, 0] : (tensor<8x64xf32>) -> tensor<64x8xf32>
  // expected-remark@+1 {{fuse-users missed: rows differ (about}}
  %2 = graph.rms_norm %1, %t : (tensor<64x8xf32>, tensor<8xf32>) -> tensor<64x8xf32>
  func.return %2 : tensor<64x8xf32>
}

// -----

// A sum of a value and its product: it joins the product, not the exponential.
func.func @around(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = graph.exp %x : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = graph.matmul %0, %0 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  // expected-remark@+1 {{fuse-residual applied}}
  %2 = graph.add %0, %1 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  func.return %2 : tensor<16x16xf32>
}

// -----

// A value that is used outside too is a second result.
func.func @outside(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %v: tensor<32x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  // expected-remark@+1 {{fuse-activation applied}}
  %1 = graph.relu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  func.return %0, %1 : tensor<8x32xf32>, tensor<8x32xf32>
}

// -----

// A reshape is a view, whatever its sizes; but no program is known for all of them.
func.func @reshaped(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %s: tensor<2xi64>) -> tensor<?x?xf32> {
  %0 = graph.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  // expected-remark@+1 {{fuse-linear missed: with it there is no tile program}}
  %1 = graph.reshape %0 shape %s : (tensor<8x32xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  // expected-remark@+1 {{fuse-users applied}}
  %2 = graph.relu %1 : (tensor<?x?xf32>) -> tensor<?x?xf32>
  func.return %2 : tensor<?x?xf32>
}

// -----

// A lookup reads from memory.
func.func @lookup(%t: tensor<64x8xf32>, %i: tensor<4xi64>) -> tensor<4x8xf32> {
  %0 = graph.softmax %t axis 0 : (tensor<64x8xf32>) -> tensor<64x8xf32>
  // expected-remark@+1 {{fuse-users missed: graph.gather reads its input from memory (about}}
  %1 = graph.gather %0, %i : (tensor<64x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  func.return %1 : tensor<4x8xf32>
}

// -----

// The rules for products and for norms compete: the times of both decide.
func.func @better(%x: tensor<256x4096xf16>, %w: tensor<4096x4096xf16>, %s: tensor<4096xf32>) -> (tensor<256x4096xf16>, tensor<256x4096xf32>) {
  %0 = graph.matmul %x, %w : (tensor<256x4096xf16>, tensor<4096x4096xf16>) -> tensor<256x4096xf16>
  // expected-remark@+1 {{fuse-activation missed: with graph.rms_norm it saves}}
  %1 = graph.cast %0 to f32 : (tensor<256x4096xf16>) -> tensor<256x4096xf32>
  // expected-remark@+1 {{fuse-users applied}}
  %2 = graph.rms_norm %1, %s : (tensor<256x4096xf32>, tensor<4096xf32>) -> tensor<256x4096xf32>
  func.return %0, %2 : tensor<256x4096xf16>, tensor<256x4096xf32>
}

// -----

// So they do for a norm, which reads whole rows, where the product is stored for it alone.
func.func @better_alone(%x: tensor<256x4096xf16>, %w: tensor<4096x4096xf16>, %s: tensor<4096xf32>) -> tensor<256x4096xf32> {
  %0 = graph.matmul %x, %w : (tensor<256x4096xf16>, tensor<4096x4096xf16>) -> tensor<256x4096xf16>
  // expected-remark@+1 {{fuse-activation missed: with graph.rms_norm it saves}}
  %1 = graph.cast %0 to f32 : (tensor<256x4096xf16>) -> tensor<256x4096xf32>
  // expected-remark@+1 {{fuse-users applied}}
  %2 = graph.rms_norm %1, %s : (tensor<256x4096xf32>, tensor<4096xf32>) -> tensor<256x4096xf32>
  func.return %2 : tensor<256x4096xf32>
}

// -----

// A product behind a softmax: each joins the launch before it.
func.func @computed(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %v = graph.constant #graph.weight<"v"> : tensor<64x64xf32>
  %w = graph.constant #graph.weight<"w"> : tensor<64x64xf32>
  %0 = graph.matmul %x, %v : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  // expected-remark@+1 {{fuse-softmax applied}}
  %1 = graph.softmax %0 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = graph.matmul %1, %w : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  // expected-remark@+2 {{fuse-residual missed: a path around them would become a cycle (about}}
  // expected-remark@+1 {{fuse-residual applied}}
  %3 = graph.add %0, %2 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  func.return %3 : tensor<8x64xf32>
}

// -----

// Data movement that brings in more than the product.
func.func @store(%x: tensor<1x64xf32>, %w: tensor<64x32xf32>, %y: tensor<15x32xf32>) -> tensor<16x32xf32> {
  %0 = graph.matmul %x, %w : (tensor<1x64xf32>, tensor<64x32xf32>) -> tensor<1x32xf32>
  // expected-remark@+1 {{fuse-store missed: most of the result is not of the matmul (about}}
  %1 = graph.concat %0, %y axis 0 : (tensor<1x32xf32>, tensor<15x32xf32>) -> tensor<16x32xf32>
  func.return %1 : tensor<16x32xf32>
}

// -----

// Users of one value with other rows.
func.func @siblings(%x: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %1 = graph.softmax %x : (tensor<512x512xf32>) -> tensor<512x512xf32>
  // expected-remark@+1 {{fuse-siblings missed: rows differ (about}}
  %2 = graph.softmax %x axis 0 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>
}
