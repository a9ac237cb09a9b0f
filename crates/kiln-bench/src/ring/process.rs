//! What this process uses, as far as the system reports it: on Linux, by `/proc`.

use std::time::Duration;

/// Memory of this process that is resident, in bytes.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Time that processors spent on this process, in steps of 10 ms.
pub fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in brackets, may hold spaces. After it: the state is field 3, user and system time
    // are fields 14 and 15, in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks(14)? + ticks(15)?)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_busy_process_uses_a_processor() {
        let (before, begun) = (cpu_time().unwrap(), Instant::now());
        while cpu_time().unwrap() - before < Duration::from_millis(30) {
            assert!(begun.elapsed() < Duration::from_secs(3600), "no time passes");
        }
        assert!(resident_bytes().unwrap() > 1 << 18);
    }
}
