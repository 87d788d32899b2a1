"""Programs of two unknown sizes, batch and length, of which gears may pad some."""

HEAD = """
func.func @main(%x: tensor<?x?x8xf32> {graph.name = "x", graph.dims = ["batch", "length", ""]},
                %m: tensor<?x?xi64> {graph.name = "m", graph.dims = ["batch", "length"]})
    -> (tensor<OUTxf32> {graph.name = "y"}) {
"""
T = "tensor<?x?x8xf32>"
Q = "tensor<?x1x?x8xf32>"

# The mask is 0 for padded tokens: they have no weight
ATTENTION = (HEAD + """
  %low = graph.constant dense<LOW> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %w = graph.constant dense<0.25> : tensor<8x8xf32>
  %0 = graph.cast %m to i1 : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %1 = graph.unsqueeze %0 axes [1, 2] : (tensor<?x?xi1>) -> tensor<?x1x1x?xi1>
  %2 = graph.select %1, SIDES : (tensor<?x1x1x?xi1>, tensor<f32>, tensor<f32>)
      -> tensor<?x1x1x?xf32>
  %3 = graph.matmul %x, %w : (T, tensor<8x8xf32>) -> T
  %4 = graph.unsqueeze %3 axes [1] : (T) -> Q
  %5 = graph.attention %4, %4, %4 mask %2 : (Q, Q, Q, tensor<?x1x1x?xf32>) -> Q
  %6 = graph.squeeze %5 axes [1] : (Q) -> T
  %7 = graph.add %6, %x : (T, T) -> T
  func.return %7 : T
}
""").replace("OUT", "?x?x8").replace("T", T).replace("Q", Q).replace(T + "E", "TE")  # fmt: skip


def attention(sides: str = "%zero, %low", low: str = "-3.0e38") -> str:
    return ATTENTION.replace("SIDES", sides).replace("LOW", low)


def body(text: str, out: str = "?x?x8") -> str:
    return HEAD.replace("OUT", out) + text.replace(" T", f" {T}").replace("(T", f"({T}") + "}\n"


SAFE = {
    "rows stay apart": "  %0 = graph.softmax %x : (T) -> T\n  func.return %0 : T\n",
    "a sum of zeros": """
  %0 = graph.reduce sum %x axes [1] : (T) -> tensor<?x1x8xf32>
  %1 = graph.add %x, %0 : (T, tensor<?x1x8xf32>) -> T
  func.return %1 : T
""",
    "a running sum from the front": """
  %0 = graph.cumulative sum %x axis 1 exclusive true : (T) -> T
  %1 = graph.tanh %0 : (T) -> T
  func.return %1 : T
""",
    "a running sum of zeros from the end": """
  %0 = graph.cumulative sum %x axis 1 reverse true : (T) -> T
  func.return %0 : T
""",
    "states of steps that go forward": """
  %w = graph.constant dense<0.25> : tensor<1x32x8xf32>
  %r = graph.constant dense<0.5> : tensor<1x32x8xf32>
  %0 = graph.transpose %x permutation [1, 0, 2] : (T) -> T
  %1, %2, %3 = graph.lstm %0, %w, %r : (T, tensor<1x32x8xf32>, tensor<1x32x8xf32>)
      -> (tensor<?x1x?x8xf32>, tensor<1x?x8xf32>, tensor<1x?x8xf32>)
  %4 = graph.squeeze %1 axes [1] : (tensor<?x1x?x8xf32>) -> T
  %5 = graph.transpose %4 permutation [1, 0, 2] : (T) -> T
  %6 = graph.add %x, %5 : (T, T) -> T
  func.return %6 : T
""",
    "windows over what came before": """
  %k = graph.constant dense<0.25> : tensor<8x8x3xf32>
  %0 = graph.transpose %x permutation [0, 2, 1] : (T) -> tensor<?x8x?xf32>
  %1 = graph.conv %0, %k pads [2, 0]
      : (tensor<?x8x?xf32>, tensor<8x8x3xf32>) -> tensor<?x8x?xf32>
  %2 = graph.transpose %1 permutation [0, 2, 1] : (tensor<?x8x?xf32>) -> T
  func.return %2 : T
""",
    "elements added to rows, repeated and taken by size": """
  %0 = graph.pad %x pads [0, 0, 1, 0, 0, 2] : (T) -> tensor<?x?x11xf32>
  %1 = graph.tile %0 repeats [1, 1, 2] : (tensor<?x?x11xf32>) -> tensor<?x?x22xf32>
  %2, %3 = graph.top_k %1 k 8 : (tensor<?x?x22xf32>) -> (T, tensor<?x?x8xi64>)
  %4 = graph.arg_reduce max %1 axis 2 : (tensor<?x?x22xf32>)
      -> tensor<?x?x1xi64>
  %5 = graph.cast %3 to f32 : (tensor<?x?x8xi64>) -> T
  %6 = graph.cast %4 to f32 : (tensor<?x?x1xi64>) -> tensor<?x?x1xf32>
  %7 = graph.add %2, %5 : (T, T) -> T
  %8 = graph.add %7, %6 : (T, tensor<?x?x1xf32>) -> T
  func.return %8 : T
""",
    "tokens that are counted, as positions in a table": """
  %t = graph.constant dense<0.25> : tensor<12x8xf32>
  %one = graph.constant dense<1> : tensor<i64>
  %0 = graph.compare ne %m, %one : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi1>
  %1 = graph.cast %0 to i64 : (tensor<?x?xi1>) -> tensor<?x?xi64>
  %2 = graph.cumulative sum %1 axis 1 : (tensor<?x?xi64>) -> tensor<?x?xi64>
  %3 = graph.mul %2, %1 : (tensor<?x?xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
  %4 = graph.add %3, %one : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi64>
  %5 = graph.gather %t, %4 : (tensor<12x8xf32>, tensor<?x?xi64>) -> T
  %6 = graph.add %x, %5 : (T, T) -> T
  func.return %6 : T
""",
    "pairs within rows": """
  %c = graph.constant dense<0.5> : tensor<4xf32>
  %0 = graph.rotary_embedding %x, %c, %c interleaved true : (T, tensor<4xf32>, tensor<4xf32>)
      -> T
  func.return %0 : T
""",
    "positions that a mask counts": """
  %t = graph.constant dense<0.25> : tensor<12x8xf32>
  %0 = graph.cumulative sum %m axis 1 : (tensor<?x?xi64>) -> tensor<?x?xi64>
  %1 = graph.mul %0, %m : (tensor<?x?xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
  %2 = graph.gather %t, %1 : (tensor<12x8xf32>, tensor<?x?xi64>) -> T
  %3 = graph.add %x, %2 : (T, T) -> T
  func.return %3 : T
""",
    "elements at positions that a mask counts": """
  %k = graph.constant dense<0> : tensor<1x12xi64>
  %s = graph.shape_of %m start 0 end 1 : (tensor<?x?xi64>) -> tensor<1xi64>
  %n = graph.constant dense<12> : tensor<1xi64>
  %b = graph.concat %s, %n axis 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %d = graph.broadcast_to %k shape %b : (tensor<1x12xi64>, tensor<2xi64>) -> tensor<?x12xi64>
  %0 = graph.cumulative sum %m axis 1 : (tensor<?x?xi64>) -> tensor<?x?xi64>
  %1 = graph.mul %0, %m : (tensor<?x?xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
  %2 = graph.gather_elements %d, %1 axis 1 : (tensor<?x12xi64>, tensor<?x?xi64>)
      -> tensor<?x?xi64>
  %3 = graph.cast %2 to f32 : (tensor<?x?xi64>) -> tensor<?x?xf32>
  %4 = graph.unsqueeze %3 axes [2] : (tensor<?x?xf32>) -> tensor<?x?x1xf32>
  %5 = graph.add %x, %4 : (T, tensor<?x?x1xf32>) -> T
  func.return %5 : T
""",
    "a product of zeros": """
  %0 = graph.matmul %x, %x transpose_rhs true : (T, T) -> tensor<?x?x?xf32>
  %1 = graph.matmul %0, %x : (tensor<?x?x?xf32>, T) -> T
  func.return %1 : T
""",
}
UNSAFE = {
    "graph.if": """
  %z = graph.constant dense<1.0> : tensor<f32>
  %s = graph.reduce sum_square %x keep_dims false : (T) -> tensor<f32>
  %c = graph.compare gt %s, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %0 = graph.if %c : (tensor<i1>) -> T {
    %1 = graph.softmax %x axis 1 : (T) -> T
    graph.yield %1 : T
  } else {
    graph.yield %x : T
  }
  func.return %0 : T
""",
    "graph.reduce": """
  %0 = graph.reduce mean %x axes [1] : (T) -> tensor<?x1x8xf32>
  %1 = graph.add %x, %0 : (T, tensor<?x1x8xf32>) -> T
  func.return %1 : T
""",
    "graph.softmax": """
  %0 = graph.softmax %x axis 1 : (T) -> T
  func.return %0 : T
""",
    "graph.matmul": """
  %0 = graph.cos %x : (T) -> T
  %1 = graph.matmul %0, %0 transpose_lhs true : (T, T) -> tensor<?x8x8xf32>
  %2 = graph.matmul %x, %1 : (T, tensor<?x8x8xf32>) -> T
  func.return %2 : T
""",
    "graph.gather": """
  %i = graph.constant dense<-1> : tensor<1xi64>
  %0 = graph.gather %x, %i axis 1 : (T, tensor<1xi64>) -> tensor<?x1x8xf32>
  %1 = graph.add %x, %0 : (T, tensor<?x1x8xf32>) -> T
  func.return %1 : T
""",
    "graph.cumulative": """
  %0 = graph.cos %x : (T) -> T
  %1 = graph.cumulative sum %0 axis 1 reverse true : (T) -> T
  func.return %1 : T
""",
    "graph.lstm": """
  %w = graph.constant dense<0.25> : tensor<1x8x8xf32>
  %r = graph.constant dense<0.5> : tensor<1x8x2xf32>
  %0 = graph.transpose %x permutation [1, 0, 2] : (T) -> T
  %1, %2, %3 = graph.lstm %0, %w, %r : (T, tensor<1x8x8xf32>, tensor<1x8x2xf32>)
      -> (tensor<?x1x?x2xf32>, tensor<1x?x2xf32>, tensor<1x?x2xf32>)
  %4 = graph.squeeze %2 axes [0] : (tensor<1x?x2xf32>) -> tensor<?x2xf32>
  %5 = graph.unsqueeze %4 axes [1] : (tensor<?x2xf32>) -> tensor<?x1x2xf32>
  %6 = graph.tile %5 repeats [1, 1, 4] : (tensor<?x1x2xf32>) -> tensor<?x1x8xf32>
  %7 = graph.add %x, %6 : (T, tensor<?x1x8xf32>) -> T
  func.return %7 : T
""",
    "graph.conv": """
  %k = graph.constant dense<0.25> : tensor<8x8x3xf32>
  %0 = graph.transpose %x permutation [0, 2, 1] : (T) -> tensor<?x8x?xf32>
  %1 = graph.conv %0, %k pads [1, 1]
      : (tensor<?x8x?xf32>, tensor<8x8x3xf32>) -> tensor<?x8x?xf32>
  %2 = graph.transpose %1 permutation [0, 2, 1] : (tensor<?x8x?xf32>) -> T
  func.return %2 : T
""",
    "nothing is known of how graph.compress": """
  %k = graph.constant dense<[true, false, true, true, true, true, true, true]> : tensor<8xi1>
  %0 = graph.compress %x, %k axis 2 : (T, tensor<8xi1>) -> tensor<?x?x?xf32>
  %1 = graph.reduce sum %0 axes [2] : (tensor<?x?x?xf32>) -> tensor<?x?x1xf32>
  %2 = graph.add %x, %1 : (T, tensor<?x?x1xf32>) -> T
  func.return %2 : T
""",
    "graph.gather_elements": """
  %k = graph.constant dense<0> : tensor<1x12xi64>
  %s = graph.shape_of %m start 0 end 1 : (tensor<?x?xi64>) -> tensor<1xi64>
  %n = graph.constant dense<12> : tensor<1xi64>
  %b = graph.concat %s, %n axis 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %d = graph.broadcast_to %k shape %b : (tensor<1x12xi64>, tensor<2xi64>) -> tensor<?x12xi64>
  %0 = graph.cumulative sum %m axis 1 : (tensor<?x?xi64>) -> tensor<?x?xi64>
  %2 = graph.gather_elements %d, %0 axis 1 : (tensor<?x12xi64>, tensor<?x?xi64>)
      -> tensor<?x?xi64>
  %3 = graph.cast %2 to f32 : (tensor<?x?xi64>) -> tensor<?x?xf32>
  %4 = graph.unsqueeze %3 axes [2] : (tensor<?x?xf32>) -> tensor<?x?x1xf32>
  %5 = graph.add %x, %4 : (T, tensor<?x?x1xf32>) -> T
  func.return %5 : T
""",
    "graph.range": """
  %n = graph.shape_of %x start 1 end 2 : (T) -> tensor<1xi64>
  %s = graph.squeeze %n axes [0] : (tensor<1xi64>) -> tensor<i64>
  %minus = graph.constant dense<-1> : tensor<i64>
  %f = graph.add %s, %minus : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %r = graph.range %f, %minus, %minus : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %0 = graph.cast %r to f32 : (tensor<?xi64>) -> tensor<?xf32>
  %1 = graph.unsqueeze %0 axes [1] : (tensor<?xf32>) -> tensor<?x1xf32>
  %2 = graph.add %x, %1 : (T, tensor<?x1xf32>) -> T
  func.return %2 : T
""",
    "graph.slice": """
  %n = graph.shape_of %x start 1 end 2 : (T) -> tensor<1xi64>
  %c = graph.constant dense<1> : tensor<1xi64>
  %e = graph.add %n, %c : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %t = graph.constant dense<1.0> : tensor<64xf32>
  %s = graph.slice %t starts [0] ends %e axes [0] : (tensor<64xf32>, tensor<1xi64>) -> tensor<?xf32>
  %0 = graph.reduce sum %s axes [0] : (tensor<?xf32>) -> tensor<1xf32>
  %1 = graph.add %x, %0 : (T, tensor<1xf32>) -> T
  func.return %1 : T
""",
    "graph.cast": """
  %0 = graph.shape_of %x start 1 end 2 : (T) -> tensor<1xi64>
  %1 = graph.cast %0 to f32 : (tensor<1xi64>) -> tensor<1xf32>
  %2 = graph.div %x, %1 : (T, tensor<1xf32>) -> T
  func.return %2 : T
""",
}


# The mask of each key by its index among all: b * length + s, as exporters write mask[b, s]
FLAT = (HEAD + """
  %c0 = graph.constant dense<0> : tensor<i64>
  %c1 = graph.constant dense<1> : tensor<i64>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %low = graph.constant dense<0xff800000> : tensor<f32>
  %bs = graph.shape_of %m end 1 : (tensor<?x?xi64>) -> tensor<1xi64>
  %ss = graph.shape_of %m start 1 end 2 : (tensor<?x?xi64>) -> tensor<1xi64>
  %b0 = graph.squeeze %bs axes [0] : (tensor<1xi64>) -> tensor<i64>
  %s0 = graph.squeeze %ss axes [0] : (tensor<1xi64>) -> tensor<i64>
  %b1 = graph.range %c0, %b0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %s1 = graph.range %c0, %s0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %b2 = graph.reshape %b1 shape [-1, 1, 1, 1] : (tensor<?xi64>) -> tensor<?x1x1x1xi64>
  %s2 = graph.reshape %s1 shape [1, 1, 1, -1] : (tensor<?xi64>) -> tensor<1x1x1x?xi64>
  %b3 = graph.mul %b2, %ss : (tensor<?x1x1x1xi64>, tensor<1xi64>) -> tensor<?x1x1x1xi64>
  %i = graph.add %s2, %b3 : (tensor<1x1x1x?xi64>, tensor<?x1x1x1xi64>) -> tensor<?x1x1x?xi64>
  %0 = graph.cast %m to i1 : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %1 = graph.reshape %0 shape [-1, 1] : (tensor<?x?xi1>) -> tensor<?x1xi1>
  %2 = graph.gather %1, %i : (tensor<?x1xi1>, tensor<?x1x1x?xi64>) -> tensor<?x1x1x?x1xi1>
  %3 = graph.reshape %2 shape [-1] : (tensor<?x1x1x?x1xi1>) -> tensor<?xi1>
  %one = graph.constant dense<1> : tensor<1xi64>
  %to = graph.concat %bs, %one, %one, %ss axis 0
      : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4xi64>
  %4 = graph.reshape %3 shape %to : (tensor<?xi1>, tensor<4xi64>) -> tensor<?x1x1x?xi1>
  %5 = graph.select %4, %zero, %low : (tensor<?x1x1x?xi1>, tensor<f32>, tensor<f32>)
      -> tensor<?x1x1x?xf32>
  %6 = graph.unsqueeze %x axes [1] : (TT) -> QQ
  %7 = graph.attention %6, %6, %6 mask %5 : (QQ, QQ, QQ, tensor<?x1x1x?xf32>) -> QQ
  %8 = graph.attention %7, %7, %7 mask %5 : (QQ, QQ, QQ, tensor<?x1x1x?xf32>) -> QQ
  %9 = graph.squeeze %8 axes [1] : (QQ) -> TT
  func.return %9 : TT
}
""").replace("OUT", "?x?x8").replace("TT", T).replace("QQ", Q)  # fmt: skip

# The mask of each key by its index, as exporters gather mask[b, s]; s is INDEX of the key's place
GATHERED = (HEAD + """
  %c0 = graph.constant dense<0> : tensor<i64>
  %c1 = graph.constant dense<1> : tensor<i64>
  %two = graph.constant dense<2> : tensor<i64>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %low = graph.constant dense<-3.0e38> : tensor<f32>
  %bs = graph.shape_of %m end 1 : (tensor<?x?xi64>) -> tensor<1xi64>
  %ss = graph.shape_of %m start 1 end 2 : (tensor<?x?xi64>) -> tensor<1xi64>
  %b0 = graph.squeeze %bs axes [0] : (tensor<1xi64>) -> tensor<i64>
  %s0 = graph.squeeze %ss axes [0] : (tensor<1xi64>) -> tensor<i64>
  %b1 = graph.range %c0, %b0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %s1 = graph.range %c0, %s0, %c1 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %last = graph.sub %s0, %c1 : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %back = graph.sub %last, %s1 : (tensor<i64>, tensor<?xi64>) -> tensor<?xi64>
  %half = graph.div %s1, %two : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
  %b2 = graph.reshape %b1 shape [-1, 1, 1, 1, 1] : (tensor<?xi64>) -> tensor<?x1x1x1x1xi64>
  %s2 = graph.reshape %INDEX shape [1, 1, 1, -1, 1] : (tensor<?xi64>) -> tensor<1x1x1x?x1xi64>
  %one = graph.constant dense<1> : tensor<1xi64>
  %to = graph.concat %bs, %one, %one, %ss, %one axis 0
      : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<5xi64>
  %b3 = graph.broadcast_to %b2 shape %to
      : (tensor<?x1x1x1x1xi64>, tensor<5xi64>) -> tensor<?x1x1x?x1xi64>
  %s3 = graph.broadcast_to %s2 shape %to
      : (tensor<1x1x1x?x1xi64>, tensor<5xi64>) -> tensor<?x1x1x?x1xi64>
  %i = graph.concat %b3, %s3 axis 4
      : (tensor<?x1x1x?x1xi64>, tensor<?x1x1x?x1xi64>) -> tensor<?x1x1x?x2xi64>
  %0 = graph.cast %m to i1 : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %1 = graph.gather_nd %0, %i : (tensor<?x?xi1>, tensor<?x1x1x?x2xi64>) -> tensor<?x1x1x?xi1>
  %2 = graph.select %1, SIDES : (tensor<?x1x1x?xi1>, tensor<f32>, tensor<f32>)
      -> tensor<?x1x1x?xf32>
  %3 = graph.unsqueeze %x axes [1] : (TT) -> QQ
  %4 = graph.attention %3, %3, %3 mask %2 : (QQ, QQ, QQ, tensor<?x1x1x?xf32>) -> QQ
  %5 = graph.squeeze %4 axes [1] : (QQ) -> TT
  func.return %5 : TT
}
""").replace("OUT", "?x?x8").replace("TT", T).replace("QQ", Q)  # fmt: skip


def gathered(index: str = "s1", sides: str = "%zero, %low") -> str:
    return GATHERED.replace("INDEX", index).replace("SIDES", sides)


CLAIMS = {"attention": attention(), "a mask by index": FLAT, "a gathered mask": gathered()}
