struct Parameters {
    x_offset: u32,
    y_offset: u32,
    x_extent_0_: i64,
    x_extent_1_: i64,
    y_extent_0_: i64,
    y_extent_1_: i64,
    x_stride_0_: i64,
    x_stride_1_: i64,
    y_stride_0_: i64,
    y_stride_1_: i64,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage> x: array<f32>;
@group(0) @binding(2) 
var<storage, read_write> y: array<f32>;
var<workgroup> shared_: array<f32, 272>;

@compute @workgroup_size(16, 16, 1) 
fn transpose_(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(workgroup_id) group_id: vec3<u32>) {
    var loaded: f32;

    let x_offset = parameters.x_offset;
    let y_offset = parameters.y_offset;
    let x_extent_0_ = parameters.x_extent_0_;
    let x_extent_1_ = parameters.x_extent_1_;
    let y_extent_0_ = parameters.y_extent_0_;
    let y_extent_1_ = parameters.y_extent_1_;
    let x_stride_0_ = parameters.x_stride_0_;
    let x_stride_1_ = parameters.x_stride_1_;
    let y_stride_0_ = parameters.y_stride_0_;
    let y_stride_1_ = parameters.y_stride_1_;
    let thread_x = i64(local_id.x);
    let thread_y = i64(local_id.y);
    let program_x = i64(group_id.x);
    let program_y = i64(group_id.y);
    let _e36 = (program_x * 16li);
    let _e37 = (program_y * 16li);
    let _e38 = (_e36 + thread_x);
    let _e39 = (_e37 + thread_y);
    loaded = 0f;
    if ((u64(_e39) < u64(x_extent_0_)) && (u64(_e38) < u64(x_extent_1_))) {
        let _e57 = x[(x_offset + u32(u64(((_e39 * x_stride_0_) + (_e38 * x_stride_1_)))))];
        loaded = _e57;
    }
    let _e58 = loaded;
    shared_[u32(u64(((thread_y * 17li) + (thread_x * 1li))))] = _e58;
    workgroupBarrier();
    let _e78 = shared_[u32(u64(((thread_x * 17li) + (thread_y * 1li))))];
    let _e79 = (_e36 + thread_y);
    let _e80 = (_e37 + thread_x);
    if ((u64(_e79) < u64(y_extent_0_)) && (u64(_e80) < u64(y_extent_1_))) {
        y[(y_offset + u32(u64(((_e79 * y_stride_0_) + (_e80 * y_stride_1_)))))] = _e78;
    }
}
