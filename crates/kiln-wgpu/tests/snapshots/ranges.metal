// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
    uint size4;
};

struct Parameters {
    uint lo_offset;
    uint hi_offset;
    uint by_offset;
    uint y_offset;
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


struct rangesInput {
};
[[max_total_threads_per_threadgroup(16)]] kernel void ranges(
  metal::uint3 local_id [[thread_position_in_threadgroup]]
, metal::uint3 group_id [[threadgroup_position_in_grid]]
, constant Parameters& parameters [[user(fake0)]]
, device type_3 const& lo [[user(fake0)]]
, device type_3 const& hi [[user(fake0)]]
, device type_3 const& by [[user(fake0)]]
, device type_3& y [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    metal::uint3 program = {};
    int carried = {};
    int i = {};
    uint lo_offset = parameters.lo_offset;
    uint hi_offset = parameters.hi_offset;
    uint by_offset = parameters.by_offset;
    uint y_offset = parameters.y_offset;
    uint grid_0_ = parameters.grid_0_;
    uint grid_1_ = parameters.grid_1_;
    uint grid_2_ = parameters.grid_2_;
    uint fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        uint _e29 = (group_id.y * fold) + group_id.x;
        uint _e31 = naga_div(_e29, grid_0_);
        uint _e33 = naga_div(_e31, grid_1_);
        if (_e33 >= grid_2_) {
            return;
        }
        program = metal::uint3(naga_mod(_e29, grid_0_), naga_mod(_e31, grid_1_), _e33);
    }
    long thread_x = static_cast<long>(static_cast<ulong>(local_id.x));
    int _e45 = lo[lo_offset + static_cast<uint>(static_cast<ulong>(thread_x))];
    int _e51 = hi[hi_offset + static_cast<uint>(static_cast<ulong>(thread_x))];
    int _e57 = by[by_offset + static_cast<uint>(static_cast<ulong>(thread_x))];
    carried = 0;
    i = _e45;
    if ((_e45 < _e51) && (_e57 > 0)) {
        uint2 loop_bound = uint2(4294967295u);
        bool loop_init = true;
        while(true) {
            if (metal::all(loop_bound == uint2(0u))) { break; }
            loop_bound -= uint2(loop_bound.y == 0u, 1u);
            if (!loop_init) {
                int _e69 = i;
                i = as_type<int>(as_type<uint>(_e69) + as_type<uint>(_e57));
                if ((as_type<uint>(_e51) - as_type<uint>(i)) <= as_type<uint>(_e57)) {
                    break;
                }
            }
            loop_init = false;
            int _e67 = carried;
            carried = as_type<int>(as_type<uint>(_e67) + as_type<uint>(1));
        }
    }
    int _e76 = carried;
    y[y_offset + static_cast<uint>(static_cast<ulong>(thread_x))] = _e76;
}
