//! Transports: how messages get to a device and answers come back. One is chosen when a runtime is
//! made.
//!
//! Two of them rest on stores of 16 bytes that arrive whole, which no manual promises for a bus. So
//! where the device is not the host's own processor, they are [tested](super::probe) first, once
//! for a device in a process, and the next one is taken where the test finds anything amiss.

use super::config::RuntimeConfig;
use super::error::{Result, RingError};
use super::memory::{Free, SharedMemory};
use super::probe::{self, Write};
use crate::channel::Protocol;
use kiln_backend::{BackendKind, MappedPlace};
use kiln_runtime::Device;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// The variable that names a transport for runtimes whose configuration names none.
const VARIABLE: &str = "KILN_RING_TRANSPORT";

/// How messages get to a device, and answers come back.
///
/// ```
/// use kiln_ring::{RingRuntime, RuntimeConfig, Transport};
///
/// let device = kiln_runtime::Device::open("cpu")?;
/// let config = RuntimeConfig::default().transport(Transport::Ordered);
/// assert_eq!(RingRuntime::with(&device, config)?.transport(), Transport::Ordered);
/// let refused = RingRuntime::with(&device, RuntimeConfig::default().transport(Transport::Bar));
/// assert!(refused.is_err()); // a CPU's memory is the host's
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// The first of the others, in their order, that the device has and that passes its test; or
    /// the one that the variable `KILN_RING_TRANSPORT` names, by the name in lower case.
    #[default]
    Auto,
    /// Requests in device memory, which the host writes over the bus through the device's base
    /// address register, with a stamp in every 16 bytes. Answers as with `Pinned`.
    Bar,
    /// Requests and answers in pinned host memory, with a stamp in every 16 bytes. On a CPU and in
    /// the interpreter: in memory.
    Pinned,
    /// The same memory, where a slot's first stamp is written last, with release, and read first,
    /// with acquire, at the scope of the system. It needs no store of more than a word to arrive
    /// whole, and is the slowest.
    Ordered,
}

impl Transport {
    /// All but [`Auto`](Self::Auto), in the order in which they are tried.
    pub const ALL: [Transport; 3] = [Transport::Bar, Transport::Pinned, Transport::Ordered];

    fn place(self) -> MappedPlace {
        if self == Transport::Bar { MappedPlace::Device } else { MappedPlace::Host }
    }

    /// How it is known that a slot is complete.
    pub(super) fn protocol(self) -> Protocol {
        if self == Transport::Ordered { Protocol::Ordered } else { Protocol::Stamped }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Auto => "auto",
            Transport::Bar => "bar",
            Transport::Pinned => "pinned",
            Transport::Ordered => "ordered",
        })
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Transport, String> {
        let all = [Transport::Auto, Transport::Bar, Transport::Pinned, Transport::Ordered];
        let found = all.into_iter().find(|transport| transport.to_string() == name.trim());
        found.ok_or_else(|| format!("`{name}` is no transport: there are auto, bar, pinned and ordered"))
    }
}

/// Which transport a runtime has, and why it has none of those before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportChoice {
    /// The one it has; never [`Transport::Auto`].
    pub transport: Transport,
    /// Why: what its test found, or why there was none.
    pub why: String,
    /// Those that were tried before it, and what was wrong with them.
    pub refused: Vec<(Transport, String)>,
}

impl fmt::Display for TransportChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.transport, self.why)?;
        self.refused.iter().try_for_each(|(transport, why)| write!(f, "; not {transport}: {why}"))
    }
}

/// What became of a test: what it found, or what was wrong.
pub(super) type Verdict = std::result::Result<String, String>;

/// Memory of the transport that the configuration names, or of the first that works.
pub(super) fn choose(
    device: &Device,
    config: &RuntimeConfig,
    workers: usize,
) -> Result<(SharedMemory, Free, TransportChoice)> {
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
) -> Result<(SharedMemory, Free, TransportChoice)> {
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
        // SAFETY: the test has ended, and nobody else has seen the memory.
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
    if device.properties().kind != BackendKind::Cuda {
        return Err("the device's memory is the host's own".to_owned());
    }
    device.backend().mapped_places().device.map(drop).map_err(|obstacle| obstacle.to_string())
}

/// What the test of a transport found, here or earlier in this process.
fn tested(device: &Device, memory: &SharedMemory, workers: usize, transport: Transport) -> Result<Verdict> {
    static FOUND: Mutex<Option<HashMap<(String, Transport), Verdict>>> = Mutex::new(None);
    // What the host's own processor promises needs no test.
    if device.properties().kind != BackendKind::Cuda {
        return Ok(Ok("the device is the host's own processor".to_owned()));
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
