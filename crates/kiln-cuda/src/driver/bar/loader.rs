//! Finding a GPU through Vulkan's loader.

use super::vulkan::*;
use kiln_backend::MapObstacle;
use libloading::Library;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

/// The name of the loader on Linux.
pub(super) const LIBRARY: &str = "libvulkan.so.1";

/// Vulkan's functions that need no device. They live as long as the process: the library is never
/// unloaded, since drivers do not survive that.
struct Functions {
    get: GetInstanceProcAddr,
    instance: Instance,
}

impl Functions {
    /// A function of the instance by its name.
    ///
    /// # Safety
    /// `F` is the type of this function's pointer.
    unsafe fn find<F: Copy>(&self, name: &'static CStr) -> Result<F, MapObstacle> {
        // SAFETY: the instance is live, or null for what needs none; the name ends with a NUL.
        let found = unsafe { (self.get)(self.instance, name.as_ptr()) };
        let missing = || MapObstacle::Missing { what: format!("function {}", name.to_string_lossy()) };
        let found = found.ok_or_else(missing)?;
        const { assert!(size_of::<F>() == size_of::<VoidFunction>()) };
        // SAFETY: of the same size, and the caller vouches for the type.
        Ok(unsafe { std::mem::transmute_copy::<VoidFunction, F>(&found) })
    }
}

/// A Vulkan instance, and the physical device in it that is a certain GPU.
pub(super) struct Found {
    functions: Functions,
    destroy: DestroyInstance,
    physical: PhysicalDevice,
    /// The memory to take.
    pub(super) memory: HostVisibleMemory,
}

// SAFETY: the handles are names that only Vulkan dereferences, and the functions used with them
// need no external synchronization.
unsafe impl Send for Found {}
// SAFETY: as above.
unsafe impl Sync for Found {}

/// A kind of memory that the GPU holds and the host can address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostVisibleMemory {
    /// Its number.
    pub(super) index: u32,
    /// The size of its heap.
    pub(super) heap_bytes: u64,
    /// Whether the host's accesses are cached; otherwise its writes are collected.
    pub(super) cached: bool,
}

impl Found {
    /// Finds the GPU with this UUID. `library` is loaded at the first call for it.
    pub(super) fn new(library: &'static str, uuid: &[u8; 16]) -> Result<Found, MapObstacle> {
        let get = loader(library)?;
        let instance = create_instance(get)?;
        let functions = Functions { get, instance };
        // SAFETY: the type of this function.
        let destroy = unsafe { functions.find(c"vkDestroyInstance") }?;
        let mut found = Found { functions, destroy, physical: null_mut(), memory: HostVisibleMemory::NONE };
        found.physical = found.device_of(uuid)?;
        found.memory = found.choose_memory()?;
        Ok(found)
    }

    /// The physical device.
    pub(super) fn physical(&self) -> PhysicalDevice {
        self.physical
    }

    /// A function by its name.
    ///
    /// # Safety
    /// `F` is the type of this function's pointer.
    pub(super) unsafe fn function<F: Copy>(&self, name: &'static CStr) -> Result<F, MapObstacle> {
        // SAFETY: the caller's promise.
        unsafe { self.functions.find(name) }
    }

    fn device_of(&self, uuid: &[u8; 16]) -> Result<PhysicalDevice, MapObstacle> {
        // SAFETY: the type of this function.
        let describe: GetPhysicalDeviceProperties2 =
            unsafe { self.functions.find(c"vkGetPhysicalDeviceProperties2") }?;
        let mut names = Vec::new();
        for physical in self.physical_devices()? {
            let mut ids = PhysicalDeviceIdProperties {
                s_type: structure::PHYSICAL_DEVICE_ID_PROPERTIES,
                next: null_mut(),
                device_uuid: [0; 16],
                driver_uuid: [0; 16],
                device_luid: [0; 8],
                device_node_mask: 0,
                device_luid_valid: 0,
            };
            let mut properties = PhysicalDeviceProperties2 {
                s_type: structure::PHYSICAL_DEVICE_PROPERTIES_2,
                next: (&raw mut ids).cast::<c_void>(),
                api_version: 0,
                driver_version: 0,
                vendor: 0,
                device: 0,
                kind: 0,
                name: [0; 256],
                pipeline_cache_uuid: [0; 16],
                limits: [0; 66],
            };
            // SAFETY: both structures are whole, writable and chained as the specification says.
            unsafe { describe(physical, &mut properties) };
            if ids.device_uuid == *uuid && properties.api_version >= API_VERSION_1_1 {
                return Ok(physical);
            }
            let name = properties.name.map(|c| c as u8);
            let name = CStr::from_bytes_until_nul(&name).map_or("a device".into(), CStr::to_string_lossy);
            names.push(name.into_owned());
        }
        let listed = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        Err(MapObstacle::NotListed { interface: "Vulkan", listed })
    }

    fn physical_devices(&self) -> Result<Vec<PhysicalDevice>, MapObstacle> {
        const CALL: &str = "vkEnumeratePhysicalDevices";
        // SAFETY: the type of this function.
        let list: EnumeratePhysicalDevices = unsafe { self.functions.find(c"vkEnumeratePhysicalDevices") }?;
        let mut count = 0;
        // SAFETY: the instance is live; null asks for the number alone.
        check(CALL, unsafe { list(self.functions.instance, &mut count, null_mut()) })?;
        let mut devices = vec![null_mut(); count as usize];
        // SAFETY: room for `count` handles.
        match unsafe { list(self.functions.instance, &mut count, devices.as_mut_ptr()) } {
            VkResult::INCOMPLETE => {}
            result => check(CALL, result)?,
        }
        devices.truncate(count as usize);
        Ok(devices)
    }

    fn choose_memory(&self) -> Result<HostVisibleMemory, MapObstacle> {
        // SAFETY: the type of this function.
        let describe: GetPhysicalDeviceMemoryProperties =
            unsafe { self.functions.find(c"vkGetPhysicalDeviceMemoryProperties") }?;
        let mut properties = PhysicalDeviceMemoryProperties::default();
        // SAFETY: the physical device is one of the live instance, the structure is writable.
        unsafe { describe(self.physical, &mut properties) };
        let what = "GPU memory that the host can write (a resizable BAR may be disabled)".to_owned();
        choose(&properties).ok_or(MapObstacle::Missing { what })
    }
}

impl HostVisibleMemory {
    const NONE: HostVisibleMemory = HostVisibleMemory { index: 0, heap_bytes: 0, cached: false };
}

/// The first kind of memory that the GPU holds, and the host addresses without having to flush.
fn choose(properties: &PhysicalDeviceMemoryProperties) -> Option<HostVisibleMemory> {
    const WANTED: u32 = DEVICE_LOCAL | HOST_VISIBLE | HOST_COHERENT;
    let types = &properties.types[..(properties.type_count as usize).min(properties.types.len())];
    let index = types.iter().position(|kind| kind.flags & WANTED == WANTED)?;
    let heap_bytes = properties.heaps.get(types[index].heap as usize)?.bytes;
    Some(HostVisibleMemory { index: index as u32, heap_bytes, cached: types[index].flags & HOST_CACHED != 0 })
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed here alone, after everything that was made in it:
        // those hold on to this.
        unsafe { (self.destroy)(self.functions.instance, null()) };
    }
}

/// Loads the library, for good.
fn loader(library: &'static str) -> Result<GetInstanceProcAddr, MapObstacle> {
    let failed = |error: libloading::Error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        MapObstacle::Library { library, reason: source.unwrap_or_else(|| error.to_string()) }
    };
    // SAFETY: loading the loader runs its initializers, which expect to be run this way by any
    // program.
    let opened = unsafe { Library::new(library) }.map_err(failed)?;
    // SAFETY: the type of this function, by the specification.
    let get = unsafe { opened.get::<GetInstanceProcAddr>("vkGetInstanceProcAddr") }.map_err(failed)?;
    let get = *get;
    std::mem::forget(opened);
    Ok(get)
}

fn create_instance(get: GetInstanceProcAddr) -> Result<Instance, MapObstacle> {
    let without = Functions { get, instance: null_mut() };
    // SAFETY: the type of this function.
    let create: CreateInstance = unsafe { without.find(c"vkCreateInstance") }?;
    let application = ApplicationInfo {
        s_type: structure::APPLICATION_INFO,
        next: null(),
        application_name: null(),
        application_version: 0,
        engine_name: c"kiln".as_ptr(),
        engine_version: 0,
        api_version: API_VERSION_1_1,
    };
    let info = InstanceCreateInfo {
        s_type: structure::INSTANCE_CREATE_INFO,
        next: null(),
        flags: 0,
        application: &application,
        layer_count: 0,
        layers: null(),
        extension_count: 0,
        extensions: null(),
    };
    let mut instance = null_mut();
    // SAFETY: the structures are whole and live for the call, `instance` is writable.
    check("vkCreateInstance", unsafe { create(&info, null(), &mut instance) })?;
    Ok(instance)
}

/// Turns the result of `call` into an obstacle.
pub(super) fn check(call: &'static str, result: VkResult) -> Result<(), MapObstacle> {
    match result {
        VkResult::SUCCESS => Ok(()),
        result => Err(MapObstacle::Call { call, code: result.name() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_obstacle_with_the_system_s_words() {
        let Err(obstacle) = Found::new("libno-such-vulkan.so.1", &[0; 16]) else { panic!("found") };
        assert!(
            matches!(&obstacle, MapObstacle::Library { library: "libno-such-vulkan.so.1", reason } if !reason.is_empty()),
            "{obstacle:?}"
        );
    }

    /// A library that is no loader: the C library of this system.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_foreign_library_is_an_obstacle() {
        let Err(obstacle) = Found::new("libc.so.6", &[0; 16]) else { panic!("found") };
        assert!(obstacle.to_string().contains("vkGetInstanceProcAddr"), "{obstacle}");
    }

    /// With Vulkan or without it, a GPU that does not exist is not found, and nothing crashes.
    #[test]
    fn a_gpu_that_does_not_exist_is_not_found() {
        let Err(obstacle) = Found::new(LIBRARY, &[0xa5; 16]) else { panic!("found") };
        assert!(!obstacle.to_string().is_empty() && !obstacle.hint().is_empty());
    }

    #[test]
    fn the_memory_is_local_visible_and_coherent() {
        let mut properties = PhysicalDeviceMemoryProperties { type_count: 5, ..Default::default() };
        let kinds =
            [0, DEVICE_LOCAL, HOST_VISIBLE | HOST_COHERENT | HOST_CACHED, DEVICE_LOCAL | HOST_VISIBLE, 7];
        for (at, flags) in kinds.into_iter().enumerate() {
            properties.types[at] = MemoryType { flags, heap: u32::from(at == 4) };
        }
        properties.heaps[1].bytes = 256 << 20;
        assert_eq!(
            choose(&properties),
            Some(HostVisibleMemory { index: 4, heap_bytes: 256 << 20, cached: false })
        );
        properties.types[4].flags |= HOST_CACHED;
        assert_eq!(choose(&properties).map(|memory| memory.cached), Some(true));
        // Beyond the number that the driver says there is nothing.
        properties.type_count = 4;
        assert_eq!(choose(&properties), None);
        properties.type_count = u32::MAX;
        assert!(choose(&properties).is_some());
    }
}
