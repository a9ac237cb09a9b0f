//! Endpoints: where a worker polls.

/// A worker's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub worker: usize,
    pub port: usize,
}

/// The ports of an actor, one for each of its bands: those of a worker that follow one another, the
/// highest band's first. So a poll finds them in the order of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    pub first: Port,
    pub bands: usize,
}

impl Ports {
    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = Port> {
        (0..self.bands).map(move |n| Port { port: self.first.port + n, ..self.first })
    }

    /// The port of a band, which counts from the lowest.
    pub fn of_band(self, band: usize) -> Port {
        Port { port: self.first.port + (self.bands - 1).saturating_sub(band), ..self.first }
    }
}
