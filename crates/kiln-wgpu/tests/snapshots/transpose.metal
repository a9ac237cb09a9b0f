// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
};

struct Parameters {
    uint x_offset;
    uint y_offset;
    long x_extent_0_;
    long x_extent_1_;
    long y_extent_0_;
    long y_extent_1_;
    long x_stride_0_;
    long x_stride_1_;
    long y_stride_0_;
    long y_stride_1_;
    uint grid_0_;
    uint grid_1_;
    uint grid_2_;
    uint fold;
};
typedef float type_4[1];
struct type_5 {
    float inner[272];
};
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}


struct transposeInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void transpose(
  metal::uint3 local_id [[thread_position_in_threadgroup]]
, metal::uint3 group_id [[threadgroup_position_in_grid]]
, uint __local_invocation_index [[thread_index_in_threadgroup]]
, constant Parameters& parameters [[user(fake0)]]
, device type_4 const& x [[user(fake0)]]
, device type_4& y [[user(fake0)]]
, threadgroup type_5& shared
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (__local_invocation_index == 0u) {
        shared = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::uint3 program = {};
    float loaded = {};
    uint x_offset = parameters.x_offset;
    uint y_offset = parameters.y_offset;
    long x_extent_0_ = parameters.x_extent_0_;
    long x_extent_1_ = parameters.x_extent_1_;
    long y_extent_0_ = parameters.y_extent_0_;
    long y_extent_1_ = parameters.y_extent_1_;
    long x_stride_0_ = parameters.x_stride_0_;
    long x_stride_1_ = parameters.x_stride_1_;
    long y_stride_0_ = parameters.y_stride_0_;
    long y_stride_1_ = parameters.y_stride_1_;
    uint grid_0_ = parameters.grid_0_;
    uint grid_1_ = parameters.grid_1_;
    uint grid_2_ = parameters.grid_2_;
    uint fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        uint _e40 = (group_id.y * fold) + group_id.x;
        uint _e42 = naga_div(_e40, grid_0_);
        uint _e44 = naga_div(_e42, grid_1_);
        if (_e44 >= grid_2_) {
            return;
        }
        program = metal::uint3(naga_mod(_e40, grid_0_), naga_mod(_e42, grid_1_), _e44);
    }
    metal::uint3 _e47 = program;
    long thread_x = static_cast<long>(static_cast<ulong>(local_id.x));
    long thread_y = static_cast<long>(static_cast<ulong>(local_id.y));
    long program_x = static_cast<long>(static_cast<ulong>(_e47.x));
    long program_y = static_cast<long>(static_cast<ulong>(_e47.y));
    long _e62 = as_type<long>(as_type<ulong>(program_x) * as_type<ulong>(16L));
    long _e63 = as_type<long>(as_type<ulong>(program_y) * as_type<ulong>(16L));
    long _e64 = as_type<long>(as_type<ulong>(_e62) + as_type<ulong>(thread_x));
    long _e65 = as_type<long>(as_type<ulong>(_e63) + as_type<ulong>(thread_y));
    loaded = 0.0;
    if ((static_cast<ulong>(_e65) < static_cast<ulong>(x_extent_0_)) && (static_cast<ulong>(_e64) < static_cast<ulong>(x_extent_1_))) {
        float _e82 = x[x_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(as_type<long>(as_type<ulong>(_e65) * as_type<ulong>(x_stride_0_))) + as_type<ulong>(as_type<long>(as_type<ulong>(_e64) * as_type<ulong>(x_stride_1_))))))];
        loaded = _e82;
    }
    float _e83 = loaded;
    shared.inner[static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(as_type<long>(as_type<ulong>(thread_y) * as_type<ulong>(17L))) + as_type<ulong>(as_type<long>(as_type<ulong>(thread_x) * as_type<ulong>(1L))))))] = _e83;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e102 = shared.inner[static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(as_type<long>(as_type<ulong>(thread_x) * as_type<ulong>(17L))) + as_type<ulong>(as_type<long>(as_type<ulong>(thread_y) * as_type<ulong>(1L))))))];
    long _e103 = as_type<long>(as_type<ulong>(_e62) + as_type<ulong>(thread_y));
    long _e104 = as_type<long>(as_type<ulong>(_e63) + as_type<ulong>(thread_x));
    if ((static_cast<ulong>(_e103) < static_cast<ulong>(y_extent_0_)) && (static_cast<ulong>(_e104) < static_cast<ulong>(y_extent_1_))) {
        y[y_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(as_type<long>(as_type<ulong>(_e103) * as_type<ulong>(y_stride_0_))) + as_type<ulong>(as_type<long>(as_type<ulong>(_e104) * as_type<ulong>(y_stride_1_))))))] = _e102;
    }
}
