//! How much memory an adapter has, which wgpu itself does not say.

/// Bytes of the adapter's own memory, where its API can be asked.
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(crate) fn device_memory(adapter: &wgpu::Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT` (Vulkan 1.3, "Device Memory").
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: nothing of the adapter's is destroyed; it is only asked for its physical device,
    // which lives as long as the instance that the guard holds.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = vulkan.shared_instance().raw_instance();
    // SAFETY: the physical device is one of this instance's.
    let properties = unsafe { instance.get_physical_device_memory_properties(vulkan.raw_physical_device()) };
    let heaps = properties.memory_heaps.iter().take(properties.memory_heap_count as usize);
    Some(heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).sum())
}

/// Bytes of the adapter's own memory, where its API can be asked.
#[cfg(not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) fn device_memory(_: &wgpu::Adapter) -> Option<u64> {
    None
}
