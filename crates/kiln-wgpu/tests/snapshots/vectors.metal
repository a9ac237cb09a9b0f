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
};

struct Parameters {
    uint a_offset;
    uint b_offset;
    uint c_offset;
    uint x_offset;
    uint y_offset;
    uint z_offset;
    uint grid_0_;
    uint grid_1_;
    uint grid_2_;
    uint fold;
};
typedef metal::float4 type_3[1];
typedef metal::uint4 type_5[1];
typedef metal::half4 type_7[1];
uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}


struct vectorsInput {
};
[[max_total_threads_per_threadgroup(16)]] kernel void vectors(
  metal::uint3 local_id [[thread_position_in_threadgroup]]
, metal::uint3 group_id [[threadgroup_position_in_grid]]
, constant Parameters& parameters [[user(fake0)]]
, device type_3 const& a [[user(fake0)]]
, device type_5 const& b [[user(fake0)]]
, device type_7 const& c [[user(fake0)]]
, device type_3& x [[user(fake0)]]
, device type_5& y [[user(fake0)]]
, device type_7& z [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    metal::uint3 program = {};
    uint a_offset = parameters.a_offset;
    uint b_offset = parameters.b_offset;
    uint c_offset = parameters.c_offset;
    uint x_offset = parameters.x_offset;
    uint y_offset = parameters.y_offset;
    uint z_offset = parameters.z_offset;
    uint grid_0_ = parameters.grid_0_;
    uint grid_1_ = parameters.grid_1_;
    uint grid_2_ = parameters.grid_2_;
    uint fold = parameters.fold;
    program = group_id;
    if (fold != 0u) {
        uint _e35 = (group_id.y * fold) + group_id.x;
        uint _e37 = naga_div(_e35, grid_0_);
        uint _e39 = naga_div(_e37, grid_1_);
        if (_e39 >= grid_2_) {
            return;
        }
        program = metal::uint3(naga_mod(_e35, grid_0_), naga_mod(_e37, grid_1_), _e39);
    }
    long thread_x = static_cast<long>(static_cast<ulong>(local_id.x));
    long _e48 = as_type<long>(as_type<ulong>(thread_x) * as_type<ulong>(4L));
    long _e49 = as_type<long>(as_type<ulong>(thread_x) * as_type<ulong>(8L));
    metal::float4 _e60 = a[(a_offset + static_cast<uint>(static_cast<ulong>(_e48))) >> 2u];
    uint _e67 = a_offset + static_cast<uint>(static_cast<ulong>(thread_x));
    float _e75 = a[_e67 >> 2u][_e67 & 3u];
    x[(x_offset + static_cast<uint>(static_cast<ulong>(_e48))) >> 2u] = metal::float4(_e60.x + _e75, _e60.y, _e60.z, _e60.w);
    metal::uint4 _e100 = b[((b_offset + static_cast<uint>(static_cast<ulong>(_e49))) >> 1u) >> 2u];
    y[((y_offset + static_cast<uint>(static_cast<ulong>(_e49))) >> 1u) >> 2u] = metal::uint4((as_type<uint>(as_type<float>((_e100.w >> 16u) << 16u)) >> 16u) | ((as_type<uint>(as_type<float>(_e100.w << 16u)) >> 16u) << 16u), (as_type<uint>(as_type<float>((_e100.z >> 16u) << 16u)) >> 16u) | ((as_type<uint>(as_type<float>(_e100.z << 16u)) >> 16u) << 16u), (as_type<uint>(as_type<float>((_e100.y >> 16u) << 16u)) >> 16u) | ((as_type<uint>(as_type<float>(_e100.y << 16u)) >> 16u) << 16u), (as_type<uint>(as_type<float>((_e100.x >> 16u) << 16u)) >> 16u) | ((as_type<uint>(as_type<float>(_e100.x << 16u)) >> 16u) << 16u));
    uint _e192 = c_offset + static_cast<uint>(static_cast<ulong>(_e49));
    metal::half4 _e204 = c[_e192 >> 2u];
    metal::half4 _e214 = c[(_e192 + 4u) >> 2u];
    uint _e221 = z_offset + static_cast<uint>(static_cast<ulong>(_e49));
    z[_e221 >> 2u] = metal::half4(_e214.w, _e214.z, _e214.y, _e214.x);
    z[(_e221 + 4u) >> 2u] = metal::half4(_e204.w, _e204.z, _e204.y, _e204.x);
}
