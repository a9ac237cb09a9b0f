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
var<workgroup> exchange: array<u32, 64>;

@compute @workgroup_size(64, 1, 1) 
fn softmax(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(local_invocation_index) local_index: u32, @builtin(workgroup_id) group_id: vec3<u32>) {
    var program: vec3<u32>;
    var infinity_bits: u32 = 4286578688u;
    var carried: f32;
    var i: i64;
    var carried_1: f32;
    var i_1: i64;
    var i_2: i64;

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
        let _e31 = ((group_id.y * fold) + group_id.x);
        let _e33 = (_e31 / grid_0_);
        let _e35 = (_e33 / grid_1_);
        if (_e35 >= grid_2_) {
            return;
        }
        program = vec3<u32>((_e31 % grid_0_), (_e33 % grid_1_), _e35);
    }
    let _e38 = program;
    let thread_x = i64(u64(local_id.x));
    let program_x = i64(u64(_e38.x));
    let _e45 = (program_x * x_stride_0_);
    let _e46 = (program_x * y_stride_0_);
    let _e52 = (thread_x / 32li);
    let _e53 = ((thread_x % 32li) == 0li);
    let _e56 = infinity_bits;
    carried = bitcast<f32>(_e56);
    i = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e61 = i;
            let _e62 = carried;
            let _e70 = x[(x_offset + u32(u64((_e45 + _e61))))];
            carried = select(select(select(max(_e62, _e70), bitcast<f32>((bitcast<u32>(_e62) & bitcast<u32>(_e70))), (_e62 == _e70)), _e62, ((bitcast<u32>(_e70) & 2147483647u) > 2139095040u)), _e70, ((bitcast<u32>(_e62) & 2147483647u) > 2139095040u));
            continuing {
                let _e90 = i;
                i = (_e90 + 64li);
                break if ((u64(x_extent_1_) - u64(_e90)) <= u64(64li));
            }
        }
    }
    let _e97 = carried;
    let _e106 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e97);
    storageBarrier();
    workgroupBarrier();
    let _e114 = exchange[((local_index - _e106) + (_e106 ^ (u32(u64(16li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e115 = bitcast<f32>(_e114);
    let _e134 = select(select(select(max(_e97, _e115), bitcast<f32>((bitcast<u32>(_e97) & bitcast<u32>(_e115))), (_e97 == _e115)), _e97, ((bitcast<u32>(_e115) & 2147483647u) > 2139095040u)), _e115, ((bitcast<u32>(_e97) & 2147483647u) > 2139095040u));
    let _e139 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e134);
    storageBarrier();
    workgroupBarrier();
    let _e146 = exchange[((local_index - _e139) + (_e139 ^ (u32(u64(8li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e147 = bitcast<f32>(_e146);
    let _e166 = select(select(select(max(_e134, _e147), bitcast<f32>((bitcast<u32>(_e134) & bitcast<u32>(_e147))), (_e134 == _e147)), _e134, ((bitcast<u32>(_e147) & 2147483647u) > 2139095040u)), _e147, ((bitcast<u32>(_e134) & 2147483647u) > 2139095040u));
    let _e171 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e166);
    storageBarrier();
    workgroupBarrier();
    let _e178 = exchange[((local_index - _e171) + (_e171 ^ (u32(u64(4li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e179 = bitcast<f32>(_e178);
    let _e198 = select(select(select(max(_e166, _e179), bitcast<f32>((bitcast<u32>(_e166) & bitcast<u32>(_e179))), (_e166 == _e179)), _e166, ((bitcast<u32>(_e179) & 2147483647u) > 2139095040u)), _e179, ((bitcast<u32>(_e166) & 2147483647u) > 2139095040u));
    let _e203 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e198);
    storageBarrier();
    workgroupBarrier();
    let _e210 = exchange[((local_index - _e203) + (_e203 ^ (u32(u64(2li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e211 = bitcast<f32>(_e210);
    let _e230 = select(select(select(max(_e198, _e211), bitcast<f32>((bitcast<u32>(_e198) & bitcast<u32>(_e211))), (_e198 == _e211)), _e198, ((bitcast<u32>(_e211) & 2147483647u) > 2139095040u)), _e211, ((bitcast<u32>(_e198) & 2147483647u) > 2139095040u));
    let _e235 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e230);
    storageBarrier();
    workgroupBarrier();
    let _e242 = exchange[((local_index - _e235) + (_e235 ^ (u32(u64(1li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e243 = bitcast<f32>(_e242);
    if _e53 {
        scratch[u32(u64(_e52))] = select(select(select(max(_e230, _e243), bitcast<f32>((bitcast<u32>(_e230) & bitcast<u32>(_e243))), (_e230 == _e243)), _e230, ((bitcast<u32>(_e243) & 2147483647u) > 2139095040u)), _e243, ((bitcast<u32>(_e230) & 2147483647u) > 2139095040u));
    }
    storageBarrier();
    workgroupBarrier();
    let _e267 = u32(u64(0li));
    let _e272 = scratch[_e267];
    let _e276 = scratch[(_e267 + 1u)];
    storageBarrier();
    workgroupBarrier();
    carried_1 = 0f;
    i_1 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e301 = i_1;
            let _e302 = carried_1;
            let _e310 = x[(x_offset + u32(u64((_e45 + _e301))))];
            let _e313 = exp2(((_e310 - select(select(select(max(_e272, _e276), bitcast<f32>((bitcast<u32>(_e272) & bitcast<u32>(_e276))), (_e272 == _e276)), _e272, ((bitcast<u32>(_e276) & 2147483647u) > 2139095040u)), _e276, ((bitcast<u32>(_e272) & 2147483647u) > 2139095040u))) * 1.442695f));
            y[(y_offset + u32(u64((_e46 + _e301))))] = _e313;
            carried_1 = (_e302 + _e313);
            continuing {
                let _e320 = i_1;
                i_1 = (_e320 + 64li);
                break if ((u64(x_extent_1_) - u64(_e320)) <= u64(64li));
            }
        }
    }
    let _e327 = carried_1;
    let _e332 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e327);
    storageBarrier();
    workgroupBarrier();
    let _e339 = exchange[((local_index - _e332) + (_e332 ^ (u32(u64(16li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e341 = (_e327 + bitcast<f32>(_e339));
    let _e346 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e341);
    storageBarrier();
    workgroupBarrier();
    let _e353 = exchange[((local_index - _e346) + (_e346 ^ (u32(u64(8li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e355 = (_e341 + bitcast<f32>(_e353));
    let _e360 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e355);
    storageBarrier();
    workgroupBarrier();
    let _e367 = exchange[((local_index - _e360) + (_e360 ^ (u32(u64(4li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e369 = (_e355 + bitcast<f32>(_e367));
    let _e374 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e369);
    storageBarrier();
    workgroupBarrier();
    let _e381 = exchange[((local_index - _e374) + (_e374 ^ (u32(u64(2li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e383 = (_e369 + bitcast<f32>(_e381));
    let _e388 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e383);
    storageBarrier();
    workgroupBarrier();
    let _e395 = exchange[((local_index - _e388) + (_e388 ^ (u32(u64(1li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    if _e53 {
        scratch[u32(u64(_e52))] = (_e383 + bitcast<f32>(_e395));
    }
    storageBarrier();
    workgroupBarrier();
    let _e402 = u32(u64(0li));
    let _e407 = scratch[_e402];
    let _e411 = scratch[(_e402 + 1u)];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e415 = i_2;
            let _e416 = (_e46 + _e415);
            let _e423 = y[(y_offset + u32(u64(_e416)))];
            y[(y_offset + u32(u64(_e416)))] = (_e423 / (_e407 + _e411));
            continuing {
                let _e429 = i_2;
                i_2 = (_e429 + 64li);
                break if ((u64(x_extent_1_) - u64(_e429)) <= u64(64li));
            }
        }
    }
}
