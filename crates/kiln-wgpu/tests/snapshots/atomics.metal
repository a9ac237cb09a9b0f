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
    int _e54 = x[x_offset + static_cast<uint>(static_cast<ulong>(_e48))];
    bool _e62 = _e54 > 0;
    int _e68 = metal::atomic_fetch_add_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(0L))], _e54, metal::memory_order_relaxed);
    int _e74 = metal::atomic_fetch_min_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(1L))], _e54, metal::memory_order_relaxed);
    loaded = 0;
    if (_e62) {
        int _e81 = metal::atomic_fetch_max_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(2L))], _e54, metal::memory_order_relaxed);
        loaded = _e81;
    }
    int _e88 = metal::atomic_fetch_or_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(3L))], _e54, metal::memory_order_relaxed);
    int _e94 = metal::atomic_fetch_xor_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(4L))], _e54, metal::memory_order_relaxed);
    int _e101 = metal::atomic_fetch_add_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(5L))], 1, metal::memory_order_relaxed);
    old[old_offset + static_cast<uint>(static_cast<ulong>(static_cast<long>(static_cast<ulong>(as_type<uint>(_e101)) | (static_cast<ulong>(as_type<uint>(_e101 >> 31u)) << 32u))))] = _e101;
    float _e116 = static_cast<float>(_e54);
    uint _e124 = metal::atomic_load_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(0L))], metal::memory_order_relaxed);
    seen = _e124;
    uint2 loop_bound = uint2(4294967295u);
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        uint _e125 = seen;
        _atomic_compare_exchange_result_Uint_4_ _e129 = naga_atomic_compare_exchange_weak_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(0L))], _e125, as_type<uint>(as_type<float>(_e125) + _e116));
        if (_e129.exchanged) {
            break;
        }
        seen = _e129.old_value;
    }
    uint _e132 = seen;
    uint _e141 = metal::atomic_load_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(1L))], metal::memory_order_relaxed);
    seen_1 = _e141;
    uint2 loop_bound_1 = uint2(4294967295u);
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        uint _e142 = seen_1;
        float _e143 = as_type<float>(_e142);
        _atomic_compare_exchange_result_Uint_4_ _e164 = naga_atomic_compare_exchange_weak_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(1L))], _e142, as_type<uint>(((as_type<uint>(_e143) & 2147483647u) > 2139095040u) ? _e116 : (((as_type<uint>(_e116) & 2147483647u) > 2139095040u) ? _e143 : ((_e143 == _e116) ? as_type<float>(as_type<uint>(_e143) | as_type<uint>(_e116)) : metal::min(_e143, _e116)))));
        if (_e164.exchanged) {
            break;
        }
        seen_1 = _e164.old_value;
    }
    uint _e167 = seen_1;
    loaded_1 = 0.0;
    if (_e62) {
        uint _e177 = metal::atomic_load_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(2L))], metal::memory_order_relaxed);
        seen_2 = _e177;
        uint2 loop_bound_2 = uint2(4294967295u);
        while(true) {
            if (metal::all(loop_bound_2 == uint2(0u))) { break; }
            loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
            uint _e178 = seen_2;
            float _e179 = as_type<float>(_e178);
            _atomic_compare_exchange_result_Uint_4_ _e200 = naga_atomic_compare_exchange_weak_explicit(&f[f_offset + static_cast<uint>(static_cast<ulong>(2L))], _e178, as_type<uint>(((as_type<uint>(_e179) & 2147483647u) > 2139095040u) ? _e116 : (((as_type<uint>(_e116) & 2147483647u) > 2139095040u) ? _e179 : ((_e179 == _e116) ? as_type<float>(as_type<uint>(_e179) & as_type<uint>(_e116)) : metal::max(_e179, _e116)))));
            if (_e200.exchanged) {
                break;
            }
            seen_2 = _e200.old_value;
        }
        uint _e203 = seen_2;
        loaded_1 = as_type<float>(_e203);
    }
    uint2 loop_bound_3 = uint2(4294967295u);
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        _atomic_compare_exchange_result_Sint_4_ _e214 = naga_atomic_compare_exchange_weak_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(6L))], 0, 1);
        seen_3 = _e214.old_value;
        if (_e214.exchanged || (_e214.old_value != 0)) {
            break;
        }
    }
    int _e219 = seen_3;
    int _e230 = metal::atomic_fetch_add_explicit(&n[n_offset + static_cast<uint>(static_cast<ulong>(7L))], (_e219 == 0) ? 1 : 0, metal::memory_order_relaxed);
    uint _e233 = h_offset + static_cast<uint>(static_cast<ulong>(_e48));
    if (_e62) {
        uint _e244 = (_e233 & 1u) * 16u;
        uint _e248 = metal::atomic_fetch_and_explicit(&h[_e233 >> 1u], ~((65535u << _e244)), metal::memory_order_relaxed);
        uint _e250 = metal::atomic_fetch_or_explicit(&h[_e233 >> 1u], (as_type<uint>(1.0) >> 16u) << _e244, metal::memory_order_relaxed);
    }
}
