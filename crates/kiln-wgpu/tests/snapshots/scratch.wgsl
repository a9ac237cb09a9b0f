struct Parameters {
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
var<storage> x: array<f32>;
@group(0) @binding(2) 
var<storage, read_write> y: array<u32>;
@group(0) @binding(3) 
var<storage, read_write> z: array<i64>;
var<workgroup> scratch_1: array<atomic<u32>, 64>;
var<workgroup> first: array<i64, 1>;

@compute @workgroup_size(16, 1, 1) 
fn scratch(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(local_invocation_index) local_index: u32, @builtin(workgroup_id) group_id: vec3<u32>) {
    var program: vec3<u32>;

    let x_offset = parameters.x_offset;
    let y_offset = parameters.y_offset;
    let z_offset = parameters.z_offset;
    let grid_0_ = parameters.grid_0_;
    let grid_1_ = parameters.grid_1_;
    let grid_2_ = parameters.grid_2_;
    let fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        let _e30 = ((group_id.y * fold) + group_id.x);
        let _e32 = (_e30 / grid_0_);
        let _e34 = (_e32 / grid_1_);
        if (_e34 >= grid_2_) {
            return;
        }
        program = vec3<u32>((_e30 % grid_0_), (_e32 % grid_1_), _e34);
    }
    let thread_x = i64(u64(local_id.x));
    let _e46 = x[(x_offset + u32(u64(thread_x)))];
    atomicStore((&scratch_1[u32(u64(thread_x))]), bitcast<u32>(_e46));
    let _e55 = u64(thread_x);
    let _e61 = ((8u + u32(u64(thread_x))) << 1u);
    atomicStore((&scratch_1[_e61]), u32(_e55));
    atomicStore((&scratch_1[(_e61 + 1u)]), u32((_e55 >> 32u)));
    let _e71 = bitcast<u32>(_e46);
    let _e86 = (96u + u32(u64(thread_x)));
    let _e97 = ((_e86 & 1u) * 16u);
    let _e101 = atomicAnd((&scratch_1[(_e86 >> 1u)]), ~((65535u << _e97)));
    let _e103 = atomicOr((&scratch_1[(_e86 >> 1u)]), ((bitcast<u32>(bitcast<f32>(select(((_e71 + (32767u + ((_e71 >> 16u) & 1u))) & 4294901760u), 2143289344u, ((bitcast<u32>(_e46) & 2147483647u) > 2139095040u)))) >> 16u) << _e97));
    workgroupBarrier();
    let _e105 = (15li - thread_x);
    let _e110 = atomicLoad((&scratch_1[u32(u64(_e105))]));
    y[(y_offset + u32(u64(thread_x)))] = _e110;
    let _e121 = ((8u + u32(u64(_e105))) << 1u);
    let _e123 = atomicLoad((&scratch_1[_e121]));
    let _e127 = atomicLoad((&scratch_1[(_e121 + 1u)]));
    let _e136 = (96u + u32(u64(_e105)));
    let _e145 = atomicLoad((&scratch_1[(_e136 >> 1u)]));
    let _e149 = bitcast<f32>(((_e145 >> ((_e136 & 1u) * 16u)) << 16u));
    let _e154 = ((bitcast<u32>(_e149) & 2147483647u) > 2139095040u);
    let _e157 = (_e149 >= 9223372000000000000f);
    let _e158 = (_e149 < -9223372000000000000f);
    let _e168 = select(select(select(i64(select(_e149, -9223372000000000000f, ((_e157 || _e158) || _e154))), 9223372036854775807li, _e157), i64(-9223372036854775807 - 1), _e158), 0li, _e154);
    if (local_index == 0u) {
        first[0] = _e168;
    }
    let _e174 = workgroupUniformLoad((&first[0]));
    z[(z_offset + u32(u64(thread_x)))] = ((i64((u64(_e123) | (u64(_e127) << 32u))) + _e168) + _e174);
}
