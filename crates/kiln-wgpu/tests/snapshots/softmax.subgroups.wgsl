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
    let _e111 = (local_index & 31u);
    let _e118 = subgroupShuffle(bitcast<u32>(_e102), (((local_index - _e111) + (_e111 ^ (u32(u64(16li)) & 31u))) & 31u));
    let _e119 = bitcast<f32>(_e118);
    let _e138 = select(select(select(max(_e102, _e119), bitcast<f32>((bitcast<u32>(_e102) & bitcast<u32>(_e119))), (_e102 == _e119)), _e102, ((bitcast<u32>(_e119) & 2147483647u) > 2139095040u)), _e119, ((bitcast<u32>(_e102) & 2147483647u) > 2139095040u));
    let _e143 = (local_index & 31u);
    let _e150 = subgroupShuffle(bitcast<u32>(_e138), (((local_index - _e143) + (_e143 ^ (u32(u64(8li)) & 31u))) & 31u));
    let _e151 = bitcast<f32>(_e150);
    let _e170 = select(select(select(max(_e138, _e151), bitcast<f32>((bitcast<u32>(_e138) & bitcast<u32>(_e151))), (_e138 == _e151)), _e138, ((bitcast<u32>(_e151) & 2147483647u) > 2139095040u)), _e151, ((bitcast<u32>(_e138) & 2147483647u) > 2139095040u));
    let _e175 = (local_index & 31u);
    let _e182 = subgroupShuffle(bitcast<u32>(_e170), (((local_index - _e175) + (_e175 ^ (u32(u64(4li)) & 31u))) & 31u));
    let _e183 = bitcast<f32>(_e182);
    let _e202 = select(select(select(max(_e170, _e183), bitcast<f32>((bitcast<u32>(_e170) & bitcast<u32>(_e183))), (_e170 == _e183)), _e170, ((bitcast<u32>(_e183) & 2147483647u) > 2139095040u)), _e183, ((bitcast<u32>(_e170) & 2147483647u) > 2139095040u));
    let _e207 = (local_index & 31u);
    let _e214 = subgroupShuffle(bitcast<u32>(_e202), (((local_index - _e207) + (_e207 ^ (u32(u64(2li)) & 31u))) & 31u));
    let _e215 = bitcast<f32>(_e214);
    let _e234 = select(select(select(max(_e202, _e215), bitcast<f32>((bitcast<u32>(_e202) & bitcast<u32>(_e215))), (_e202 == _e215)), _e202, ((bitcast<u32>(_e215) & 2147483647u) > 2139095040u)), _e215, ((bitcast<u32>(_e202) & 2147483647u) > 2139095040u));
    let _e239 = (local_index & 31u);
    let _e246 = subgroupShuffle(bitcast<u32>(_e234), (((local_index - _e239) + (_e239 ^ (u32(u64(1li)) & 31u))) & 31u));
    let _e247 = bitcast<f32>(_e246);
    if _e59 {
        scratch[u32(u64(_e58))] = select(select(select(max(_e234, _e247), bitcast<f32>((bitcast<u32>(_e234) & bitcast<u32>(_e247))), (_e234 == _e247)), _e234, ((bitcast<u32>(_e247) & 2147483647u) > 2139095040u)), _e247, ((bitcast<u32>(_e234) & 2147483647u) > 2139095040u));
    }
    storageBarrier();
    workgroupBarrier();
    let _e271 = u32(u64(0li));
    let _e275 = scratch[_e271];
    let _e279 = scratch[(_e271 + 1u)];
    storageBarrier();
    workgroupBarrier();
    carried_1 = 0f;
    i_1 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e304 = i_1;
            let _e305 = carried_1;
            let _e312 = x[(x_offset + u32(u64((_e51 + _e304))))];
            let _e315 = exp2(((_e312 - select(select(select(max(_e275, _e279), bitcast<f32>((bitcast<u32>(_e275) & bitcast<u32>(_e279))), (_e275 == _e279)), _e275, ((bitcast<u32>(_e279) & 2147483647u) > 2139095040u)), _e279, ((bitcast<u32>(_e275) & 2147483647u) > 2139095040u))) * 1.442695f));
            y[(y_offset + u32(u64((_e52 + _e304))))] = _e315;
            carried_1 = (_e305 + _e315);
            continuing {
                let _e322 = i_1;
                i_1 = (_e322 + 64li);
                break if ((u64(x_extent_1_) - u64(_e322)) <= u64(64li));
            }
        }
    }
    let _e329 = carried_1;
    let _e334 = (local_index & 31u);
    let _e341 = subgroupShuffle(bitcast<u32>(_e329), (((local_index - _e334) + (_e334 ^ (u32(u64(16li)) & 31u))) & 31u));
    let _e343 = (_e329 + bitcast<f32>(_e341));
    let _e348 = (local_index & 31u);
    let _e355 = subgroupShuffle(bitcast<u32>(_e343), (((local_index - _e348) + (_e348 ^ (u32(u64(8li)) & 31u))) & 31u));
    let _e357 = (_e343 + bitcast<f32>(_e355));
    let _e362 = (local_index & 31u);
    let _e369 = subgroupShuffle(bitcast<u32>(_e357), (((local_index - _e362) + (_e362 ^ (u32(u64(4li)) & 31u))) & 31u));
    let _e371 = (_e357 + bitcast<f32>(_e369));
    let _e376 = (local_index & 31u);
    let _e383 = subgroupShuffle(bitcast<u32>(_e371), (((local_index - _e376) + (_e376 ^ (u32(u64(2li)) & 31u))) & 31u));
    let _e385 = (_e371 + bitcast<f32>(_e383));
    let _e390 = (local_index & 31u);
    let _e397 = subgroupShuffle(bitcast<u32>(_e385), (((local_index - _e390) + (_e390 ^ (u32(u64(1li)) & 31u))) & 31u));
    if _e59 {
        scratch[u32(u64(_e58))] = (_e385 + bitcast<f32>(_e397));
    }
    storageBarrier();
    workgroupBarrier();
    let _e404 = u32(u64(0li));
    let _e408 = scratch[_e404];
    let _e412 = scratch[(_e404 + 1u)];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e416 = i_2;
            let _e417 = (_e52 + _e416);
            let _e423 = y[(y_offset + u32(u64(_e417)))];
            y[(y_offset + u32(u64(_e417)))] = (_e423 / (_e408 + _e412));
            continuing {
                let _e429 = i_2;
                i_2 = (_e429 + 64li);
                break if ((u64(x_extent_1_) - u64(_e429)) <= u64(64li));
            }
        }
    }
}
