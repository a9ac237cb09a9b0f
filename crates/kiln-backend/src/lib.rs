//! The contract between Kiln's runtime and a device: the Backend trait, device properties, launches and faults.
