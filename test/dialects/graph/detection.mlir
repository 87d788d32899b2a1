// RUN: %roundtrip | filecheck %s

// CHECK-LABEL: func.func @non_max_suppression(
func.func @non_max_suppression(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>, %n: tensor<i64>, %t: tensor<1xf32>) {
  // CHECK-NEXT: %all = graph.non_max_suppression %b, %s max_output %n iou_threshold %t score_threshold %t : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<1xf32>, tensor<1xf32>) -> tensor<?x3xi64>
  %all = graph.non_max_suppression %b, %s max_output %n iou_threshold %t score_threshold %t : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<1xf32>, tensor<1xf32>) -> tensor<?x3xi64>
  // CHECK-NEXT: %least = graph.non_max_suppression %b, %s : (tensor<1x6x4xf32>, tensor<1x2x6xf32>) -> tensor<?x3xi64>
  %least = graph.non_max_suppression %b, %s : (tensor<1x6x4xf32>, tensor<1x2x6xf32>) -> tensor<?x3xi64>
  // CHECK-NEXT: %center = graph.non_max_suppression %b, %s max_output %n center_point_box true : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>) -> tensor<?x3xi64>
  %center = graph.non_max_suppression %b, %s max_output %n center_point_box true : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>) -> tensor<?x3xi64>
  func.return
}
