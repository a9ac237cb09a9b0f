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
    let _e65 = a[(_e55 >> 1u)];
    let _e72 = (x_offset + u32(u64(thread_x)));
    if _e52 {
        let _e83 = ((_e72 & 1u) * 16u);
        let _e87 = atomicAnd((&x[(_e72 >> 1u)]), ~((65535u << _e83)));
        let _e89 = atomicOr((&x[(_e72 >> 1u)]), ((bitcast<u32>(bitcast<f32>(((_e65 >> ((_e55 & 1u) * 16u)) << 16u))) >> 16u) << _e83));
    }
    let _e92 = (b_offset + u32(u64(thread_x)));
    let _e102 = b[(_e92 >> 2u)];
    let _e110 = (y_offset + u32(u64(thread_x)));
    if _e52 {
        let _e121 = ((_e110 & 3u) * 8u);
        let _e125 = atomicAnd((&y[(_e110 >> 2u)]), ~((255u << _e121)));
        let _e127 = atomicOr((&y[(_e110 >> 2u)]), ((bitcast<u32>((bitcast<i32>(((_e102 >> ((_e92 & 3u) * 8u)) << 24u)) >> 24u)) & 255u) << _e121));
    }
    let _e130 = (c_offset + u32(u64(thread_x)));
    let _e140 = c[(_e130 >> 2u)];
    let _e149 = (z_offset + u32(u64(thread_x)));
    if _e52 {
        let _e160 = ((_e149 & 3u) * 8u);
        let _e164 = atomicAnd((&z[(_e149 >> 2u)]), ~((255u << _e160)));
        let _e166 = atomicOr((&z[(_e149 >> 2u)]), (select(0u, 1u, !((((_e140 >> ((_e130 & 3u) * 8u)) & 255u) != 0u))) << _e160));
    }
    let _e167 = (thread_x * 2li);
    let _e170 = (a_offset + u32(u64(_e167)));
    let _e181 = a[(_e170 >> 1u)];
    let _e187 = (_e170 + 1u);
    let _e195 = a[(_e187 >> 1u)];
    let _e202 = (w_offset + u32(u64(_e167)));
    w[(_e202 >> 1u)] = ((bitcast<u32>(bitcast<f32>(((_e195 >> ((_e187 & 1u) * 16u)) << 16u))) >> 16u) | ((bitcast<u32>(bitcast<f32>(((_e181 >> ((_e170 & 1u) * 16u)) << 16u))) >> 16u) << 16u));
}
