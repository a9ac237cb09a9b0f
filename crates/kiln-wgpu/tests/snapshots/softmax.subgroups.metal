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
                long _e96 = i;
                i = as_type<long>(as_type<ulong>(_e96) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init = false;
            long _e67 = i;
            float _e68 = carried;
            float _e76 = x[x_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e51) + as_type<ulong>(_e67))))];
            carried = ((as_type<uint>(_e68) & 2147483647u) > 2139095040u) ? _e76 : (((as_type<uint>(_e76) & 2147483647u) > 2139095040u) ? _e68 : ((_e68 == _e76) ? as_type<float>(as_type<uint>(_e68) & as_type<uint>(_e76)) : metal::max(_e68, _e76)));
        }
    }
    float _e103 = carried;
    uint _e112 = local_index & 31u;
    uint unnamed = metal::simd_shuffle(as_type<uint>(_e103), ((local_index - _e112) + (_e112 ^ (static_cast<uint>(static_cast<ulong>(16L)) & 31u))) & 31u);
    float _e120 = as_type<float>(unnamed);
    float _e139 = ((as_type<uint>(_e103) & 2147483647u) > 2139095040u) ? _e120 : (((as_type<uint>(_e120) & 2147483647u) > 2139095040u) ? _e103 : ((_e103 == _e120) ? as_type<float>(as_type<uint>(_e103) & as_type<uint>(_e120)) : metal::max(_e103, _e120)));
    uint _e144 = local_index & 31u;
    uint unnamed_1 = metal::simd_shuffle(as_type<uint>(_e139), ((local_index - _e144) + (_e144 ^ (static_cast<uint>(static_cast<ulong>(8L)) & 31u))) & 31u);
    float _e152 = as_type<float>(unnamed_1);
    float _e171 = ((as_type<uint>(_e139) & 2147483647u) > 2139095040u) ? _e152 : (((as_type<uint>(_e152) & 2147483647u) > 2139095040u) ? _e139 : ((_e139 == _e152) ? as_type<float>(as_type<uint>(_e139) & as_type<uint>(_e152)) : metal::max(_e139, _e152)));
    uint _e176 = local_index & 31u;
    uint unnamed_2 = metal::simd_shuffle(as_type<uint>(_e171), ((local_index - _e176) + (_e176 ^ (static_cast<uint>(static_cast<ulong>(4L)) & 31u))) & 31u);
    float _e184 = as_type<float>(unnamed_2);
    float _e203 = ((as_type<uint>(_e171) & 2147483647u) > 2139095040u) ? _e184 : (((as_type<uint>(_e184) & 2147483647u) > 2139095040u) ? _e171 : ((_e171 == _e184) ? as_type<float>(as_type<uint>(_e171) & as_type<uint>(_e184)) : metal::max(_e171, _e184)));
    uint _e208 = local_index & 31u;
    uint unnamed_3 = metal::simd_shuffle(as_type<uint>(_e203), ((local_index - _e208) + (_e208 ^ (static_cast<uint>(static_cast<ulong>(2L)) & 31u))) & 31u);
    float _e216 = as_type<float>(unnamed_3);
    float _e235 = ((as_type<uint>(_e203) & 2147483647u) > 2139095040u) ? _e216 : (((as_type<uint>(_e216) & 2147483647u) > 2139095040u) ? _e203 : ((_e203 == _e216) ? as_type<float>(as_type<uint>(_e203) & as_type<uint>(_e216)) : metal::max(_e203, _e216)));
    uint _e240 = local_index & 31u;
    uint unnamed_4 = metal::simd_shuffle(as_type<uint>(_e235), ((local_index - _e240) + (_e240 ^ (static_cast<uint>(static_cast<ulong>(1L)) & 31u))) & 31u);
    float _e248 = as_type<float>(unnamed_4);
    if (_e59) {
        scratch.inner[static_cast<uint>(static_cast<ulong>(_e58))] = ((as_type<uint>(_e235) & 2147483647u) > 2139095040u) ? _e248 : (((as_type<uint>(_e248) & 2147483647u) > 2139095040u) ? _e235 : ((_e235 == _e248) ? as_type<float>(as_type<uint>(_e235) & as_type<uint>(_e248)) : metal::max(_e235, _e248)));
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e272 = static_cast<uint>(static_cast<ulong>(0L));
    float _e277 = scratch.inner[_e272];
    float _e281 = scratch.inner[_e272 + 1u];
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
                long _e325 = i_1;
                i_1 = as_type<long>(as_type<ulong>(_e325) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i_1)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init_1 = false;
            long _e306 = i_1;
            float _e307 = carried_1;
            float _e315 = x[x_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e51) + as_type<ulong>(_e306))))];
            float _e318 = metal::exp2((_e315 - (((as_type<uint>(_e277) & 2147483647u) > 2139095040u) ? _e281 : (((as_type<uint>(_e281) & 2147483647u) > 2139095040u) ? _e277 : ((_e277 == _e281) ? as_type<float>(as_type<uint>(_e277) & as_type<uint>(_e281)) : metal::max(_e277, _e281))))) * 1.442695);
            y[y_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e52) + as_type<ulong>(_e306))))] = _e318;
            carried_1 = _e307 + _e318;
        }
    }
    float _e332 = carried_1;
    uint _e337 = local_index & 31u;
    uint unnamed_5 = metal::simd_shuffle(as_type<uint>(_e332), ((local_index - _e337) + (_e337 ^ (static_cast<uint>(static_cast<ulong>(16L)) & 31u))) & 31u);
    float _e346 = _e332 + as_type<float>(unnamed_5);
    uint _e351 = local_index & 31u;
    uint unnamed_6 = metal::simd_shuffle(as_type<uint>(_e346), ((local_index - _e351) + (_e351 ^ (static_cast<uint>(static_cast<ulong>(8L)) & 31u))) & 31u);
    float _e360 = _e346 + as_type<float>(unnamed_6);
    uint _e365 = local_index & 31u;
    uint unnamed_7 = metal::simd_shuffle(as_type<uint>(_e360), ((local_index - _e365) + (_e365 ^ (static_cast<uint>(static_cast<ulong>(4L)) & 31u))) & 31u);
    float _e374 = _e360 + as_type<float>(unnamed_7);
    uint _e379 = local_index & 31u;
    uint unnamed_8 = metal::simd_shuffle(as_type<uint>(_e374), ((local_index - _e379) + (_e379 ^ (static_cast<uint>(static_cast<ulong>(2L)) & 31u))) & 31u);
    float _e388 = _e374 + as_type<float>(unnamed_8);
    uint _e393 = local_index & 31u;
    uint unnamed_9 = metal::simd_shuffle(as_type<uint>(_e388), ((local_index - _e393) + (_e393 ^ (static_cast<uint>(static_cast<ulong>(1L)) & 31u))) & 31u);
    if (_e59) {
        scratch.inner[static_cast<uint>(static_cast<ulong>(_e58))] = _e388 + as_type<float>(unnamed_9);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e407 = static_cast<uint>(static_cast<ulong>(0L));
    float _e412 = scratch.inner[_e407];
    float _e416 = scratch.inner[_e407 + 1u];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        uint2 loop_bound_2 = uint2(4294967295u);
        bool loop_init_2 = true;
        while(true) {
            if (metal::all(loop_bound_2 == uint2(0u))) { break; }
            loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
            if (!loop_init_2) {
                long _e434 = i_2;
                i_2 = as_type<long>(as_type<ulong>(_e434) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i_2)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init_2 = false;
            long _e420 = i_2;
            long _e421 = as_type<long>(as_type<ulong>(_e52) + as_type<ulong>(_e420));
            float _e428 = y[y_offset + static_cast<uint>(static_cast<ulong>(_e421))];
            y[y_offset + static_cast<uint>(static_cast<ulong>(_e421))] = _e428 / (_e412 + _e416);
        }
    }
}
