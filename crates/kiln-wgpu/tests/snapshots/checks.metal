// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size4;
};

struct Parameters {
    uint x_offset;
    uint y_offset;
    int n;
    uint grid_0_;
    uint grid_1_;
    uint grid_2_;
    uint fold;
    uint program_number;
};
typedef int type_3[1];
typedef metal::atomic_uint type_5[1];
struct type_6 {
    int inner[64];
};
struct type_7 {
    metal::atomic_uint inner[1];
};
struct type_8 {
    uint inner[1];
};

bool claim_fault(
    uint site,
    uint program_1,
    metal::uint3 block,
    metal::uint3 thread_,
    device type_5& report,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = metal::atomic_exchange_explicit(&report[0], 1u, metal::memory_order_relaxed);
    if (_e8 != 0u) {
        return false;
    }
    metal::atomic_store_explicit(&report[1u + 0u], program_1, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[1u + 1u], site, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[1u + 2u], block.x, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[1u + 3u], block.y, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[1u + 4u], block.z, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[1u + 5u], thread_.x, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[1u + 6u], thread_.y, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[1u + 7u], thread_.z, metal::memory_order_relaxed);
    return true;
}

uint begin_print(
    uint site_1,
    uint program_2,
    metal::uint3 block_1,
    metal::uint3 thread_1,
    uint words,
    device type_5& report,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e10 = (1 + (_buffer_sizes.size4 - 0 - 4) / 4) - 28u;
    uint _e11 = 8u + words;
    uint _e12 = metal::atomic_load_explicit(&report[26], metal::memory_order_relaxed);
    if ((_e10 - metal::min(_e12, _e10)) < _e11) {
        uint _e18 = metal::atomic_fetch_add_explicit(&report[27], 1u, metal::memory_order_relaxed);
        return 0u;
    }
    uint _e20 = metal::atomic_fetch_add_explicit(&report[26], _e11, metal::memory_order_relaxed);
    if ((_e20 + _e11) > _e10) {
        uint _e25 = metal::atomic_fetch_add_explicit(&report[27], 1u, metal::memory_order_relaxed);
        return 0u;
    }
    uint _e27 = 28u + _e20;
    metal::atomic_store_explicit(&report[_e27 + 0u], program_2, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[_e27 + 1u], site_1, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[_e27 + 2u], block_1.x, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[_e27 + 3u], block_1.y, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[_e27 + 4u], block_1.z, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[_e27 + 5u], thread_1.x, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[_e27 + 6u], thread_1.y, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&report[_e27 + 7u], thread_1.z, metal::memory_order_relaxed);
    return _e27 + 8u;
}
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

int naga_div(int lhs, int rhs) {
    return lhs / metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
}

uint naga_f2u32(float value) {
    return static_cast<uint>(metal::clamp(value, 0.0, 4294967000.0));
}


struct checksInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void checks(
  metal::uint3 local_id [[thread_position_in_threadgroup]]
, uint local_index [[thread_index_in_threadgroup]]
, metal::uint3 group_id [[threadgroup_position_in_grid]]
, constant Parameters& parameters [[user(fake0)]]
, device type_3 const& x [[user(fake0)]]
, device type_5& y [[user(fake0)]]
, threadgroup type_6& shared
, device type_5& report [[user(fake0)]]
, threadgroup type_7& failed
, threadgroup type_8& any_failed
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (local_index == 0u) {
        shared = {};
        for (int __i0 = 0; __i0 < 1; __i0++) {
            metal::atomic_store_explicit(&failed.inner[__i0], 0, metal::memory_order_relaxed);
        }
        any_failed = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::uint3 program = {};
    int result = {};
    int result_1 = {};
    int carried = {};
    int i = {};
    bool left = false;
    uint x_offset = parameters.x_offset;
    uint y_offset = parameters.y_offset;
    int n = parameters.n;
    uint grid_0_ = parameters.grid_0_;
    uint grid_1_ = parameters.grid_1_;
    uint grid_2_ = parameters.grid_2_;
    uint fold = parameters.fold;
    uint program_number = parameters.program_number;
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
    metal::uint3 _e36 = program;
    if (local_index == 0u) {
        metal::atomic_store_explicit(&failed.inner[0], 0u, metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    long thread_x = static_cast<long>(static_cast<ulong>(local_id.x));
    int _e55 = x[x_offset + static_cast<uint>(static_cast<ulong>(thread_x))];
    bool _e58 = !(!((_e55 == 0)));
    if (_e58) {
        uint _e60 = metal::atomic_fetch_or_explicit(&failed.inner[0], 1u, metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (local_index == 0u) {
        uint _e63 = metal::atomic_load_explicit(&failed.inner[0], metal::memory_order_relaxed);
        any_failed.inner[0] = _e63;
        metal::atomic_store_explicit(&failed.inner[0], 0u, metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint unnamed = any_failed.inner[0];
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (unnamed != 0u) {
        if (_e58) {
            bool _e70 = claim_fault(0u, program_number, _e36, local_id, report, _buffer_sizes);
        }
        return;
    }
    shared.inner[static_cast<uint>(static_cast<ulong>(thread_x))] = naga_div(n, _e55);
    uint2 loop_bound = uint2(4294967295u);
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (static_cast<int>(thread_x) < n) {
            carried = 0;
            i = 0;
            if (0 < _e55) {
                uint2 loop_bound_1 = uint2(4294967295u);
                bool loop_init = true;
                while(true) {
                    if (metal::all(loop_bound_1 == uint2(0u))) { break; }
                    loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
                    if (!loop_init) {
                        int _e110 = i;
                        i = as_type<int>(as_type<uint>(_e110) + as_type<uint>(1));
                        if ((as_type<uint>(_e55) - as_type<uint>(i)) <= as_type<uint>(1)) {
                            break;
                        }
                    }
                    loop_init = false;
                    int _e82 = i;
                    int _e83 = carried;
                    if (!((_e82 < n))) {
                        bool _e88 = claim_fault(1u, program_number, _e36, local_id, report, _buffer_sizes);
                        if (_e88) {
                            metal::atomic_store_explicit(&report[10u + 0u], as_type<uint>(_e82), metal::memory_order_relaxed);
                            metal::atomic_store_explicit(&report[10u + 1u], 0u, metal::memory_order_relaxed);
                            metal::atomic_store_explicit(&report[10u + 2u], as_type<uint>(n), metal::memory_order_relaxed);
                            metal::atomic_store_explicit(&report[10u + 3u], 0u, metal::memory_order_relaxed);
                        }
                        left = true;
                        break;
                    }
                    carried = as_type<int>(as_type<uint>(_e83) + as_type<uint>(_e82));
                }
                bool _e117 = left;
                if (_e117) {
                    break;
                }
            }
            int _e118 = carried;
            result_1 = _e118;
        } else {
            result_1 = 0;
        }
        int _e119 = result_1;
        result = _e119;
        break;
    }
    int _e120 = result;
    bool _e121 = left;
    if (_e121) {
        uint _e123 = metal::atomic_fetch_or_explicit(&failed.inner[0], 1u, metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (local_index == 0u) {
        uint _e126 = metal::atomic_load_explicit(&failed.inner[0], metal::memory_order_relaxed);
        any_failed.inner[0] = _e126;
        metal::atomic_store_explicit(&failed.inner[0], 0u, metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint unnamed_1 = any_failed.inner[0];
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (unnamed_1 != 0u) {
        return;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    long _e132 = as_type<long>(as_type<ulong>(63L) - as_type<ulong>(thread_x));
    int _e137 = shared.inner[static_cast<uint>(static_cast<ulong>(_e132))];
    uint _e140 = as_type<uint>(static_cast<float>(as_type<int>(as_type<uint>(_e120) + as_type<uint>(_e137))));
    uint _e143 = _e140 & 2147483647u;
    bool _e158 = _e143 < 1015021568u;
    uint _e173 = (_e143 > 2139095040u) ? 127u : (metal::min(_e158 ? naga_f2u32(_e158 ? metal::rint(as_type<float>(_e143) * 512.0) : 0.0) : (((_e143 + (524287u + ((_e143 >> 20u) & 1u))) >> 20u) - 960u), 126u) | ((_e140 >> 24u) & 128u));
    uint _e177 = begin_print(2u, program_number, _e36, local_id, 4u, report, _buffer_sizes);
    if (_e177 != 0u) {
        ulong _e180 = static_cast<ulong>(thread_x);
        metal::atomic_store_explicit(&report[_e177 + 0u], static_cast<uint>(_e180), metal::memory_order_relaxed);
        metal::atomic_store_explicit(&report[_e177 + 1u], static_cast<uint>(_e180 >> 32u), metal::memory_order_relaxed);
        metal::atomic_store_explicit(&report[_e177 + 2u], _e173, metal::memory_order_relaxed);
        metal::atomic_store_explicit(&report[_e177 + 3u], 0u, metal::memory_order_relaxed);
    }
    if (!((_e132 < 64L))) {
        bool _e202 = claim_fault(3u, program_number, _e36, local_id, report, _buffer_sizes);
        if (_e202) {
            ulong _e204 = static_cast<ulong>(_e132);
            ulong _e209 = static_cast<ulong>(64L);
            metal::atomic_store_explicit(&report[10u + 0u], static_cast<uint>(_e204), metal::memory_order_relaxed);
            metal::atomic_store_explicit(&report[10u + 1u], static_cast<uint>(_e204 >> 32u), metal::memory_order_relaxed);
            metal::atomic_store_explicit(&report[10u + 2u], static_cast<uint>(_e209), metal::memory_order_relaxed);
            metal::atomic_store_explicit(&report[10u + 3u], static_cast<uint>(_e209 >> 32u), metal::memory_order_relaxed);
        }
        return;
    }
    uint _e228 = y_offset + static_cast<uint>(static_cast<ulong>(thread_x));
    uint _e236 = (_e228 & 3u) * 8u;
    uint _e240 = metal::atomic_fetch_and_explicit(&y[_e228 >> 2u], ~((255u << _e236)), metal::memory_order_relaxed);
    uint _e242 = metal::atomic_fetch_or_explicit(&y[_e228 >> 2u], _e173 << _e236, metal::memory_order_relaxed);
}
