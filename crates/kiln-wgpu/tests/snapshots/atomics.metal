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
};

struct Parameters {
    uint x_offset;
    uint n_offset;
    uint f_offset;
    uint h_offset;
    uint old_offset;
    uint grid_0_;
    uint grid_1_;
    uint grid_2_;
    uint fold;
};
typedef int type_3[1];
typedef metal::atomic_int type_5[1];
typedef metal::atomic_uint type_7[1];
struct _atomic_compare_exchange_result_Uint_4_ {
    uint old_value;
    bool exchanged;
    char _pad2[3];
};
struct _atomic_compare_exchange_result_Sint_4_ {
    int old_value;
    bool exchanged;
    char _pad2[3];
};

template <typename A>
_atomic_compare_exchange_result_Uint_4_ naga_atomic_compare_exchange_weak_explicit(
    device A *atomic_ptr,
    uint cmp,
    uint v
) {
    bool swapped = metal::atomic_compare_exchange_weak_explicit(
        atomic_ptr, &cmp, v,
        metal::memory_order_relaxed, metal::memory_order_relaxed
    );
    return _atomic_compare_exchange_result_Uint_4_{cmp, swapped};
}
template <typename A>
_atomic_compare_exchange_result_Uint_4_ naga_atomic_compare_exchange_weak_explicit(
    threadgroup A *atomic_ptr,
    uint cmp,
    uint v
) {
    bool swapped = metal::atomic_compare_exchange_weak_explicit(
        atomic_ptr, &cmp, v,
        metal::memory_order_relaxed, metal::memory_order_relaxed
    );
    return _atomic_compare_exchange_result_Uint_4_{cmp, swapped};
}

template <typename A>
_atomic_compare_exchange_result_Sint_4_ naga_atomic_compare_exchange_weak_explicit(
    device A *atomic_ptr,
    int cmp,
    int v
) {
    bool swapped = metal::atomic_compare_exchange_weak_explicit(
        atomic_ptr, &cmp, v,
        metal::memory_order_relaxed, metal::memory_order_relaxed
    );
    return _atomic_compare_exchange_result_Sint_4_{cmp, swapped};
}
template <typename A>
_atomic_compare_exchange_result_Sint_4_ naga_atomic_compare_exchange_weak_explicit(
    threadgroup A *atomic_ptr,
    int cmp,
    int v
) {
    bool swapped = metal::atomic_compare_exchange_weak_explicit(
        atomic_ptr, &cmp, v,
        metal::memory_order_relaxed, metal::memory_order_relaxed
    );
    return _atomic_compare_exchange_result_Sint_4_{cmp, swapped};
}
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}


struct atomicsInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void atomics(
  metal::uint3 local_id [[thread_position_in_threadgroup]]
, metal::uint3 group_id [[threadgroup_position_in_grid]]
, constant Parameters& parameters [[user(fake0)]]
, device type_3 const& x [[user(fake0)]]
, device type_5& n [[user(fake0)]]
, device type_7& f [[user(fake0)]]
, device type_7& h [[user(fake0)]]
, device type_3& old [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    metal::uint3 program = {};
    int loaded = {};
    uint seen = {};
    uint seen_1 = {};
    float loaded_1 = {};
    uint seen_2 = {};
    int seen_3 = {};
    uint x_offset = parameters.x_offset;
    uint n_offset = parameters.n_offset;
    uint f_offset = parameters.f_offset;
    uint h_offset = parameters.h_offset;
    uint old_offset = parameters.old_offset;
    uint grid_0_ = parameters.grid_0_;
    uint grid_1_ = parameters.grid_1_;
    uint grid_2_ = parameters.grid_2_;
    uint fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        uint _e32 = (group_id.y * fold) + group_id.x;
        uint _e34 = naga_div(_e32, grid_0_);
        uint _e36 = naga_div(_e34, grid_1_);
        if (_e36 >= grid_2_) {
            return;
        }
        program = metal::uint3(naga_mod(_e32, grid_0_), naga_mod(_e34, grid_1_), _e36);
    }
    metal::uint3 _e39 = program;
    long thread_x = static_cast<long>(static_cast<ulong>(local_id.x));
    long program_x = static_cast<long>(static_cast<ulong>(_e39.x));
    long _e48 = as_type<long>(as_type<ulong>(as_type<long>(as_type<ulong>(program_x) * as_type<ulong>(64L))) + as_type<ulong>(thread_x));
    int _e55 = x[x_offset + static_cast<uint>(static_cast<ulong>(_e48))];
    bool _e63 = _e55 > 0;
    int _e69 = metal::atomic_fetch_add_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(0L))], _e55, metal::memory_order_relaxed);
    int _e75 = metal::atomic_fetch_min_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(1L))], _e55, metal::memory_order_relaxed);
    loaded = 0;
    if (_e63) {
        int _e82 = metal::atomic_fetch_max_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(2L))], _e55, metal::memory_order_relaxed);
        loaded = _e82;
    }
    int _e89 = metal::atomic_fetch_or_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(3L))], _e55, metal::memory_order_relaxed);
    int _e95 = metal::atomic_fetch_xor_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(4L))], _e55, metal::memory_order_relaxed);
    int _e102 = metal::atomic_fetch_add_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(5L))], 1, metal::memory_order_relaxed);
    old[old_offset + static_cast<uint>(static_cast<ulong>(static_cast<long>(static_cast<ulong>(as_type<uint>(_e102)) | (static_cast<ulong>(as_type<uint>(_e102 >> 31u)) << 32u))))] = _e102;
    float _e117 = static_cast<float>(_e55);
    uint _e125 = metal::atomic_load_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(0L))], metal::memory_order_relaxed);
    seen = _e125;
    uint2 loop_bound = uint2(4294967295u);
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        uint _e126 = seen;
        _atomic_compare_exchange_result_Uint_4_ _e130 = naga_atomic_compare_exchange_weak_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(0L))], _e126, as_type<uint>(as_type<float>(_e126) + _e117));
        if (_e130.exchanged) {
            break;
        }
        seen = _e130.old_value;
    }
    uint _e133 = seen;
    uint _e142 = metal::atomic_load_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(1L))], metal::memory_order_relaxed);
    seen_1 = _e142;
    uint2 loop_bound_1 = uint2(4294967295u);
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        uint _e143 = seen_1;
        float _e144 = as_type<float>(_e143);
        _atomic_compare_exchange_result_Uint_4_ _e165 = naga_atomic_compare_exchange_weak_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(1L))], _e143, as_type<uint>(((as_type<uint>(_e144) & 2147483647u) > 2139095040u) ? _e117 : (((as_type<uint>(_e117) & 2147483647u) > 2139095040u) ? _e144 : ((_e144 == _e117) ? as_type<float>(as_type<uint>(_e144) | as_type<uint>(_e117)) : metal::min(_e144, _e117)))));
        if (_e165.exchanged) {
            break;
        }
        seen_1 = _e165.old_value;
    }
    uint _e168 = seen_1;
    loaded_1 = 0.0;
    if (_e63) {
        uint _e178 = metal::atomic_load_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(2L))], metal::memory_order_relaxed);
        seen_2 = _e178;
        uint2 loop_bound_2 = uint2(4294967295u);
        while(true) {
            if (metal::all(loop_bound_2 == uint2(0u))) { break; }
            loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
            uint _e179 = seen_2;
            float _e180 = as_type<float>(_e179);
            _atomic_compare_exchange_result_Uint_4_ _e201 = naga_atomic_compare_exchange_weak_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(2L))], _e179, as_type<uint>(((as_type<uint>(_e180) & 2147483647u) > 2139095040u) ? _e117 : (((as_type<uint>(_e117) & 2147483647u) > 2139095040u) ? _e180 : ((_e180 == _e117) ? as_type<float>(as_type<uint>(_e180) & as_type<uint>(_e117)) : metal::max(_e180, _e117)))));
            if (_e201.exchanged) {
                break;
            }
            seen_2 = _e201.old_value;
        }
        uint _e204 = seen_2;
        loaded_1 = as_type<float>(_e204);
    }
    uint2 loop_bound_3 = uint2(4294967295u);
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        _atomic_compare_exchange_result_Sint_4_ _e215 = naga_atomic_compare_exchange_weak_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(6L))], 0, 1);
        seen_3 = _e215.old_value;
        if (_e215.exchanged || (_e215.old_value != 0)) {
            break;
        }
    }
    int _e220 = seen_3;
    int _e231 = metal::atomic_fetch_add_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(7L))], (_e220 == 0) ? 1 : 0, metal::memory_order_relaxed);
    uint _e234 = h_offset + static_cast<uint>(static_cast<ulong>(_e48));
    if (_e63) {
        uint _e245 = (_e234 & 1u) * 16u;
        uint _e249 = metal::atomic_fetch_and_explicit(&h[_e234 >> 1u], ~((65535u << _e245)), metal::memory_order_relaxed);
        uint _e251 = metal::atomic_fetch_or_explicit(&h[_e234 >> 1u], (as_type<uint>(1.0) >> 16u) << _e245, metal::memory_order_relaxed);
    }
}
