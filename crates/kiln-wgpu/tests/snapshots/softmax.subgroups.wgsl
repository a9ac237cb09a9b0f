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

@compute @workgroup_size(64, 1, 1) 
fn softmax(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(subgroup_id) subgroup_id: u32, @builtin(subgroup_invocation_id) lane: u32) {
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
    let thread_x = i64(((local_index / 1u) % 64u));
    let program_x = i64(group_id.x);
    let _e27 = (program_x * x_stride_0_);
    let _e28 = (program_x * y_stride_0_);
    let _e34 = (thread_x / 32li);
    let _e35 = ((thread_x % 32li) == 0li);
    let _e38 = infinity_bits;
    carried = bitcast<f32>(_e38);
    i = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e43 = i;
            let _e44 = carried;
            let _e52 = x[(x_offset + u32(u64((_e27 + _e43))))];
            carried = select(select(select(max(_e44, _e52), bitcast<f32>((bitcast<u32>(_e44) & bitcast<u32>(_e52))), (_e44 == _e52)), _e44, ((bitcast<u32>(_e52) & 2147483647u) > 2139095040u)), _e52, ((bitcast<u32>(_e44) & 2147483647u) > 2139095040u));
            continuing {
                let _e72 = i;
                i = (_e72 + 64li);
                break if ((u64(x_extent_1_) - u64(_e72)) <= u64(64li));
            }
        }
    }
    let _e79 = carried;
    let _e88 = (local_index & 31u);
    let _e95 = subgroupShuffle(bitcast<u32>(_e79), (((local_index - _e88) + (_e88 ^ (u32(u64(16li)) & 31u))) & 31u));
    let _e96 = bitcast<f32>(_e95);
    let _e115 = select(select(select(max(_e79, _e96), bitcast<f32>((bitcast<u32>(_e79) & bitcast<u32>(_e96))), (_e79 == _e96)), _e79, ((bitcast<u32>(_e96) & 2147483647u) > 2139095040u)), _e96, ((bitcast<u32>(_e79) & 2147483647u) > 2139095040u));
    let _e120 = (local_index & 31u);
    let _e127 = subgroupShuffle(bitcast<u32>(_e115), (((local_index - _e120) + (_e120 ^ (u32(u64(8li)) & 31u))) & 31u));
    let _e128 = bitcast<f32>(_e127);
    let _e147 = select(select(select(max(_e115, _e128), bitcast<f32>((bitcast<u32>(_e115) & bitcast<u32>(_e128))), (_e115 == _e128)), _e115, ((bitcast<u32>(_e128) & 2147483647u) > 2139095040u)), _e128, ((bitcast<u32>(_e115) & 2147483647u) > 2139095040u));
    let _e152 = (local_index & 31u);
    let _e159 = subgroupShuffle(bitcast<u32>(_e147), (((local_index - _e152) + (_e152 ^ (u32(u64(4li)) & 31u))) & 31u));
    let _e160 = bitcast<f32>(_e159);
    let _e179 = select(select(select(max(_e147, _e160), bitcast<f32>((bitcast<u32>(_e147) & bitcast<u32>(_e160))), (_e147 == _e160)), _e147, ((bitcast<u32>(_e160) & 2147483647u) > 2139095040u)), _e160, ((bitcast<u32>(_e147) & 2147483647u) > 2139095040u));
    let _e184 = (local_index & 31u);
    let _e191 = subgroupShuffle(bitcast<u32>(_e179), (((local_index - _e184) + (_e184 ^ (u32(u64(2li)) & 31u))) & 31u));
    let _e192 = bitcast<f32>(_e191);
    let _e211 = select(select(select(max(_e179, _e192), bitcast<f32>((bitcast<u32>(_e179) & bitcast<u32>(_e192))), (_e179 == _e192)), _e179, ((bitcast<u32>(_e192) & 2147483647u) > 2139095040u)), _e192, ((bitcast<u32>(_e179) & 2147483647u) > 2139095040u));
    let _e216 = (local_index & 31u);
    let _e223 = subgroupShuffle(bitcast<u32>(_e211), (((local_index - _e216) + (_e216 ^ (u32(u64(1li)) & 31u))) & 31u));
    let _e224 = bitcast<f32>(_e223);
    if _e35 {
        scratch[u32(u64(_e34))] = select(select(select(max(_e211, _e224), bitcast<f32>((bitcast<u32>(_e211) & bitcast<u32>(_e224))), (_e211 == _e224)), _e211, ((bitcast<u32>(_e224) & 2147483647u) > 2139095040u)), _e224, ((bitcast<u32>(_e211) & 2147483647u) > 2139095040u));
    }
    storageBarrier();
    workgroupBarrier();
    let _e248 = u32(u64(0li));
    let _e253 = scratch[_e248];
    let _e257 = scratch[(_e248 + 1u)];
    storageBarrier();
    workgroupBarrier();
    carried_1 = 0f;
    i_1 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e282 = i_1;
            let _e283 = carried_1;
            let _e291 = x[(x_offset + u32(u64((_e27 + _e282))))];
            let _e294 = exp2(((_e291 - select(select(select(max(_e253, _e257), bitcast<f32>((bitcast<u32>(_e253) & bitcast<u32>(_e257))), (_e253 == _e257)), _e253, ((bitcast<u32>(_e257) & 2147483647u) > 2139095040u)), _e257, ((bitcast<u32>(_e253) & 2147483647u) > 2139095040u))) * 1.442695f));
            y[(y_offset + u32(u64((_e28 + _e282))))] = _e294;
            carried_1 = (_e283 + _e294);
            continuing {
                let _e301 = i_1;
                i_1 = (_e301 + 64li);
                break if ((u64(x_extent_1_) - u64(_e301)) <= u64(64li));
            }
        }
    }
    let _e308 = carried_1;
    let _e313 = (local_index & 31u);
    let _e320 = subgroupShuffle(bitcast<u32>(_e308), (((local_index - _e313) + (_e313 ^ (u32(u64(16li)) & 31u))) & 31u));
    let _e322 = (_e308 + bitcast<f32>(_e320));
    let _e327 = (local_index & 31u);
    let _e334 = subgroupShuffle(bitcast<u32>(_e322), (((local_index - _e327) + (_e327 ^ (u32(u64(8li)) & 31u))) & 31u));
    let _e336 = (_e322 + bitcast<f32>(_e334));
    let _e341 = (local_index & 31u);
    let _e348 = subgroupShuffle(bitcast<u32>(_e336), (((local_index - _e341) + (_e341 ^ (u32(u64(4li)) & 31u))) & 31u));
    let _e350 = (_e336 + bitcast<f32>(_e348));
    let _e355 = (local_index & 31u);
    let _e362 = subgroupShuffle(bitcast<u32>(_e350), (((local_index - _e355) + (_e355 ^ (u32(u64(2li)) & 31u))) & 31u));
    let _e364 = (_e350 + bitcast<f32>(_e362));
    let _e369 = (local_index & 31u);
    let _e376 = subgroupShuffle(bitcast<u32>(_e364), (((local_index - _e369) + (_e369 ^ (u32(u64(1li)) & 31u))) & 31u));
    if _e35 {
        scratch[u32(u64(_e34))] = (_e364 + bitcast<f32>(_e376));
    }
    storageBarrier();
    workgroupBarrier();
    let _e383 = u32(u64(0li));
    let _e388 = scratch[_e383];
    let _e392 = scratch[(_e383 + 1u)];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        loop {
            let _e396 = i_2;
            let _e397 = (_e28 + _e396);
            let _e404 = y[(y_offset + u32(u64(_e397)))];
            y[(y_offset + u32(u64(_e397)))] = (_e404 / (_e388 + _e392));
            continuing {
                let _e410 = i_2;
                i_2 = (_e410 + 64li);
                break if ((u64(x_extent_1_) - u64(_e410)) <= u64(64li));
            }
        }
    }
}
