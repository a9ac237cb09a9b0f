//! How much processor time a thread of this process has had.

use kiln_backend::BlockTime;
use std::path::PathBuf;
use std::time::Duration;

/// A thread of this process, by its file in `/proc`. Other systems than Linux have none.
#[derive(Debug)]
pub(crate) struct ThreadTime(PathBuf);

/// The unit of times in `/proc`: hundredths of a second on every architecture that we compile for.
const TICK: Duration = Duration::from_millis(10);

impl ThreadTime {
    /// Finds the thread that calls this. `None` where the system does not say.
    pub(crate) fn of_this_thread() -> Option<ThreadTime> {
        let thread = std::fs::read_link("/proc/thread-self").ok()?;
        Some(ThreadTime(PathBuf::from("/proc").join(thread).join("stat")))
    }

    /// Returns the thread's time. The thread must not have ended: another may have its number then.
    pub(crate) fn read(&self) -> Option<BlockTime> {
        parse(&std::fs::read_to_string(&self.0).ok()?)
    }
}

/// Reads the state and the times of a `stat` file: see proc_pid_stat(5).
fn parse(stat: &str) -> Option<BlockTime> {
    // The name before them may hold spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let runnable = fields.next()? == "R";
    let mut times = fields.skip(10).map(str::parse::<u32>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(BlockTime { ran: TICK * user.saturating_add(system), runnable })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_the_last_parenthesis() {
        let stat = "7 (a) b (c)) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0 99";
        assert_eq!(parse(stat), Some(BlockTime { ran: Duration::from_secs(3), runnable: true }));
        let asleep = parse(&stat.replace(") R", ") S"));
        assert_eq!(asleep, Some(BlockTime { ran: Duration::from_secs(3), runnable: false }));
        for broken in ["", "7 (a", "7 (a) R 1 2 3", "7 (a) R 1 2 3 4 5 6 7 8 9 10 x 50"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }

    /// A thread that computes has had time; one that sleeps is not runnable, and has no more.
    #[test]
    #[cfg(target_os = "linux")]
    fn time_passes_for_a_thread_that_runs() {
        let of_this = ThreadTime::of_this_thread().expect("Linux has /proc");
        let begun = of_this.read().expect("the thread is there");
        assert!(begun.runnable, "it reads the file");
        while of_this.read().expect("the thread is there").ran < begun.ran + 3 * TICK {}

        let (tell, told) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(ThreadTime::of_this_thread().expect("Linux has /proc")).expect("somebody hears");
            ends.recv()
        });
        let of_sleeper = told.recv().expect("the thread tells");
        while of_sleeper.read().expect("the thread is there").runnable {
            std::thread::yield_now();
        }
        drop(end);
        assert!(sleeper.join().expect("the thread ends").is_err());
    }
}
