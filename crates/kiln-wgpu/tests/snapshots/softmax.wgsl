struct Parameters {
    x_offset: u32,
    y_offset: u32,
    x_extent_1_: i64,
    x_stride_0_: i64,
    y_stride_0_: i64,
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
    let thread_x = i64(local_id.x);
    let program_x = i64(group_id.x);
    let _e21 = (program_x * x_stride_0_);
    let _e22 = (program_x * y_stride_0_);
    let _e28 = (thread_x / 32li);
    let _e29 = ((thread_x % 32li) == 0li);
    let _e32 = infinity_bits;
    carried = bitcast<f32>(_e32);
    i = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e37 = i;
            let _e38 = carried;
            let _e46 = x[(x_offset + u32(u64((_e21 + _e37))))];
            carried = select(select(select(max(_e38, _e46), bitcast<f32>((bitcast<u32>(_e38) & bitcast<u32>(_e46))), (_e38 == _e46)), _e38, ((bitcast<u32>(_e46) & 2147483647u) > 2139095040u)), _e46, ((bitcast<u32>(_e38) & 2147483647u) > 2139095040u));
            continuing {
                let _e66 = i;
                i = (_e66 + 64li);
                break if ((u64(x_extent_1_) - u64(_e66)) <= u64(64li));
            }
        }
    }
    let _e73 = carried;
    let _e82 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e73);
    storageBarrier();
    workgroupBarrier();
    let _e90 = exchange[((local_index - _e82) + (_e82 ^ (u32(u64(16li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e91 = bitcast<f32>(_e90);
    let _e110 = select(select(select(max(_e73, _e91), bitcast<f32>((bitcast<u32>(_e73) & bitcast<u32>(_e91))), (_e73 == _e91)), _e73, ((bitcast<u32>(_e91) & 2147483647u) > 2139095040u)), _e91, ((bitcast<u32>(_e73) & 2147483647u) > 2139095040u));
    let _e115 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e110);
    storageBarrier();
    workgroupBarrier();
    let _e122 = exchange[((local_index - _e115) + (_e115 ^ (u32(u64(8li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e123 = bitcast<f32>(_e122);
    let _e142 = select(select(select(max(_e110, _e123), bitcast<f32>((bitcast<u32>(_e110) & bitcast<u32>(_e123))), (_e110 == _e123)), _e110, ((bitcast<u32>(_e123) & 2147483647u) > 2139095040u)), _e123, ((bitcast<u32>(_e110) & 2147483647u) > 2139095040u));
    let _e147 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e142);
    storageBarrier();
    workgroupBarrier();
    let _e154 = exchange[((local_index - _e147) + (_e147 ^ (u32(u64(4li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e155 = bitcast<f32>(_e154);
    let _e174 = select(select(select(max(_e142, _e155), bitcast<f32>((bitcast<u32>(_e142) & bitcast<u32>(_e155))), (_e142 == _e155)), _e142, ((bitcast<u32>(_e155) & 2147483647u) > 2139095040u)), _e155, ((bitcast<u32>(_e142) & 2147483647u) > 2139095040u));
    let _e179 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e174);
    storageBarrier();
    workgroupBarrier();
    let _e186 = exchange[((local_index - _e179) + (_e179 ^ (u32(u64(2li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e187 = bitcast<f32>(_e186);
    let _e206 = select(select(select(max(_e174, _e187), bitcast<f32>((bitcast<u32>(_e174) & bitcast<u32>(_e187))), (_e174 == _e187)), _e174, ((bitcast<u32>(_e187) & 2147483647u) > 2139095040u)), _e187, ((bitcast<u32>(_e174) & 2147483647u) > 2139095040u));
    let _e211 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e206);
    storageBarrier();
    workgroupBarrier();
    let _e218 = exchange[((local_index - _e211) + (_e211 ^ (u32(u64(1li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e219 = bitcast<f32>(_e218);
    if _e29 {
        scratch[u32(u64(_e28))] = select(select(select(max(_e206, _e219), bitcast<f32>((bitcast<u32>(_e206) & bitcast<u32>(_e219))), (_e206 == _e219)), _e206, ((bitcast<u32>(_e219) & 2147483647u) > 2139095040u)), _e219, ((bitcast<u32>(_e206) & 2147483647u) > 2139095040u));
    }
    storageBarrier();
    workgroupBarrier();
    let _e243 = u32(u64(0li));
    let _e248 = scratch[_e243];
    let _e252 = scratch[(_e243 + 1u)];
    storageBarrier();
    workgroupBarrier();
    carried_1 = 0f;
    i_1 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e277 = i_1;
            let _e278 = carried_1;
            let _e286 = x[(x_offset + u32(u64((_e21 + _e277))))];
            let _e289 = exp2(((_e286 - select(select(select(max(_e248, _e252), bitcast<f32>((bitcast<u32>(_e248) & bitcast<u32>(_e252))), (_e248 == _e252)), _e248, ((bitcast<u32>(_e252) & 2147483647u) > 2139095040u)), _e252, ((bitcast<u32>(_e248) & 2147483647u) > 2139095040u))) * 1.442695f));
            y[(y_offset + u32(u64((_e22 + _e277))))] = _e289;
            carried_1 = (_e278 + _e289);
            continuing {
                let _e296 = i_1;
                i_1 = (_e296 + 64li);
                break if ((u64(x_extent_1_) - u64(_e296)) <= u64(64li));
            }
        }
    }
    let _e303 = carried_1;
    let _e308 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e303);
    storageBarrier();
    workgroupBarrier();
    let _e315 = exchange[((local_index - _e308) + (_e308 ^ (u32(u64(16li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e317 = (_e303 + bitcast<f32>(_e315));
    let _e322 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e317);
    storageBarrier();
    workgroupBarrier();
    let _e329 = exchange[((local_index - _e322) + (_e322 ^ (u32(u64(8li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e331 = (_e317 + bitcast<f32>(_e329));
    let _e336 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e331);
    storageBarrier();
    workgroupBarrier();
    let _e343 = exchange[((local_index - _e336) + (_e336 ^ (u32(u64(4li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e345 = (_e331 + bitcast<f32>(_e343));
    let _e350 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e345);
    storageBarrier();
    workgroupBarrier();
    let _e357 = exchange[((local_index - _e350) + (_e350 ^ (u32(u64(2li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    let _e359 = (_e345 + bitcast<f32>(_e357));
    let _e364 = (local_index & 31u);
    exchange[local_index] = bitcast<u32>(_e359);
    storageBarrier();
    workgroupBarrier();
    let _e371 = exchange[((local_index - _e364) + (_e364 ^ (u32(u64(1li)) & 31u)))];
    storageBarrier();
    workgroupBarrier();
    if _e29 {
        scratch[u32(u64(_e28))] = (_e359 + bitcast<f32>(_e371));
    }
    storageBarrier();
    workgroupBarrier();
    let _e378 = u32(u64(0li));
    let _e383 = scratch[_e378];
    let _e387 = scratch[(_e378 + 1u)];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e391 = i_2;
            let _e392 = (_e22 + _e391);
            let _e399 = y[(y_offset + u32(u64(_e392)))];
            y[(y_offset + u32(u64(_e392)))] = (_e399 / (_e383 + _e387));
            continuing {
                let _e405 = i_2;
                i_2 = (_e405 + 64li);
                break if ((u64(x_extent_1_) - u64(_e405)) <= u64(64li));
            }
        }
    }
}
