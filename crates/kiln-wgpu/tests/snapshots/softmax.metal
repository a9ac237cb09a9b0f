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
                long _e89 = i;
                i = as_type<long>(as_type<ulong>(_e89) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init = false;
            long _e61 = i;
            float _e62 = carried;
            float _e69 = x[x_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e45) + as_type<ulong>(_e61))))];
            carried = ((as_type<uint>(_e62) & 2147483647u) > 2139095040u) ? _e69 : (((as_type<uint>(_e69) & 2147483647u) > 2139095040u) ? _e62 : ((_e62 == _e69) ? as_type<float>(as_type<uint>(_e62) & as_type<uint>(_e69)) : metal::max(_e62, _e69)));
        }
    }
    float _e96 = carried;
    uint _e105 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e96);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e113 = exchange.inner[(local_index - _e105) + (_e105 ^ (static_cast<uint>(static_cast<ulong>(16L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e114 = as_type<float>(_e113);
    float _e133 = ((as_type<uint>(_e96) & 2147483647u) > 2139095040u) ? _e114 : (((as_type<uint>(_e114) & 2147483647u) > 2139095040u) ? _e96 : ((_e96 == _e114) ? as_type<float>(as_type<uint>(_e96) & as_type<uint>(_e114)) : metal::max(_e96, _e114)));
    uint _e138 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e133);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e145 = exchange.inner[(local_index - _e138) + (_e138 ^ (static_cast<uint>(static_cast<ulong>(8L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e146 = as_type<float>(_e145);
    float _e165 = ((as_type<uint>(_e133) & 2147483647u) > 2139095040u) ? _e146 : (((as_type<uint>(_e146) & 2147483647u) > 2139095040u) ? _e133 : ((_e133 == _e146) ? as_type<float>(as_type<uint>(_e133) & as_type<uint>(_e146)) : metal::max(_e133, _e146)));
    uint _e170 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e165);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e177 = exchange.inner[(local_index - _e170) + (_e170 ^ (static_cast<uint>(static_cast<ulong>(4L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e178 = as_type<float>(_e177);
    float _e197 = ((as_type<uint>(_e165) & 2147483647u) > 2139095040u) ? _e178 : (((as_type<uint>(_e178) & 2147483647u) > 2139095040u) ? _e165 : ((_e165 == _e178) ? as_type<float>(as_type<uint>(_e165) & as_type<uint>(_e178)) : metal::max(_e165, _e178)));
    uint _e202 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e197);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e209 = exchange.inner[(local_index - _e202) + (_e202 ^ (static_cast<uint>(static_cast<ulong>(2L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e210 = as_type<float>(_e209);
    float _e229 = ((as_type<uint>(_e197) & 2147483647u) > 2139095040u) ? _e210 : (((as_type<uint>(_e210) & 2147483647u) > 2139095040u) ? _e197 : ((_e197 == _e210) ? as_type<float>(as_type<uint>(_e197) & as_type<uint>(_e210)) : metal::max(_e197, _e210)));
    uint _e234 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e229);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e241 = exchange.inner[(local_index - _e234) + (_e234 ^ (static_cast<uint>(static_cast<ulong>(1L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e242 = as_type<float>(_e241);
    if (_e53) {
        scratch.inner[static_cast<uint>(static_cast<ulong>(_e52))] = ((as_type<uint>(_e229) & 2147483647u) > 2139095040u) ? _e242 : (((as_type<uint>(_e242) & 2147483647u) > 2139095040u) ? _e229 : ((_e229 == _e242) ? as_type<float>(as_type<uint>(_e229) & as_type<uint>(_e242)) : metal::max(_e229, _e242)));
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e266 = static_cast<uint>(static_cast<ulong>(0L));
    float _e270 = scratch.inner[_e266];
    float _e274 = scratch.inner[_e266 + 1u];
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
                long _e317 = i_1;
                i_1 = as_type<long>(as_type<ulong>(_e317) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i_1)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init_1 = false;
            long _e299 = i_1;
            float _e300 = carried_1;
            float _e307 = x[x_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e45) + as_type<ulong>(_e299))))];
            float _e310 = metal::exp2((_e307 - (((as_type<uint>(_e270) & 2147483647u) > 2139095040u) ? _e274 : (((as_type<uint>(_e274) & 2147483647u) > 2139095040u) ? _e270 : ((_e270 == _e274) ? as_type<float>(as_type<uint>(_e270) & as_type<uint>(_e274)) : metal::max(_e270, _e274))))) * 1.442695);
            y[y_offset + static_cast<uint>(static_cast<ulong>(as_type<long>(as_type<ulong>(_e46) + as_type<ulong>(_e299))))] = _e310;
            carried_1 = _e300 + _e310;
        }
    }
    float _e324 = carried_1;
    uint _e329 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e324);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e336 = exchange.inner[(local_index - _e329) + (_e329 ^ (static_cast<uint>(static_cast<ulong>(16L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e338 = _e324 + as_type<float>(_e336);
    uint _e343 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e338);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e350 = exchange.inner[(local_index - _e343) + (_e343 ^ (static_cast<uint>(static_cast<ulong>(8L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e352 = _e338 + as_type<float>(_e350);
    uint _e357 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e352);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e364 = exchange.inner[(local_index - _e357) + (_e357 ^ (static_cast<uint>(static_cast<ulong>(4L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e366 = _e352 + as_type<float>(_e364);
    uint _e371 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e366);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e378 = exchange.inner[(local_index - _e371) + (_e371 ^ (static_cast<uint>(static_cast<ulong>(2L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e380 = _e366 + as_type<float>(_e378);
    uint _e385 = local_index & 31u;
    exchange.inner[local_index] = as_type<uint>(_e380);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e392 = exchange.inner[(local_index - _e385) + (_e385 ^ (static_cast<uint>(static_cast<ulong>(1L)) & 31u))];
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (_e53) {
        scratch.inner[static_cast<uint>(static_cast<ulong>(_e52))] = _e380 + as_type<float>(_e392);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e399 = static_cast<uint>(static_cast<ulong>(0L));
    float _e403 = scratch.inner[_e399];
    float _e407 = scratch.inner[_e399 + 1u];
    i_2 = thread_x;
    if (thread_x < x_extent_1_) {
        uint2 loop_bound_2 = uint2(4294967295u);
        bool loop_init_2 = true;
        while(true) {
            if (metal::all(loop_bound_2 == uint2(0u))) { break; }
            loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
            if (!loop_init_2) {
                long _e424 = i_2;
                i_2 = as_type<long>(as_type<ulong>(_e424) + as_type<ulong>(64L));
                if ((static_cast<ulong>(x_extent_1_) - static_cast<ulong>(i_2)) <= static_cast<ulong>(64L)) {
                    break;
                }
            }
            loop_init_2 = false;
            long _e411 = i_2;
            long _e412 = as_type<long>(as_type<ulong>(_e46) + as_type<ulong>(_e411));
            float _e418 = y[y_offset + static_cast<uint>(static_cast<ulong>(_e412))];
            y[y_offset + static_cast<uint>(static_cast<ulong>(_e412))] = _e418 / (_e403 + _e407);
        }
    }
}
