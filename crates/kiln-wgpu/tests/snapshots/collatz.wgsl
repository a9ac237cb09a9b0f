struct Parameters {
    y_offset: u32,
    limit: i32,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage, read_write> y: array<i32>;

@compute @workgroup_size(32, 1, 1) 
fn collatz(@builtin(local_invocation_id) local_id: vec3<u32>) {
    var carried: i32;
    var carried_1: i32;
    var result: i32;

    let y_offset = parameters.y_offset;
    let limit = parameters.limit;
    let thread_x = i64(local_id.x);
    let _e13 = i32(thread_x);
    carried = (_e13 + 1i);
    carried_1 = 0i;
    loop {
        let _e17 = carried;
        let _e18 = carried_1;
        if !(((_e17 > 1i) && (_e18 < limit))) {
            break;
        }
        let _e23 = carried;
        let _e24 = carried_1;
        if ((_e23 % 2i) == 0i) {
            result = (_e23 / 2i);
        } else {
            result = ((_e23 * 3i) + 1i);
        }
        let _e31 = result;
        carried = _e31;
        carried_1 = (_e24 + 1i);
    }
    let _e34 = carried_1;
    y[(y_offset + bitcast<u32>(_e13))] = _e34;
}
