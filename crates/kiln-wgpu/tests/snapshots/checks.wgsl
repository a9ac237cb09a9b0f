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
    let _e56 = x[(x_offset + u32(u64(thread_x)))];
    let _e59 = !(!((_e56 == 0i)));
    if _e59 {
        let _e61 = atomicOr((&failed[0]), 1u);
    }
    workgroupBarrier();
    if (local_index == 0u) {
        let _e64 = atomicLoad((&failed[0]));
        any_failed[0] = _e64;
        atomicStore((&failed[0]), 0u);
    }
    let _e66 = workgroupUniformLoad((&any_failed[0]));
    if (_e66 != 0u) {
        if _e59 {
            let _e71 = claim_fault(0u, program_number, _e36, local_id);
        }
        return;
    }
    shared_[u32(u64(thread_x))] = (n / _e56);
    loop {
        if (i32(thread_x) < n) {
            carried = 0i;
            i = 0i;
            if (0i < _e56) {
                loop {
                    let _e83 = i;
                    let _e84 = carried;
                    if !((_e83 < n)) {
                        let _e89 = claim_fault(1u, program_number, _e36, local_id);
                        if _e89 {
                            atomicStore((&report[(10u + 0u)]), bitcast<u32>(_e83));
                            atomicStore((&report[(10u + 1u)]), 0u);
                            atomicStore((&report[(10u + 2u)]), bitcast<u32>(n));
                            atomicStore((&report[(10u + 3u)]), 0u);
                        }
                        left = true;
                        break;
                    }
                    carried = (_e84 + _e83);
                    continuing {
                        let _e111 = i;
                        i = (_e111 + 1i);
                        break if ((bitcast<u32>(_e56) - bitcast<u32>(_e111)) <= bitcast<u32>(1i));
                    }
                }
                let _e118 = left;
                if _e118 {
                    break;
                }
            }
            let _e119 = carried;
            result_1 = _e119;
        } else {
            result_1 = 0i;
        }
        let _e120 = result_1;
        result = _e120;
        break;
    }
    let _e121 = result;
    let _e122 = left;
    if _e122 {
        let _e124 = atomicOr((&failed[0]), 1u);
    }
    workgroupBarrier();
    if (local_index == 0u) {
        let _e127 = atomicLoad((&failed[0]));
        any_failed[0] = _e127;
        atomicStore((&failed[0]), 0u);
    }
    let _e129 = workgroupUniformLoad((&any_failed[0]));
    if (_e129 != 0u) {
        return;
    }
    workgroupBarrier();
    let _e133 = (63li - thread_x);
    let _e139 = shared_[u32(u64(_e133))];
    let _e142 = bitcast<u32>(f32((_e121 + _e139)));
    let _e145 = (_e142 & 2147483647u);
    let _e160 = (_e145 < 1015021568u);
    let _e175 = select((min(select((((_e145 + (524287u + ((_e145 >> 20u) & 1u))) >> 20u) - 960u), u32(select(0f, round((bitcast<f32>(_e145) * 512f)), _e160)), _e160), 126u) | ((_e142 >> 24u) & 128u)), 127u, (_e145 > 2139095040u));
    let _e179 = begin_print(2u, program_number, _e36, local_id, 4u);
    if (_e179 != 0u) {
        let _e182 = u64(thread_x);
        atomicStore((&report[(_e179 + 0u)]), u32(_e182));
        atomicStore((&report[(_e179 + 1u)]), u32((_e182 >> 32u)));
        atomicStore((&report[(_e179 + 2u)]), _e175);
        atomicStore((&report[(_e179 + 3u)]), 0u);
    }
    if !((_e133 < 64li)) {
        let _e204 = claim_fault(3u, program_number, _e36, local_id);
        if _e204 {
            let _e206 = u64(_e133);
            let _e211 = u64(64li);
            atomicStore((&report[(10u + 0u)]), u32(_e206));
            atomicStore((&report[(10u + 1u)]), u32((_e206 >> 32u)));
            atomicStore((&report[(10u + 2u)]), u32(_e211));
            atomicStore((&report[(10u + 3u)]), u32((_e211 >> 32u)));
        }
        return;
    }
    let _e230 = (y_offset + u32(u64(thread_x)));
    let _e238 = ((_e230 & 3u) * 8u);
    let _e242 = atomicAnd((&y[(_e230 >> 2u)]), ~((255u << _e238)));
    let _e244 = atomicOr((&y[(_e230 >> 2u)]), (_e175 << _e238));
}
