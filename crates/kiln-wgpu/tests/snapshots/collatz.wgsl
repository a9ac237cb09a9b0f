struct Parameters {
    y_offset: u32,
    limit: i32,
    grid_0_: u32,
    grid_1_: u32,
    grid_2_: u32,
    fold: u32,
}

@group(0) @binding(0) 
var<uniform> parameters: Parameters;
@group(0) @binding(1) 
var<storage, read_write> y: array<i32>;

@compute @workgroup_size(32, 1, 1) 
fn collatz(@builtin(local_invocation_id) local_id: vec3<u32>, @builtin(workgroup_id) group_id: vec3<u32>) {
    var program: vec3<u32>;
    var carried: i32;
    var carried_1: i32;
    var result: i32;

    let y_offset = parameters.y_offset;
    let limit = parameters.limit;
    let grid_0_ = parameters.grid_0_;
    let grid_1_ = parameters.grid_1_;
    let grid_2_ = parameters.grid_2_;
    let fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        let _e22 = ((group_id.y * fold) + group_id.x);
        let _e24 = (_e22 / grid_0_);
        let _e26 = (_e24 / grid_1_);
        if (_e26 >= grid_2_) {
            return;
        }
        program = vec3<u32>((_e22 % grid_0_), (_e24 % grid_1_), _e26);
    }
    let thread_x = i64(u64(local_id.x));
    let _e37 = i32(thread_x);
    carried = (_e37 + 1i);
    carried_1 = 0i;
    loop {
        let _e41 = carried;
        let _e42 = carried_1;
        if !(((_e41 > 1i) && (_e42 < limit))) {
            break;
        }
        let _e47 = carried;
        let _e48 = carried_1;
        if ((_e47 % 2i) == 0i) {
            result = (_e47 / 2i);
        } else {
            result = ((_e47 * 3i) + 1i);
        }
        let _e55 = result;
        carried = _e55;
        carried_1 = (_e48 + 1i);
    }
    let _e58 = carried_1;
    y[(y_offset + bitcast<u32>(_e37))] = _e58;
}
