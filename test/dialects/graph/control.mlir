// RUN: %roundtrip | filecheck %s

// CHECK-LABEL: @branches(
func.func @branches(%c: tensor<i1>, %a: tensor<4xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  // CHECK: %y = graph.if %c : (tensor<i1>) -> tensor<?xf32> {
  // CHECK-NEXT: %r = graph.relu %a : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: graph.yield %r : tensor<4xf32>
  // CHECK-NEXT: } else {
  // CHECK-NEXT: graph.yield %b : tensor<?xf32>
  // CHECK-NEXT: }
  %y = graph.if %c : (tensor<i1>) -> tensor<?xf32> {
    %r = graph.relu %a : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %r : tensor<4xf32>
  } else {
    graph.yield %b : tensor<?xf32>
  }
  return %y : tensor<?xf32>
}

// CHECK-LABEL: @no_results(
func.func @no_results(%c: tensor<1x1xi1>) {
  // CHECK: graph.if %c : (tensor<1x1xi1>) -> () {
  // CHECK-NEXT: graph.yield
  // CHECK-NEXT: } else {
  // CHECK-NEXT: graph.yield
  // CHECK-NEXT: } {my.tag}
  graph.if %c : (tensor<1x1xi1>) -> () {
    graph.yield
  } else {
    graph.yield
  } {my.tag}
  return
}

// CHECK-LABEL: @counted(
func.func @counted(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>) {
  // The trip count is constant and nothing else ends the loop: the scan result has its length.
  %n = graph.constant dense<5> : tensor<i64>
  // CHECK: %h, %hs = graph.loop (%i, %go) trip %n : tensor<i64> carry (%s = %x : tensor<2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>) {
  // CHECK-NEXT: %t = graph.add %s, %x :
  // CHECK-NEXT: graph.yield %go, %t, %t : tensor<i1>, tensor<2xf32>, tensor<2xf32>
  %h, %hs = graph.loop (%i, %go) trip %n : tensor<i64> carry (%s = %x : tensor<2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>) {
    %t = graph.add %s, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    graph.yield %go, %t, %t : tensor<i1>, tensor<2xf32>, tensor<2xf32>
  }
  return %h, %hs : tensor<2xf32>, tensor<5x2xf32>
}

// CHECK-LABEL: @while_it_holds(
func.func @while_it_holds(%c: tensor<i1>, %n: tensor<i64>, %x: tensor<f32>) -> tensor<f32> {
  // CHECK: %h = graph.loop (%i, %go) trip %n : tensor<i64> while %c : tensor<i1> carry (%s = %x : tensor<f32>) -> (tensor<f32>) attributes {my.tag} {
  %h = graph.loop (%i, %go) trip %n : tensor<i64> while %c : tensor<i1> carry (%s = %x : tensor<f32>) -> (tensor<f32>) attributes {my.tag} {
    %more = graph.compare lt %s, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    graph.yield %more, %s : tensor<i1>, tensor<f32>
  }
  return %h : tensor<f32>
}

// CHECK-LABEL: @endless(
func.func @endless() {
  // CHECK: graph.loop (%i, %go) -> () {
  // CHECK-NEXT: graph.yield %go : tensor<i1>
  graph.loop (%i, %go) -> () {
    graph.yield %go : tensor<i1>
  }
  return
}

// CHECK-LABEL: @growing(
func.func @growing(%c: tensor<i1>, %x: tensor<2xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  // The shape of the carried value changes, so the argument has `?` there.
  // CHECK: %h = graph.loop (%i, %go) while %c : tensor<i1> carry (%s : tensor<?xf32> = %x : tensor<2xf32>) -> (tensor<?xf32>) {
  %h = graph.loop (%i, %go) while %c : tensor<i1> carry (%s : tensor<?xf32> = %x : tensor<2xf32>) -> (tensor<?xf32>) {
    graph.yield %go, %y : tensor<i1>, tensor<?xf32>
  }
  return %h : tensor<?xf32>
}

// CHECK-LABEL: @two_ranks(
func.func @two_ranks(%c: tensor<i1>, %x: tensor<2xf32>, %y: tensor<2x2xf32>) -> tensor<*xf32> {
  // CHECK: %z = graph.if %c : (tensor<i1>) -> tensor<*xf32> {
  %z = graph.if %c : (tensor<i1>) -> tensor<*xf32> {
    graph.yield %x : tensor<2xf32>
  } else {
    graph.yield %y : tensor<2x2xf32>
  }
  // CHECK: %h, %hs = graph.loop (%i, %go) while %c : tensor<i1> carry (%s : tensor<*xf32> = %x : tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %h, %hs = graph.loop (%i, %go) while %c : tensor<i1> carry (%s : tensor<*xf32> = %x : tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
    graph.yield %go, %z, %s : tensor<i1>, tensor<*xf32>, tensor<*xf32>
  }
  return %h : tensor<*xf32>
}
