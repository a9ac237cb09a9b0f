//! What barriers have ordered among the threads of a block, as the sanitizer follows it.
//!
//! Time is the number of barriers that the block has passed, those of warps among them. What a
//! thread did before a barrier of the block comes before whatever any thread does after it. Of
//! barriers of warps each thread keeps, for each thread of its warp, the time before which what
//! that one did comes before what it does now: a barrier of some lanes gives each of them what all
//! of them knew.

/// The order of a block's threads.
#[derive(Debug, Clone, Default)]
pub struct ThreadOrder {
    /// How many barriers the block has passed, those of its warps among them.
    now: u32,
    /// The time of the last one of the whole block.
    since: u32,
    /// Threads of a warp; 0 in kernels without barriers of warps.
    width: usize,
    /// For each thread, a time for each thread of its warp.
    seen: Vec<u32>,
}

/// What a thread knows of its warp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen<'a> {
    /// The first thread of the warp.
    first: usize,
    times: &'a [u32],
}

impl ThreadOrder {
    /// The order of a block of so many threads, in warps of `width` if the kernel has barriers of
    /// warps.
    pub fn new(lanes: usize, width: Option<usize>) -> ThreadOrder {
        let width = width.unwrap_or(0);
        ThreadOrder { now: 0, since: 0, width, seen: vec![0; lanes * width] }
    }

    /// Begins a block.
    pub fn begin(&mut self) {
        (self.now, self.since) = (0, 0);
        self.seen.fill(0);
    }

    /// The time.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// When all threads of the block were together last.
    pub fn since(&self) -> u32 {
        self.since
    }

    /// A barrier of the block.
    pub fn barrier(&mut self) {
        self.now += 1;
        self.since = self.now;
    }

    /// A barrier of some threads of a warp.
    pub fn meet(&mut self, lanes: &[usize]) {
        let (Some(&one), width) = (lanes.first(), self.width) else { return };
        if width == 0 {
            return;
        }
        self.now += 1;
        let first = one / width * width;
        let mut known = vec![0; width];
        for &lane in lanes {
            let row = &self.seen[lane * width..][..width];
            known.iter_mut().zip(row).for_each(|(known, &time)| *known = time.max(*known));
        }
        lanes.iter().for_each(|lane| known[lane - first] = self.now);
        lanes.iter().for_each(|lane| self.seen[lane * width..][..width].copy_from_slice(&known));
    }

    /// What a thread knows of its warp, in kernels with barriers of warps.
    pub fn seen(&self, lane: Option<usize>) -> Option<Seen<'_>> {
        let (lane, width) = (lane.filter(|_| self.width > 0)?, self.width);
        Some(Seen { first: lane / width * width, times: self.seen.get(lane * width..)?.get(..width)? })
    }
}

impl Seen<'_> {
    /// Whether what a thread did at a time comes before what this one does now.
    pub fn is_after(self, thread: usize, time: u32) -> bool {
        let number = thread.checked_sub(self.first);
        number.and_then(|number| self.times.get(number)).is_some_and(|&seen| time < seen)
    }

    /// Whether a thread is of the warp.
    pub fn has(self, thread: usize) -> bool {
        thread.checked_sub(self.first).is_some_and(|number| number < self.times.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_of_lanes_hand_on_what_they_know() {
        let mut order = ThreadOrder::new(64, Some(32));
        order.meet(&[32, 33]);
        order.meet(&[33, 34]);
        let seen = |order: &ThreadOrder, lane, thread, time| {
            order.seen(Some(lane)).is_some_and(|seen| seen.is_after(thread, time))
        };
        // 34 knows of 32 by way of 33, up to the first barrier; 32 knows nothing of 34.
        assert!(seen(&order, 34, 32, 0) && !seen(&order, 34, 32, 1) && !seen(&order, 32, 34, 0));
        assert!(seen(&order, 34, 33, 1) && !seen(&order, 33, 34, 2));
        assert!(!seen(&order, 34, 0, 0) && !seen(&order, 0, 32, 0));
        order.barrier();
        assert_eq!((order.now(), order.since()), (3, 3));
        assert_eq!(ThreadOrder::new(64, None).seen(Some(3)), None);
    }
}
