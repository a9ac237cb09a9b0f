//! What a step costs, kernel by kernel.

use kiln::{Activity, Device, LaunchTimer, Observer};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A launch with its time.
struct Launch {
    kernel: String,
    timer: LaunchTimer,
}

/// Sends the launches of a device.
struct Sends(Sender<Launch>);

impl Observer for Sends {
    fn observe(&self, activity: &Activity) {
        let Activity::Launch(launch) = activity else { return };
        let Some(timer) = launch.timer.clone() else { return };
        let [x, y, z] = launch.grid;
        // The one who receives may be gone.
        self.0.send(Launch { kernel: format!("{} {x} x {y} x {z}", launch.kernel), timer }).ok();
    }

    fn times_launches(&self) -> bool {
        true
    }
}

/// Prints the kernels that something launches, by the time that they take, each by its name and
/// grid.
pub fn profile(
    device: &Device,
    of: impl FnOnce() -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    device.synchronize()?;
    let (sender, launches): (_, Receiver<Launch>) = channel();
    let observation = device.observe(Sends(sender));
    of()?;
    device.synchronize()?;
    drop(observation);
    let mut by_kernel: BTreeMap<String, (usize, Duration)> = BTreeMap::new();
    for Launch { kernel, timer } in launches.try_iter() {
        let (count, sum) = by_kernel.entry(kernel).or_default();
        *count += 1;
        *sum += timer.elapsed()?.unwrap_or_default();
    }
    let mut rows: Vec<(String, (usize, Duration))> = by_kernel.into_iter().collect();
    rows.sort_by_key(|(_, (_, sum))| std::cmp::Reverse(*sum));
    let all: Duration = rows.iter().map(|(_, (_, sum))| *sum).sum();
    let count: usize = rows.iter().map(|(_, (count, _))| count).sum();
    println!("{count} launches, {:.2} ms", 1e3 * all.as_secs_f64());
    for (kernel, (count, sum)) in rows {
        let (ms, each) = (1e3 * sum.as_secs_f64(), 1e6 * sum.as_secs_f64() / count as f64);
        println!("{ms:9.3} ms {count:4} x {each:8.1} us  {kernel}");
    }
    Ok(())
}
