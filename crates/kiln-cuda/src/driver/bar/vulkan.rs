//! The part of Vulkan's C interface that mapped GPU memory needs: structures and functions by the
//! names of the specification, without their `Vk` and `vk`. Everything is in Vulkan 1.1 but for the
//! one function of the extension `VK_KHR_external_memory_fd`.

use std::ffi::{c_char, c_int, c_void};

/// `VkResult`: negative for failures.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VkResult(pub(super) i32);

impl VkResult {
    pub(super) const SUCCESS: VkResult = VkResult(0);
    /// An array that was given is too short; what fits is in it.
    pub(super) const INCOMPLETE: VkResult = VkResult(5);
    pub(super) const ERROR_OUT_OF_HOST_MEMORY: VkResult = VkResult(-1);
    pub(super) const ERROR_OUT_OF_DEVICE_MEMORY: VkResult = VkResult(-2);
    pub(super) const ERROR_MEMORY_MAP_FAILED: VkResult = VkResult(-5);
    pub(super) const ERROR_EXTENSION_NOT_PRESENT: VkResult = VkResult(-7);

    /// The specification's name, or the number.
    pub(super) fn name(self) -> String {
        let name = match self.0 {
            0 => "VK_SUCCESS",
            5 => "VK_INCOMPLETE",
            -1 => "VK_ERROR_OUT_OF_HOST_MEMORY",
            -2 => "VK_ERROR_OUT_OF_DEVICE_MEMORY",
            -3 => "VK_ERROR_INITIALIZATION_FAILED",
            -4 => "VK_ERROR_DEVICE_LOST",
            -5 => "VK_ERROR_MEMORY_MAP_FAILED",
            -6 => "VK_ERROR_LAYER_NOT_PRESENT",
            -7 => "VK_ERROR_EXTENSION_NOT_PRESENT",
            -8 => "VK_ERROR_FEATURE_NOT_PRESENT",
            -9 => "VK_ERROR_INCOMPATIBLE_DRIVER",
            -10 => "VK_ERROR_TOO_MANY_OBJECTS",
            other => return format!("VkResult {other}"),
        };
        name.to_owned()
    }
}

/// Handles that the loader dispatches on.
pub(super) type Instance = *mut c_void;
/// As above.
pub(super) type PhysicalDevice = *mut c_void;
/// As above.
pub(super) type Device = *mut c_void;
/// A handle that is not dispatched on: 64 bits everywhere. 0 names nothing.
pub(super) type DeviceMemory = u64;

/// `VK_API_VERSION_1_1`.
pub(super) const API_VERSION_1_1: u32 = 1 << 22 | 1 << 12;
/// `VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT`.
pub(super) const DEVICE_LOCAL: u32 = 1;
/// `VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT`.
pub(super) const HOST_VISIBLE: u32 = 2;
/// `VK_MEMORY_PROPERTY_HOST_COHERENT_BIT`: what the host writes needs no call to arrive.
pub(super) const HOST_COHERENT: u32 = 4;
/// `VK_MEMORY_PROPERTY_HOST_CACHED_BIT`.
pub(super) const HOST_CACHED: u32 = 8;
/// `VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT`.
pub(super) const OPAQUE_FD: u32 = 1;

/// Values of `VkStructureType`.
pub(super) mod structure {
    pub const APPLICATION_INFO: i32 = 0;
    pub const INSTANCE_CREATE_INFO: i32 = 1;
    pub const DEVICE_QUEUE_CREATE_INFO: i32 = 2;
    pub const DEVICE_CREATE_INFO: i32 = 3;
    pub const MEMORY_ALLOCATE_INFO: i32 = 5;
    pub const PHYSICAL_DEVICE_PROPERTIES_2: i32 = 1_000_059_001;
    pub const PHYSICAL_DEVICE_ID_PROPERTIES: i32 = 1_000_071_004;
    pub const EXPORT_MEMORY_ALLOCATE_INFO: i32 = 1_000_072_002;
    pub const MEMORY_GET_FD_INFO_KHR: i32 = 1_000_074_002;
}

/// `VkApplicationInfo`.
#[repr(C)]
pub(super) struct ApplicationInfo {
    pub(super) s_type: i32,
    pub(super) next: *const c_void,
    pub(super) application_name: *const c_char,
    pub(super) application_version: u32,
    pub(super) engine_name: *const c_char,
    pub(super) engine_version: u32,
    pub(super) api_version: u32,
}

/// `VkInstanceCreateInfo`.
#[repr(C)]
pub(super) struct InstanceCreateInfo {
    pub(super) s_type: i32,
    pub(super) next: *const c_void,
    pub(super) flags: u32,
    pub(super) application: *const ApplicationInfo,
    pub(super) layer_count: u32,
    pub(super) layers: *const *const c_char,
    pub(super) extension_count: u32,
    pub(super) extensions: *const *const c_char,
}

/// `VkPhysicalDeviceProperties2`, with `VkPhysicalDeviceProperties` in it.
#[repr(C)]
pub(super) struct PhysicalDeviceProperties2 {
    pub(super) s_type: i32,
    pub(super) next: *mut c_void,
    pub(super) api_version: u32,
    pub(super) driver_version: u32,
    pub(super) vendor: u32,
    pub(super) device: u32,
    pub(super) kind: i32,
    pub(super) name: [c_char; 256],
    pub(super) pipeline_cache_uuid: [u8; 16],
    /// `VkPhysicalDeviceLimits` and `VkPhysicalDeviceSparseProperties`, which are not read here.
    pub(super) limits: [u64; 66],
}

/// `VkPhysicalDeviceIDProperties`.
#[repr(C)]
pub(super) struct PhysicalDeviceIdProperties {
    pub(super) s_type: i32,
    pub(super) next: *mut c_void,
    pub(super) device_uuid: [u8; 16],
    pub(super) driver_uuid: [u8; 16],
    pub(super) device_luid: [u8; 8],
    pub(super) device_node_mask: u32,
    pub(super) device_luid_valid: u32,
}

/// `VkMemoryType`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct MemoryType {
    pub(super) flags: u32,
    pub(super) heap: u32,
}

/// `VkMemoryHeap`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct MemoryHeap {
    pub(super) bytes: u64,
    pub(super) flags: u32,
}

/// `VkPhysicalDeviceMemoryProperties`.
#[repr(C)]
#[derive(Default)]
pub(super) struct PhysicalDeviceMemoryProperties {
    pub(super) type_count: u32,
    pub(super) types: [MemoryType; 32],
    pub(super) heap_count: u32,
    pub(super) heaps: [MemoryHeap; 16],
}

/// `VkDeviceQueueCreateInfo`.
#[repr(C)]
pub(super) struct DeviceQueueCreateInfo {
    pub(super) s_type: i32,
    pub(super) next: *const c_void,
    pub(super) flags: u32,
    pub(super) family: u32,
    pub(super) count: u32,
    pub(super) priorities: *const f32,
}

/// `VkDeviceCreateInfo`.
#[repr(C)]
pub(super) struct DeviceCreateInfo {
    pub(super) s_type: i32,
    pub(super) next: *const c_void,
    pub(super) flags: u32,
    pub(super) queue_count: u32,
    pub(super) queues: *const DeviceQueueCreateInfo,
    pub(super) layer_count: u32,
    pub(super) layers: *const *const c_char,
    pub(super) extension_count: u32,
    pub(super) extensions: *const *const c_char,
    pub(super) features: *const c_void,
}

/// `VkExportMemoryAllocateInfo`.
#[repr(C)]
pub(super) struct ExportMemoryAllocateInfo {
    pub(super) s_type: i32,
    pub(super) next: *const c_void,
    pub(super) handle_types: u32,
}

/// `VkMemoryAllocateInfo`.
#[repr(C)]
pub(super) struct MemoryAllocateInfo {
    pub(super) s_type: i32,
    pub(super) next: *const c_void,
    pub(super) bytes: u64,
    pub(super) memory_type: u32,
}

/// `VkMemoryGetFdInfoKHR`.
#[repr(C)]
pub(super) struct MemoryGetFdInfo {
    pub(super) s_type: i32,
    pub(super) next: *const c_void,
    pub(super) memory: DeviceMemory,
    pub(super) handle_type: u32,
}

/// What every function may be given to allocate with: nothing, which means the system's allocator.
pub(super) type Allocator = *const c_void;

/// A function by name, before its signature is known.
pub(super) type VoidFunction = unsafe extern "system" fn();

pub(super) type GetInstanceProcAddr =
    unsafe extern "system" fn(Instance, *const c_char) -> Option<VoidFunction>;
pub(super) type CreateInstance =
    unsafe extern "system" fn(*const InstanceCreateInfo, Allocator, *mut Instance) -> VkResult;
pub(super) type DestroyInstance = unsafe extern "system" fn(Instance, Allocator);
pub(super) type EnumeratePhysicalDevices =
    unsafe extern "system" fn(Instance, *mut u32, *mut PhysicalDevice) -> VkResult;
pub(super) type GetPhysicalDeviceProperties2 =
    unsafe extern "system" fn(PhysicalDevice, *mut PhysicalDeviceProperties2);
pub(super) type GetPhysicalDeviceMemoryProperties =
    unsafe extern "system" fn(PhysicalDevice, *mut PhysicalDeviceMemoryProperties);
pub(super) type CreateDevice =
    unsafe extern "system" fn(PhysicalDevice, *const DeviceCreateInfo, Allocator, *mut Device) -> VkResult;
pub(super) type DestroyDevice = unsafe extern "system" fn(Device, Allocator);
pub(super) type AllocateMemory =
    unsafe extern "system" fn(Device, *const MemoryAllocateInfo, Allocator, *mut DeviceMemory) -> VkResult;
pub(super) type FreeMemory = unsafe extern "system" fn(Device, DeviceMemory, Allocator);
pub(super) type MapMemory =
    unsafe extern "system" fn(Device, DeviceMemory, u64, u64, u32, *mut *mut c_void) -> VkResult;
pub(super) type UnmapMemory = unsafe extern "system" fn(Device, DeviceMemory);
pub(super) type GetMemoryFd =
    unsafe extern "system" fn(Device, *const MemoryGetFdInfo, *mut c_int) -> VkResult;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The layouts of the specification's header on 64-bit targets.
    #[test]
    fn structures_match_the_specification() {
        assert_eq!(size_of::<ApplicationInfo>(), 48);
        assert_eq!(size_of::<InstanceCreateInfo>(), 64);
        assert_eq!(size_of::<PhysicalDeviceProperties2>(), 16 + 824);
        assert_eq!(offset_of!(PhysicalDeviceProperties2, name), 16 + 20);
        assert_eq!(offset_of!(PhysicalDeviceProperties2, limits), 16 + 296);
        assert_eq!(size_of::<PhysicalDeviceIdProperties>(), 64);
        assert_eq!(offset_of!(PhysicalDeviceIdProperties, device_uuid), 16);
        assert_eq!(size_of::<PhysicalDeviceMemoryProperties>(), 520);
        assert_eq!(offset_of!(PhysicalDeviceMemoryProperties, heaps), 264);
        assert_eq!(size_of::<DeviceQueueCreateInfo>(), 40);
        assert_eq!(size_of::<DeviceCreateInfo>(), 72);
        assert_eq!(size_of::<ExportMemoryAllocateInfo>(), 24);
        assert_eq!(size_of::<MemoryAllocateInfo>(), 32);
        assert_eq!(size_of::<MemoryGetFdInfo>(), 32);
        assert_eq!(offset_of!(MemoryGetFdInfo, handle_type), 24);
    }

    #[test]
    fn results_have_names() {
        assert_eq!(VkResult(-9).name(), "VK_ERROR_INCOMPATIBLE_DRIVER");
        assert_eq!(VkResult(-1_000_072_003).name(), "VkResult -1000072003");
    }
}
