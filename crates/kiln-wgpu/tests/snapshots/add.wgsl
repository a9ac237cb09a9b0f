struct Parameters {
    x_offset: u32,
    y_offset: u32,
    z_offset: u32,
    z_extent_0_: i64,
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
var<storage> y: array<f32>;
@group(0) @binding(3) 
var<storage, read_write> z: array<f32>;

@compute @workgroup_size(64, 1, 1) 
fn add(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(workgroup_id) group_id: vec3<u32>) {
    var program: vec3<u32>;
    var loaded: f32;
    var loaded_1: f32;

    let x_offset = parameters.x_offset;
    let y_offset = parameters.y_offset;
    let z_offset = parameters.z_offset;
    let z_extent_0_ = parameters.z_extent_0_;
    let grid_0_ = parameters.grid_0_;
    let grid_1_ = parameters.grid_1_;
    let grid_2_ = parameters.grid_2_;
    let fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        let _e28 = ((group_id.y * fold) + group_id.x);
        let _e30 = (_e28 / grid_0_);
        let _e32 = (_e30 / grid_1_);
        if (_e32 >= grid_2_) {
            return;
        }
        program = vec3<u32>((_e28 % grid_0_), (_e30 % grid_1_), _e32);
    }
    let _e35 = program;
    let thread_x = i64(u64(local_id.x));
    let program_x = i64(u64(_e35.x));
    let _e44 = ((program_x * 64li) + thread_x);
    let _e45 = (_e44 < z_extent_0_);
    loaded = 0f;
    if _e45 {
        let _e52 = x[(x_offset + u32(u64(_e44)))];
        loaded = _e52;
    }
    let _e53 = loaded;
    loaded_1 = 0f;
    if _e45 {
        let _e60 = y[(y_offset + u32(u64(_e44)))];
        loaded_1 = _e60;
    }
    let _e61 = loaded_1;
    if _e45 {
        z[(z_offset + u32(u64(_e44)))] = (_e53 + _e61);
    }
}
