// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
};

struct Parameters {
    uint y_offset;
    int limit;
    uint grid_0_;
    uint grid_1_;
    uint grid_2_;
    uint fold;
};
typedef int type_3[1];
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

int naga_mod(int lhs, int rhs) {
    int divisor = metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
    return lhs - (lhs / divisor) * divisor;
}

int naga_div(int lhs, int rhs) {
    return lhs / metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
}


struct collatzInput {
};
[[max_total_threads_per_threadgroup(32)]] kernel void collatz(
  metal::uint3 local_id [[thread_position_in_threadgroup]]
, metal::uint3 group_id [[threadgroup_position_in_grid]]
, constant Parameters& parameters [[user(fake0)]]
, device type_3& y [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    metal::uint3 program = {};
    int carried = {};
    int carried_1 = {};
    int result = {};
    uint y_offset = parameters.y_offset;
    int limit = parameters.limit;
    uint grid_0_ = parameters.grid_0_;
    uint grid_1_ = parameters.grid_1_;
    uint grid_2_ = parameters.grid_2_;
    uint fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        uint _e22 = (group_id.y * fold) + group_id.x;
        uint _e24 = naga_div(_e22, grid_0_);
        uint _e26 = naga_div(_e24, grid_1_);
        if (_e26 >= grid_2_) {
            return;
        }
        program = metal::uint3(naga_mod(_e22, grid_0_), naga_mod(_e24, grid_1_), _e26);
    }
    long thread_x = static_cast<long>(static_cast<ulong>(local_id.x));
    int _e37 = static_cast<int>(thread_x);
    carried = as_type<int>(as_type<uint>(_e37) + as_type<uint>(1));
    carried_1 = 0;
    uint2 loop_bound = uint2(4294967295u);
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        int _e41 = carried;
        int _e42 = carried_1;
        if (!(((_e41 > 1) && (_e42 < limit)))) {
            break;
        }
        int _e47 = carried;
        int _e48 = carried_1;
        if (naga_mod(_e47, 2) == 0) {
            result = naga_div(_e47, 2);
        } else {
            result = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(_e47) * as_type<uint>(3))) + as_type<uint>(1));
        }
        int _e55 = result;
        carried = _e55;
        carried_1 = as_type<int>(as_type<uint>(_e48) + as_type<uint>(1));
    }
    int _e58 = carried_1;
    y[y_offset + as_type<uint>(_e37)] = _e58;
}
