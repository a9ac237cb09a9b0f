//! Devices, tensors, streams, caches and launches.
