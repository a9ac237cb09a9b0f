//! Resident launches. Each is over when the call that begins it returns, so what is left is its
//! fault.

use kiln_backend::{Error, Fault, ResidentId, Result};
use std::collections::HashMap;

/// The resident launches of a device.
#[derive(Default)]
pub struct Residents {
    begun: u64,
    /// The faults that were not reported yet.
    faults: HashMap<ResidentId, Fault>,
}

impl Residents {
    /// Notes a launch that is over.
    pub fn over(&mut self, fault: Option<Fault>) -> ResidentId {
        let id = ResidentId(self.begun);
        self.begun += 1;
        self.faults.extend(fault.map(|fault| (id, fault)));
        id
    }

    /// Reports the launch's fault once.
    pub fn report(&mut self, id: ResidentId) -> Result<bool> {
        if id.0 >= self.begun {
            let message = format!("there is no resident launch {}", id.0);
            return Err(Error::Internal { place: "kiln-interp", message });
        }
        self.faults.remove(&id).map_or(Ok(true), |fault| Err(fault.into()))
    }
}
