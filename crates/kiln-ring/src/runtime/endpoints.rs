//! Endpoints: where a worker polls.

/// A worker's endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub worker: usize,
    pub endpoint: usize,
}

/// The endpoints of an actor, one for each of its priorities: those of a worker that follow one
/// another, the highest priority's first. So a poll finds them in the order of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    pub first: Endpoint,
    pub priorities: usize,
}

impl Endpoints {
    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = Endpoint> {
        (0..self.priorities).map(move |n| Endpoint { endpoint: self.first.endpoint + n, ..self.first })
    }

    /// The endpoint of a priority, which counts from the lowest.
    pub fn of_priority(self, priority: usize) -> Endpoint {
        Endpoint {
            endpoint: self.first.endpoint + (self.priorities - 1).saturating_sub(priority),
            ..self.first
        }
    }
}
