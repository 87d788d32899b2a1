// RUN: ge-opt %s --split-input-file --verify-diagnostics

func.func @a_memref(%x: memref<4xf32>) {
  // expected-error@+1 {{operand 'input': expected a ranked tensor of numbers, not memref<4xf32>}}
  %0 = graph.relu %x : (memref<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @an_encoding(%x: tensor<4xf32, "csr">) {
  // expected-error@+1 {{operand 'input': expected a ranked tensor of numbers, not tensor<4xf32, "csr">}}
  %0 = graph.relu %x : (tensor<4xf32, "csr">) -> tensor<4xf32>
  func.return
}

// -----

func.func @complex_elements(%x: tensor<4xcomplex<f32>>) {
  // expected-error@+1 {{operand 'input': expected a ranked tensor of elements that ge has, not tensor<4xcomplex<f32>>}}
  %0 = graph.transpose %x permutation [0] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  func.return
}

// -----

func.func @indices(%x: tensor<4x8xindex>) {
  // expected-error@+1 {{operand 'lhs': expected a ranked tensor of numbers, not tensor<4x8xindex>}}
  %0 = graph.add %x, %x : (tensor<4x8xindex>, tensor<4x8xindex>) -> tensor<4x8xindex>
  func.return
}

// -----

func.func @no_rank(%x: tensor<*xf32>) {
  // expected-error@+1 {{operand 'input': expected a ranked tensor of numbers, not tensor<*xf32>}}
  %0 = graph.relu %x : (tensor<*xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @in_a_fused_op(%x: tensor<4xindex>) {
  %0 = fused_op.region(%x) : (tensor<4xindex>) -> tensor<4xindex> {
  ^bb0(%a: tensor<4xindex>):
    // expected-error@+1 {{operand 'values': expected a tensor of elements that ge has, not tensor<4xindex>}}
    fused_op.yield %a : tensor<4xindex>
  }
  func.return
}

// -----

func.func @a_truth_value_as_axis(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{property 'axis': Expected attribute i64 but got i1}}
  %0 = "graph.softmax"(%x) <{axis = true}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @an_axis_of_8_bits(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{property 'axis': Expected attribute i64 but got i8}}
  %0 = "graph.softmax"(%x) <{axis = 1 : i8}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @an_axis_of_no_width(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{property 'axis': Expected attribute i64 but got index}}
  %0 = "graph.softmax"(%x) <{axis = 1 : index}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @a_number_of_16_bits(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{property 'epsilon': expected a finite f64 that is not negative, not 1.001360e-05 : f16}}
  %0 = "graph.layer_norm"(%x, %s) <{epsilon = 1.0e-5 : f16}> : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @a_negative_epsilon(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{property 'epsilon': expected a finite f64 that is not negative, not -1.000000e+00 : f64}}
  %0 = graph.rms_norm %x, %s epsilon -1.0 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @no_element_type(%x: tensor<4xf32>) {
  // expected-error@+1 {{property 'to': expected an element type of ge, not index}}
  %0 = graph.cast %x to index : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @a_number_of_no_element_type() {
  // expected-error@+1 {{property 'value': expected a number or truth value of a type of elements, not 1 : index}}
  %0 = graph.fill 1 : index shape [4] : () -> tensor<4xi64>
  func.return
}

// -----

func.func @a_misspelt_property(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{there is no property 'axes'; did you mean 'axis'?}}
  %0 = graph.softmax %x {axes = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @an_attribute_of_another_type(%x: tensor<4xf32>) {
  // expected-error@+1 {{'graph.range': expected the least and the largest number, f64, not "none"}}
  %0 = graph.relu %x {graph.range = "none"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// expected-error@+1 {{dialect graph has no attribute 'graph.nam'; did you mean 'graph.name'?}}
func.func @a_misspelt_attribute_of_an_argument(%x: tensor<4xf32> {graph.nam = "x"}) {
  func.return
}

// -----

// expected-error@+1 {{'graph.name': expected a string, not 3 : i32}}
func.func @a_name_that_is_a_number(%x: tensor<4xf32>) -> (tensor<4xf32> {graph.name = 3 : i32}) {
  func.return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'graph.dims' is of arguments and results, not of functions}}
func.func @dims_of_a_function() attributes {graph.dims = ["n"]} {
  func.return
}

// -----

func.func @a_misspelt_word(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{approximate is one of none, tanh, sigmoid, not 'tahn'; did you mean 'tanh'?}}
  %0 = graph.gelu %x approximate tahn : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @a_word_in_quotes(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{tanh stands without quotes}}
  %0 = graph.gelu %x approximate "tanh" : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @a_string_where_a_word_is_expected(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{property 'approximate': expected one of none, tanh, sigmoid, as in #graph<approximation none>, not "tanh"}}
  %0 = "graph.gelu"(%x) <{approximate = "tanh"}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @a_misspelt_attribute(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{approximation is one of none, tanh, sigmoid, not 'sigmod'; did you mean 'sigmoid'?}}
  %0 = "graph.gelu"(%x) <{approximate = #graph<approximation sigmod>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @a_word_of_another_choice(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{property 'approximate': expected one of none, tanh, sigmoid, as in #graph<approximation none>, not #graph<activation tanh>}}
  %0 = "graph.gelu"(%x) <{approximate = #graph<activation tanh>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @a_misspelt_property(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{graph.softmax has no 'axsi'; did you mean 'axis'?}}
  %0 = graph.softmax %x axsi 1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @a_property_twice(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'axis' is given twice}}
  %0 = graph.softmax %x axis 1 axis 1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @a_property_that_is_missing(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{graph.transpose needs `permutation` and its value here}}
  %0 = graph.transpose %x : (tensor<4x8xf32>) -> tensor<8x4xf32>
  func.return
}

// -----

func.func @types_without_parentheses(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{types of operands stand in parentheses: (...) -> ...}}
  %0 = graph.transpose %x permutation [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  func.return
}

// -----

func.func @a_type_too_few(%x: tensor<4x8xf32>, %s: tensor<2xi64>) {
  // expected-error@+1 {{expected 2 operand types, as there are operands, got 1}}
  %0 = graph.reshape %x shape %s : (tensor<4x8xf32>) -> tensor<?x?xf32>
  func.return
}
