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
    uint grid_0_;
    uint grid_1_;
    uint grid_2_;
    uint fold;
};
typedef float type_3[1];
typedef uint type_4[1];
typedef long type_6[1];
struct type_8 {
    metal::atomic_uint inner[64];
};
struct type_9 {
    long inner[1];
};
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

long naga_f2i64(float value) {
    return static_cast<long>(metal::clamp(value, -9223372000000000000.0, 9223371500000000000.0));
}


struct scratchInput {
};
[[max_total_threads_per_threadgroup(16)]] kernel void scratch(
  metal::uint3 local_id [[thread_position_in_threadgroup]]
, uint local_index [[thread_index_in_threadgroup]]
, metal::uint3 group_id [[threadgroup_position_in_grid]]
, constant Parameters& parameters [[user(fake0)]]
, device type_3 const& x [[user(fake0)]]
, device type_4& y [[user(fake0)]]
, device type_6& z [[user(fake0)]]
, threadgroup type_8& scratch_1
, threadgroup type_9& first
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (local_index == 0u) {
        for (int __i0 = 0; __i0 < 64; __i0++) {
            metal::atomic_store_explicit(&scratch_1.inner[__i0], 0, metal::memory_order_relaxed);
        }
        first = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::uint3 program = {};
    uint x_offset = parameters.x_offset;
    uint y_offset = parameters.y_offset;
    uint z_offset = parameters.z_offset;
    uint grid_0_ = parameters.grid_0_;
    uint grid_1_ = parameters.grid_1_;
    uint grid_2_ = parameters.grid_2_;
    uint fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        uint _e30 = (group_id.y * fold) + group_id.x;
        uint _e32 = naga_div(_e30, grid_0_);
        uint _e34 = naga_div(_e32, grid_1_);
        if (_e34 >= grid_2_) {
            return;
        }
        program = metal::uint3(naga_mod(_e30, grid_0_), naga_mod(_e32, grid_1_), _e34);
    }
    long thread_x = static_cast<long>(static_cast<ulong>(local_id.x));
    float _e46 = x[x_offset + static_cast<uint>(static_cast<ulong>(thread_x))];
    metal::atomic_store_explicit(&scratch_1.inner[static_cast<uint>(static_cast<ulong>(thread_x))], as_type<uint>(_e46), metal::memory_order_relaxed);
    ulong _e55 = static_cast<ulong>(thread_x);
    uint _e61 = (8u + static_cast<uint>(static_cast<ulong>(thread_x))) << 1u;
    metal::atomic_store_explicit(&scratch_1.inner[_e61], static_cast<uint>(_e55), metal::memory_order_relaxed);
    metal::atomic_store_explicit(&scratch_1.inner[_e61 + 1u], static_cast<uint>(_e55 >> 32u), metal::memory_order_relaxed);
    uint _e71 = as_type<uint>(_e46);
    uint _e86 = 96u + static_cast<uint>(static_cast<ulong>(thread_x));
    uint _e97 = (_e86 & 1u) * 16u;
    uint _e101 = metal::atomic_fetch_and_explicit(&scratch_1.inner[_e86 >> 1u], ~((65535u << _e97)), metal::memory_order_relaxed);
    uint _e103 = metal::atomic_fetch_or_explicit(&scratch_1.inner[_e86 >> 1u], (as_type<uint>(as_type<float>(((as_type<uint>(_e46) & 2147483647u) > 2139095040u) ? 2143289344u : ((_e71 + (32767u + ((_e71 >> 16u) & 1u))) & 4294901760u))) >> 16u) << _e97, metal::memory_order_relaxed);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    long _e105 = as_type<long>(as_type<ulong>(15L) - as_type<ulong>(thread_x));
    uint _e110 = metal::atomic_load_explicit(&scratch_1.inner[static_cast<uint>(static_cast<ulong>(_e105))], metal::memory_order_relaxed);
    y[y_offset + static_cast<uint>(static_cast<ulong>(thread_x))] = _e110;
    uint _e121 = (8u + static_cast<uint>(static_cast<ulong>(_e105))) << 1u;
    uint _e123 = metal::atomic_load_explicit(&scratch_1.inner[_e121], metal::memory_order_relaxed);
    uint _e127 = metal::atomic_load_explicit(&scratch_1.inner[_e121 + 1u], metal::memory_order_relaxed);
    uint _e136 = 96u + static_cast<uint>(static_cast<ulong>(_e105));
    uint _e145 = metal::atomic_load_explicit(&scratch_1.inner[_e136 >> 1u], metal::memory_order_relaxed);
    float _e149 = as_type<float>((_e145 >> ((_e136 & 1u) * 16u)) << 16u);
    bool _e154 = (as_type<uint>(_e149) & 2147483647u) > 2139095040u;
    bool _e157 = _e149 >= 9223372000000000000.0;
    bool _e158 = _e149 < -9223372000000000000.0;
    long _e168 = _e154 ? 0L : (_e158 ? (-9223372036854775807L - 1L) : (_e157 ? 9223372036854775807L : naga_f2i64(((_e157 || _e158) || _e154) ? -9223372000000000000.0 : _e149)));
    if (local_index == 0u) {
        first.inner[0] = _e168;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    long unnamed = first.inner[0];
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    z[z_offset + static_cast<uint>(static_cast<ulong>(thread_x))] = as_type<long>(as_type<ulong>(as_type<long>(as_type<ulong>(static_cast<long>(static_cast<ulong>(_e123) | (static_cast<ulong>(_e127) << 32u))) + as_type<ulong>(_e168))) + as_type<ulong>(unnamed));
}
