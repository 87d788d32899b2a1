// An integer of any width in a syntax takes what follows it for its type: the error is there.
// RUN: ge-opt %s --load-plugin %S/Inputs/numbers_plugin.py --split-input-file --verify-diagnostics

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = my.take %x group 2 : i64 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{what follows ':' is no type of a number; a property of one width, such as IntegerAttr[I64], is written without it}}
  %0 = my.take %x group 2 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
