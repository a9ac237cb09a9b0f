struct Parameters {
    x_offset: u32,
    n_offset: u32,
    f_offset: u32,
    h_offset: u32,
    old_offset: u32,
    grid_0_: u32,
    grid_1_: u32,
    grid_2_: u32,
    fold: u32,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage> x: array<i32>;
@group(0) @binding(2) 
var<storage, read_write> n: array<atomic<i32>>;
@group(0) @binding(3) 
var<storage, read_write> f: array<atomic<u32>>;
@group(0) @binding(4) 
var<storage, read_write> h: array<atomic<u32>>;
@group(0) @binding(5) 
var<storage, read_write> old: array<i32>;

@compute @workgroup_size(64, 1, 1) 
fn atomics(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(workgroup_id) group_id: vec3<u32>) {
    var program: vec3<u32>;
    var loaded: i32;
    var seen: u32;
    var seen_1: u32;
    var loaded_1: f32;
    var seen_2: u32;
    var seen_3: i32;

    let x_offset = parameters.x_offset;
    let n_offset = parameters.n_offset;
    let f_offset = parameters.f_offset;
    let h_offset = parameters.h_offset;
    let old_offset = parameters.old_offset;
    let grid_0_ = parameters.grid_0_;
    let grid_1_ = parameters.grid_1_;
    let grid_2_ = parameters.grid_2_;
    let fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        let _e32 = ((group_id.y * fold) + group_id.x);
        let _e34 = (_e32 / grid_0_);
        let _e36 = (_e34 / grid_1_);
        if (_e36 >= grid_2_) {
            return;
        }
        program = vec3<u32>((_e32 % grid_0_), (_e34 % grid_1_), _e36);
    }
    let _e39 = program;
    let thread_x = i64(u64(local_id.x));
    let program_x = i64(u64(_e39.x));
    let _e48 = ((program_x * 64li) + thread_x);
    let _e55 = x[(x_offset + u32(u64(_e48)))];
    let _e63 = (_e55 > 0i);
    let _e69 = atomicAdd((&n[(n_offset + u32(u64(0li)))]), _e55);
    let _e75 = atomicMin((&n[(n_offset + u32(u64(1li)))]), _e55);
    loaded = 0i;
    if _e63 {
        let _e82 = atomicMax((&n[(n_offset + u32(u64(2li)))]), _e55);
        loaded = _e82;
    }
    let _e89 = atomicOr((&n[(n_offset + u32(u64(3li)))]), _e55);
    let _e95 = atomicXor((&n[(n_offset + u32(u64(4li)))]), _e55);
    let _e102 = atomicAdd((&n[(n_offset + u32(u64(5li)))]), 1i);
    old[(old_offset + u32(u64(i64((u64(bitcast<u32>(_e102)) | (u64(bitcast<u32>((_e102 >> 31u))) << 32u))))))] = _e102;
    let _e117 = f32(_e55);
    let _e125 = atomicLoad((&f[(f_offset + u32(u64(0li)))]));
    seen = _e125;
    loop {
        let _e126 = seen;
        let _e130 = atomicCompareExchangeWeak((&f[(f_offset + u32(u64(0li)))]), _e126, bitcast<u32>((bitcast<f32>(_e126) + _e117)));
        if _e130.exchanged {
            break;
        }
        seen = _e130.old_value;
    }
    let _e133 = seen;
    let _e142 = atomicLoad((&f[(f_offset + u32(u64(1li)))]));
    seen_1 = _e142;
    loop {
        let _e143 = seen_1;
        let _e144 = bitcast<f32>(_e143);
        let _e165 = atomicCompareExchangeWeak((&f[(f_offset + u32(u64(1li)))]), _e143, bitcast<u32>(select(select(select(min(_e144, _e117), bitcast<f32>((bitcast<u32>(_e144) | bitcast<u32>(_e117))), (_e144 == _e117)), _e144, ((bitcast<u32>(_e117) & 2147483647u) > 2139095040u)), _e117, ((bitcast<u32>(_e144) & 2147483647u) > 2139095040u))));
        if _e165.exchanged {
            break;
        }
        seen_1 = _e165.old_value;
    }
    let _e168 = seen_1;
    loaded_1 = 0f;
    if _e63 {
        let _e178 = atomicLoad((&f[(f_offset + u32(u64(2li)))]));
        seen_2 = _e178;
        loop {
            let _e179 = seen_2;
            let _e180 = bitcast<f32>(_e179);
            let _e201 = atomicCompareExchangeWeak((&f[(f_offset + u32(u64(2li)))]), _e179, bitcast<u32>(select(select(select(max(_e180, _e117), bitcast<f32>((bitcast<u32>(_e180) & bitcast<u32>(_e117))), (_e180 == _e117)), _e180, ((bitcast<u32>(_e117) & 2147483647u) > 2139095040u)), _e117, ((bitcast<u32>(_e180) & 2147483647u) > 2139095040u))));
            if _e201.exchanged {
                break;
            }
            seen_2 = _e201.old_value;
        }
        let _e204 = seen_2;
        loaded_1 = bitcast<f32>(_e204);
    }
    loop {
        let _e215 = atomicCompareExchangeWeak((&n[(n_offset + u32(u64(6li)))]), 0i, 1i);
        seen_3 = _e215.old_value;
        if (_e215.exchanged || (_e215.old_value != 0i)) {
            break;
        }
    }
    let _e220 = seen_3;
    let _e231 = atomicAdd((&n[(n_offset + u32(u64(7li)))]), select(0i, 1i, (_e220 == 0i)));
    let _e234 = (h_offset + u32(u64(_e48)));
    if _e63 {
        let _e245 = ((_e234 & 1u) * 16u);
        let _e249 = atomicAnd((&h[(_e234 >> 1u)]), ~((65535u << _e245)));
        let _e251 = atomicOr((&h[(_e234 >> 1u)]), ((bitcast<u32>(1f) >> 16u) << _e245));
    }
}
