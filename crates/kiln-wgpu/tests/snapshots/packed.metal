// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
    uint size4;
    uint size5;
    uint size6;
    uint size7;
};

struct Parameters {
    uint a_offset;
    uint b_offset;
    uint c_offset;
    uint x_offset;
    uint y_offset;
    uint z_offset;
    uint w_offset;
    uint grid_0_;
    uint grid_1_;
    uint grid_2_;
    uint fold;
};
typedef uint type_2[1];
typedef metal::atomic_uint type_4[1];
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


struct packedInput {
};
[[max_total_threads_per_threadgroup(16)]] kernel void packed(
  metal::uint3 local_id [[thread_position_in_threadgroup]]
, metal::uint3 group_id [[threadgroup_position_in_grid]]
, constant Parameters& parameters [[user(fake0)]]
, device type_2 const& a [[user(fake0)]]
, device type_2 const& b [[user(fake0)]]
, device type_2 const& c [[user(fake0)]]
, device type_4& x [[user(fake0)]]
, device type_4& y [[user(fake0)]]
, device type_4& z [[user(fake0)]]
, device type_2& w [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    metal::uint3 program = {};
    uint a_offset = parameters.a_offset;
    uint b_offset = parameters.b_offset;
    uint c_offset = parameters.c_offset;
    uint x_offset = parameters.x_offset;
    uint y_offset = parameters.y_offset;
    uint z_offset = parameters.z_offset;
    uint w_offset = parameters.w_offset;
    uint grid_0_ = parameters.grid_0_;
    uint grid_1_ = parameters.grid_1_;
    uint grid_2_ = parameters.grid_2_;
    uint fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        uint _e38 = (group_id.y * fold) + group_id.x;
        uint _e40 = naga_div(_e38, grid_0_);
        uint _e42 = naga_div(_e40, grid_1_);
        if (_e42 >= grid_2_) {
            return;
        }
        program = metal::uint3(naga_mod(_e38, grid_0_), naga_mod(_e40, grid_1_), _e42);
    }
    long thread_x = static_cast<long>(static_cast<ulong>(local_id.x));
    bool _e52 = naga_mod(thread_x, 2L) == 1L;
    uint _e55 = a_offset + static_cast<uint>(static_cast<ulong>(thread_x));
    uint _e64 = a[_e55 >> 1u];
    uint _e71 = x_offset + static_cast<uint>(static_cast<ulong>(thread_x));
    if (_e52) {
        uint _e82 = (_e71 & 1u) * 16u;
        uint _e86 = metal::atomic_fetch_and_explicit(&x[_e71 >> 1u], ~((65535u << _e82)), metal::memory_order_relaxed);
        uint _e88 = metal::atomic_fetch_or_explicit(&x[_e71 >> 1u], (as_type<uint>(as_type<float>((_e64 >> ((_e55 & 1u) * 16u)) << 16u)) >> 16u) << _e82, metal::memory_order_relaxed);
    }
    uint _e91 = b_offset + static_cast<uint>(static_cast<ulong>(thread_x));
    uint _e100 = b[_e91 >> 2u];
    uint _e108 = y_offset + static_cast<uint>(static_cast<ulong>(thread_x));
    if (_e52) {
        uint _e119 = (_e108 & 3u) * 8u;
        uint _e123 = metal::atomic_fetch_and_explicit(&y[_e108 >> 2u], ~((255u << _e119)), metal::memory_order_relaxed);
        uint _e125 = metal::atomic_fetch_or_explicit(&y[_e108 >> 2u], (as_type<uint>(as_type<int>((_e100 >> ((_e91 & 3u) * 8u)) << 24u) >> 24u) & 255u) << _e119, metal::memory_order_relaxed);
    }
    uint _e128 = c_offset + static_cast<uint>(static_cast<ulong>(thread_x));
    uint _e137 = c[_e128 >> 2u];
    uint _e146 = z_offset + static_cast<uint>(static_cast<ulong>(thread_x));
    if (_e52) {
        uint _e157 = (_e146 & 3u) * 8u;
        uint _e161 = metal::atomic_fetch_and_explicit(&z[_e146 >> 2u], ~((255u << _e157)), metal::memory_order_relaxed);
        uint _e163 = metal::atomic_fetch_or_explicit(&z[_e146 >> 2u], (!((((_e137 >> ((_e128 & 3u) * 8u)) & 255u) != 0u)) ? 1u : 0u) << _e157, metal::memory_order_relaxed);
    }
    long _e164 = as_type<long>(as_type<ulong>(thread_x) * as_type<ulong>(2L));
    uint _e173 = a[(a_offset + static_cast<uint>(static_cast<ulong>(_e164))) >> 1u];
    w[(w_offset + static_cast<uint>(static_cast<ulong>(_e164))) >> 1u] = (as_type<uint>(as_type<float>((_e173 >> 16u) << 16u)) >> 16u) | ((as_type<uint>(as_type<float>(_e173 << 16u)) >> 16u) << 16u);
}
