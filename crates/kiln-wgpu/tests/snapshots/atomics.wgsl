struct Parameters {
    x_offset: u32,
    n_offset: u32,
    f_offset: u32,
    h_offset: u32,
    old_offset: u32,
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
    let thread_x = i64(local_id.x);
    let program_x = i64(group_id.x);
    let _e24 = ((program_x * 64li) + thread_x);
    let _e31 = x[(x_offset + u32(u64(_e24)))];
    let _e39 = (_e31 > 0i);
    let _e45 = atomicAdd((&n[(n_offset + u32(u64(0li)))]), _e31);
    let _e51 = atomicMin((&n[(n_offset + u32(u64(1li)))]), _e31);
    loaded = 0i;
    if _e39 {
        let _e58 = atomicMax((&n[(n_offset + u32(u64(2li)))]), _e31);
        loaded = _e58;
    }
    let _e65 = atomicOr((&n[(n_offset + u32(u64(3li)))]), _e31);
    let _e71 = atomicXor((&n[(n_offset + u32(u64(4li)))]), _e31);
    let _e78 = atomicAdd((&n[(n_offset + u32(u64(5li)))]), 1i);
    old[(old_offset + u32(u64(i64(_e78))))] = _e78;
    let _e84 = f32(_e31);
    let _e92 = atomicLoad((&f[(f_offset + u32(u64(0li)))]));
    seen = _e92;
    loop {
        let _e93 = seen;
        let _e97 = atomicCompareExchangeWeak((&f[(f_offset + u32(u64(0li)))]), _e93, bitcast<u32>((bitcast<f32>(_e93) + _e84)));
        if _e97.exchanged {
            break;
        }
        seen = _e97.old_value;
    }
    let _e100 = seen;
    let _e109 = atomicLoad((&f[(f_offset + u32(u64(1li)))]));
    seen_1 = _e109;
    loop {
        let _e110 = seen_1;
        let _e111 = bitcast<f32>(_e110);
        let _e132 = atomicCompareExchangeWeak((&f[(f_offset + u32(u64(1li)))]), _e110, bitcast<u32>(select(select(select(min(_e111, _e84), bitcast<f32>((bitcast<u32>(_e111) | bitcast<u32>(_e84))), (_e111 == _e84)), _e111, ((bitcast<u32>(_e84) & 2147483647u) > 2139095040u)), _e84, ((bitcast<u32>(_e111) & 2147483647u) > 2139095040u))));
        if _e132.exchanged {
            break;
        }
        seen_1 = _e132.old_value;
    }
    let _e135 = seen_1;
    loaded_1 = 0f;
    if _e39 {
        let _e145 = atomicLoad((&f[(f_offset + u32(u64(2li)))]));
        seen_2 = _e145;
        loop {
            let _e146 = seen_2;
            let _e147 = bitcast<f32>(_e146);
            let _e168 = atomicCompareExchangeWeak((&f[(f_offset + u32(u64(2li)))]), _e146, bitcast<u32>(select(select(select(max(_e147, _e84), bitcast<f32>((bitcast<u32>(_e147) & bitcast<u32>(_e84))), (_e147 == _e84)), _e147, ((bitcast<u32>(_e84) & 2147483647u) > 2139095040u)), _e84, ((bitcast<u32>(_e147) & 2147483647u) > 2139095040u))));
            if _e168.exchanged {
                break;
            }
            seen_2 = _e168.old_value;
        }
        let _e171 = seen_2;
        loaded_1 = bitcast<f32>(_e171);
    }
    loop {
        let _e182 = atomicCompareExchangeWeak((&n[(n_offset + u32(u64(6li)))]), 0i, 1i);
        seen_3 = _e182.old_value;
        if (_e182.exchanged || (_e182.old_value != 0i)) {
            break;
        }
    }
    let _e187 = seen_3;
    let _e198 = atomicAdd((&n[(n_offset + u32(u64(7li)))]), select(0i, 1i, (_e187 == 0i)));
    let _e201 = (h_offset + u32(u64(_e24)));
    if _e39 {
        let _e212 = ((_e201 & 1u) * 16u);
        let _e216 = atomicAnd((&h[(_e201 >> 1u)]), ~((65535u << _e212)));
        let _e218 = atomicOr((&h[(_e201 >> 1u)]), ((bitcast<u32>(1f) >> 16u) << _e212));
    }
}
