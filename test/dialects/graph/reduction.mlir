// RUN: %roundtrip | filecheck %s

// CHECK-LABEL: func.func @kinds(
func.func @kinds(%x: tensor<2x3x?xf32>) {
  // CHECK-NEXT: %sum = graph.reduce sum %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  %sum = graph.reduce sum %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  // CHECK-NEXT: %mean = graph.reduce mean %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  %mean = graph.reduce mean %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  // CHECK-NEXT: %max = graph.reduce max %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  %max = graph.reduce max %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  // CHECK-NEXT: %min = graph.reduce min %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  %min = graph.reduce min %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  // CHECK-NEXT: %prod = graph.reduce prod %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  %prod = graph.reduce prod %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  // CHECK-NEXT: %l1 = graph.reduce l1 %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  %l1 = graph.reduce l1 %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  // CHECK-NEXT: %l2 = graph.reduce l2 %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  %l2 = graph.reduce l2 %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  // CHECK-NEXT: %log_sum = graph.reduce log_sum %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  %log_sum = graph.reduce log_sum %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  // CHECK-NEXT: %log_sum_exp = graph.reduce log_sum_exp %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  %log_sum_exp = graph.reduce log_sum_exp %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  // CHECK-NEXT: %sum_square = graph.reduce sum_square %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  %sum_square = graph.reduce sum_square %x axes [1] : (tensor<2x3x?xf32>) -> tensor<2x1x?xf32>
  func.return
}

// CHECK-LABEL: func.func @axes(
func.func @axes(%x: tensor<2x3x?xf32>, %axis: tensor<1xi64>, %axes: tensor<?xi32>) {
  // CHECK-NEXT: %all = graph.reduce sum %x : (tensor<2x3x?xf32>) -> tensor<1x1x1xf32>
  %all = graph.reduce sum %x : (tensor<2x3x?xf32>) -> tensor<1x1x1xf32>
  // CHECK-NEXT: %scalar = graph.reduce sum %x keep_dims false : (tensor<2x3x?xf32>) -> tensor<f32>
  %scalar = graph.reduce sum %x keep_dims false : (tensor<2x3x?xf32>) -> tensor<f32>
  // CHECK-NEXT: %negative = graph.reduce max %x axes [2, 0] keep_dims false : (tensor<2x3x?xf32>) -> tensor<3xf32>
  %negative = graph.reduce max %x axes [-1, 0] keep_dims false : (tensor<2x3x?xf32>) -> tensor<3xf32>
  // CHECK-NEXT: %run_time = graph.reduce max %x axes %axis : (tensor<2x3x?xf32>, tensor<1xi64>) -> tensor<?x?x?xf32>
  %run_time = graph.reduce max %x axes %axis : (tensor<2x3x?xf32>, tensor<1xi64>) -> tensor<?x?x?xf32>
  // CHECK-NEXT: %dropped = graph.reduce max %x axes %axis keep_dims false : (tensor<2x3x?xf32>, tensor<1xi64>) -> tensor<?x?xf32>
  %dropped = graph.reduce max %x axes %axis keep_dims false : (tensor<2x3x?xf32>, tensor<1xi64>) -> tensor<?x?xf32>
  // CHECK-NEXT: %of_any_rank = graph.reduce max %x axes %axes keep_dims false : (tensor<2x3x?xf32>, tensor<?xi32>) -> tensor<*xf32>
  %of_any_rank = graph.reduce max %x axes %axes keep_dims false : (tensor<2x3x?xf32>, tensor<?xi32>) -> tensor<*xf32>
  func.return
}

// CHECK-LABEL: func.func @constant_axes_operand(
func.func @constant_axes_operand(%x: tensor<2x3x?xf32>) {
  // CHECK-NEXT: %axes = graph.constant dense<1> : tensor<1xi64>
  %axes = graph.constant dense<1> : tensor<1xi64>
  // CHECK-NEXT: %0 = graph.reduce sum %x axes %axes : (tensor<2x3x?xf32>, tensor<1xi64>) -> tensor<2x1x?xf32>
  %0 = graph.reduce sum %x axes %axes : (tensor<2x3x?xf32>, tensor<1xi64>) -> tensor<2x1x?xf32>
  func.return
}

// CHECK-LABEL: func.func @truth_values(
func.func @truth_values(%x: tensor<2x3xi1>) {
  // CHECK-NEXT: %any = graph.reduce max %x axes [0] : (tensor<2x3xi1>) -> tensor<1x3xi1>
  %any = graph.reduce max %x axes [0] : (tensor<2x3xi1>) -> tensor<1x3xi1>
  // CHECK-NEXT: %every = graph.reduce min %x axes [0] : (tensor<2x3xi1>) -> tensor<1x3xi1>
  %every = graph.reduce min %x axes [0] : (tensor<2x3xi1>) -> tensor<1x3xi1>
  func.return
}

// CHECK-LABEL: func.func @arg_reduce(
func.func @arg_reduce(%x: tensor<2x3x?xf32>) {
  // CHECK-NEXT: %first = graph.arg_reduce max %x : (tensor<2x3x?xf32>) -> tensor<1x3x?xi64>
  %first = graph.arg_reduce max %x : (tensor<2x3x?xf32>) -> tensor<1x3x?xi64>
  // CHECK-NEXT: %last = graph.arg_reduce min %x axis 2 keep_dims false select_last_index true : (tensor<2x3x?xf32>) -> tensor<2x3xi64>
  %last = graph.arg_reduce min %x axis -1 keep_dims false select_last_index true : (tensor<2x3x?xf32>) -> tensor<2x3xi64>
  func.return
}

// CHECK-LABEL: func.func @cumulative(
func.func @cumulative(%x: tensor<2x3x?xf32>, %axis: tensor<i64>) {
  // CHECK-NEXT: %sum = graph.cumulative sum %x axis 1 : (tensor<2x3x?xf32>) -> tensor<2x3x?xf32>
  %sum = graph.cumulative sum %x axis 1 : (tensor<2x3x?xf32>) -> tensor<2x3x?xf32>
  // CHECK-NEXT: %prod = graph.cumulative prod %x axis 2 exclusive true reverse true : (tensor<2x3x?xf32>) -> tensor<2x3x?xf32>
  %prod = graph.cumulative prod %x axis -1 exclusive true reverse true : (tensor<2x3x?xf32>) -> tensor<2x3x?xf32>
  // CHECK-NEXT: %run_time = graph.cumulative sum %x axis %axis : (tensor<2x3x?xf32>, tensor<i64>) -> tensor<2x3x?xf32>
  %run_time = graph.cumulative sum %x axis %axis : (tensor<2x3x?xf32>, tensor<i64>) -> tensor<2x3x?xf32>
  func.return
}
