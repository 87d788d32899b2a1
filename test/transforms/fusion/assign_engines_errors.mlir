// RUN: not ge-opt %s -p 'assign-engines{choices="node=vector"}' 2>&1 | filecheck %s --check-prefix=CUBE
// CUBE: loc("node"): error: 'node=vector': graph.matmul cannot run there: it multiplies matrices, which the cube alone does
// RUN: not ge-opt %s -p 'assign-engines{choices="nodde=vector"}' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not ge-opt %s -p 'assign-engines{choices="node=vectro"}' 2>&1 | filecheck %s --check-prefix=ENGINE
// RUN: not ge-opt %s -p 'assign-engines{choices="node"}' 2>&1 | filecheck %s --check-prefix=FORM
// NAME: engine: no op has a name in which 'nodde' is; did you mean 'node'?
// ENGINE: no engine is 'vectro' (did you mean vector?)
// FORM: engine is NAME=ENGINE, where NAME is a regular expression, not 'node'

func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("node")
  func.return %0 : tensor<8x8xf32>
}
