//! What a driver of Vulkan says of floats, which wgpu does not ask it.

use crate::float_modes::FloatModes;

/// The modes of floats that a driver has, if it takes SPIR-V that asks for them: from Vulkan 1.2
/// on.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(crate) fn float_modes(adapter: &wgpu::Adapter) -> Option<FloatModes> {
    use ash::vk;
    // SAFETY: nothing of the adapter's is destroyed; it is only asked for its physical device,
    // which lives as long as the instance that the guard holds.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let device_version = vulkan.physical_device_capabilities().properties().api_version;
    let version = vulkan.shared_instance().instance_api_version().min(device_version);
    if version < vk::API_VERSION_1_2 {
        return None;
    }
    let mut controls = vk::PhysicalDeviceFloatControlsProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut controls);
    let instance = vulkan.shared_instance().raw_instance();
    // SAFETY: the physical device is one of this instance's, both have the call, which Vulkan 1.1
    // brought, and the chain holds a structure that Vulkan 1.2 knows.
    unsafe { instance.get_physical_device_properties2(vulkan.raw_physical_device(), &mut properties) };
    Some(modes(&controls))
}

/// Elsewhere no driver takes SPIR-V.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) fn float_modes(_: &wgpu::Adapter) -> Option<FloatModes> {
    None
}

/// The modes that one module may ask for together.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn modes(controls: &ash::vk::PhysicalDeviceFloatControlsProperties<'_>) -> FloatModes {
    use crate::float_modes::Widths;
    use ash::vk::ShaderFloatControlsIndependence as Independence;
    let widths = |[half, single, double]: [u32; 3]| Widths {
        half: half != 0,
        single: single != 0,
        double: double != 0,
    };
    // Where widths depend on each other, they have a mode together or not at all.
    let together = |mut widths: Widths, independence: Independence| {
        if independence != Independence::ALL {
            let both = widths.half && widths.double;
            (widths.half, widths.double) = (both, both);
        }
        let all = widths == Widths::ALL;
        if independence == Independence::NONE && !all { Widths::default() } else { widths }
    };
    FloatModes {
        special_values: widths([
            controls.shader_signed_zero_inf_nan_preserve_float16,
            controls.shader_signed_zero_inf_nan_preserve_float32,
            controls.shader_signed_zero_inf_nan_preserve_float64,
        ]),
        subnormals: together(
            widths([
                controls.shader_denorm_preserve_float16,
                controls.shader_denorm_preserve_float32,
                controls.shader_denorm_preserve_float64,
            ]),
            controls.denorm_behavior_independence,
        ),
        nearest: together(
            widths([
                controls.shader_rounding_mode_rte_float16,
                controls.shader_rounding_mode_rte_float32,
                controls.shader_rounding_mode_rte_float64,
            ]),
            controls.rounding_mode_independence,
        ),
    }
}

#[cfg(test)]
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod tests {
    use super::*;
    use crate::float_modes::Widths;
    use ash::vk::{PhysicalDeviceFloatControlsProperties, ShaderFloatControlsIndependence as Independence};

    #[test]
    fn dependent_widths_have_a_mode_together() {
        let subnormals = |independence, [half, single, double]: [bool; 3]| {
            let controls = PhysicalDeviceFloatControlsProperties::default()
                .denorm_behavior_independence(independence)
                .shader_denorm_preserve_float16(half)
                .shader_denorm_preserve_float32(single)
                .shader_denorm_preserve_float64(double);
            modes(&controls).subnormals
        };
        let given = [true, true, false];
        let single = Widths { single: true, ..Widths::default() };
        assert_eq!(subnormals(Independence::ALL, given), Widths { half: true, ..single });
        assert_eq!(subnormals(Independence::TYPE_32_ONLY, given), single);
        assert_eq!(subnormals(Independence::NONE, given), Widths::default());
        assert_eq!(subnormals(Independence::NONE, [true; 3]), Widths::ALL);
    }
}
