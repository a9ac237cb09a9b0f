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
var<workgroup> shared_: array<f32, 272>;

@compute @workgroup_size(16, 16, 1) 
fn transpose_(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(workgroup_id) group_id: vec3<u32>) {
    var program: vec3<u32>;
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
    let grid_0_ = parameters.grid_0_;
    let grid_1_ = parameters.grid_1_;
    let grid_2_ = parameters.grid_2_;
    let fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        let _e40 = ((group_id.y * fold) + group_id.x);
        let _e42 = (_e40 / grid_0_);
        let _e44 = (_e42 / grid_1_);
        if (_e44 >= grid_2_) {
            return;
        }
        program = vec3<u32>((_e40 % grid_0_), (_e42 % grid_1_), _e44);
    }
    let _e47 = program;
    let thread_x = i64(u64(local_id.x));
    let thread_y = i64(u64(local_id.y));
    let program_x = i64(u64(_e47.x));
    let program_y = i64(u64(_e47.y));
    let _e62 = (program_x * 16li);
    let _e63 = (program_y * 16li);
    let _e64 = (_e62 + thread_x);
    let _e65 = (_e63 + thread_y);
    loaded = 0f;
    if ((u64(_e65) < u64(x_extent_0_)) && (u64(_e64) < u64(x_extent_1_))) {
        let _e82 = x[(x_offset + u32(u64(((_e65 * x_stride_0_) + (_e64 * x_stride_1_)))))];
        loaded = _e82;
    }
    let _e83 = loaded;
    shared_[u32(u64(((thread_y * 17li) + (thread_x * 1li))))] = _e83;
    workgroupBarrier();
    let _e102 = shared_[u32(u64(((thread_x * 17li) + (thread_y * 1li))))];
    let _e103 = (_e62 + thread_y);
    let _e104 = (_e63 + thread_x);
    if ((u64(_e103) < u64(y_extent_0_)) && (u64(_e104) < u64(y_extent_1_))) {
        y[(y_offset + u32(u64(((_e103 * y_stride_0_) + (_e104 * y_stride_1_)))))] = _e102;
    }
}
