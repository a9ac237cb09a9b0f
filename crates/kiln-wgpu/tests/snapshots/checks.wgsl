struct Parameters {
    x_offset: u32,
    y_offset: u32,
    n: i32,
    grid_0_: u32,
    grid_1_: u32,
    grid_2_: u32,
    fold: u32,
    program_number: u32,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage> x: array<i32>;
@group(0) @binding(2) 
var<storage, read_write> y: array<atomic<u32>>;
var<workgroup> shared_: array<i32, 64>;
@group(0) @binding(3) 
var<storage, read_write> report: array<atomic<u32>>;
var<workgroup> failed: array<atomic<u32>, 1>;
var<workgroup> any_failed: array<u32, 1>;

fn claim_fault(site: u32, program_1: u32, block: vec3<u32>, thread: vec3<u32>) -> bool {
    let _e8 = atomicExchange((&report[0]), 1u);
    if (_e8 != 0u) {
        return false;
    }
    atomicStore((&report[(1u + 0u)]), program_1);
    atomicStore((&report[(1u + 1u)]), site);
    atomicStore((&report[(1u + 2u)]), block.x);
    atomicStore((&report[(1u + 3u)]), block.y);
    atomicStore((&report[(1u + 4u)]), block.z);
    atomicStore((&report[(1u + 5u)]), thread.x);
    atomicStore((&report[(1u + 6u)]), thread.y);
    atomicStore((&report[(1u + 7u)]), thread.z);
    return true;
}

fn begin_print(site_1: u32, program_2: u32, block_1: vec3<u32>, thread_1: vec3<u32>, words: u32) -> u32 {
    let _e10 = (arrayLength((&report)) - 28u);
    let _e11 = (8u + words);
    let _e12 = atomicLoad((&report[26]));
    if ((_e10 - min(_e12, _e10)) < _e11) {
        let _e18 = atomicAdd((&report[27]), 1u);
        return 0u;
    }
    let _e20 = atomicAdd((&report[26]), _e11);
    if ((_e20 + _e11) > _e10) {
        let _e25 = atomicAdd((&report[27]), 1u);
        return 0u;
    }
    let _e27 = (28u + _e20);
    atomicStore((&report[(_e27 + 0u)]), program_2);
    atomicStore((&report[(_e27 + 1u)]), site_1);
    atomicStore((&report[(_e27 + 2u)]), block_1.x);
    atomicStore((&report[(_e27 + 3u)]), block_1.y);
    atomicStore((&report[(_e27 + 4u)]), block_1.z);
    atomicStore((&report[(_e27 + 5u)]), thread_1.x);
    atomicStore((&report[(_e27 + 6u)]), thread_1.y);
    atomicStore((&report[(_e27 + 7u)]), thread_1.z);
    return (_e27 + 8u);
}

@compute @workgroup_size(64, 1, 1) 
fn checks(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(local_invocation_index) local_index: u32, @builtin(workgroup_id) group_id: vec3<u32>) {
    var program: vec3<u32>;
    var result: i32;
    var result_1: i32;
    var carried: i32;
    var i: i32;
    var left: bool = false;

    let x_offset = parameters.x_offset;
    let y_offset = parameters.y_offset;
    let n = parameters.n;
    let grid_0_ = parameters.grid_0_;
    let grid_1_ = parameters.grid_1_;
    let grid_2_ = parameters.grid_2_;
    let fold = parameters.fold;
    let program_number = parameters.program_number;
    program = group_id;
    if (fold != 0u) {
        let _e29 = ((group_id.y * fold) + group_id.x);
        let _e31 = (_e29 / grid_0_);
        let _e33 = (_e31 / grid_1_);
        if (_e33 >= grid_2_) {
            return;
        }
        program = vec3<u32>((_e29 % grid_0_), (_e31 % grid_1_), _e33);
    }
    let _e36 = program;
    if (local_index == 0u) {
        atomicStore((&failed[0]), 0u);
    }
    workgroupBarrier();
    let thread_x = i64(u64(local_id.x));
    let _e55 = x[(x_offset + u32(u64(thread_x)))];
    let _e58 = !(!((_e55 == 0i)));
    if _e58 {
        let _e60 = atomicOr((&failed[0]), 1u);
    }
    workgroupBarrier();
    if (local_index == 0u) {
        let _e63 = atomicLoad((&failed[0]));
        any_failed[0] = _e63;
        atomicStore((&failed[0]), 0u);
    }
    let _e65 = workgroupUniformLoad((&any_failed[0]));
    if (_e65 != 0u) {
        if _e58 {
            let _e70 = claim_fault(0u, program_number, _e36, local_id);
        }
        return;
    }
    shared_[u32(u64(thread_x))] = (n / _e55);
    loop {
        if (i32(thread_x) < n) {
            carried = 0i;
            i = 0i;
            if (0i < _e55) {
                loop {
                    let _e82 = i;
                    let _e83 = carried;
                    if !((_e82 < n)) {
                        let _e88 = claim_fault(1u, program_number, _e36, local_id);
                        if _e88 {
                            atomicStore((&report[(10u + 0u)]), bitcast<u32>(_e82));
                            atomicStore((&report[(10u + 1u)]), 0u);
                            atomicStore((&report[(10u + 2u)]), bitcast<u32>(n));
                            atomicStore((&report[(10u + 3u)]), 0u);
                        }
                        left = true;
                        break;
                    }
                    carried = (_e83 + _e82);
                    continuing {
                        let _e110 = i;
                        i = (_e110 + 1i);
                        break if ((bitcast<u32>(_e55) - bitcast<u32>(_e110)) <= bitcast<u32>(1i));
                    }
                }
                let _e117 = left;
                if _e117 {
                    break;
                }
            }
            let _e118 = carried;
            result_1 = _e118;
        } else {
            result_1 = 0i;
        }
        let _e119 = result_1;
        result = _e119;
        break;
    }
    let _e120 = result;
    let _e121 = left;
    if _e121 {
        let _e123 = atomicOr((&failed[0]), 1u);
    }
    workgroupBarrier();
    if (local_index == 0u) {
        let _e126 = atomicLoad((&failed[0]));
        any_failed[0] = _e126;
        atomicStore((&failed[0]), 0u);
    }
    let _e128 = workgroupUniformLoad((&any_failed[0]));
    if (_e128 != 0u) {
        return;
    }
    workgroupBarrier();
    let _e132 = (63li - thread_x);
    let _e137 = shared_[u32(u64(_e132))];
    let _e140 = bitcast<u32>(f32((_e120 + _e137)));
    let _e143 = (_e140 & 2147483647u);
    let _e158 = (_e143 < 1015021568u);
    let _e173 = select((min(select((((_e143 + (524287u + ((_e143 >> 20u) & 1u))) >> 20u) - 960u), u32(select(0f, round((bitcast<f32>(_e143) * 512f)), _e158)), _e158), 126u) | ((_e140 >> 24u) & 128u)), 127u, (_e143 > 2139095040u));
    let _e177 = begin_print(2u, program_number, _e36, local_id, 4u);
    if (_e177 != 0u) {
        let _e180 = u64(thread_x);
        atomicStore((&report[(_e177 + 0u)]), u32(_e180));
        atomicStore((&report[(_e177 + 1u)]), u32((_e180 >> 32u)));
        atomicStore((&report[(_e177 + 2u)]), _e173);
        atomicStore((&report[(_e177 + 3u)]), 0u);
    }
    if !((_e132 < 64li)) {
        let _e202 = claim_fault(3u, program_number, _e36, local_id);
        if _e202 {
            let _e204 = u64(_e132);
            let _e209 = u64(64li);
            atomicStore((&report[(10u + 0u)]), u32(_e204));
            atomicStore((&report[(10u + 1u)]), u32((_e204 >> 32u)));
            atomicStore((&report[(10u + 2u)]), u32(_e209));
            atomicStore((&report[(10u + 3u)]), u32((_e209 >> 32u)));
        }
        return;
    }
    let _e228 = (y_offset + u32(u64(thread_x)));
    let _e236 = ((_e228 & 3u) * 8u);
    let _e240 = atomicAnd((&y[(_e228 >> 2u)]), ~((255u << _e236)));
    let _e242 = atomicOr((&y[(_e228 >> 2u)]), (_e173 << _e236));
}
