//! Talking to resident actors, against the launch that they replace: `kiln bench ring`.
//!
//! A round trip is timed on the host, from before the first word of the payload is written to after
//! the reply was compared; the device computes the reply from the payload. All replies are
//! verified, in every word.
//!
//! | file | holds |
//! |---|---|
//! | `message.rs` | the message, and the handlers that answer it |
//! | `echo.rs` | round trips of one message, rates of many |
//! | `baseline.rs` | what actors replace: copies and a launch, one by one and as a graph |
//! | `bare.rs`, `bare_echo.rs`, `flags.rs`, `hop.rs` | lower bounds of the machine: no actors |
//! | `bounce.rs` | messages between two actors |
//! | `payload.rs` | arrays by reference, and bare copies |
//! | `idle.rs` | what a grid costs that has nothing to do, and how soon it wakes |
//! | `faults.rs` | handlers that fail, devices that are lost, until all actors answer again |
//! | `soak.rs` | a steady rate for a long time |
//! | `process.rs`, `power.rs` | what the process and the GPU use |
//! | `undisturbed.rs` | slices, of which those count whose core was quiet |
//! | `places.rs` | memory elsewhere for each slice |
//! | `row.rs` | results for people and as JSON |

mod bare;
mod bare_echo;
mod baseline;
mod bounce;
mod echo;
mod faults;
mod flags;
mod hop;
mod idle;
mod message;
mod payload;
mod places;
mod power;
mod process;
mod row;
mod soak;
mod undisturbed;

use crate::failure::Failure;
use kiln_backend::{MappedPlace, Residency};
use kiln_runtime::Device;
pub use row::Row;
use std::time::Duration;
pub use undisturbed::take_turns;

/// Ways to one device: through which memory, with how many actors at most.
struct Ways<'a> {
    device: &'a Device,
    places: Vec<MappedPlace>,
    most: usize,
}

impl Ways<'_> {
    fn of(device: &Device) -> Ways<'_> {
        let gpu = has_warps(device);
        let known = device.backend().mapped_places();
        let usable = |place: &MappedPlace| known.get(*place).is_ok() && (gpu || *place == MappedPlace::Host);
        let places = MappedPlace::ALL.into_iter().filter(usable).collect();
        Ways { device, places, most: if gpu { device.properties().units as usize } else { 1 } }
    }
}

/// Whether workers are warps of a resident kernel.
fn has_warps(device: &Device) -> bool {
    device.capabilities().is_simt() && device.properties().residency == Residency::Beside
}

impl Ways<'_> {
    /// The memory that a runtime uses by default.
    fn best(&self) -> MappedPlace {
        self.places.last().copied().unwrap_or(MappedPlace::Host)
    }
}

/// Messages at a steady rate, so many a second, through the best memory that there is.
///
/// # Errors
/// Kiln's, and replies that are wrong.
pub fn soaked(device: &Device, length: Duration, rate: u64) -> Result<Row, Failure> {
    let ways = Ways::of(device);
    soak::run(device, ways.best(), ways.most.min(4), length, rate)
}

/// Who is told of a row as soon as it is measured. An error ends the measurements.
pub type Each<'a> = &'a mut dyn FnMut(&Row) -> std::io::Result<()>;

/// The rows so far, and who is told of each.
struct Rows<'a> {
    rows: Vec<Row>,
    each: Each<'a>,
}

impl Rows<'_> {
    fn push(&mut self, row: Row) -> Result<(), Failure> {
        (self.each)(&row).map_err(Failure::Output)?;
        self.rows.push(row);
        Ok(())
    }

    fn extend(&mut self, rows: impl IntoIterator<Item = Row>) -> Result<(), Failure> {
        rows.into_iter().try_for_each(|row| self.push(row))
    }
}

/// The rows whose names contain a text. `each` gets every one as soon as it is measured.
///
/// # Errors
/// Kiln's, replies that are wrong, and those of `each`.
pub fn measured(device: &Device, only: &str, each: Each<'_>) -> Result<Vec<Row>, Failure> {
    let ways = Ways::of(device);
    let Ways { device, places, most } = &ways;
    let wanted = |name: &str| name.contains(only);
    let gpu = has_warps(device);
    let mut rows = Rows { rows: Vec::new(), each };
    if wanted(baseline::LAUNCH) {
        rows.push(baseline::launch(device)?)?;
    }
    if wanted(baseline::GRAPH) && gpu {
        rows.push(baseline::graph(device)?)?;
    }
    if wanted(echo::ON_CPU) && gpu {
        rows.push(echo::round_trip_on_cpu()?)?;
    }
    if wanted(echo::RATE_ON_CPU) && gpu {
        rows.push(echo::rate_on_cpu()?)?;
    }
    for &place in places {
        if wanted(bare::ROUND_TRIP) && device.properties().residency == Residency::Beside {
            rows.push(bare::round_trip(device, place)?)?;
        }
        if wanted(echo::ROUND_TRIP) {
            rows.push(echo::round_trip(device, place)?)?;
        }
        for (warps, window) in bare_echo::SIZES.into_iter().filter(|_| gpu) {
            if wanted(&bare_echo::name(warps, window)) {
                rows.push(bare_echo::rate(device, place, warps, window)?)?;
            }
        }
        for (actors, window) in echo::SIZES.into_iter().filter(|&(actors, _)| actors <= *most) {
            if wanted(&echo::name(actors, window)) {
                rows.push(echo::rate(device, place, actors, window)?)?;
            }
        }
    }
    if wanted(echo::ROUND_TRIP) {
        rows.push(echo::round_trip_ordered(device)?)?;
    }
    if wanted(echo::UNMEASURED) {
        rows.push(echo::unmeasured(device, ways.best())?)?;
    }
    if wanted(flags::GLOBAL) && gpu {
        rows.push(flags::global(device)?)?;
    }
    if wanted(flags::CLUSTER) && gpu {
        rows.extend(flags::cluster(device)?)?;
    }
    if wanted(hop::CLUSTER) && gpu {
        rows.extend(hop::cluster(device)?)?;
    }
    let pairs = [bounce::ACTOR_TO_ACTOR, bounce::CLUSTER, bounce::SAME_WORKER];
    // Within a dispatch the clock stands.
    let clock =
        |name: &str| name != bounce::SAME_WORKER || device.properties().residency != Residency::Dispatched;
    for name in pairs.into_iter().filter(|name| wanted(name) && clock(name)) {
        rows.extend(bounce::row(device, name)?)?;
    }
    if wanted(bounce::OTHER_GPU) {
        rows.extend(bounce::to_another_gpu(device)?)?;
    }
    if [payload::COPY, payload::PAYLOAD].into_iter().any(wanted) {
        rows.extend(payload::rows(device, &message::transport(device, ways.best()))?)?;
    }
    if wanted(faults::RESTART) {
        rows.push(faults::restarts(device, ways.best())?)?;
    }
    if device.properties().residency == Residency::Beside {
        for name in [faults::TRAP, faults::HANG].into_iter().filter(|name| wanted(name)) {
            rows.push(faults::losses(device, name)?)?;
        }
        rows.extend(idle::rows(device, ways.best(), wanted)?)?;
    }
    Ok(rows.rows)
}
