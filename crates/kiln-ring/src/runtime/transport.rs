//! Transports: how messages get to a device and answers come back.

use crate::channel::Protocol;
use kiln_backend::MappedPlace;
use std::fmt;
use std::str::FromStr;

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

    pub(super) fn place(self) -> MappedPlace {
        if self == Transport::Bar { MappedPlace::Device } else { MappedPlace::Host }
    }

    /// How a reader detects that a slot is complete.
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
///
/// ```
/// use kiln_ring::{RingRuntime, Transport, TransportChoice};
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let choice: &TransportChoice = runtime.transport_choice();
/// assert_ne!(choice.transport, Transport::Auto);
/// for (transport, why) in &choice.refused {
///     println!("{transport} was tried first: {why}");
/// }
/// // The same in one line, for a log.
/// assert!(choice.to_string().starts_with(&format!("{} (", runtime.transport())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
