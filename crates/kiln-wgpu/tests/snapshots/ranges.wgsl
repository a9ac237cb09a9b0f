struct Parameters {
    lo_offset: u32,
    hi_offset: u32,
    by_offset: u32,
    y_offset: u32,
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
fn ranges(@builtin(local_invocation_id) local_id: vec3<u32>) {
    var carried: i32;
    var i: i32;

    let lo_offset = parameters.lo_offset;
    let hi_offset = parameters.hi_offset;
    let by_offset = parameters.by_offset;
    let y_offset = parameters.y_offset;
    let thread_x = i64(local_id.x);
    let _e22 = lo[(lo_offset + u32(u64(thread_x)))];
    let _e29 = hi[(hi_offset + u32(u64(thread_x)))];
    let _e36 = by[(by_offset + u32(u64(thread_x)))];
    carried = 0i;
    i = _e22;
    if ((_e22 < _e29) && (_e36 > 0i)) {
        loop {
            let _e46 = carried;
            carried = (_e46 + 1i);
            continuing {
                let _e48 = i;
                i = (_e48 + _e36);
                break if ((bitcast<u32>(_e29) - bitcast<u32>(_e48)) <= bitcast<u32>(_e36));
            }
        }
    }
    let _e55 = carried;
    y[(y_offset + u32(u64(thread_x)))] = _e55;
}
