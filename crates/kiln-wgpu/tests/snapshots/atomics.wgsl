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
    let _e54 = x[(x_offset + u32(u64(_e48)))];
    let _e62 = (_e54 > 0i);
    let _e68 = atomicAdd((&n[(n_offset + u32(u64(0li)))]), _e54);
    let _e74 = atomicMin((&n[(n_offset + u32(u64(1li)))]), _e54);
    loaded = 0i;
    if _e62 {
        let _e81 = atomicMax((&n[(n_offset + u32(u64(2li)))]), _e54);
        loaded = _e81;
    }
    let _e88 = atomicOr((&n[(n_offset + u32(u64(3li)))]), _e54);
    let _e94 = atomicXor((&n[(n_offset + u32(u64(4li)))]), _e54);
    let _e101 = atomicAdd((&n[(n_offset + u32(u64(5li)))]), 1i);
    old[(old_offset + u32(u64(i64((u64(bitcast<u32>(_e101)) | (u64(bitcast<u32>((_e101 >> 31u))) << 32u))))))] = _e101;
    let _e116 = f32(_e54);
    let _e124 = atomicLoad((&f[(f_offset + u32(u64(0li)))]));
    seen = _e124;
    loop {
        let _e125 = seen;
        let _e129 = atomicCompareExchangeWeak((&f[(f_offset + u32(u64(0li)))]), _e125, bitcast<u32>((bitcast<f32>(_e125) + _e116)));
        if _e129.exchanged {
            break;
        }
        seen = _e129.old_value;
    }
    let _e132 = seen;
    let _e141 = atomicLoad((&f[(f_offset + u32(u64(1li)))]));
    seen_1 = _e141;
    loop {
        let _e142 = seen_1;
        let _e143 = bitcast<f32>(_e142);
        let _e164 = atomicCompareExchangeWeak((&f[(f_offset + u32(u64(1li)))]), _e142, bitcast<u32>(select(select(select(min(_e143, _e116), bitcast<f32>((bitcast<u32>(_e143) | bitcast<u32>(_e116))), (_e143 == _e116)), _e143, ((bitcast<u32>(_e116) & 2147483647u) > 2139095040u)), _e116, ((bitcast<u32>(_e143) & 2147483647u) > 2139095040u))));
        if _e164.exchanged {
            break;
        }
        seen_1 = _e164.old_value;
    }
    let _e167 = seen_1;
    loaded_1 = 0f;
    if _e62 {
        let _e177 = atomicLoad((&f[(f_offset + u32(u64(2li)))]));
        seen_2 = _e177;
        loop {
            let _e178 = seen_2;
            let _e179 = bitcast<f32>(_e178);
            let _e200 = atomicCompareExchangeWeak((&f[(f_offset + u32(u64(2li)))]), _e178, bitcast<u32>(select(select(select(max(_e179, _e116), bitcast<f32>((bitcast<u32>(_e179) & bitcast<u32>(_e116))), (_e179 == _e116)), _e179, ((bitcast<u32>(_e116) & 2147483647u) > 2139095040u)), _e116, ((bitcast<u32>(_e179) & 2147483647u) > 2139095040u))));
            if _e200.exchanged {
                break;
            }
            seen_2 = _e200.old_value;
        }
        let _e203 = seen_2;
        loaded_1 = bitcast<f32>(_e203);
    }
    loop {
        let _e214 = atomicCompareExchangeWeak((&n[(n_offset + u32(u64(6li)))]), 0i, 1i);
        seen_3 = _e214.old_value;
        if (_e214.exchanged || (_e214.old_value != 0i)) {
            break;
        }
    }
    let _e219 = seen_3;
    let _e230 = atomicAdd((&n[(n_offset + u32(u64(7li)))]), select(0i, 1i, (_e219 == 0i)));
    let _e233 = (h_offset + u32(u64(_e48)));
    if _e62 {
        let _e244 = ((_e233 & 1u) * 16u);
        let _e248 = atomicAnd((&h[(_e233 >> 1u)]), ~((65535u << _e244)));
        let _e250 = atomicOr((&h[(_e233 >> 1u)]), ((bitcast<u32>(1f) >> 16u) << _e244));
    }
}
