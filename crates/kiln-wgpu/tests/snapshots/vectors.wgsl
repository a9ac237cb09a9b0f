enable f16;

struct Parameters {
    a_offset: u32,
    b_offset: u32,
    c_offset: u32,
    x_offset: u32,
    y_offset: u32,
    z_offset: u32,
    grid_0_: u32,
    grid_1_: u32,
    grid_2_: u32,
    fold: u32,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage> a: array<vec4<f32>>;
@group(0) @binding(2) 
var<storage> b: array<vec4<u32>>;
@group(0) @binding(3) 
var<storage> c: array<vec4<f16>>;
@group(0) @binding(4) 
var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(5) 
var<storage, read_write> y: array<vec4<u32>>;
@group(0) @binding(6) 
var<storage, read_write> z: array<vec4<f16>>;

@compute @workgroup_size(16, 1, 1) 
fn vectors(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(workgroup_id) group_id: vec3<u32>) {
    var program: vec3<u32>;

    let a_offset = parameters.a_offset;
    let b_offset = parameters.b_offset;
    let c_offset = parameters.c_offset;
    let x_offset = parameters.x_offset;
    let y_offset = parameters.y_offset;
    let z_offset = parameters.z_offset;
    let grid_0_ = parameters.grid_0_;
    let grid_1_ = parameters.grid_1_;
    let grid_2_ = parameters.grid_2_;
    let fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        let _e35 = ((group_id.y * fold) + group_id.x);
        let _e37 = (_e35 / grid_0_);
        let _e39 = (_e37 / grid_1_);
        if (_e39 >= grid_2_) {
            return;
        }
        program = vec3<u32>((_e35 % grid_0_), (_e37 % grid_1_), _e39);
    }
    let thread_x = i64(u64(local_id.x));
    let _e48 = (thread_x * 4li);
    let _e49 = (thread_x * 8li);
    let _e60 = a[((a_offset + u32(u64(_e48))) >> 2u)];
    let _e67 = (a_offset + u32(u64(thread_x)));
    let _e75 = a[(_e67 >> 2u)][(_e67 & 3u)];
    x[((x_offset + u32(u64(_e48))) >> 2u)] = vec4<f32>((_e60.x + _e75), _e60.y, _e60.z, _e60.w);
    let _e100 = b[(((b_offset + u32(u64(_e49))) >> 1u) >> 2u)];
    y[(((y_offset + u32(u64(_e49))) >> 1u) >> 2u)] = vec4<u32>(((bitcast<u32>(bitcast<f32>(((_e100.w >> 16u) << 16u))) >> 16u) | ((bitcast<u32>(bitcast<f32>((_e100.w << 16u))) >> 16u) << 16u)), ((bitcast<u32>(bitcast<f32>(((_e100.z >> 16u) << 16u))) >> 16u) | ((bitcast<u32>(bitcast<f32>((_e100.z << 16u))) >> 16u) << 16u)), ((bitcast<u32>(bitcast<f32>(((_e100.y >> 16u) << 16u))) >> 16u) | ((bitcast<u32>(bitcast<f32>((_e100.y << 16u))) >> 16u) << 16u)), ((bitcast<u32>(bitcast<f32>(((_e100.x >> 16u) << 16u))) >> 16u) | ((bitcast<u32>(bitcast<f32>((_e100.x << 16u))) >> 16u) << 16u)));
    let _e192 = (c_offset + u32(u64(_e49)));
    let _e204 = c[(_e192 >> 2u)];
    let _e214 = c[((_e192 + 4u) >> 2u)];
    let _e221 = (z_offset + u32(u64(_e49)));
    z[(_e221 >> 2u)] = vec4<f16>(_e214.w, _e214.z, _e214.y, _e214.x);
    z[((_e221 + 4u) >> 2u)] = vec4<f16>(_e204.w, _e204.z, _e204.y, _e204.x);
}
