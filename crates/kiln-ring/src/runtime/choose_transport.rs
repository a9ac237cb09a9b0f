//! The choice of a transport when a runtime is made.
//!
//! Two of them rest on stores of 16 bytes that arrive whole, which no manual promises for a bus. So
//! where the device is not the host's own processor, they are [tested](super::probe) first, once
//! for a device in a process, and the next one is taken where the test finds anything amiss.

use super::config::RuntimeConfig;
use super::memory::{FreeRanges, SharedMemory};
use super::probe::{self, Write};
use super::transport::{Transport, TransportChoice, Verdict};
use crate::error::{Result, RingError};
use kiln_backend::Residency;
use kiln_runtime::Device;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The variable that names a transport for runtimes whose configuration names none.
const VARIABLE: &str = "KILN_RING_TRANSPORT";

/// Memory of the transport that the configuration names, or of the first that works.
pub(super) fn choose(
    device: &Device,
    config: &RuntimeConfig,
    workers: usize,
) -> Result<(SharedMemory, FreeRanges, TransportChoice)> {
    let named = match (config.transport, std::env::var(VARIABLE)) {
        (Transport::Auto, Ok(name)) if !name.trim().is_empty() => name.parse().map_err(|why| {
            RingError::NoTransport { device: device.id().to_owned(), why: format!("{VARIABLE}: {why}") }
        })?,
        (named, _) => named,
    };
    choose_by(device, config, named, workers, &mut |memory, workers, transport| {
        tested(device, memory, workers, transport)
    })
}

/// The same, by another test.
pub(super) fn choose_by(
    device: &Device,
    config: &RuntimeConfig,
    named: Transport,
    workers: usize,
    test: &mut dyn FnMut(&SharedMemory, usize, Transport) -> Result<Verdict>,
) -> Result<(SharedMemory, FreeRanges, TransportChoice)> {
    let candidates = if named == Transport::Auto { &Transport::ALL[..] } else { &[named] };
    let mut refused = Vec::new();
    for &transport in candidates {
        if let Err(why) = obstacle(device, transport) {
            refused.push((transport, why));
            continue;
        }
        let (mut memory, free) = SharedMemory::new(device, config, workers, transport.place())?;
        match test(&memory, workers, transport) {
            Ok(Ok(why)) => {
                let choice = TransportChoice { transport, why, refused };
                tracing::debug!(target: "kiln_ring", device = device.id(), "messages go by {choice}");
                return Ok((memory, free, choice));
            }
            Ok(Err(why)) => {
                tracing::warn!(target: "kiln_ring", device = device.id(), "no messages by {transport}: {why}");
                refused.push((transport, why));
            }
            Err(error) => return Err(error),
        }
        // SAFETY: the test has ended, and no other code has had the memory.
        unsafe { memory.release() };
    }
    let why: Vec<String> = refused.iter().map(|(transport, why)| format!("not {transport}: {why}")).collect();
    Err(RingError::NoTransport { device: device.id().to_owned(), why: why.join("; ") })
}

/// Why a device cannot have a transport.
fn obstacle(device: &Device, transport: Transport) -> std::result::Result<(), String> {
    if transport != Transport::Bar {
        return Ok(());
    }
    if device.properties().capabilities.on_host {
        return Err("the device's memory is the host's own".to_owned());
    }
    device.backend().mapped_places().device.map(drop).map_err(|obstacle| obstacle.to_string())
}

/// What the test of a transport found, here or earlier in this process.
fn tested(device: &Device, memory: &SharedMemory, workers: usize, transport: Transport) -> Result<Verdict> {
    static FOUND: Mutex<Option<HashMap<(String, Transport), Verdict>>> = Mutex::new(None);
    // What the host's own processor promises needs no test.
    if device.properties().capabilities.on_host {
        return Ok(Ok("the device is the host's own processor".to_owned()));
    }
    if device.properties().residency == Residency::Dispatched {
        return Ok(Ok("a dispatch finds what the host wrote before it".to_owned()));
    }
    // Held over the test: another runtime that is made meanwhile waits for what it finds.
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (device.id().to_owned(), transport);
    let found = found.get_or_insert_default();
    if let Some(verdict) = found.get(&key) {
        return Ok(verdict.clone());
    }
    let verdict = probe::test(device, memory, workers, transport, &Write::whole())?;
    found.insert(key, verdict.clone());
    Ok(verdict)
}
