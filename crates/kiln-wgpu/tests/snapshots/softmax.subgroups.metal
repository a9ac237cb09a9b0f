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
    long x_extent_1_;
    long x_stride_0_;
    long y_stride_0_;
    uint grid_0_;
    uint grid_1_;
    uint grid_2_;
    uint fold;
};
typedef float type_4[1];
struct type_5 {
    float inner[2];
};
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

long naga_mod(long lhs, long rhs) {
    long divisor = metal::select(rhs, 1, (lhs == (-9223372036854775807L - 1L) & rhs == -1) | (rhs == 0));
    return lhs - (lhs / divisor) * divisor;
}

long naga_div(long lhs, long rhs) {
    return lhs / metal::select(rhs, 1, (lhs == (-9223372036854775807L - 1L) & rhs == -1) | (rhs == 0));
}


struct softmaxInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void softmax(
  metal::uint3 group_id [[threadgroup_position_in_grid]]
, uint subgroup_id [[simdgroup_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint __local_invocation_index [[thread_index_in_threadgroup]]
, constant Parameters& parameters [[user(fake0)]]
, device type_4 const& x [[user(fake0)]]
, device type_4& y [[user(fake0)]]
, threadgroup type_5& scratch
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (__local_invocation_index == 0u) {
        scratch = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::uint3 program = {};
    uint infinity_bits = 4286578688u;
    float carried = {};
    long i = {};
    float carried_1 = {};
    long i_1 = {};
    long i_2 = {};
    uint local_index = (subgroup_id * 32u) + lane;
    uint x_offset = parameters.x_offset;
    uint y_offset = parameters.y_offset;
    long x_extent_1_ = parameters.x_extent_1_;
    long x_stride_0_ = parameters.x_stride_0_;
    long y_stride_0_ = parameters.y_stride_0_;
    uint grid_0_ = parameters.grid_0_;
    uint grid_1_ = parameters.grid_1_;
    uint grid_2_ = parameters.grid_2_;
    uint fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        uint _e34 = (group_id.y * fold) + group_id.x;
        uint _e36 = naga_div(_e34, grid_0_);
        uint _e38 = naga_div(_e36, grid_1_);
        if (_e38 >= grid_2_) {
            return;
        }
        program = metal::uint3(naga_mod(_e34, grid_0_), naga_mod(_e36, grid_1_), _e38);
    }
    metal::uint3 _e41 = program;
    long thread_x = static_cast<long>(static_cast<ulong>(naga_mod(naga_div(local_index, 1u), 64u)));
    long program_x = static_cast<long>(static_cast<ulong>(_e41.x));
    long _e51 = as_type<long>(as_type<ulong>(program_x) * as_type<ulong>(x_stride_0_));
    long _e52 = as_type<long>(as_type<ulong>(program_x) * as_type<ulong>(y_stride_0_));
    long _e58 = naga_div(thread_x, 32L);
    bool _e59 = naga_mod(thread_x, 32L) == 0L;
    uint _e62 = infinity_bits;
    carried = as_type<float>(_e62);
    i = thread_x;
    if (thread_x < x_extent_1_) {
        uint2 loop_bound = uint2(4294967295u);
        bool loop_init = true;
        while(true) {
            if (metal::all(loop_bound == uint2(0u))) { break; }
            loop_bound -= uint2(loop_bound.y == 0u, 1u);
            if (!loop_init) {
                long _e95 = i;
                i = as_type<long>(as_type<ulong>(_e95) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init = false;
            long _e67 = i;
            float _e68 = carried;
            float _e75 = x[x_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e51) + as_type<ulong>(_e67))))];
            carried = ((as_type<uint>(_e68) & 2147483647u) > 2139095040u) ? _e75 : (((as_type<uint>(_e75) & 2147483647u) > 2139095040u) ? _e68 : ((_e68 == _e75) ? as_type<float>(as_type<uint>(_e68) & as_type<uint>(_e75)) : metal::max(_e68, _e75)));
        }
    }
    float _e102 = carried;
    uint _e111 = local_index & 31u;
    uint unnamed = metal::simd_shuffle(as_type<uint>(_e102), ((local_index - _e111) + (_e111 ^ (static_cast<uint>(static_cast<ulong>(16L)) & 31u))) & 31u);
    float _e119 = as_type<float>(unnamed);
    float _e138 = ((as_type<uint>(_e102) & 2147483647u) > 2139095040u) ? _e119 : (((as_type<uint>(_e119) & 2147483647u) > 2139095040u) ? _e102 : ((_e102 == _e119) ? as_type<float>(as_type<uint>(_e102) & as_type<uint>(_e119)) : metal::max(_e102, _e119)));
    uint _e143 = local_index & 31u;
    uint unnamed_1 = metal::simd_shuffle(as_type<uint>(_e138), ((local_index - _e143) + (_e143 ^ (static_cast<uint>(static_cast<ulong>(8L)) & 31u))) & 31u);
    float _e151 = as_type<float>(unnamed_1);
    float _e170 = ((as_type<uint>(_e138) & 2147483647u) > 2139095040u) ? _e151 : (((as_type<uint>(_e151) & 2147483647u) > 2139095040u) ? _e138 : ((_e138 == _e151) ? as_type<float>(as_type<uint>(_e138) & as_type<uint>(_e151)) : metal::max(_e138, _e151)));
    uint _e175 = local_index & 31u;
    uint unnamed_2 = metal::simd_shuffle(as_type<uint>(_e170), ((local_index - _e175) + (_e175 ^ (static_cast<uint>(static_cast<ulong>(4L)) & 31u))) & 31u);
    float _e183 = as_type<float>(unnamed_2);
    float _e202 = ((as_type<uint>(_e170) & 2147483647u) > 2139095040u) ? _e183 : (((as_type<uint>(_e183) & 2147483647u) > 2139095040u) ? _e170 : ((_e170 == _e183) ? as_type<float>(as_type<uint>(_e170) & as_type<uint>(_e183)) : metal::max(_e170, _e183)));
    uint _e207 = local_index & 31u;
    uint unnamed_3 = metal::simd_shuffle(as_type<uint>(_e202), ((local_index - _e207) + (_e207 ^ (static_cast<uint>(static_cast<ulong>(2L)) & 31u))) & 31u);
    float _e215 = as_type<float>(unnamed_3);
    float _e234 = ((as_type<uint>(_e202) & 2147483647u) > 2139095040u) ? _e215 : (((as_type<uint>(_e215) & 2147483647u) > 2139095040u) ? _e202 : ((_e202 == _e215) ? as_type<float>(as_type<uint>(_e202) & as_type<uint>(_e215)) : metal::max(_e202, _e215)));
    uint _e239 = local_index & 31u;
    uint unnamed_4 = metal::simd_shuffle(as_type<uint>(_e234), ((local_index - _e239) + (_e239 ^ (static_cast<uint>(static_cast<ulong>(1L)) & 31u))) & 31u);
    float _e247 = as_type<float>(unnamed_4);
    if (_e59) {
        scratch.inner[static_cast<uint>(static_cast<ulong>(_e58))] = ((as_type<uint>(_e234) & 2147483647u) > 2139095040u) ? _e247 : (((as_type<uint>(_e247) & 2147483647u) > 2139095040u) ? _e234 : ((_e234 == _e247) ? as_type<float>(as_type<uint>(_e234) & as_type<uint>(_e247)) : metal::max(_e234, _e247)));
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e271 = static_cast<uint>(static_cast<ulong>(0L));
    float _e275 = scratch.inner[_e271];
    float _e279 = scratch.inner[_e271 + 1u];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    carried_1 = 0.0;
    i_1 = thread_x;
    if (thread_x < x_extent_1_) {
        uint2 loop_bound_1 = uint2(4294967295u);
        bool loop_init_1 = true;
        while(true) {
            if (metal::all(loop_bound_1 == uint2(0u))) { break; }
            loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
            if (!loop_init_1) {
                long _e322 = i_1;
                i_1 = as_type<long>(as_type<ulong>(_e322) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i_1)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init_1 = false;
            long _e304 = i_1;
            float _e305 = carried_1;
            float _e312 = x[x_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e51) + as_type<ulong>(_e304))))];
            float _e315 = metal::exp2((_e312 - (((as_type<uint>(_e275) & 2147483647u) > 2139095040u) ? _e279 : (((as_type<uint>(_e279) & 2147483647u) > 2139095040u) ? _e275 : ((_e275 == _e279) ? as_type<float>(as_type<uint>(_e275) & as_type<uint>(_e279)) : metal::max(_e275, _e279))))) * 1.442695);
            y[y_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e52) + as_type<ulong>(_e304))))] = _e315;
            carried_1 = _e305 + _e315;
        }
    }
    float _e329 = carried_1;
    uint _e334 = local_index & 31u;
    uint unnamed_5 = metal::simd_shuffle(as_type<uint>(_e329), ((local_index - _e334) + (_e334 ^ (static_cast<uint>(static_cast<ulong>(16L)) & 31u))) & 31u);
    float _e343 = _e329 + as_type<float>(unnamed_5);
    uint _e348 = local_index & 31u;
    uint unnamed_6 = metal::simd_shuffle(as_type<uint>(_e343), ((local_index - _e348) + (_e348 ^ (static_cast<uint>(static_cast<ulong>(8L)) & 31u))) & 31u);
    float _e357 = _e343 + as_type<float>(unnamed_6);
    uint _e362 = local_index & 31u;
    uint unnamed_7 = metal::simd_shuffle(as_type<uint>(_e357), ((local_index - _e362) + (_e362 ^ (static_cast<uint>(static_cast<ulong>(4L)) & 31u))) & 31u);
    float _e371 = _e357 + as_type<float>(unnamed_7);
    uint _e376 = local_index & 31u;
    uint unnamed_8 = metal::simd_shuffle(as_type<uint>(_e371), ((local_index - _e376) + (_e376 ^ (static_cast<uint>(static_cast<ulong>(2L)) & 31u))) & 31u);
    float _e385 = _e371 + as_type<float>(unnamed_8);
    uint _e390 = local_index & 31u;
    uint unnamed_9 = metal::simd_shuffle(as_type<uint>(_e385), ((local_index - _e390) + (_e390 ^ (static_cast<uint>(static_cast<ulong>(1L)) & 31u))) & 31u);
    if (_e59) {
        scratch.inner[static_cast<uint>(static_cast<ulong>(_e58))] = _e385 + as_type<float>(unnamed_9);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e404 = static_cast<uint>(static_cast<ulong>(0L));
    float _e408 = scratch.inner[_e404];
    float _e412 = scratch.inner[_e404 + 1u];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        uint2 loop_bound_2 = uint2(4294967295u);
        bool loop_init_2 = true;
        while(true) {
            if (metal::all(loop_bound_2 == uint2(0u))) { break; }
            loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
            if (!loop_init_2) {
                long _e429 = i_2;
                i_2 = as_type<long>(as_type<ulong>(_e429) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i_2)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init_2 = false;
            long _e416 = i_2;
            long _e417 = as_type<long>(as_type<ulong>(_e52) + as_type<ulong>(_e416));
            float _e423 = y[y_offset + static_cast<uint>(static_cast<ulong>(_e417))];
            y[y_offset + static_cast<uint>(static_cast<ulong>(_e417))] = _e423 / (_e408 + _e412);
        }
    }
}
