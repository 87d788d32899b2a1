// RUN: ge-opt --export-irdl | filecheck %s
// RUN: ge-opt %s --print-op-irdl | filecheck %s --check-prefix=FORM

// What IRDL says of the dialects, and a module as mlir-opt takes it then: properties are attributes,
// attributes and types have parameters, and blocks an op that may be a terminator.

// CHECK: irdl.dialect @graph {
// CHECK:   irdl.operation @concat {
// CHECK-NEXT: [[EACH:%[0-9]+]] = irdl.base "!builtin.tensor"
// CHECK:        irdl.operands(optional [[EACH]], optional
// CHECK:        [[AXIS:%[0-9]+]] = irdl.base "#builtin.integer"
// CHECK-NEXT:   irdl.attributes {"axis" = [[AXIS]]}
// CHECK: irdl.dialect @npu_task {
// CHECK:   irdl.attribute @engine_attribute {
// CHECK:     [[CUBE:%[0-9]+]] = irdl.is "cube"
// CHECK:     irdl.any_of([[CUBE]],
// CHECK: // not case, which has any number of regions
// CHECK: irdl.dialect @tile {
// CHECK:   irdl.type @tile_type {

// FORM: "npu_task.kernel"() ({
// FORM-NEXT: ^bb0(%x: tensor<4xf32>):
// FORM-NEXT:   %0 = "graph.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
// FORM-NEXT:   "npu_task.return"(%0) {operand_segment_sizes = array<i32: 1, 0,
// FORM-NEXT:   "end.block"() : () -> ()
// FORM-NEXT: }) {sym_name = "relu", engine = #npu_task.engine_attribute<"vector">} : () -> ()
npu_task.kernel @relu on vector {
^bb0(%x: tensor<4xf32>):
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %0 : tensor<4xf32>
}
