// RUN: ge-opt %s -p 'assign-streams{target="910b1"}' --validate | filecheck %s
// Declared: bit-exact.
// 3 runs from row 0, normal inputs: cannot be run any more: the plan is not safe: launch of @append_0 reads bytes that nothing has written
// CHECK: builtin.module

builtin.module {
  npu_task.kernel @add_0 on host {
  ^bb0(%0: tensor<i64>):
    %1 = graph.constant dense<-1> : tensor<1xi64>
    %2 = graph.add %0, %1 : (tensor<i64>, tensor<1xi64>) -> tensor<1xi64>
    npu_task.return %2 : tensor<1xi64>
  }
  npu_task.kernel @norm_0 on vector tiling <[64] blocks 1 buffers 1> {
  ^bb0(%0: tensor<400x64xf32>, %1: tensor<1x1xi64>, %2: tensor<64x64xf32>, %3: tensor<1x1xi64>):
    %4 = graph.constant dense<[0.983427107, 1.03868854, 1.09513807, 1.0586679, 1.01626742, 0.973184943, 0.977483511, 1.05119598, 0.95080322, 1.07344151, 1.072350e+00, 0.946760356, 0.986506283, 1.03768647, 1.08997297, 1.00113666, 0.958498359, 0.940152884, 1.04196167, 1.13426483, 1.08068466, 0.958465099, 0.936675847, 0.985816061, 1.03937364, 1.01495624, 1.07580471, 0.963176966, 0.948756814, 1.0008142, 1.00719404, 1.06211483, 1.00908411, 0.914630532, 9.032700e-01, 1.02989638, 0.959911227, 0.88413012, 0.953345418, 1.01782823, 0.955328763, 0.965961695, 1.00232351, 0.93266654, 0.920748889, 0.97378844, 1.00153828, 1.03211248, 0.987251282, 0.963595152, 1.0765698, 0.94723773, 0.979681909, 0.992470086, 0.962466836, 0.986324906, 1.05278134, 0.963148355, 9.980300e-01, 1.01236212, 1.04793036, 1.03897727, 0.953340828, 1.11207104]> : tensor<64xf32>
    %5 = graph.constant dense<[0.0259861592, 0.0339634717, 0.0130887171, 0.0375457406, 0.0305581335, -0.0299082603, -0.00460622041, -0.0577360466, -0.110538147, 0.00533785159, -0.112173952, -0.0314766616, 7.787370e-02, -0.0691632852, -0.0567053854, -0.0719407499, 0.000663758896, -0.0382499881, -0.0345443301, -7.599020e-02, 0.0559234433, -0.0232595932, -0.0379557684, 0.00221289392, 0.0258987378, -0.0724945441, -0.0933510885, 0.0163440909, -0.0294123776, -0.0538975894, -0.0183589701, -0.00381690683, 0.0272878688, 0.045024965, -0.0418114327, 0.0182585847, -0.00706033735, 0.0123823015, -0.0381124094, -0.00726264482, 0.0483845286, 0.0392554961, 0.0279166307, -0.014604588, 0.0403459929, -3.609360e-02, 0.000356424047, -0.0109435087, -0.0270803813, 0.0161119625, -0.0384667031, 0.0570308976, -0.126027539, -0.00338471099, -0.0435155407, 0.0613246448, -0.0600616448, 0.0607963577, 0.0305919852, 0.086559169, 0.0186602231, 0.0698890239, -0.00088263565, -0.0600825027]> : tensor<64xf32>
    %6, %7 = fused_op.norm(%0, %1, %2, %3, %4, %5) : (tensor<400x64xf32>, tensor<1x1xi64>, tensor<64x64xf32>, tensor<1x1xi64>, tensor<64xf32>, tensor<64xf32>) -> (tensor<1x1x64xf32>, tensor<1x1x64xf32>) {
    ^bb0(%8: tensor<400x64xf32>, %9: tensor<1x1xi64>, %10: tensor<64x64xf32>, %11: tensor<1x1xi64>, %12: tensor<64xf32>, %13: tensor<64xf32>):
      %14 = graph.gather %8, %9 : (tensor<400x64xf32>, tensor<1x1xi64>) -> tensor<1x1x64xf32>
      %15 = graph.gather %10, %11 : (tensor<64x64xf32>, tensor<1x1xi64>) -> tensor<1x1x64xf32>
      %16 = graph.add %14, %15 : (tensor<1x1x64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32>
      %17 = graph.layer_norm %16, %12, %13 {epsilon = 9.9999997473787516e-06 : f64} : (tensor<1x1x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<1x1x64xf32>
      fused_op.yield %16, %17 : tensor<1x1x64xf32>, tensor<1x1x64xf32>
    }
    npu_task.return %6, %7 : tensor<1x1x64xf32>, tensor<1x1x64xf32>
  }
  npu_task.kernel @linear_0 on cube tiling <[16, 16, 64] blocks 12 buffers 1> {
  ^bb0(%0: tensor<1x64xf32>, %1: tensor<64x192xf32>):
    %2 = graph.constant dense<"0x7DCE9C3D3C7E253D8A7C76BC78788BBDFFB6913D345D82BD0F1F9DBDE1230C3D221C84BD3FCB4CBDE52081BBD705FDBC256EF3BCCDFBFDBCDE2124BDCB7AB9BDB9658E3D82F1D83CEF6731BD8A875EBC2348473CC7D49CBCBB1D6B3DD2450E3D72B2453C4B88A03CB7F2523DFA69703CDE2F363CC70131BD9D94D8BC4E0CAE3D3DC5413C50F3D43C4264B93C0005CFBDA787D43CB897823D20B2DCBC4741B43DEDA5343D7201BDBD773A773C806C5E3CD1BD02BC2B810E3A3FCA62BD177106BD349D98BC60163ABCCC7A43BDB37AD73D5E0225BD3A67F63CAFABF1BCAA3FE43CC0EE69BD91CF9C3CC60F303DDC590ABCB64A333CBC7088BC6193BDBDBAE8513DA27E333D852A8A3D5D0E603D122F4EBD89520D3C77CA18BD436624BDED7F533C0F4462BDFAF05C3CE3F5A83DB69797BD781C91BC61CFB43BBD0DE13DF224873CB92F1F3D1872A4BC57532F3D6BF1433C889E913D7B73CCBBDF85C93C9BA95CBC59CF03BDE8FDDF3B65EA683D92D89B3C67464BBD481A3DBDB506193DB5C38C3CA9E9473BE79AA0BDFF74543B1B1704BDEA00E23B73A99F3B9D7153BD339DBABDA06959BC34420CBD98037FBD72757FBC2148A2BD131964BDD7BD323DC7C17E3DE364723D07A254BC5BDF0C3CADB0C7BB604006BDAB5D4D3D9F603CBD2B5547BD900F78BDA446AC3DCF451CBD7EBC38BDE70020BC13DFD7BDBBBFA1BB1B051A3C9F129FBDDF906ABD3020D7BC4D97863DFAA4F1BC26514C3D66F9C0BC25B1153D7A48A5BDFD45CE3CD718423D9FFA413C4B7883BD1804E1BC8BE7CEBC1727023EA88AEC3D64D700BD6B53A63D5592BC3DCF81183D7020BDBDD571233D83D546BDBF43CBBD29AF2E3D882F80BDA580603DFBF4C83C2BC98EBDDF6651BD7A5387BDC95329BD6A2453BD201BDFBCF7378DBC8D40453CE7EE25BC20442F3DAF0244BDE50B07BCF8E8FC3C6D6AFC3C57DBCB3CCBBE2ABD3AA0543C9EC690BD0BEE213CCB50283DF92331BC652DDBBC66678F3D67FB24BDAFD5423D03C656BC476221BD9FD398BD4DF5343D3B8E29BD50F65A3EED70D23C754861BB8896863D3EBEA23C"> : tensor<192xf32>
    %3 = fused_op.linear(%0, %1, %2) : (tensor<1x64xf32>, tensor<64x192xf32>, tensor<192xf32>) -> tensor<1x192xf32> {
    ^bb0(%4: tensor<1x64xf32>, %5: tensor<64x192xf32>, %6: tensor<192xf32>):
      %7 = graph.matmul %4, %5 : (tensor<1x64xf32>, tensor<64x192xf32>) -> tensor<1x192xf32>
      %8 = graph.add %7, %6 : (tensor<1x192xf32>, tensor<192xf32>) -> tensor<1x192xf32>
      fused_op.yield %8 : tensor<1x192xf32>
    }
    npu_task.return %3 : tensor<1x192xf32>
  }
  npu_task.kernel @append_0 on vector tiling <[512] blocks 1 buffers 1> {
  ^bb0(%0: tensor<1x4x8x16xf32>, %1: tensor<1x4x1x16xf32>, %2: tensor<i64>):
    %3 = graph.append %0, %1 at %2 axis 2 : (tensor<1x4x8x16xf32>, tensor<1x4x1x16xf32>, tensor<i64>) -> tensor<1x4x8x16xf32>
    npu_task.return %3 : tensor<1x4x8x16xf32>
  }
  npu_task.kernel @region_0 on vector tiling <[1] blocks 1 buffers 2> {
  ^bb0(%0: tensor<1x8xi64>, %1: tensor<1x1x1x1xi64>):
    %2 = graph.constant dense<[[[[0, 1, 2, 3, 4, 5, 6, 7]]]]> : tensor<1x1x1x8xi64>
    %3 = graph.constant dense<0.000000e+00> : tensor<f32>
    %4 = graph.constant dense<-3.40282347e+38> : tensor<f32>
    %5 = fused_op.region(%0, %2, %1, %3, %4) : (tensor<1x8xi64>, tensor<1x1x1x8xi64>, tensor<1x1x1x1xi64>, tensor<f32>, tensor<f32>) -> tensor<1x1x1x8xf32> {
    ^bb0(%6: tensor<1x8xi64>, %7: tensor<1x1x1x8xi64>, %8: tensor<1x1x1x1xi64>, %9: tensor<f32>, %10: tensor<f32>):
      %11 = graph.cast %6 to i1 : (tensor<1x8xi64>) -> tensor<1x8xi1>
      %12 = graph.compare "le" %7, %8 : (tensor<1x1x1x8xi64>, tensor<1x1x1x1xi64>) -> tensor<1x1x1x8xi1>
      %13 = graph.reshape %11 shape [1, 1, 1, 8] : tensor<1x8xi1> -> tensor<1x1x1x8xi1>
      %14 = graph.and %12, %13 : (tensor<1x1x1x8xi1>, tensor<1x1x1x8xi1>) -> tensor<1x1x1x8xi1>
      %15 = graph.select %14, %9, %10 : (tensor<1x1x1x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x1x8xf32>
      fused_op.yield %15 : tensor<1x1x1x8xf32>
    }
    npu_task.return %5 : tensor<1x1x1x8xf32>
  }
  npu_task.kernel @flash_attention_0 on cube tiling <[16, 16, 16] blocks 4 buffers 1> {
  ^bb0(%0: tensor<1x4x1x16xf32>, %1: tensor<1x4x8x16xf32>, %2: tensor<1x4x8x16xf32>, %3: tensor<1x1x1x8xf32>, %4: tensor<i64>):
    %5 = fused_op.flash_attention(%0, %1, %2, %3, %4) : (tensor<1x4x1x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x1x1x8xf32>, tensor<i64>) -> tensor<1x4x1x16xf32> {
    ^bb0(%6: tensor<1x4x1x16xf32>, %7: tensor<1x4x8x16xf32>, %8: tensor<1x4x8x16xf32>, %9: tensor<1x1x1x8xf32>, %10: tensor<i64>):
      %11 = graph.attention %6, %7, %8 length %10 : tensor<i64> mask %9 : tensor<1x1x1x8xf32> {scale = 2.500000e-01 : f64, undefined = "guard"} : tensor<1x4x1x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32> -> tensor<1x4x1x16xf32>
      fused_op.yield %11 : tensor<1x4x1x16xf32>
    }
    npu_task.return %5 : tensor<1x4x1x16xf32>
  }
  npu_task.kernel @linear_1 on cube tiling <[16, 16, 64] blocks 4 buffers 1> {
  ^bb0(%0: tensor<1x64xf32>, %1: tensor<64x64xf32>, %2: tensor<1x1x64xf32>):
    %3 = graph.constant dense<[0.00301771262, -0.0331397839, -0.0568371676, 0.0709434226, -0.0376475863, 0.0124688921, -0.0740010664, 0.0470077097, -0.0280986428, -0.0376348048, -0.0762556419, 0.104482703, -0.0206681676, 0.0515435934, 0.0333976485, 0.0579595752, -0.0486192927, -0.0487034805, 0.06293457, -0.0735635459, 0.00306787784, 0.150398523, 0.00240130886, -0.0816170126, -0.0185926836, -0.0458384566, 0.00635973876, -0.0375654735, 0.0408061109, -0.063273482, 0.00270152255, 0.0906987265, 0.0146993268, -0.044392474, -0.0123020709, 0.0107194884, 0.114006415, -0.151757807, 0.0203485396, 0.0376415402, -0.0118424585, 0.0484081022, -0.0298220515, -0.0494246148, -0.0163170267, -0.0257817358, -0.0011308816, -0.0507022925, -0.00872906577, -0.0301341265, 0.0628242269, -0.00866759196, 4.035180e-02, -0.0194489397, 0.0132213458, 0.0728954673, -0.0284589324, 0.0195332523, 4.542640e-02, -0.0729599595, 0.0616033748, -0.042047374, 5.424370e-03, -0.0284957681]> : tensor<64xf32>
    %4 = fused_op.linear(%0, %1, %3, %2) : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32> {
    ^bb0(%5: tensor<1x64xf32>, %6: tensor<64x64xf32>, %7: tensor<64xf32>, %8: tensor<1x1x64xf32>):
      %9 = graph.matmul %5, %6 : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
      %10 = graph.add %9, %7 : (tensor<1x64xf32>, tensor<64xf32>) -> tensor<1x64xf32>
      %11 = graph.reshape %10 shape [1, 1, 64] : tensor<1x64xf32> -> tensor<1x1x64xf32>
      %12 = graph.add %11, %8 : (tensor<1x1x64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32>
      fused_op.yield %12 : tensor<1x1x64xf32>
    }
    npu_task.return %4 : tensor<1x1x64xf32>
  }
  npu_task.kernel @layer_norm_0 on vector tiling <[64] blocks 1 buffers 1> {
  ^bb0(%0: tensor<1x1x64xf32>):
    %1 = graph.constant dense<[1.02915585, 1.0001446, 0.999992847, 1.04714632, 1.00430787, 8.674180e-01, 1.01351416, 1.06168878, 1.01058197, 0.966984868, 0.980834365, 0.991488695, 0.950853825, 0.92727083, 0.909585476, 1.04110718, 1.01663446, 0.947465777, 1.03675687, 1.06438243, 1.03296304, 0.962394059, 1.02858019, 1.04047692, 1.0206852, 1.02695394, 0.9703933, 1.06304336, 0.934819221, 1.04285836, 0.937383294, 1.01749849, 0.984010875, 1.01014662, 0.957284331, 0.992860377, 0.876501143, 1.05162883, 1.02247322, 1.03522193, 0.934478462, 1.04217851, 0.959340096, 0.943502963, 1.07834089, 0.948552907, 1.01346314, 0.979135633, 1.06626511, 1.03638542, 0.968598306, 0.993348479, 1.013973, 1.00271404, 0.92246294, 1.03037834, 1.01243758, 1.09601796, 1.00007021, 1.08141267, 1.02215862, 1.06661308, 1.03112888, 1.00057185]> : tensor<64xf32>
    %2 = graph.constant dense<[-0.0547729209, 7.252230e-02, -0.0357770696, 0.103682749, -0.0196827911, -0.0390105657, 0.0134279896, 0.0257190056, -0.00306624081, 0.0620190911, -0.00844345149, -0.0398533083, -0.00774160167, -0.0678252131, 0.0161432456, -0.0356990509, -0.0357442759, 0.0221861266, 0.0626893267, -0.0190587342, -0.0817045271, 0.0116161956, -0.0619087182, 0.0316794068, -0.0140502974, 0.0984441862, 0.0166550707, -1.165680e-02, 0.0231991988, 0.0120837903, 0.153392538, 0.0453067124, 0.0198415313, -0.0334214345, -0.0177406874, 0.00284984871, -0.0817966387, 0.0389012136, -0.0375356041, 0.0686236396, -0.0157884564, -0.0659196526, 0.0553848818, -0.0597215369, -0.0284420978, -0.00751581043, 0.0251134038, -0.0571776517, 0.0306016151, 0.00524593657, 0.0287157055, 0.0398668461, 0.0424684957, -0.0213467255, -0.0398305021, 0.0163231771, 0.0375110619, 0.0155457361, 0.0760117248, 0.0444110595, -0.0187575519, -0.0180359166, 0.0295170527, -0.000594428508]> : tensor<64xf32>
    %3 = graph.layer_norm %0, %1, %2 {epsilon = 9.9999997473787516e-06 : f64} : (tensor<1x1x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<1x1x64xf32>
    npu_task.return %3 : tensor<1x1x64xf32>
  }
  npu_task.kernel @linear_2 on cube tiling <[16, 16, 64] blocks 16 buffers 1> {
  ^bb0(%0: tensor<1x64xf32>, %1: tensor<64x256xf32>):
    %2 = graph.constant dense<"0x06F60DBE7F5CCABDBA03753D3F753D3DC1448ABD13046BBDE9AE27BDDB1DA43DCEDF3F3DB544BDBD9397AB3D73873BBC33212ABD5A59573DA3441A3D77A330BD6F0ABEBC5F9B103D2D5A9ABCAF241ABD3805733DE54216BD621BF83CE22371BBB305133C70D301BC07277E3BEEBBB43C8F934CBCCF3FB23C857C72BD3B0E2CBD432DB13DDB47B5BDBE46103DAAA1D6BB78730E3E4E5CB33C8BBFBFBC8B3184BDCDF226BD531B653DA48B003E1F3624BDF36707BDFA0780BC121D80BCADFD5ABD374D49BD2DFD553DAA7A6C3D6D4B81BD680C75BC676A93BDE1F91A3DC2A7653D1F20763D691387BD410FB0BB2AD6393DDB8DB0BDDA53143C82197C3C3BE63FBD684076BC1B655FBD2E8723BD2A79313D652002BD1A33683C95F3123D7843F33C9C8A3FBD84840BBD8CD949BD0B7413BD4213B8BCF447C23D165D3C3B62C4523D0734C3BC33F65B3B475F74BC8362443D835B12BED5C9093D3A54F9BCB080813C5F28773DB59A5C3D6285133D959DD2BB824E733CBF5DADBD17BE813D63006CBDF7ED4CBC142F20BDFBA6413DE5EBCE3A276BCE3DA84A70BD24FF2EBD227B4E3D6F9A1D3D5EBC423A0D2764BD150ED93C3B306FBD3E28013DC0C3DE3D4D50353D23298F3B97E9A0BDA31B9F3D1398CABC469EA73CDF6036BD974A543C667A24BDF732833DE38A74BD644396BC10DEAF3D1F8C9CBBDDDCA03C28318DBCE422B03D45F09D3D30A7C03C9FE0BA3B6EA7233CC03E7A3DF0F9EE3C3DC68FBD1D8F61BDE7C116BD3F19F23BA7B50B3B3DE670BC271DAB3D63E796BC7DC17C3AEB221A3E9EC39B3D1B46313D0723083CDC5B113CC559063D670AE03D9B566FBD9DC8403DEF47A73CD727143DAEC617BC232C953DD32CA0BC9F0EA03CF1B6883DA2C25E3DD735F8B80DE741BD5D8AD33C6377133DFBA15B3DB5BF50BC8343033D35A1E83CFC1B2DBDC0CBF5BCED696B3DA53758BDD55C693DD0D4ADBDF1DE41BBD53668BD67153DBD3D2295BC87B2DEBCDDB5CD3C97090D3AC70A983B0720673D1BF79ABAF32C6EBC2237F4BCC24B5E3C982FFF3CB4BF0B3D634D84BD0DD1923D6345FABDFB522F3C4FDCB0BC832F7DBD7E06A9BD976225BD092F3DBCF778D73CE310763CC01BF13C3C2147BCA12709BDF93300BEB587CDBD4DD3963DDB7E77BD6BBBE73B8899BCBCBBFC3A3DBA29CB3CA37B6A3D5FD18C3D3745A2BBC7D85DBB1F4791BC7874D83CE344B1BCE8D2303D1F8E96B9DA757D3DF79704BC67D2CB3C217C803BA8B9E53CD5C8D7BCAB84643D55B17FBD4BE88C3DFF562CBD858479BDB2C1D83B97C4E2BCF067DA3ADBA13E3CB88EC2BADB991A39E8363CBB7437AEBD1050B53C5D32643DA911313DB4294C3DF27B78BD50CFEC3C25FEBF3C8F2342BD525E74BC4264DD3B280B21BDCAB250BD838263BC005BB73D38C7DDBC9ACA74BDCF99AFBD"> : tensor<256xf32>
    %3 = fused_op.linear(%0, %1, %2) : (tensor<1x64xf32>, tensor<64x256xf32>, tensor<256xf32>) -> tensor<1x1x256xf32> {
    ^bb0(%4: tensor<1x64xf32>, %5: tensor<64x256xf32>, %6: tensor<256xf32>):
      %7 = graph.matmul %4, %5 : (tensor<1x64xf32>, tensor<64x256xf32>) -> tensor<1x256xf32>
      %8 = graph.add %7, %6 : (tensor<1x256xf32>, tensor<256xf32>) -> tensor<1x256xf32>
      %9 = graph.reshape %8 shape [1, 1, 256] : tensor<1x256xf32> -> tensor<1x1x256xf32>
      %10 = graph.gelu %9 {approximate = "tanh"} : (tensor<1x1x256xf32>) -> tensor<1x1x256xf32>
      fused_op.yield %10 : tensor<1x1x256xf32>
    }
    npu_task.return %3 : tensor<1x1x256xf32>
  }
  npu_task.kernel @linear_3 on cube tiling <[16, 16, 256] blocks 4 buffers 1> {
  ^bb0(%0: tensor<1x256xf32>, %1: tensor<256x64xf32>, %2: tensor<1x1x64xf32>):
    %3 = graph.constant dense<[0.111665569, 0.0903855488, 0.0903305113, -0.130818307, -0.0598146021, -0.000170237035, -0.0186179653, 0.0418527126, -0.0765240788, 0.0510432795, -0.0757973418, -0.0190269873, 0.0523835719, 0.00877150428, -0.0111148348, -0.019206306, 0.0255983062, 0.00281568919, -0.0177622046, -0.0348032191, 0.00417551631, 0.00476324186, -0.0231845621, 0.0117608011, -0.0214413758, -0.0503640287, 0.0314737409, -0.0778129399, 0.1066975, 0.0904063284, 0.0141221853, 0.0647064075, -0.093093209, -0.0346993171, -0.105678082, 0.0649831295, 0.0253429655, 0.0375418365, -0.076911293, 0.0138451708, -0.0363752805, -0.0555105284, -3.506020e-02, -0.0128925089, -0.0492138527, -0.0362807401, -0.0146114128, 0.121285699, -0.1204587, 0.0524457954, 0.0112460768, -0.0330165438, 0.0137312757, -0.0484830774, 0.0411641449, -0.0373166688, -0.0305888355, 0.0187820699, -0.0133505119, 0.0174232628, 0.0522115789, -0.0339414254, -0.0550728254, 0.0228390675]> : tensor<64xf32>
    %4 = fused_op.linear(%0, %1, %3, %2) : (tensor<1x256xf32>, tensor<256x64xf32>, tensor<64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32> {
    ^bb0(%5: tensor<1x256xf32>, %6: tensor<256x64xf32>, %7: tensor<64xf32>, %8: tensor<1x1x64xf32>):
      %9 = graph.matmul %5, %6 : (tensor<1x256xf32>, tensor<256x64xf32>) -> tensor<1x64xf32>
      %10 = graph.add %9, %7 : (tensor<1x64xf32>, tensor<64xf32>) -> tensor<1x64xf32>
      %11 = graph.reshape %10 shape [1, 1, 64] : tensor<1x64xf32> -> tensor<1x1x64xf32>
      %12 = graph.add %8, %11 : (tensor<1x1x64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32>
      fused_op.yield %12 : tensor<1x1x64xf32>
    }
    npu_task.return %4 : tensor<1x1x64xf32>
  }
  npu_task.kernel @layer_norm_1 on vector tiling <[64] blocks 1 buffers 1> {
  ^bb0(%0: tensor<1x1x64xf32>):
    %1 = graph.constant dense<[1.07271826, 0.975830555, 0.938093901, 1.00186872, 0.960419655, 1.00927758, 0.974789441, 0.981201351, 0.993827283, 0.907754064, 1.05483603, 1.05555046, 1.01426256, 0.984452963, 1.02774584, 1.0409888, 1.02304411, 1.01610887, 1.05554914, 8.769930e-01, 1.00718939, 1.00769901, 1.0807898, 1.00129104, 1.02868974, 0.978930891, 1.02696085, 1.00921917, 0.990428448, 0.916198492, 0.9487257, 1.04143536, 1.04457963, 1.03675818, 1.01599085, 0.912680805, 1.01569438, 0.998219669, 1.01007318, 0.929258704, 0.996971905, 0.930726528, 1.04756725, 9.701800e-01, 1.0153296, 9.265480e-01, 0.940047503, 1.04166651, 0.993986309, 1.08435965, 1.04760206, 1.07286787, 0.931842148, 0.985941887, 0.98421663, 0.99142611, 1.00467479, 1.05935156, 0.99157697, 1.07302654, 0.966193557, 0.924550533, 1.02221262, 1.00637186]> : tensor<64xf32>
    %2 = graph.constant dense<[-0.0136611676, -0.00845226459, -0.0101732416, 0.0130750015, 0.00879637059, 0.123256423, -0.0991486832, 0.0155542735, -0.0843612105, -0.0345203355, 0.0299615543, 0.00372833083, -0.0496743359, -0.0253612492, 0.0183439534, 9.162520e-03, -0.0591162331, -0.0337500535, 0.0328913592, -0.0258471705, -0.00584234577, -0.000250001292, 0.0229164585, -0.0741794184, -0.0159151014, 0.00734258909, -0.0134654855, -0.0631606877, 0.0317493938, -0.0487936139, -0.0470644198, -0.032001432, -0.0397610031, 0.00103465957, 0.0303454455, 0.0357307903, 0.0754254237, 4.464830e-02, 0.0251805875, 0.031108303, -0.0554343946, -0.0704624802, 0.0451979227, 0.0687779412, 0.0707518384, -0.0735875443, 9.990140e-04, -0.026208505, 0.0166934654, -0.0375393555, 0.00678033615, -0.0489010587, 0.0832308456, -0.0272437036, 0.020118868, -0.00480155088, 0.00581322517, 0.0135116354, -0.0171040278, -0.0026078329, -0.0343549773, 3.176790e-02, -0.00837178063, -0.0220254939]> : tensor<64xf32>
    %3 = graph.layer_norm %0, %1, %2 {epsilon = 9.9999997473787516e-06 : f64} : (tensor<1x1x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<1x1x64xf32>
    npu_task.return %3 : tensor<1x1x64xf32>
  }
  npu_task.kernel @linear_4 on cube tiling <[16, 16, 64] blocks 12 buffers 1> {
  ^bb0(%0: tensor<1x64xf32>, %1: tensor<64x192xf32>):
    %2 = graph.constant dense<"0xBD0F27BB342FB9BC979B3D3D08EA833C940F0B3DBD0A1C3D96CB2F3D72F68EBCD5B174BC85AD70BD73CD8BBD7E53A0BDA725D2BCC82C773DCAD0B13B8F2855BD6832B7BC7577FABBEB256A3C6F8BC53B02D2D23D9B0F33BDB5E426BD5EA4013DF92D81BC6DB42EBDC7895F3CEBA7EEBB17D7A13D7FBF773D7A77923D89B30FBC0FE8493CE359833DB6E7AA3CB5EC1E3D65BC79BBFB32013DD0F833BDAC42013D2A4D0B3D87EDAFBB40CC083DD2049F3C898B18BC7B94653D1FDB8B3C6BB4F6BC7A7CE6BD3515D5BC2AA5C4BB2ADA953BD2A7983B47A6AD3CC8BACFBC5AE98C3D35A8813C27E7ACBD13E4F03DC5DCD23DD3B97FB9E29B4BBD1F4BF63CAB0DD3BCFDBE10BC6ABA5ABC476BD63D5F9C78BD5D9BE83CD724F4BD352379BD6262E0BC83A894BDF01246BD862F9F3D0D30113D03F98DBD52A4FD3CC4403ABD1A1C70BD80785E3CD24FDFBC30ABE53C1BA432BD329C4F3D0AF9533A9980A73D1F38303C89A6443C1CA7813D0ECA473D2075EA3BC75B38BD6C9D013B0292873D33BC59BD2A25CE3CD3A39EBC349B11BCEE9922BD7F3C1B3D2B644FBC88ECC1BD65F2583DE776483DF5705B3D57DB2F3A27858D3DC30D063DAF6ECD3C717C0ABB7BA11B3DAAA5B4BDD3C4363DAB0395BC38BBBC3C9F7B2E3D010B303D4C57233DEF6C01BE7BCB6F3CEBE805BEB06D7A3B3E1711BD2B47A8BD6B53EE3C7703A4BDE3374F3D8A76E13C6028CEBAB5DA903DFE524CBC84F9AFBDBD470E3D3C47243DDA938DBD9A0756BC9044E03C5F73CDBC19E6993DA287CBBC939808BDA15832BDD017F3BC6DACEFBC75F18EBD6C46323DDE790DBDFAF3D03D8CC6313D7DDD69BD6FA54F3D782149BD163932BD20B08D3DB1B733BD93776CBC5F2DFABC36B71BBCAFA0B7BD13C5AD3B0A9C5A3D9A84743CE9E4153CE5E254BCAA7E47BD43A5E53AE18E853D20CDCFBCC2BAAC3C279793BD4F0F8D3B1A75193D37EA48BCAFECF4BC2A70DE3CE8F44ABC831488BDC10A13BD1B49073D5F17103D375632BDBA09FABCEFBA943D0A8CB9BC0BCD27BDDD59D63D7112ABBC3FA720BD91599ABDB07E4ABC9DEBEC3C"> : tensor<192xf32>
    %3 = fused_op.linear(%0, %1, %2) : (tensor<1x64xf32>, tensor<64x192xf32>, tensor<192xf32>) -> tensor<1x192xf32> {
    ^bb0(%4: tensor<1x64xf32>, %5: tensor<64x192xf32>, %6: tensor<192xf32>):
      %7 = graph.matmul %4, %5 : (tensor<1x64xf32>, tensor<64x192xf32>) -> tensor<1x192xf32>
      %8 = graph.add %7, %6 : (tensor<1x192xf32>, tensor<192xf32>) -> tensor<1x192xf32>
      fused_op.yield %8 : tensor<1x192xf32>
    }
    npu_task.return %3 : tensor<1x192xf32>
  }
  npu_task.kernel @linear_5 on cube tiling <[16, 16, 64] blocks 4 buffers 1> {
  ^bb0(%0: tensor<1x64xf32>, %1: tensor<64x64xf32>, %2: tensor<1x1x64xf32>):
    %3 = graph.constant dense<[0.0294341892, -0.0104405619, -0.0157719459, 0.0320394076, 0.0596544035, -0.0460056402, -0.00667812629, 0.0306428466, 0.057324376, -0.00674781343, 9.725640e-02, -0.0401163213, 4.743820e-02, 0.0953932256, -0.0349728875, -3.808760e-02, -0.0586607121, -0.0196326505, -0.00704772118, 0.00666844798, 0.00205416069, 0.0269424561, -0.119848028, -0.00571052404, -0.0138842557, -0.0517857149, -0.0267940555, -0.00119631819, -0.0205612406, 0.0073601394, -0.0789399147, 0.0346365981, -0.0282092933, -0.0500493459, 0.101479173, -0.0488677211, 0.0175927728, 0.00964134838, 0.0967114195, 0.0125954738, 0.0493362173, 0.0307709631, -0.084361434, 0.0255074408, 0.0506564565, -0.0985649452, -0.100182116, 0.00279101217, 0.0376975946, -0.0866768733, 0.0253309458, 0.027625531, 0.0254275799, 0.0463941656, -0.012910204, -0.12725386, -0.059581764, -0.0645942315, -0.07550513, -0.115468457, 0.0208911542, -0.112861849, -0.0150277633, 0.00621503219]> : tensor<64xf32>
    %4 = fused_op.linear(%0, %1, %3, %2) : (tensor<1x64xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32> {
    ^bb0(%5: tensor<1x64xf32>, %6: tensor<64x64xf32>, %7: tensor<64xf32>, %8: tensor<1x1x64xf32>):
      %9 = graph.matmul %5, %6 : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
      %10 = graph.add %9, %7 : (tensor<1x64xf32>, tensor<64xf32>) -> tensor<1x64xf32>
      %11 = graph.reshape %10 shape [1, 1, 64] : tensor<1x64xf32> -> tensor<1x1x64xf32>
      %12 = graph.add %11, %8 : (tensor<1x1x64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32>
      fused_op.yield %12 : tensor<1x1x64xf32>
    }
    npu_task.return %4 : tensor<1x1x64xf32>
  }
  npu_task.kernel @layer_norm_2 on vector tiling <[64] blocks 1 buffers 1> {
  ^bb0(%0: tensor<1x1x64xf32>):
    %1 = graph.constant dense<[1.008240e+00, 0.932946801, 1.05607903, 0.933943868, 0.943508923, 1.06247878, 0.94432354, 0.999037266, 1.02838659, 0.991172373, 1.00978315, 1.03081989, 1.04959035, 0.987608731, 1.00590611, 1.03422129, 1.06220806, 1.01039994, 1.02895677, 1.06179821, 1.00094903, 1.03165245, 1.00616229, 1.07599008, 0.972635925, 1.0900718, 0.860654831, 1.02902591, 0.980468214, 1.07702112, 0.956759632, 1.00684977, 0.988614678, 0.917522132, 1.05661309, 0.977538049, 0.984473526, 1.07183754, 0.999633968, 1.02896476, 1.01235557, 0.982894778, 9.676890e-01, 0.949168742, 1.02430832, 1.00962484, 1.0274874, 0.983343959, 1.06168318, 0.928945541, 1.02288759, 1.06365323, 0.933501184, 0.934215188, 0.995453238, 1.00333405, 9.981880e-01, 9.911940e-01, 1.09004247, 0.96090889, 9.756630e-01, 0.988177598, 0.980975032, 0.991292775]> : tensor<64xf32>
    %2 = graph.constant dense<[-0.0118123582, -0.0704156384, 0.0155233769, -0.0271685757, -0.0837231874, -0.0551250055, -0.0737450942, -0.0612676106, -0.0117909778, 0.0315218978, -0.0747448206, -0.0131728901, -0.00591882225, -0.0247298386, -0.0015291915, -0.0326758437, 0.00970243569, -0.036504712, 0.0908187628, -0.0697851181, -0.0572801232, 0.0190329012, 0.0810678825, 0.0711177066, 0.0196776744, -0.0432923585, 0.030652035, 0.0779335424, -0.0169017073, 0.0112541094, -0.0117799547, -0.0814575404, -0.00696712686, -0.000841898553, -0.0107652498, 0.0648414567, -0.00178130774, -0.095982343, 0.000715172559, -0.02086832, 0.0110654719, -0.139240623, -0.0212464873, -0.0815458521, 0.00394722819, 0.018210208, -0.0475826934, 0.0300648212, 0.100325182, -0.00438835705, 0.0345691964, 0.118003741, -0.00255228044, 0.0379460715, -6.643160e-03, -0.0832343847, -0.0243350603, -0.0215544906, -0.0407088511, 0.0252094511, 0.00496667949, -0.0200412348, -0.0053139138, 0.163526818]> : tensor<64xf32>
    %3 = graph.layer_norm %0, %1, %2 {epsilon = 9.9999997473787516e-06 : f64} : (tensor<1x1x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<1x1x64xf32>
    npu_task.return %3 : tensor<1x1x64xf32>
  }
  npu_task.kernel @linear_6 on cube tiling <[16, 16, 64] blocks 16 buffers 1> {
  ^bb0(%0: tensor<1x64xf32>, %1: tensor<64x256xf32>):
    %2 = graph.constant dense<"0x484BC5BD7B1224BD883C093E0141BE3C8BE0243C1999423DFEF8A6BC363543BCF6EFB3BD7B278FBC8226BF37E5D28D3DABC3A3BD3F17883CEB16C23AAF77D33C572D99BD1A6CC63C2C789A3CCA82EDBCA3E8533B06A301BD3320A93CF882A9BDA0BA5FBD9027D6BDF501E8BB9786F539549440BDC7CEEB3D9B2B313B7ABD293CEF7C9F3DF72960BB431973BD6BC5AEBD7BB4833DDB343C3CDD386FBDC9F3A83D38CE99BDEDDFE13BCDEDDC3D834881BDB25E4DBD83EEB8BBCE301CBC8C6AB9BB2B89883C4A851F3D662087BD23182DBCD023EDBCBB85C23C877BACBB7FE730BD4489043D40EFF2BC7B1D8FBD5FD9AF3D12EFCE3CE746803D1FB6593C49CD32BB3457B93CD952ADBCA0FD5E3D8868953C8A64653C959F223DFD238CBCC6D539BDFE29B13CD3D86DBD3C61B0BDAD5B163D3236663C82BCF53C6467C2BCE26F4DBC3A43313D16F519BD720DB0BD3D2910BD444C01BDDDD2943DD3174F3D5FBD413C309C8C3D6084B33D0A80EDBC8FC48CBD3600A13DD097DA3C4A01E33DBF0DE23C54C213BDD282B1BDAA219F3C4D4B6E3DCBFECBBC7F6132BD36C0053B138531BCE7357BBD0E1904BC835950BC0618BE3CDDDEE2BDC16EB03C4AB0DF3CA5510EBC1299E7BC5023FF3AFC81243C3787F0BC1EC28D3D65B1F6BCB7C97E3D2BEB65BCFF2D6BBD790A87BB73A308BBBBD9CABD72FFF53C73174FBDFACD9EBD7B59C2BCED121C3C7743013D67E60BBC177E563BBFB801BD15A4D4BC35EC893DD789243D3FF90ABE5A318A3D1FC82D3B236F6F3D22568DBC27BB4C3D7FC05C3D55065FBC33BB523D40B7CDBB85134ABDC2158CBA40323EBECD0B2A3D6A808FBD5582693DEF41363E7F6CF63BA39D61BDA8E81A3D05602ABB478D1E3DF71A1ABDB342323D4A479BBD4AA1213C7D7113BD6F3D8ABD5DE4233CD463083DAF7160BD50C0E33DA519C73D79E142BDED5D3BBDE31B173CA043013D8723DB3CFFDF6F3C17DB14BDA2D15EBDE00F8C3CD311043DBF0756BAC041A33D033D00BDA7B9EC3CEDBFF93C06A6A33C4431103E3BB8CCBC0B2984BB13C8AE3B88DA83BC90949EBDC74659BD87A0C93B90B728BE38B8823DD7BD193CE9B786BD45CF4FBD8771963DCE0584BD1A7121BDB50D0E3DF3020D3DE10A9B3C2FD8BBBC8FF83ABD578A353DD818CF3DEE1408BD7C8E1B3D44F522BBFDDDE93C2518D83CCC8949BD33C7373D926051BDF981AE3DAADE423D83DCD9BBAF3F7E3D04A194BCF25E553DCBB7CC3BA01979BC7551F0BD205F6ABD6E6795BC4FFE6C3C80C9F9BBB21BB03C70E41EBDCAE226BDE7F74BBC17E4D9BBB6CE2B3DF609253DCACEE4BC8FADEDBC31FC453CDBD914BD236672BD2259F43CED0CFF3B94D911BD9083A1BDE52F563D97C29D3D0631A9BCA709103D82552E3D07BE0F3B339A9FBC7FB9DFBCFB9DEF3C03D54F3D4A5C91BA"> : tensor<256xf32>
    %3 = fused_op.linear(%0, %1, %2) : (tensor<1x64xf32>, tensor<64x256xf32>, tensor<256xf32>) -> tensor<1x1x256xf32> {
    ^bb0(%4: tensor<1x64xf32>, %5: tensor<64x256xf32>, %6: tensor<256xf32>):
      %7 = graph.matmul %4, %5 : (tensor<1x64xf32>, tensor<64x256xf32>) -> tensor<1x256xf32>
      %8 = graph.add %7, %6 : (tensor<1x256xf32>, tensor<256xf32>) -> tensor<1x256xf32>
      %9 = graph.reshape %8 shape [1, 1, 256] : tensor<1x256xf32> -> tensor<1x1x256xf32>
      %10 = graph.gelu %9 {approximate = "tanh"} : (tensor<1x1x256xf32>) -> tensor<1x1x256xf32>
      fused_op.yield %10 : tensor<1x1x256xf32>
    }
    npu_task.return %3 : tensor<1x1x256xf32>
  }
  npu_task.kernel @linear_7 on cube tiling <[16, 16, 256] blocks 4 buffers 1> {
  ^bb0(%0: tensor<1x256xf32>, %1: tensor<256x64xf32>, %2: tensor<1x1x64xf32>):
    %3 = graph.constant dense<[-0.0672499239, -0.0333149657, 0.0450674556, 0.00142491225, -0.0825929195, -0.0193884876, -0.108444668, -0.00556193711, -0.0657547861, 0.0898786262, 0.0353832208, -0.010131578, 0.0458428673, 0.088752836, -0.0203208979, -0.0145840747, 0.026491154, -0.00973585155, -0.000617598242, -0.0586808696, 0.00706674252, -0.00372748193, -2.576170e-02, 0.00565869128, -0.04712639, 9.892450e-02, 0.0143884737, -0.101441346, 0.0485503748, -0.079137288, -0.0435617231, -0.0385833718, 0.00540681975, 0.0399219468, -0.0208210051, 0.0550819598, 0.0208457448, -0.080776833, -0.0279567428, 0.0325343125, -8.828100e-02, -0.0576367937, -0.0941436365, 0.0456494838, -0.012480855, -0.017004123, 0.00880239811, 4.023580e-02, 0.068562232, 0.0213494152, 0.0051188576, -0.00881809369, 0.00239051087, -0.048972737, -0.0130660925, -0.0199584346, 0.0105712013, -0.0399510674, 0.0607670918, -0.0120996488, 0.0088347476, 0.0209966823, 0.00514437957, 0.0849275813]> : tensor<64xf32>
    %4 = fused_op.linear(%0, %1, %3, %2) : (tensor<1x256xf32>, tensor<256x64xf32>, tensor<64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32> {
    ^bb0(%5: tensor<1x256xf32>, %6: tensor<256x64xf32>, %7: tensor<64xf32>, %8: tensor<1x1x64xf32>):
      %9 = graph.matmul %5, %6 : (tensor<1x256xf32>, tensor<256x64xf32>) -> tensor<1x64xf32>
      %10 = graph.add %9, %7 : (tensor<1x64xf32>, tensor<64xf32>) -> tensor<1x64xf32>
      %11 = graph.reshape %10 shape [1, 1, 64] : tensor<1x64xf32> -> tensor<1x1x64xf32>
      %12 = graph.add %8, %11 : (tensor<1x1x64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32>
      fused_op.yield %12 : tensor<1x1x64xf32>
    }
    npu_task.return %4 : tensor<1x1x64xf32>
  }
  npu_task.kernel @layer_norm_3 on vector tiling <[64] blocks 1 buffers 1> {
  ^bb0(%0: tensor<1x1x64xf32>):
    %1 = graph.constant dense<[0.966970086, 1.04437172, 0.99578476, 1.05005682, 0.994428158, 1.04584229, 0.915595889, 0.995999038, 1.05147552, 1.03101027, 0.981296539, 0.970784903, 0.972249329, 8.862610e-01, 1.0640012, 1.01665545, 0.962932229, 1.02736592, 1.02724314, 1.05576086, 1.08365989, 1.01426804, 1.02596331, 0.879056513, 1.04083872, 0.905744672, 1.00581801, 1.02391338, 0.92518872, 0.858081162, 0.967309058, 1.03518355, 0.959494352, 0.991085291, 1.011379, 1.02658534, 0.977680147, 0.988769293, 0.987496197, 0.942923248, 0.963900745, 1.03677416, 1.03372109, 0.982418835, 0.984314144, 1.02010334, 1.01775742, 1.06075966, 1.07561827, 0.953861177, 1.00426555, 1.02132702, 1.04496872, 0.949491501, 0.963722467, 1.01451218, 1.00964391, 0.987906575, 0.988323152, 1.00537324, 1.05809236, 1.01036203, 0.924030542, 0.969763279]> : tensor<64xf32>
    %2 = graph.constant dense<[-0.00737468665, 0.00594792189, 0.0412026234, 0.00359573774, -0.0346613713, 0.108762935, -0.0423547588, -0.0409776419, -0.102987602, 0.0301501807, 0.0506283417, -0.0545912161, -0.0107386643, -0.0704132542, 0.0442788713, 0.0380421504, -0.0263377521, 0.0700345784, -0.0740238801, -0.031493023, -0.0223460179, 0.0701040253, 0.036667604, -0.0356302932, 0.0182546172, -0.0465947352, -0.00824255217, 0.0770735666, -0.0416502655, -0.00148562575, 0.0612327233, 0.094017759, 0.0977494046, 0.176261097, 0.0216898061, 0.0438021645, -0.0687963888, 0.00398188736, -0.0772831663, 0.0643637404, 0.00936828461, 0.00804949459, 0.0229394026, -0.0435601436, -0.0088244779, -0.0135629568, -0.00257944386, 0.0678932294, 0.0167085435, 0.000340194645, 0.0739354119, -0.0687754676, 0.00240210327, 0.00718600256, 0.113407902, -0.0160102639, 0.0322791785, 0.0185241755, -0.00237008557, 0.0325835682, -0.0542411692, -0.152434319, -0.0286060758, 0.0271417834]> : tensor<64xf32>
    %3 = graph.layer_norm %0, %1, %2 {epsilon = 9.9999997473787516e-06 : f64} : (tensor<1x1x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<1x1x64xf32>
    npu_task.return %3 : tensor<1x1x64xf32>
  }
  npu_task.kernel @matmul_0 on cube tiling <[16, 16, 64] blocks 24 buffers 2> {
  ^bb0(%0: tensor<1x1x64xf32>, %1: tensor<400x64xf32>):
    %2 = graph.matmul %0, %1 {transpose_rhs = true} : (tensor<1x1x64xf32>, tensor<400x64xf32>) -> tensor<1x1x400xf32>
    npu_task.return %2 : tensor<1x1x400xf32>
  }
  func.func @main(%input_ids: memref<1x1xi64, #npu_task<space host>> {graph.name = "input_ids"}, %attention_mask: memref<1x8xi64, #npu_task<space host>> {graph.name = "attention_mask", graph.dims = ["", "past + 1"]}, %position_ids: memref<1x1xi64, #npu_task<space host>> {graph.name = "position_ids"}, %length: memref<i64, #npu_task<space host>> {graph.name = "past.length", graph.length = "past", graph.step = 1 : i64}) -> (memref<1x1x400xf32, #npu_task<space host>> {graph.name = "logits"}) attributes {npu_task.target = "910b1"} {
    %0 = memref.alloc() {npu_task.io} : memref<1x1xi64, #npu_task<space hbm>>
    npu_task.copy %input_ids to %0 : memref<1x1xi64, #npu_task<space host>> to memref<1x1xi64, #npu_task<space hbm>>
    %1 = memref.alloc() {npu_task.io} : memref<1x8xi64, #npu_task<space hbm>>
    npu_task.copy %attention_mask to %1 : memref<1x8xi64, #npu_task<space host>> to memref<1x8xi64, #npu_task<space hbm>>
    %2 = memref.alloc() {npu_task.io} : memref<1x1xi64, #npu_task<space hbm>>
    npu_task.copy %position_ids to %2 : memref<1x1xi64, #npu_task<space host>> to memref<1x1xi64, #npu_task<space hbm>>
    %past_key_values.0.key = memref.alloc() {npu_task.state = "past_key_values.0.key", npu_task.valid = array<i64: 1, 4, 8, 16>, npu_task.grows = 2 : i64} : memref<1x4x8x16xf32, #npu_task<space hbm>>
    %past_key_values.0.value = memref.alloc() {npu_task.state = "past_key_values.0.value", npu_task.valid = array<i64: 1, 4, 8, 16>, npu_task.grows = 2 : i64} : memref<1x4x8x16xf32, #npu_task<space hbm>>
    %past_key_values.1.key = memref.alloc() {npu_task.state = "past_key_values.1.key", npu_task.valid = array<i64: 1, 4, 8, 16>, npu_task.grows = 2 : i64} : memref<1x4x8x16xf32, #npu_task<space hbm>>
    %past_key_values.1.value = memref.alloc() {npu_task.state = "past_key_values.1.value", npu_task.valid = array<i64: 1, 4, 8, 16>, npu_task.grows = 2 : i64} : memref<1x4x8x16xf32, #npu_task<space hbm>>
    %3 = memref.alloc() {npu_task.io} : memref<i64, #npu_task<space hbm>>
    npu_task.copy %length to %3 : memref<i64, #npu_task<space host>> to memref<i64, #npu_task<space hbm>>
    %4 = npu_task.constant #graph.weight<"m.transformer.wpe.weight"> as memref<64x64xf32, #npu_task<space hbm>>
    %5 = npu_task.constant #graph.weight<"m.transformer.h.0.attn.c_attn.weight"> as memref<64x192xf32, #npu_task<space hbm>>
    %6 = npu_task.constant #graph.weight<"m.transformer.h.0.attn.c_proj.weight"> as memref<64x64xf32, #npu_task<space hbm>>
    %7 = npu_task.constant #graph.weight<"m.transformer.h.0.mlp.c_fc.weight"> as memref<64x256xf32, #npu_task<space hbm>>
    %8 = npu_task.constant #graph.weight<"m.transformer.h.0.mlp.c_proj.weight"> as memref<256x64xf32, #npu_task<space hbm>>
    %9 = npu_task.constant #graph.weight<"m.transformer.h.1.attn.c_attn.weight"> as memref<64x192xf32, #npu_task<space hbm>>
    %10 = npu_task.constant #graph.weight<"m.transformer.h.1.attn.c_proj.weight"> as memref<64x64xf32, #npu_task<space hbm>>
    %11 = npu_task.constant #graph.weight<"m.transformer.h.1.mlp.c_fc.weight"> as memref<64x256xf32, #npu_task<space hbm>>
    %12 = npu_task.constant #graph.weight<"m.transformer.h.1.mlp.c_proj.weight"> as memref<256x64xf32, #npu_task<space hbm>>
    %13 = npu_task.constant #graph.weight<"m.lm_head.weight"> as memref<400x64xf32, #npu_task<space hbm>>
    %14 = memref.alloc() : memref<1xi64, #npu_task<space hbm>>
    npu_task.launch @add_0 ins(%3 : memref<i64, #npu_task<space hbm>>) outs(%14 : memref<1xi64, #npu_task<space hbm>>)
    %15 = memref.alloc() : memref<1x1x64xf32, #npu_task<space hbm>>
    %16 = memref.alloc() : memref<1x1x64xf32, #npu_task<space hbm>>
    npu_task.launch @norm_0 ins(%13, %0, %4, %2 : memref<400x64xf32, #npu_task<space hbm>>, memref<1x1xi64, #npu_task<space hbm>>, memref<64x64xf32, #npu_task<space hbm>>, memref<1x1xi64, #npu_task<space hbm>>) outs(%15, %16 : memref<1x1x64xf32, #npu_task<space hbm>>, memref<1x1x64xf32, #npu_task<space hbm>>)
    %17 = memref.reinterpret_cast %16 to offset: [0], sizes: [1, 64], strides: [64, 1] : memref<1x1x64xf32, #npu_task<space hbm>> to memref<1x64xf32, #npu_task<space hbm>>
    %18 = memref.alloc() : memref<1x192xf32, #npu_task<space hbm>>
    npu_task.launch @linear_0 ins(%17, %5 : memref<1x64xf32, #npu_task<space hbm>>, memref<64x192xf32, #npu_task<space hbm>>) outs(%18 : memref<1x192xf32, #npu_task<space hbm>>)
    %19 = memref.reinterpret_cast %18 to offset: [64], sizes: [1, 4, 1, 16], strides: [64, 16, 16, 1] : memref<1x192xf32, #npu_task<space hbm>> to memref<1x4x1x16xf32, strided<[64, 16, 16, 1], offset: 64>, #npu_task<space hbm>>
    %20 = memref.reinterpret_cast %18 to offset: [128], sizes: [1, 4, 1, 16], strides: [64, 16, 16, 1] : memref<1x192xf32, #npu_task<space hbm>> to memref<1x4x1x16xf32, strided<[64, 16, 16, 1], offset: 128>, #npu_task<space hbm>>
    %21 = memref.reinterpret_cast %18 to offset: [0], sizes: [1, 4, 1, 16], strides: [64, 16, 16, 1] : memref<1x192xf32, #npu_task<space hbm>> to memref<1x4x1x16xf32, #npu_task<space hbm>>
    npu_task.launch @append_0 ins(%past_key_values.0.key, %19, %3 : memref<1x4x8x16xf32, #npu_task<space hbm>>, memref<1x4x1x16xf32, strided<[64, 16, 16, 1], offset: 64>, #npu_task<space hbm>>, memref<i64, #npu_task<space hbm>>) outs(%past_key_values.0.key : memref<1x4x8x16xf32, #npu_task<space hbm>>)
    npu_task.launch @append_0 ins(%past_key_values.0.value, %20, %3 : memref<1x4x8x16xf32, #npu_task<space hbm>>, memref<1x4x1x16xf32, strided<[64, 16, 16, 1], offset: 128>, #npu_task<space hbm>>, memref<i64, #npu_task<space hbm>>) outs(%past_key_values.0.value : memref<1x4x8x16xf32, #npu_task<space hbm>>)
    %22 = memref.reinterpret_cast %14 to offset: [0], sizes: [1, 1, 1, 1], strides: [1, 1, 1, 1] : memref<1xi64, #npu_task<space hbm>> to memref<1x1x1x1xi64, #npu_task<space hbm>>
    %23 = memref.alloc() : memref<1x1x1x8xf32, #npu_task<space hbm>>
    npu_task.launch @region_0 ins(%1, %22 : memref<1x8xi64, #npu_task<space hbm>>, memref<1x1x1x1xi64, #npu_task<space hbm>>) outs(%23 : memref<1x1x1x8xf32, #npu_task<space hbm>>)
    %24 = memref.alloc() : memref<1x4x1x16xf32, #npu_task<space hbm>>
    npu_task.launch @flash_attention_0 ins(%21, %past_key_values.0.key, %past_key_values.0.value, %23, %3 : memref<1x4x1x16xf32, #npu_task<space hbm>>, memref<1x4x8x16xf32, #npu_task<space hbm>>, memref<1x4x8x16xf32, #npu_task<space hbm>>, memref<1x1x1x8xf32, #npu_task<space hbm>>, memref<i64, #npu_task<space hbm>>) outs(%24 : memref<1x4x1x16xf32, #npu_task<space hbm>>)
    %25 = memref.reinterpret_cast %24 to offset: [0], sizes: [1, 64], strides: [64, 1] : memref<1x4x1x16xf32, #npu_task<space hbm>> to memref<1x64xf32, #npu_task<space hbm>>
    npu_task.launch @linear_1 ins(%25, %6, %15 : memref<1x64xf32, #npu_task<space hbm>>, memref<64x64xf32, #npu_task<space hbm>>, memref<1x1x64xf32, #npu_task<space hbm>>) outs(%15 : memref<1x1x64xf32, #npu_task<space hbm>>)
    %26 = memref.alloc() : memref<1x1x64xf32, #npu_task<space hbm>>
    npu_task.launch @layer_norm_0 ins(%15 : memref<1x1x64xf32, #npu_task<space hbm>>) outs(%26 : memref<1x1x64xf32, #npu_task<space hbm>>)
    %27 = memref.reinterpret_cast %26 to offset: [0], sizes: [1, 64], strides: [64, 1] : memref<1x1x64xf32, #npu_task<space hbm>> to memref<1x64xf32, #npu_task<space hbm>>
    %28 = memref.alloc() : memref<1x1x256xf32, #npu_task<space hbm>>
    npu_task.launch @linear_2 ins(%27, %7 : memref<1x64xf32, #npu_task<space hbm>>, memref<64x256xf32, #npu_task<space hbm>>) outs(%28 : memref<1x1x256xf32, #npu_task<space hbm>>)
    %29 = memref.reinterpret_cast %28 to offset: [0], sizes: [1, 256], strides: [256, 1] : memref<1x1x256xf32, #npu_task<space hbm>> to memref<1x256xf32, #npu_task<space hbm>>
    npu_task.launch @linear_3 ins(%29, %8, %15 : memref<1x256xf32, #npu_task<space hbm>>, memref<256x64xf32, #npu_task<space hbm>>, memref<1x1x64xf32, #npu_task<space hbm>>) outs(%15 : memref<1x1x64xf32, #npu_task<space hbm>>)
    %30 = memref.alloc() : memref<1x1x64xf32, #npu_task<space hbm>>
    npu_task.launch @layer_norm_1 ins(%15 : memref<1x1x64xf32, #npu_task<space hbm>>) outs(%30 : memref<1x1x64xf32, #npu_task<space hbm>>)
    %31 = memref.reinterpret_cast %30 to offset: [0], sizes: [1, 64], strides: [64, 1] : memref<1x1x64xf32, #npu_task<space hbm>> to memref<1x64xf32, #npu_task<space hbm>>
    %32 = memref.alloc() : memref<1x192xf32, #npu_task<space hbm>>
    npu_task.launch @linear_4 ins(%31, %9 : memref<1x64xf32, #npu_task<space hbm>>, memref<64x192xf32, #npu_task<space hbm>>) outs(%32 : memref<1x192xf32, #npu_task<space hbm>>)
    %33 = memref.reinterpret_cast %32 to offset: [64], sizes: [1, 4, 1, 16], strides: [64, 16, 16, 1] : memref<1x192xf32, #npu_task<space hbm>> to memref<1x4x1x16xf32, strided<[64, 16, 16, 1], offset: 64>, #npu_task<space hbm>>
    %34 = memref.reinterpret_cast %32 to offset: [128], sizes: [1, 4, 1, 16], strides: [64, 16, 16, 1] : memref<1x192xf32, #npu_task<space hbm>> to memref<1x4x1x16xf32, strided<[64, 16, 16, 1], offset: 128>, #npu_task<space hbm>>
    %35 = memref.reinterpret_cast %32 to offset: [0], sizes: [1, 4, 1, 16], strides: [64, 16, 16, 1] : memref<1x192xf32, #npu_task<space hbm>> to memref<1x4x1x16xf32, #npu_task<space hbm>>
    npu_task.launch @append_0 ins(%past_key_values.1.key, %33, %3 : memref<1x4x8x16xf32, #npu_task<space hbm>>, memref<1x4x1x16xf32, strided<[64, 16, 16, 1], offset: 64>, #npu_task<space hbm>>, memref<i64, #npu_task<space hbm>>) outs(%past_key_values.1.key : memref<1x4x8x16xf32, #npu_task<space hbm>>)
    npu_task.launch @append_0 ins(%past_key_values.1.value, %34, %3 : memref<1x4x8x16xf32, #npu_task<space hbm>>, memref<1x4x1x16xf32, strided<[64, 16, 16, 1], offset: 128>, #npu_task<space hbm>>, memref<i64, #npu_task<space hbm>>) outs(%past_key_values.1.value : memref<1x4x8x16xf32, #npu_task<space hbm>>)
    %36 = memref.alloc() : memref<1x4x1x16xf32, #npu_task<space hbm>>
    npu_task.launch @flash_attention_0 ins(%35, %past_key_values.1.key, %past_key_values.1.value, %23, %3 : memref<1x4x1x16xf32, #npu_task<space hbm>>, memref<1x4x8x16xf32, #npu_task<space hbm>>, memref<1x4x8x16xf32, #npu_task<space hbm>>, memref<1x1x1x8xf32, #npu_task<space hbm>>, memref<i64, #npu_task<space hbm>>) outs(%36 : memref<1x4x1x16xf32, #npu_task<space hbm>>)
    %37 = memref.reinterpret_cast %36 to offset: [0], sizes: [1, 64], strides: [64, 1] : memref<1x4x1x16xf32, #npu_task<space hbm>> to memref<1x64xf32, #npu_task<space hbm>>
    npu_task.launch @linear_5 ins(%37, %10, %15 : memref<1x64xf32, #npu_task<space hbm>>, memref<64x64xf32, #npu_task<space hbm>>, memref<1x1x64xf32, #npu_task<space hbm>>) outs(%15 : memref<1x1x64xf32, #npu_task<space hbm>>)
    %38 = memref.alloc() : memref<1x1x64xf32, #npu_task<space hbm>>
    npu_task.launch @layer_norm_2 ins(%15 : memref<1x1x64xf32, #npu_task<space hbm>>) outs(%38 : memref<1x1x64xf32, #npu_task<space hbm>>)
    %39 = memref.reinterpret_cast %38 to offset: [0], sizes: [1, 64], strides: [64, 1] : memref<1x1x64xf32, #npu_task<space hbm>> to memref<1x64xf32, #npu_task<space hbm>>
    %40 = memref.alloc() : memref<1x1x256xf32, #npu_task<space hbm>>
    npu_task.launch @linear_6 ins(%39, %11 : memref<1x64xf32, #npu_task<space hbm>>, memref<64x256xf32, #npu_task<space hbm>>) outs(%40 : memref<1x1x256xf32, #npu_task<space hbm>>)
    %41 = memref.reinterpret_cast %40 to offset: [0], sizes: [1, 256], strides: [256, 1] : memref<1x1x256xf32, #npu_task<space hbm>> to memref<1x256xf32, #npu_task<space hbm>>
    npu_task.launch @linear_7 ins(%41, %12, %15 : memref<1x256xf32, #npu_task<space hbm>>, memref<256x64xf32, #npu_task<space hbm>>, memref<1x1x64xf32, #npu_task<space hbm>>) outs(%15 : memref<1x1x64xf32, #npu_task<space hbm>>)
    npu_task.launch @layer_norm_3 ins(%15 : memref<1x1x64xf32, #npu_task<space hbm>>) outs(%15 : memref<1x1x64xf32, #npu_task<space hbm>>)
    %42 = memref.alloc() {npu_task.io} : memref<1x1x400xf32, #npu_task<space hbm>>
    npu_task.launch @matmul_0 ins(%15, %13 : memref<1x1x64xf32, #npu_task<space hbm>>, memref<400x64xf32, #npu_task<space hbm>>) outs(%42 : memref<1x1x400xf32, #npu_task<space hbm>>)
    %43 = memref.alloc() : memref<1x1x400xf32, #npu_task<space host>>
    npu_task.copy %42 to %43 : memref<1x1x400xf32, #npu_task<space hbm>> to memref<1x1x400xf32, #npu_task<space host>>
    func.return %43 : memref<1x1x400xf32, #npu_task<space host>>
  }
}
