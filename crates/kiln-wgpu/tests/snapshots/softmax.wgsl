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
            let _e69 = x[(x_offset + u32(u64((_e45 + _e61))))];
            carried = select(select(select(max(_e62, _e69), bitcast<f32>((bitcast<u32>(_e62) & bitcast<u32>(_e69))), (_e62 == _e69)), _e62, ((bitcast<u32>(_e69) & 2147483647u) > 2139095040u)), _e69, ((bitcast<u32>(_e62) & 2147483647u) > 2139095040u));
            continuing {
                let _e89 = i;
                i = (_e89 + 64li);
                break if ((u64(x_extent_1_) - u64(_e89)) <= u64(64li));
            }
        }
    }
    let _e96 = carried;
    let _e105 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e96);
    storageBarrier();
    workgroupBarrier();
    let _e113 = exchange[((local_index - _e105) + (_e105 ^ (u32(u64(16li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e114 = bitcast<f32>(_e113);
    let _e133 = select(select(select(max(_e96, _e114), bitcast<f32>((bitcast<u32>(_e96) & bitcast<u32>(_e114))), (_e96 == _e114)), _e96, ((bitcast<u32>(_e114) & 2147483647u) > 2139095040u)), _e114, ((bitcast<u32>(_e96) & 2147483647u) > 2139095040u));
    let _e138 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e133);
    storageBarrier();
    workgroupBarrier();
    let _e145 = exchange[((local_index - _e138) + (_e138 ^ (u32(u64(8li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e146 = bitcast<f32>(_e145);
    let _e165 = select(select(select(max(_e133, _e146), bitcast<f32>((bitcast<u32>(_e133) & bitcast<u32>(_e146))), (_e133 == _e146)), _e133, ((bitcast<u32>(_e146) & 2147483647u) > 2139095040u)), _e146, ((bitcast<u32>(_e133) & 2147483647u) > 2139095040u));
    let _e170 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e165);
    storageBarrier();
    workgroupBarrier();
    let _e177 = exchange[((local_index - _e170) + (_e170 ^ (u32(u64(4li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e178 = bitcast<f32>(_e177);
    let _e197 = select(select(select(max(_e165, _e178), bitcast<f32>((bitcast<u32>(_e165) & bitcast<u32>(_e178))), (_e165 == _e178)), _e165, ((bitcast<u32>(_e178) & 2147483647u) > 2139095040u)), _e178, ((bitcast<u32>(_e165) & 2147483647u) > 2139095040u));
    let _e202 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e197);
    storageBarrier();
    workgroupBarrier();
    let _e209 = exchange[((local_index - _e202) + (_e202 ^ (u32(u64(2li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e210 = bitcast<f32>(_e209);
    let _e229 = select(select(select(max(_e197, _e210), bitcast<f32>((bitcast<u32>(_e197) & bitcast<u32>(_e210))), (_e197 == _e210)), _e197, ((bitcast<u32>(_e210) & 2147483647u) > 2139095040u)), _e210, ((bitcast<u32>(_e197) & 2147483647u) > 2139095040u));
    let _e234 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e229);
    storageBarrier();
    workgroupBarrier();
    let _e241 = exchange[((local_index - _e234) + (_e234 ^ (u32(u64(1li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e242 = bitcast<f32>(_e241);
    if _e53 {
        scratch[u32(u64(_e52))] = select(select(select(max(_e229, _e242), bitcast<f32>((bitcast<u32>(_e229) & bitcast<u32>(_e242))), (_e229 == _e242)), _e229, ((bitcast<u32>(_e242) & 2147483647u) > 2139095040u)), _e242, ((bitcast<u32>(_e229) & 2147483647u) > 2139095040u));
    }
    storageBarrier();
    workgroupBarrier();
    let _e266 = u32(u64(0li));
    let _e270 = scratch[_e266];
    let _e274 = scratch[(_e266 + 1u)];
    storageBarrier();
    workgroupBarrier();
    carried_1 = 0f;
    i_1 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e299 = i_1;
            let _e300 = carried_1;
            let _e307 = x[(x_offset + u32(u64((_e45 + _e299))))];
            let _e310 = exp2(((_e307 - select(select(select(max(_e270, _e274), bitcast<f32>((bitcast<u32>(_e270) & bitcast<u32>(_e274))), (_e270 == _e274)), _e270, ((bitcast<u32>(_e274) & 2147483647u) > 2139095040u)), _e274, ((bitcast<u32>(_e270) & 2147483647u) > 2139095040u))) * 1.442695f));
            y[(y_offset + u32(u64((_e46 + _e299))))] = _e310;
            carried_1 = (_e300 + _e310);
            continuing {
                let _e317 = i_1;
                i_1 = (_e317 + 64li);
                break if ((u64(x_extent_1_) - u64(_e317)) <= u64(64li));
            }
        }
    }
    let _e324 = carried_1;
    let _e329 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e324);
    storageBarrier();
    workgroupBarrier();
    let _e336 = exchange[((local_index - _e329) + (_e329 ^ (u32(u64(16li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e338 = (_e324 + bitcast<f32>(_e336));
    let _e343 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e338);
    storageBarrier();
    workgroupBarrier();
    let _e350 = exchange[((local_index - _e343) + (_e343 ^ (u32(u64(8li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e352 = (_e338 + bitcast<f32>(_e350));
    let _e357 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e352);
    storageBarrier();
    workgroupBarrier();
    let _e364 = exchange[((local_index - _e357) + (_e357 ^ (u32(u64(4li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e366 = (_e352 + bitcast<f32>(_e364));
    let _e371 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e366);
    storageBarrier();
    workgroupBarrier();
    let _e378 = exchange[((local_index - _e371) + (_e371 ^ (u32(u64(2li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e380 = (_e366 + bitcast<f32>(_e378));
    let _e385 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e380);
    storageBarrier();
    workgroupBarrier();
    let _e392 = exchange[((local_index - _e385) + (_e385 ^ (u32(u64(1li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    if _e53 {
        scratch[u32(u64(_e52))] = (_e380 + bitcast<f32>(_e392));
    }
    storageBarrier();
    workgroupBarrier();
    let _e399 = u32(u64(0li));
    let _e403 = scratch[_e399];
    let _e407 = scratch[(_e399 + 1u)];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e411 = i_2;
            let _e412 = (_e46 + _e411);
            let _e418 = y[(y_offset + u32(u64(_e412)))];
            y[(y_offset + u32(u64(_e412)))] = (_e418 / (_e403 + _e407));
            continuing {
                let _e424 = i_2;
                i_2 = (_e424 + 64li);
                break if ((u64(x_extent_1_) - u64(_e424)) <= u64(64li));
            }
        }
    }
}
