//! Clocks and rest, as generated code calls them.

use kiln_ir::ClockUnit;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A clock's reading.
pub(crate) type ClockFn = extern "C" fn() -> u64;

/// The clock of a unit.
pub(crate) fn clock(unit: ClockUnit) -> ClockFn {
    match unit {
        ClockUnit::Nanos => nanos,
        ClockUnit::Cycles => cycles,
    }
}

/// Nanoseconds since the first call in this process.
extern "C" fn nanos() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The processor's own counter, which on today's processors advances at a constant rate near the
/// nominal frequency.
extern "C" fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 has the instruction.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reads a register that user code may read, and nothing else.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    nanos()
}

/// The longest rest, as on GPUs.
const LONGEST: Duration = Duration::from_millis(1);
/// Below this, giving up the processor takes longer than the rest.
const SPIN: Duration = Duration::from_micros(1);
/// From here on the system's timer is precise enough to be asked to wake the thread.
const PARK: Duration = Duration::from_micros(100);

/// Rests for about so many nanoseconds.
pub(crate) extern "C" fn rest(nanoseconds: u64) {
    let time = Duration::from_nanos(nanoseconds).min(LONGEST);
    if time >= PARK {
        return std::thread::sleep(time);
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        if time < SPIN {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance_while_a_thread_rests() {
        for time in [500, 20_000, 300_000] {
            let before = (nanos(), cycles());
            rest(time);
            let after = (nanos(), cycles());
            assert!(after.0 - before.0 >= time, "{time}: {before:?} to {after:?}");
            assert!(after.1 > before.1);
        }
        rest(0);
    }
}
