struct Parameters {
    x_offset: u32,
    y_offset: u32,
    z_offset: u32,
    z_extent_0_: i64,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage> x: array<f32>;
@group(0) @binding(2) 
var<storage> y: array<f32>;
@group(0) @binding(3) 
var<storage, read_write> z: array<f32>;

@compute @workgroup_size(64, 1, 1) 
fn add(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(workgroup_id) group_id: vec3<u32>) {
    var loaded: f32;
    var loaded_1: f32;

    let x_offset = parameters.x_offset;
    let y_offset = parameters.y_offset;
    let z_offset = parameters.z_offset;
    let z_extent_0_ = parameters.z_extent_0_;
    let thread_x = i64(local_id.x);
    let program_x = i64(group_id.x);
    let _e20 = ((program_x * 64li) + thread_x);
    let _e21 = (_e20 < z_extent_0_);
    loaded = 0f;
    if _e21 {
        let _e29 = x[(x_offset + u32(u64(_e20)))];
        loaded = _e29;
    }
    let _e30 = loaded;
    loaded_1 = 0f;
    if _e21 {
        let _e38 = y[(y_offset + u32(u64(_e20)))];
        loaded_1 = _e38;
    }
    let _e39 = loaded_1;
    if _e21 {
        z[(z_offset + u32(u64(_e20)))] = (_e30 + _e39);
    }
}
