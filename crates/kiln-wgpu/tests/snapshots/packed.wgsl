struct Parameters {
    a_offset: u32,
    b_offset: u32,
    c_offset: u32,
    x_offset: u32,
    y_offset: u32,
    z_offset: u32,
    w_offset: u32,
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
fn packed(@builtin(local_invocation_id) local_id: vec3<u32>) {
    let a_offset = parameters.a_offset;
    let b_offset = parameters.b_offset;
    let c_offset = parameters.c_offset;
    let x_offset = parameters.x_offset;
    let y_offset = parameters.y_offset;
    let z_offset = parameters.z_offset;
    let w_offset = parameters.w_offset;
    let thread_x = i64(local_id.x);
    let _e28 = ((thread_x % 2li) == 1li);
    let _e31 = (a_offset + u32(u64(thread_x)));
    let _e41 = a[(_e31 >> 1u)];
    let _e48 = (x_offset + u32(u64(thread_x)));
    if _e28 {
        let _e59 = ((_e48 & 1u) * 16u);
        let _e63 = atomicAnd((&x[(_e48 >> 1u)]), ~((65535u << _e59)));
        let _e65 = atomicOr((&x[(_e48 >> 1u)]), ((bitcast<u32>(bitcast<f32>(((_e41 >> ((_e31 & 1u) * 16u)) << 16u))) >> 16u) << _e59));
    }
    let _e68 = (b_offset + u32(u64(thread_x)));
    let _e78 = b[(_e68 >> 2u)];
    let _e86 = (y_offset + u32(u64(thread_x)));
    if _e28 {
        let _e97 = ((_e86 & 3u) * 8u);
        let _e101 = atomicAnd((&y[(_e86 >> 2u)]), ~((255u << _e97)));
        let _e103 = atomicOr((&y[(_e86 >> 2u)]), ((bitcast<u32>((bitcast<i32>(((_e78 >> ((_e68 & 3u) * 8u)) << 24u)) >> 24u)) & 255u) << _e97));
    }
    let _e106 = (c_offset + u32(u64(thread_x)));
    let _e116 = c[(_e106 >> 2u)];
    let _e125 = (z_offset + u32(u64(thread_x)));
    if _e28 {
        let _e136 = ((_e125 & 3u) * 8u);
        let _e140 = atomicAnd((&z[(_e125 >> 2u)]), ~((255u << _e136)));
        let _e142 = atomicOr((&z[(_e125 >> 2u)]), (select(0u, 1u, !((((_e116 >> ((_e106 & 3u) * 8u)) & 255u) != 0u))) << _e136));
    }
    let _e143 = (thread_x * 2li);
    let _e146 = (a_offset + u32(u64(_e143)));
    let _e157 = a[(_e146 >> 1u)];
    let _e163 = (_e146 + 1u);
    let _e171 = a[(_e163 >> 1u)];
    let _e178 = (w_offset + u32(u64(_e143)));
    w[(_e178 >> 1u)] = ((bitcast<u32>(bitcast<f32>(((_e171 >> ((_e163 & 1u) * 16u)) << 16u))) >> 16u) | ((bitcast<u32>(bitcast<f32>(((_e157 >> ((_e146 & 1u) * 16u)) << 16u))) >> 16u) << 16u));
}
