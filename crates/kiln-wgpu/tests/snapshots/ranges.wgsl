struct Parameters {
    lo_offset: u32,
    hi_offset: u32,
    by_offset: u32,
    y_offset: u32,
    grid_0_: u32,
    grid_1_: u32,
    grid_2_: u32,
    fold: u32,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage> lo: array<i32>;
@group(0) @binding(2) 
var<storage> hi: array<i32>;
@group(0) @binding(3) 
var<storage> by: array<i32>;
@group(0) @binding(4) 
var<storage, read_write> y: array<i32>;

@compute @workgroup_size(16, 1, 1) 
fn ranges(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(workgroup_id) group_id: vec3<u32>) {
    var program: vec3<u32>;
    var carried: i32;
    var i: i32;

    let lo_offset = parameters.lo_offset;
    let hi_offset = parameters.hi_offset;
    let by_offset = parameters.by_offset;
    let y_offset = parameters.y_offset;
    let grid_0_ = parameters.grid_0_;
    let grid_1_ = parameters.grid_1_;
    let grid_2_ = parameters.grid_2_;
    let fold = parameters.fold;
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
    let thread_x = i64(u64(local_id.x));
    let _e45 = lo[(lo_offset + u32(u64(thread_x)))];
    let _e51 = hi[(hi_offset + u32(u64(thread_x)))];
    let _e57 = by[(by_offset + u32(u64(thread_x)))];
    carried = 0i;
    i = _e45;
    if ((_e45 < _e51) && (_e57 > 0i)) {
        loop {
            let _e67 = carried;
            carried = (_e67 + 1i);
            continuing {
                let _e69 = i;
                i = (_e69 + _e57);
                break if ((bitcast<u32>(_e51) - bitcast<u32>(_e69)) <= bitcast<u32>(_e57));
            }
        }
    }
    let _e76 = carried;
    y[(y_offset + u32(u64(thread_x)))] = _e76;
}
