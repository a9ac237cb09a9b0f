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
struct type_6 {
    uint inner[64];
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
  metal::uint3 local_id [[thread_position_in_threadgroup]]
, uint local_index [[thread_index_in_threadgroup]]
, metal::uint3 group_id [[threadgroup_position_in_grid]]
, constant Parameters& parameters [[user(fake0)]]
, device type_4 const& x [[user(fake0)]]
, device type_4& y [[user(fake0)]]
, threadgroup type_5& scratch
, threadgroup type_6& exchange
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (local_index == 0u) {
        scratch = {};
        exchange = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::uint3 program = {};
    uint infinity_bits = 4286578688u;
    float carried = {};
    long i = {};
    float carried_1 = {};
    long i_1 = {};
    long i_2 = {};
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
        uint _e31 = (group_id.y * fold) + group_id.x;
        uint _e33 = naga_div(_e31, grid_0_);
        uint _e35 = naga_div(_e33, grid_1_);
        if (_e35 >= grid_2_) {
            return;
        }
        program = metal::uint3(naga_mod(_e31, grid_0_), naga_mod(_e33, grid_1_), _e35);
    }
    metal::uint3 _e38 = program;
    long thread_x = static_cast<long>(static_cast<ulong>(local_id.x));
    long program_x = static_cast<long>(static_cast<ulong>(_e38.x));
    long _e45 = as_type<long>(as_type<ulong>(program_x) * as_type<ulong>(x_stride_0_));
    long _e46 = as_type<long>(as_type<ulong>(program_x) * as_type<ulong>(y_stride_0_));
    long _e52 = naga_div(thread_x, 32L);
    bool _e53 = naga_mod(thread_x, 32L) == 0L;
    uint _e56 = infinity_bits;
    carried = as_type<float>(_e56);
    i = thread_x;
    if (thread_x < x_extent_1_) {
        uint2 loop_bound = uint2(4294967295u);
        bool loop_init = true;
        while(true) {
            if (metal::all(loop_bound == uint2(0u))) { break; }
            loop_bound -= uint2(loop_bound.y == 0u, 1u);
            if (!loop_init) {
                long _e90 = i;
                i = as_type<long>(as_type<ulong>(_e90) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init = false;
            long _e61 = i;
            float _e62 = carried;
            float _e70 = x[x_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e45) + as_type<ulong>(_e61))))];
            carried = ((as_type<uint>(_e62) & 2147483647u) > 2139095040u) ? _e70 : (((as_type<uint>(_e70) & 2147483647u) > 2139095040u) ? _e62 : ((_e62 == _e70) ? as_type<float>(as_type<uint>(_e62) & as_type<uint>(_e70)) : metal::max(_e62, _e70)));
        }
    }
    float _e97 = carried;
    uint _e106 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e97);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e114 = exchange.inner[(local_index - _e106) + (_e106 ^ (static_cast<uint>(static_cast<ulong>(16L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e115 = as_type<float>(_e114);
    float _e134 = ((as_type<uint>(_e97) & 2147483647u) > 2139095040u) ? _e115 : (((as_type<uint>(_e115) & 2147483647u) > 2139095040u) ? _e97 : ((_e97 == _e115) ? as_type<float>(as_type<uint>(_e97) & as_type<uint>(_e115)) : metal::max(_e97, _e115)));
    uint _e139 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e134);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e146 = exchange.inner[(local_index - _e139) + (_e139 ^ (static_cast<uint>(static_cast<ulong>(8L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e147 = as_type<float>(_e146);
    float _e166 = ((as_type<uint>(_e134) & 2147483647u) > 2139095040u) ? _e147 : (((as_type<uint>(_e147) & 2147483647u) > 2139095040u) ? _e134 : ((_e134 == _e147) ? as_type<float>(as_type<uint>(_e134) & as_type<uint>(_e147)) : metal::max(_e134, _e147)));
    uint _e171 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e166);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e178 = exchange.inner[(local_index - _e171) + (_e171 ^ (static_cast<uint>(static_cast<ulong>(4L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e179 = as_type<float>(_e178);
    float _e198 = ((as_type<uint>(_e166) & 2147483647u) > 2139095040u) ? _e179 : (((as_type<uint>(_e179) & 2147483647u) > 2139095040u) ? _e166 : ((_e166 == _e179) ? as_type<float>(as_type<uint>(_e166) & as_type<uint>(_e179)) : metal::max(_e166, _e179)));
    uint _e203 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e198);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e210 = exchange.inner[(local_index - _e203) + (_e203 ^ (static_cast<uint>(static_cast<ulong>(2L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e211 = as_type<float>(_e210);
    float _e230 = ((as_type<uint>(_e198) & 2147483647u) > 2139095040u) ? _e211 : (((as_type<uint>(_e211) & 2147483647u) > 2139095040u) ? _e198 : ((_e198 == _e211) ? as_type<float>(as_type<uint>(_e198) & as_type<uint>(_e211)) : metal::max(_e198, _e211)));
    uint _e235 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e230);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e242 = exchange.inner[(local_index - _e235) + (_e235 ^ (static_cast<uint>(static_cast<ulong>(1L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e243 = as_type<float>(_e242);
    if (_e53) {
        scratch.inner[static_cast<uint>(static_cast<ulong>(_e52))] = ((as_type<uint>(_e230) & 2147483647u) > 2139095040u) ? _e243 : (((as_type<uint>(_e243) & 2147483647u) > 2139095040u) ? _e230 : ((_e230 == _e243) ? as_type<float>(as_type<uint>(_e230) & as_type<uint>(_e243)) : metal::max(_e230, _e243)));
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e267 = static_cast<uint>(static_cast<ulong>(0L));
    float _e272 = scratch.inner[_e267];
    float _e276 = scratch.inner[_e267 + 1u];
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
                long _e320 = i_1;
                i_1 = as_type<long>(as_type<ulong>(_e320) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i_1)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init_1 = false;
            long _e301 = i_1;
            float _e302 = carried_1;
            float _e310 = x[x_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e45) + as_type<ulong>(_e301))))];
            float _e313 = metal::exp2((_e310 - (((as_type<uint>(_e272) & 2147483647u) > 2139095040u) ? _e276 : (((as_type<uint>(_e276) & 2147483647u) > 2139095040u) ? _e272 : ((_e272 == _e276) ? as_type<float>(as_type<uint>(_e272) & as_type<uint>(_e276)) : metal::max(_e272, _e276))))) * 1.442695);
            y[y_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e46) + as_type<ulong>(_e301))))] = _e313;
            carried_1 = _e302 + _e313;
        }
    }
    float _e327 = carried_1;
    uint _e332 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e327);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e339 = exchange.inner[(local_index - _e332) + (_e332 ^ (static_cast<uint>(static_cast<ulong>(16L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e341 = _e327 + as_type<float>(_e339);
    uint _e346 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e341);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e353 = exchange.inner[(local_index - _e346) + (_e346 ^ (static_cast<uint>(static_cast<ulong>(8L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e355 = _e341 + as_type<float>(_e353);
    uint _e360 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e355);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e367 = exchange.inner[(local_index - _e360) + (_e360 ^ (static_cast<uint>(static_cast<ulong>(4L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e369 = _e355 + as_type<float>(_e367);
    uint _e374 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e369);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e381 = exchange.inner[(local_index - _e374) + (_e374 ^ (static_cast<uint>(static_cast<ulong>(2L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e383 = _e369 + as_type<float>(_e381);
    uint _e388 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e383);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e395 = exchange.inner[(local_index - _e388) + (_e388 ^ (static_cast<uint>(static_cast<ulong>(1L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (_e53) {
        scratch.inner[static_cast<uint>(static_cast<ulong>(_e52))] = _e383 + as_type<float>(_e395);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e402 = static_cast<uint>(static_cast<ulong>(0L));
    float _e407 = scratch.inner[_e402];
    float _e411 = scratch.inner[_e402 + 1u];
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
            long _e415 = i_2;
            long _e416 = as_type<long>(as_type<ulong>(_e46) + as_type<ulong>(_e415));
            float _e423 = y[y_offset + static_cast<uint>(static_cast<ulong>(_e416))];
            y[y_offset + static_cast<uint>(static_cast<ulong>(_e416))] = _e423 / (_e407 + _e411);
        }
    }
}
