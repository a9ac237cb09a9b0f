// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
};

struct Parameters {
    uint x_offset;
    uint y_offset;
    uint z_offset;
    char _pad3[4];
    long z_extent_0_;
    uint grid_0_;
    uint grid_1_;
    uint grid_2_;
    uint fold;
};
typedef float type_4[1];
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}


struct addInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void add(
  metal::uint3 local_id [[thread_position_in_threadgroup]]
, metal::uint3 group_id [[threadgroup_position_in_grid]]
, constant Parameters& parameters [[user(fake0)]]
, device type_4 const& x [[user(fake0)]]
, device type_4 const& y [[user(fake0)]]
, device type_4& z [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    metal::uint3 program = {};
    float loaded = {};
    float loaded_1 = {};
    uint x_offset = parameters.x_offset;
    uint y_offset = parameters.y_offset;
    uint z_offset = parameters.z_offset;
    long z_extent_0_ = parameters.z_extent_0_;
    uint grid_0_ = parameters.grid_0_;
    uint grid_1_ = parameters.grid_1_;
    uint grid_2_ = parameters.grid_2_;
    uint fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        uint _e28 = (group_id.y * fold) + group_id.x;
        uint _e30 = naga_div(_e28, grid_0_);
        uint _e32 = naga_div(_e30, grid_1_);
        if (_e32 >= grid_2_) {
            return;
        }
        program = metal::uint3(naga_mod(_e28, grid_0_), naga_mod(_e30, grid_1_), _e32);
    }
    metal::uint3 _e35 = program;
    long thread_x = static_cast<long>(static_cast<ulong>(local_id.x));
    long program_x = static_cast<long>(static_cast<ulong>(_e35.x));
    long _e44 = as_type<long>(as_type<ulong>(as_type<long>(as_type<ulong>(program_x) * as_type<ulong>(64L))) + as_type<ulong>(thread_x));
    bool _e45 = _e44 < z_extent_0_;
    loaded = 0.0;
    if (_e45) {
        float _e52 = x[x_offset + static_cast<uint>(static_cast<ulong>(_e44))];
        loaded = _e52;
    }
    float _e53 = loaded;
    loaded_1 = 0.0;
    if (_e45) {
        float _e60 = y[y_offset + static_cast<uint>(static_cast<ulong>(_e44))];
        loaded_1 = _e60;
    }
    float _e61 = loaded_1;
    if (_e45) {
        z[z_offset + static_cast<uint>(static_cast<ulong>(_e44))] = _e53 + _e61;
    }
}
