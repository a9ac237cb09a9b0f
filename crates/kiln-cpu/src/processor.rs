//! On which processor of the machine a thread runs, where the system says so.

#[cfg(target_os = "linux")]
mod system {
    use std::mem::size_of;

    /// The processor that this thread runs on now.
    pub(crate) fn current() -> Option<usize> {
        // SAFETY: it has no arguments, and reads what the kernel says of this thread.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// Moves this thread to another processor, if it may use one. Later it may be on any again.
    pub(crate) fn leave(processor: usize) {
        // SAFETY: a set of processors is an array of bits, for which all zeros is a value.
        let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: the set has this size; 0 is this thread.
        let known = unsafe { libc::sched_getaffinity(0, size, &mut allowed) } == 0;
        // SAFETY: they read the set alone, and `processor` is checked against its size.
        let may_leave = || unsafe { libc::CPU_ISSET(processor, &allowed) && libc::CPU_COUNT(&allowed) > 1 };
        if !known || processor >= size * 8 || !may_leave() {
            return;
        }
        let mut others = allowed;
        // SAFETY: `processor` is in the set.
        unsafe { libc::CPU_CLR(processor, &mut others) };
        // SAFETY: both sets are of processors that this thread may use. The first call moves it,
        // the second lets the scheduler move it again. Where one fails it stays where it is.
        unsafe {
            libc::sched_setaffinity(0, size, &others);
            libc::sched_setaffinity(0, size, &allowed);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    /// Other systems are not asked.
    pub(crate) fn current() -> Option<usize> {
        None
    }

    /// Nothing is known of processors.
    pub(crate) fn leave(_: usize) {}
}

pub(crate) use system::{current, leave};

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_a_processor_and_may_come_back() {
        std::thread::spawn(|| {
            let several = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
            for _ in 0..20 {
                let here = current().expect("Linux says where a thread is");
                leave(here);
                // Where there is one processor alone it stays. It may be moved at any time, so that
                // only the set of processors that it may use is certain.
                assert!(current().is_some());
            }
            let after = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
            assert_eq!(several, after, "it may use as many as before");
            leave(1 << 20);
        })
        .join()
        .unwrap();
    }
}
