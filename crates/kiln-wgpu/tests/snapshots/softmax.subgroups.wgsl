struct Parameters {
    x_offset: u32,
    y_offset: u32,
    x_extent_1_: i64,
    x_stride_0_: i64,
    y_stride_0_: i64,
    grid_0_: u32,
    grid_1_: u32,
    grid_2_: u32,
    fold: u32,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage> x: array<f32>;
@group(0) @binding(2) 
var<storage, read_write> y: array<f32>;
var<workgroup> scratch: array<f32, 2>;

@compute @workgroup_size(64, 1, 1) 
fn softmax(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(subgroup_id) subgroup_id: u32, @builtin(subgroup_invocation_id) lane: u32) {
    var program: vec3<u32>;
    var infinity_bits: u32 = 4286578688u;
    var carried: f32;
    var i: i64;
    var carried_1: f32;
    var i_1: i64;
    var i_2: i64;

    let local_index = ((subgroup_id * 32u) + lane);
    let x_offset = parameters.x_offset;
    let y_offset = parameters.y_offset;
    let x_extent_1_ = parameters.x_extent_1_;
    let x_stride_0_ = parameters.x_stride_0_;
    let y_stride_0_ = parameters.y_stride_0_;
    let grid_0_ = parameters.grid_0_;
    let grid_1_ = parameters.grid_1_;
    let grid_2_ = parameters.grid_2_;
    let fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        let _e34 = ((group_id.y * fold) + group_id.x);
        let _e36 = (_e34 / grid_0_);
        let _e38 = (_e36 / grid_1_);
        if (_e38 >= grid_2_) {
            return;
        }
        program = vec3<u32>((_e34 % grid_0_), (_e36 % grid_1_), _e38);
    }
    let _e41 = program;
    let thread_x = i64(u64(((local_index / 1u) % 64u)));
    let program_x = i64(u64(_e41.x));
    let _e51 = (program_x * x_stride_0_);
    let _e52 = (program_x * y_stride_0_);
    let _e58 = (thread_x / 32li);
    let _e59 = ((thread_x % 32li) == 0li);
    let _e62 = infinity_bits;
    carried = bitcast<f32>(_e62);
    i = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e67 = i;
            let _e68 = carried;
            let _e75 = x[(x_offset + u32(u64((_e51 + _e67))))];
            carried = select(select(select(max(_e68, _e75), bitcast<f32>((bitcast<u32>(_e68) & bitcast<u32>(_e75))), (_e68 == _e75)), _e68, ((bitcast<u32>(_e75) & 2147483647u) > 2139095040u)), _e75, ((bitcast<u32>(_e68) & 2147483647u) > 2139095040u));
            continuing {
                let _e95 = i;
                i = (_e95 + 64li);
                break if ((u64(x_extent_1_) - u64(_e95)) <= u64(64li));
            }
        }
    }
    let _e102 = carried;
    let _e111 = subgroupShuffleXor(bitcast<u32>(_e102), 16u);
    let _e112 = bitcast<f32>(_e111);
    let _e131 = select(select(select(max(_e102, _e112), bitcast<f32>((bitcast<u32>(_e102) & bitcast<u32>(_e112))), (_e102 == _e112)), _e102, ((bitcast<u32>(_e112) & 2147483647u) > 2139095040u)), _e112, ((bitcast<u32>(_e102) & 2147483647u) > 2139095040u));
    let _e136 = subgroupShuffleXor(bitcast<u32>(_e131), 8u);
    let _e137 = bitcast<f32>(_e136);
    let _e156 = select(select(select(max(_e131, _e137), bitcast<f32>((bitcast<u32>(_e131) & bitcast<u32>(_e137))), (_e131 == _e137)), _e131, ((bitcast<u32>(_e137) & 2147483647u) > 2139095040u)), _e137, ((bitcast<u32>(_e131) & 2147483647u) > 2139095040u));
    let _e161 = subgroupShuffleXor(bitcast<u32>(_e156), 4u);
    let _e162 = bitcast<f32>(_e161);
    let _e181 = select(select(select(max(_e156, _e162), bitcast<f32>((bitcast<u32>(_e156) & bitcast<u32>(_e162))), (_e156 == _e162)), _e156, ((bitcast<u32>(_e162) & 2147483647u) > 2139095040u)), _e162, ((bitcast<u32>(_e156) & 2147483647u) > 2139095040u));
    let _e186 = subgroupShuffleXor(bitcast<u32>(_e181), 2u);
    let _e187 = bitcast<f32>(_e186);
    let _e206 = select(select(select(max(_e181, _e187), bitcast<f32>((bitcast<u32>(_e181) & bitcast<u32>(_e187))), (_e181 == _e187)), _e181, ((bitcast<u32>(_e187) & 2147483647u) > 2139095040u)), _e187, ((bitcast<u32>(_e181) & 2147483647u) > 2139095040u));
    let _e211 = subgroupShuffleXor(bitcast<u32>(_e206), 1u);
    let _e212 = bitcast<f32>(_e211);
    if _e59 {
        scratch[u32(u64(_e58))] = select(select(select(max(_e206, _e212), bitcast<f32>((bitcast<u32>(_e206) & bitcast<u32>(_e212))), (_e206 == _e212)), _e206, ((bitcast<u32>(_e212) & 2147483647u) > 2139095040u)), _e212, ((bitcast<u32>(_e206) & 2147483647u) > 2139095040u));
    }
    storageBarrier();
    workgroupBarrier();
    let _e236 = u32(u64(0li));
    let _e240 = scratch[_e236];
    let _e244 = scratch[(_e236 + 1u)];
    storageBarrier();
    workgroupBarrier();
    carried_1 = 0f;
    i_1 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e269 = i_1;
            let _e270 = carried_1;
            let _e277 = x[(x_offset + u32(u64((_e51 + _e269))))];
            let _e280 = exp2(((_e277 - select(select(select(max(_e240, _e244), bitcast<f32>((bitcast<u32>(_e240) & bitcast<u32>(_e244))), (_e240 == _e244)), _e240, ((bitcast<u32>(_e244) & 2147483647u) > 2139095040u)), _e244, ((bitcast<u32>(_e240) & 2147483647u) > 2139095040u))) * 1.442695f));
            y[(y_offset + u32(u64((_e52 + _e269))))] = _e280;
            carried_1 = (_e270 + _e280);
            continuing {
                let _e287 = i_1;
                i_1 = (_e287 + 64li);
                break if ((u64(x_extent_1_) - u64(_e287)) <= u64(64li));
            }
        }
    }
    let _e294 = carried_1;
    let _e299 = subgroupShuffleXor(bitcast<u32>(_e294), 16u);
    let _e301 = (_e294 + bitcast<f32>(_e299));
    let _e306 = subgroupShuffleXor(bitcast<u32>(_e301), 8u);
    let _e308 = (_e301 + bitcast<f32>(_e306));
    let _e313 = subgroupShuffleXor(bitcast<u32>(_e308), 4u);
    let _e315 = (_e308 + bitcast<f32>(_e313));
    let _e320 = subgroupShuffleXor(bitcast<u32>(_e315), 2u);
    let _e322 = (_e315 + bitcast<f32>(_e320));
    let _e327 = subgroupShuffleXor(bitcast<u32>(_e322), 1u);
    if _e59 {
        scratch[u32(u64(_e58))] = (_e322 + bitcast<f32>(_e327));
    }
    storageBarrier();
    workgroupBarrier();
    let _e334 = u32(u64(0li));
    let _e338 = scratch[_e334];
    let _e342 = scratch[(_e334 + 1u)];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e346 = i_2;
            let _e347 = (_e52 + _e346);
            let _e353 = y[(y_offset + u32(u64(_e347)))];
            y[(y_offset + u32(u64(_e347)))] = (_e353 / (_e338 + _e342));
            continuing {
                let _e359 = i_2;
                i_2 = (_e359 + 64li);
                break if ((u64(x_extent_1_) - u64(_e359)) <= u64(64li));
            }
        }
    }
}
