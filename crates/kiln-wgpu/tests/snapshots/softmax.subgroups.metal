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
    uint unnamed = metal::simd_shuffle_xor(as_type<uint>(_e102), 16u);
    float _e112 = as_type<float>(unnamed);
    float _e131 = ((as_type<uint>(_e102) & 2147483647u) > 2139095040u) ? _e112 : (((as_type<uint>(_e112) & 2147483647u) > 2139095040u) ? _e102 : ((_e102 == _e112) ? as_type<float>(as_type<uint>(_e102) & as_type<uint>(_e112)) : metal::max(_e102, _e112)));
    uint unnamed_1 = metal::simd_shuffle_xor(as_type<uint>(_e131), 8u);
    float _e137 = as_type<float>(unnamed_1);
    float _e156 = ((as_type<uint>(_e131) & 2147483647u) > 2139095040u) ? _e137 : (((as_type<uint>(_e137) & 2147483647u) > 2139095040u) ? _e131 : ((_e131 == _e137) ? as_type<float>(as_type<uint>(_e131) & as_type<uint>(_e137)) : metal::max(_e131, _e137)));
    uint unnamed_2 = metal::simd_shuffle_xor(as_type<uint>(_e156), 4u);
    float _e162 = as_type<float>(unnamed_2);
    float _e181 = ((as_type<uint>(_e156) & 2147483647u) > 2139095040u) ? _e162 : (((as_type<uint>(_e162) & 2147483647u) > 2139095040u) ? _e156 : ((_e156 == _e162) ? as_type<float>(as_type<uint>(_e156) & as_type<uint>(_e162)) : metal::max(_e156, _e162)));
    uint unnamed_3 = metal::simd_shuffle_xor(as_type<uint>(_e181), 2u);
    float _e187 = as_type<float>(unnamed_3);
    float _e206 = ((as_type<uint>(_e181) & 2147483647u) > 2139095040u) ? _e187 : (((as_type<uint>(_e187) & 2147483647u) > 2139095040u) ? _e181 : ((_e181 == _e187) ? as_type<float>(as_type<uint>(_e181) & as_type<uint>(_e187)) : metal::max(_e181, _e187)));
    uint unnamed_4 = metal::simd_shuffle_xor(as_type<uint>(_e206), 1u);
    float _e212 = as_type<float>(unnamed_4);
    if (_e59) {
        scratch.inner[static_cast<uint>(static_cast<ulong>(_e58))] = ((as_type<uint>(_e206) & 2147483647u) > 2139095040u) ? _e212 : (((as_type<uint>(_e212) & 2147483647u) > 2139095040u) ? _e206 : ((_e206 == _e212) ? as_type<float>(as_type<uint>(_e206) & as_type<uint>(_e212)) : metal::max(_e206, _e212)));
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e236 = static_cast<uint>(static_cast<ulong>(0L));
    float _e240 = scratch.inner[_e236];
    float _e244 = scratch.inner[_e236 + 1u];
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
                long _e287 = i_1;
                i_1 = as_type<long>(as_type<ulong>(_e287) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i_1)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init_1 = false;
            long _e269 = i_1;
            float _e270 = carried_1;
            float _e277 = x[x_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e51) + as_type<ulong>(_e269))))];
            float _e280 = metal::exp2((_e277 - (((as_type<uint>(_e240) & 2147483647u) > 2139095040u) ? _e244 : (((as_type<uint>(_e244) & 2147483647u) > 2139095040u) ? _e240 : ((_e240 == _e244) ? as_type<float>(as_type<uint>(_e240) & as_type<uint>(_e244)) : metal::max(_e240, _e244))))) * 1.442695);
            y[y_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e52) + as_type<ulong>(_e269))))] = _e280;
            carried_1 = _e270 + _e280;
        }
    }
    float _e294 = carried_1;
    uint unnamed_5 = metal::simd_shuffle_xor(as_type<uint>(_e294), 16u);
    float _e301 = _e294 + as_type<float>(unnamed_5);
    uint unnamed_6 = metal::simd_shuffle_xor(as_type<uint>(_e301), 8u);
    float _e308 = _e301 + as_type<float>(unnamed_6);
    uint unnamed_7 = metal::simd_shuffle_xor(as_type<uint>(_e308), 4u);
    float _e315 = _e308 + as_type<float>(unnamed_7);
    uint unnamed_8 = metal::simd_shuffle_xor(as_type<uint>(_e315), 2u);
    float _e322 = _e315 + as_type<float>(unnamed_8);
    uint unnamed_9 = metal::simd_shuffle_xor(as_type<uint>(_e322), 1u);
    if (_e59) {
        scratch.inner[static_cast<uint>(static_cast<ulong>(_e58))] = _e322 + as_type<float>(unnamed_9);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e334 = static_cast<uint>(static_cast<ulong>(0L));
    float _e338 = scratch.inner[_e334];
    float _e342 = scratch.inner[_e334 + 1u];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        uint2 loop_bound_2 = uint2(4294967295u);
        bool loop_init_2 = true;
        while(true) {
            if (metal::all(loop_bound_2 == uint2(0u))) { break; }
            loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
            if (!loop_init_2) {
                long _e359 = i_2;
                i_2 = as_type<long>(as_type<ulong>(_e359) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i_2)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init_2 = false;
            long _e346 = i_2;
            long _e347 = as_type<long>(as_type<ulong>(_e52) + as_type<ulong>(_e346));
            float _e353 = y[y_offset + static_cast<uint>(static_cast<ulong>(_e347))];
            y[y_offset + static_cast<uint>(static_cast<ulong>(_e347))] = _e353 / (_e338 + _e342);
        }
    }
}
