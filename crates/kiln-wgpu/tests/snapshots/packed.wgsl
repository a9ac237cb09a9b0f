struct Parameters {
    a_offset: u32,
    b_offset: u32,
    c_offset: u32,
    x_offset: u32,
    y_offset: u32,
    z_offset: u32,
    w_offset: u32,
    grid_0_: u32,
    grid_1_: u32,
    grid_2_: u32,
    fold: u32,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage> a: array<u32>;
@group(0) @binding(2) 
var<storage> b: array<u32>;
@group(0) @binding(3) 
var<storage> c: array<u32>;
@group(0) @binding(4) 
var<storage, read_write> x: array<atomic<u32>>;
@group(0) @binding(5) 
var<storage, read_write> y: array<atomic<u32>>;
@group(0) @binding(6) 
var<storage, read_write> z: array<atomic<u32>>;
@group(0) @binding(7) 
var<storage, read_write> w: array<u32>;

@compute @workgroup_size(16, 1, 1) 
fn packed(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(workgroup_id) group_id: vec3<u32>) {
    var program: vec3<u32>;

    let a_offset = parameters.a_offset;
    let b_offset = parameters.b_offset;
    let c_offset = parameters.c_offset;
    let x_offset = parameters.x_offset;
    let y_offset = parameters.y_offset;
    let z_offset = parameters.z_offset;
    let w_offset = parameters.w_offset;
    let grid_0_ = parameters.grid_0_;
    let grid_1_ = parameters.grid_1_;
    let grid_2_ = parameters.grid_2_;
    let fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        let _e38 = ((group_id.y * fold) + group_id.x);
        let _e40 = (_e38 / grid_0_);
        let _e42 = (_e40 / grid_1_);
        if (_e42 >= grid_2_) {
            return;
        }
        program = vec3<u32>((_e38 % grid_0_), (_e40 % grid_1_), _e42);
    }
    let thread_x = i64(u64(local_id.x));
    let _e52 = ((thread_x % 2li) == 1li);
    let _e55 = (a_offset + u32(u64(thread_x)));
    let _e64 = a[(_e55 >> 1u)];
    let _e71 = (x_offset + u32(u64(thread_x)));
    if _e52 {
        let _e82 = ((_e71 & 1u) * 16u);
        let _e86 = atomicAnd((&x[(_e71 >> 1u)]), ~((65535u << _e82)));
        let _e88 = atomicOr((&x[(_e71 >> 1u)]), ((bitcast<u32>(bitcast<f32>(((_e64 >> ((_e55 & 1u) * 16u)) << 16u))) >> 16u) << _e82));
    }
    let _e91 = (b_offset + u32(u64(thread_x)));
    let _e100 = b[(_e91 >> 2u)];
    let _e108 = (y_offset + u32(u64(thread_x)));
    if _e52 {
        let _e119 = ((_e108 & 3u) * 8u);
        let _e123 = atomicAnd((&y[(_e108 >> 2u)]), ~((255u << _e119)));
        let _e125 = atomicOr((&y[(_e108 >> 2u)]), ((bitcast<u32>((bitcast<i32>(((_e100 >> ((_e91 & 3u) * 8u)) << 24u)) >> 24u)) & 255u) << _e119));
    }
    let _e128 = (c_offset + u32(u64(thread_x)));
    let _e137 = c[(_e128 >> 2u)];
    let _e146 = (z_offset + u32(u64(thread_x)));
    if _e52 {
        let _e157 = ((_e146 & 3u) * 8u);
        let _e161 = atomicAnd((&z[(_e146 >> 2u)]), ~((255u << _e157)));
        let _e163 = atomicOr((&z[(_e146 >> 2u)]), (select(0u, 1u, !((((_e137 >> ((_e128 & 3u) * 8u)) & 255u) != 0u))) << _e157));
    }
    let _e164 = (thread_x * 2li);
    let _e173 = a[((a_offset + u32(u64(_e164))) >> 1u)];
    w[((w_offset + u32(u64(_e164))) >> 1u)] = ((bitcast<u32>(bitcast<f32>(((_e173 >> 16u) << 16u))) >> 16u) | ((bitcast<u32>(bitcast<f32>((_e173 << 16u))) >> 16u) << 16u));
}
