struct Parameters {
    x_offset: u32,
    y_offset: u32,
    z_offset: u32,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage> x: array<f32>;
@group(0) @binding(2) 
var<storage, read_write> y: array<u32>;
@group(0) @binding(3) 
var<storage, read_write> z: array<i64>;
var<workgroup> scratch_1: array<atomic<u32>, 64>;
var<workgroup> first: array<i64, 1>;

@compute @workgroup_size(16, 1, 1) 
fn scratch(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(local_invocation_index) local_index: u32) {
    let x_offset = parameters.x_offset;
    let y_offset = parameters.y_offset;
    let z_offset = parameters.z_offset;
    let thread_x = i64(local_id.x);
    let _e23 = x[(x_offset + u32(u64(thread_x)))];
    atomicStore((&scratch_1[u32(u64(thread_x))]), bitcast<u32>(_e23));
    let _e32 = ((8u + u32(u64(thread_x))) * 2u);
    let _e33 = u64(thread_x);
    atomicStore((&scratch_1[_e32]), u32(_e33));
    atomicStore((&scratch_1[(_e32 + 1u)]), u32((_e33 >> 32u)));
    let _e47 = bitcast<u32>(_e23);
    let _e62 = (96u + u32(u64(thread_x)));
    let _e73 = ((_e62 & 1u) * 16u);
    let _e77 = atomicAnd((&scratch_1[(_e62 >> 1u)]), ~((65535u << _e73)));
    let _e79 = atomicOr((&scratch_1[(_e62 >> 1u)]), ((bitcast<u32>(bitcast<f32>(select(((_e47 + (32767u + ((_e47 >> 16u) & 1u))) & 4294901760u), 2143289344u, ((bitcast<u32>(_e23) & 2147483647u) > 2139095040u)))) >> 16u) << _e73));
    workgroupBarrier();
    let _e81 = (15li - thread_x);
    let _e87 = atomicLoad((&scratch_1[u32(u64(_e81))]));
    y[(y_offset + u32(u64(thread_x)))] = _e87;
    let _e98 = ((8u + u32(u64(_e81))) * 2u);
    let _e102 = atomicLoad((&scratch_1[_e98]));
    let _e104 = atomicLoad((&scratch_1[(_e98 + 1u)]));
    let _e113 = (96u + u32(u64(_e81)));
    let _e123 = atomicLoad((&scratch_1[(_e113 >> 1u)]));
    let _e127 = bitcast<f32>(((_e123 >> ((_e113 & 1u) * 16u)) << 16u));
    let _e132 = ((bitcast<u32>(_e127) & 2147483647u) > 2139095040u);
    let _e135 = (_e127 >= 9223372000000000000f);
    let _e136 = (_e127 < -9223372000000000000f);
    let _e146 = select(select(select(i64(select(_e127, -9223372000000000000f, ((_e135 || _e136) || _e132))), 9223372036854775807li, _e135), i64(-9223372036854775807 - 1), _e136), 0li, _e132);
    if (local_index == 0u) {
        first[0] = _e146;
    }
    let _e152 = workgroupUniformLoad((&first[0]));
    z[(z_offset + u32(u64(thread_x)))] = ((i64((u64(_e102) | (u64(_e104) << 32u))) + _e146) + _e152);
}
