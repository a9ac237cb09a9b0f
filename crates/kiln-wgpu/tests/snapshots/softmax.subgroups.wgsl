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
            let _e76 = x[(x_offset + u32(u64((_e51 + _e67))))];
            carried = select(select(select(max(_e68, _e76), bitcast<f32>((bitcast<u32>(_e68) & bitcast<u32>(_e76))), (_e68 == _e76)), _e68, ((bitcast<u32>(_e76) & 2147483647u) > 2139095040u)), _e76, ((bitcast<u32>(_e68) & 2147483647u) > 2139095040u));
            continuing {
                let _e96 = i;
                i = (_e96 + 64li);
                break if ((u64(x_extent_1_) - u64(_e96)) <= u64(64li));
            }
        }
    }
    let _e103 = carried;
    let _e112 = (local_index & 31u);
    let _e119 = subgroupShuffle(bitcast<u32>(_e103), (((local_index - _e112) + (_e112 ^ (u32(u64(16li)) & 31u))) & 31u));
    let _e120 = bitcast<f32>(_e119);
    let _e139 = select(select(select(max(_e103, _e120), bitcast<f32>((bitcast<u32>(_e103) & bitcast<u32>(_e120))), (_e103 == _e120)), _e103, ((bitcast<u32>(_e120) & 2147483647u) > 2139095040u)), _e120, ((bitcast<u32>(_e103) & 2147483647u) > 2139095040u));
    let _e144 = (local_index & 31u);
    let _e151 = subgroupShuffle(bitcast<u32>(_e139), (((local_index - _e144) + (_e144 ^ (u32(u64(8li)) & 31u))) & 31u));
    let _e152 = bitcast<f32>(_e151);
    let _e171 = select(select(select(max(_e139, _e152), bitcast<f32>((bitcast<u32>(_e139) & bitcast<u32>(_e152))), (_e139 == _e152)), _e139, ((bitcast<u32>(_e152) & 2147483647u) > 2139095040u)), _e152, ((bitcast<u32>(_e139) & 2147483647u) > 2139095040u));
    let _e176 = (local_index & 31u);
    let _e183 = subgroupShuffle(bitcast<u32>(_e171), (((local_index - _e176) + (_e176 ^ (u32(u64(4li)) & 31u))) & 31u));
    let _e184 = bitcast<f32>(_e183);
    let _e203 = select(select(select(max(_e171, _e184), bitcast<f32>((bitcast<u32>(_e171) & bitcast<u32>(_e184))), (_e171 == _e184)), _e171, ((bitcast<u32>(_e184) & 2147483647u) > 2139095040u)), _e184, ((bitcast<u32>(_e171) & 2147483647u) > 2139095040u));
    let _e208 = (local_index & 31u);
    let _e215 = subgroupShuffle(bitcast<u32>(_e203), (((local_index - _e208) + (_e208 ^ (u32(u64(2li)) & 31u))) & 31u));
    let _e216 = bitcast<f32>(_e215);
    let _e235 = select(select(select(max(_e203, _e216), bitcast<f32>((bitcast<u32>(_e203) & bitcast<u32>(_e216))), (_e203 == _e216)), _e203, ((bitcast<u32>(_e216) & 2147483647u) > 2139095040u)), _e216, ((bitcast<u32>(_e203) & 2147483647u) > 2139095040u));
    let _e240 = (local_index & 31u);
    let _e247 = subgroupShuffle(bitcast<u32>(_e235), (((local_index - _e240) + (_e240 ^ (u32(u64(1li)) & 31u))) & 31u));
    let _e248 = bitcast<f32>(_e247);
    if _e59 {
        scratch[u32(u64(_e58))] = select(select(select(max(_e235, _e248), bitcast<f32>((bitcast<u32>(_e235) & bitcast<u32>(_e248))), (_e235 == _e248)), _e235, ((bitcast<u32>(_e248) & 2147483647u) > 2139095040u)), _e248, ((bitcast<u32>(_e235) & 2147483647u) > 2139095040u));
    }
    storageBarrier();
    workgroupBarrier();
    let _e272 = u32(u64(0li));
    let _e277 = scratch[_e272];
    let _e281 = scratch[(_e272 + 1u)];
    storageBarrier();
    workgroupBarrier();
    carried_1 = 0f;
    i_1 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e306 = i_1;
            let _e307 = carried_1;
            let _e315 = x[(x_offset + u32(u64((_e51 + _e306))))];
            let _e318 = exp2(((_e315 - select(select(select(max(_e277, _e281), bitcast<f32>((bitcast<u32>(_e277) & bitcast<u32>(_e281))), (_e277 == _e281)), _e277, ((bitcast<u32>(_e281) & 2147483647u) > 2139095040u)), _e281, ((bitcast<u32>(_e277) & 2147483647u) > 2139095040u))) * 1.442695f));
            y[(y_offset + u32(u64((_e52 + _e306))))] = _e318;
            carried_1 = (_e307 + _e318);
            continuing {
                let _e325 = i_1;
                i_1 = (_e325 + 64li);
                break if ((u64(x_extent_1_) - u64(_e325)) <= u64(64li));
            }
        }
    }
    let _e332 = carried_1;
    let _e337 = (local_index & 31u);
    let _e344 = subgroupShuffle(bitcast<u32>(_e332), (((local_index - _e337) + (_e337 ^ (u32(u64(16li)) & 31u))) & 31u));
    let _e346 = (_e332 + bitcast<f32>(_e344));
    let _e351 = (local_index & 31u);
    let _e358 = subgroupShuffle(bitcast<u32>(_e346), (((local_index - _e351) + (_e351 ^ (u32(u64(8li)) & 31u))) & 31u));
    let _e360 = (_e346 + bitcast<f32>(_e358));
    let _e365 = (local_index & 31u);
    let _e372 = subgroupShuffle(bitcast<u32>(_e360), (((local_index - _e365) + (_e365 ^ (u32(u64(4li)) & 31u))) & 31u));
    let _e374 = (_e360 + bitcast<f32>(_e372));
    let _e379 = (local_index & 31u);
    let _e386 = subgroupShuffle(bitcast<u32>(_e374), (((local_index - _e379) + (_e379 ^ (u32(u64(2li)) & 31u))) & 31u));
    let _e388 = (_e374 + bitcast<f32>(_e386));
    let _e393 = (local_index & 31u);
    let _e400 = subgroupShuffle(bitcast<u32>(_e388), (((local_index - _e393) + (_e393 ^ (u32(u64(1li)) & 31u))) & 31u));
    if _e59 {
        scratch[u32(u64(_e58))] = (_e388 + bitcast<f32>(_e400));
    }
    storageBarrier();
    workgroupBarrier();
    let _e407 = u32(u64(0li));
    let _e412 = scratch[_e407];
    let _e416 = scratch[(_e407 + 1u)];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e420 = i_2;
            let _e421 = (_e52 + _e420);
            let _e428 = y[(y_offset + u32(u64(_e421)))];
            y[(y_offset + u32(u64(_e421)))] = (_e428 / (_e412 + _e416));
            continuing {
                let _e434 = i_2;
                i_2 = (_e434 + 64li);
                break if ((u64(x_extent_1_) - u64(_e434)) <= u64(64li));
            }
        }
    }
}
