//! Copies from global to shared memory that arrive when they are waited for.

use crate::in_flight::{InFlightCopy, WIDEST};
use crate::machine::Machine;
use crate::mask::Mask;
use crate::memory_access::MemoryAccess;
use crate::register::Register;
use crate::spaces::{Spaces, check_aligned};
use crate::trap::Trap;
use kiln_backend::Finding;
use kiln_ir::{AsyncCopyOp, OpData, Operand, Space};

/// What lies where a copy will arrive: not a number in any format, so that a read without a wait is
/// noticed where the sanitizer does not look.
const UNDEFINED: [u8; WIDEST] = [u8::MAX; WIDEST];

impl Machine<'_> {
    /// Executes an operation of the active threads on their copies.
    pub fn async_copy(&mut self, data: &OpData, op: AsyncCopyOp, mask: &Mask) -> Result<(), Trap> {
        match op {
            AsyncCopyOp::Copy { width } => self.copy(data, width as usize, mask),
            AsyncCopyOp::Commit => {
                for lane in mask.lanes() {
                    let copies = self.spaces.in_flight.of(lane);
                    copies.groups.push_back(std::mem::take(&mut copies.begun));
                }
                Ok(())
            }
            AsyncCopyOp::Wait { pending } => arrive(&mut self.spaces, pending as usize, mask),
        }
    }

    fn copy(&mut self, data: &OpData, width: usize, mask: &Mask) -> Result<(), Trap> {
        let Machine { registers, spaces, .. } = self;
        let of = |name| &registers[data.operand(name).index()];
        let (to, from, bytes) =
            (u64::of(of(Operand::Address))?, u64::of(of(Operand::Source))?, u32::of(of(Operand::Bytes))?);
        for lane in mask.lanes() {
            let place = |space, address| MemoryAccess { space, address, lane: Some(lane), atomic: false };
            let (to, from) = (place(Space::Shared, to[lane]), place(Space::Global, from[lane]));
            let count = bytes[lane] as usize;
            if !count.is_multiple_of(4) || count > width {
                let detail =
                    format!("a copy of {count} bytes, expected a multiple of 4 that is at most {width}");
                return Err(Trap::finding(Finding::Misaligned, detail).in_lane(lane));
            }
            let mut found = [0; WIDEST];
            check_aligned(to, width as u64)?;
            if count > 0 {
                check_aligned(from, width as u64)?;
                spaces.read(from, &mut found[..count])?;
            }
            begin(spaces, InFlightCopy { to, bytes: found, len: width })?;
        }
        Ok(())
    }
}

/// Begins to copy bytes to shared memory, which nobody may read before they have arrived.
pub fn begin(spaces: &mut Spaces, copy: InFlightCopy) -> Result<(), Trap> {
    let InFlightCopy { to, len, .. } = copy;
    store(spaces, InFlightCopy { bytes: UNDEFINED, ..copy })?;
    spaces.forget_shared(to.address, len);
    spaces.in_flight.of(to.lane.unwrap_or(0)).begun.push(copy);
    Ok(())
}

/// All groups of the active threads but the last `pending` of each arrive.
fn arrive(spaces: &mut Spaces, pending: usize, mask: &Mask) -> Result<(), Trap> {
    for lane in mask.lanes() {
        while spaces.in_flight.of(lane).groups.len() > pending {
            for copy in spaces.in_flight.of(lane).groups.pop_front().unwrap_or_default() {
                store(spaces, copy)?;
            }
        }
    }
    Ok(())
}

/// Stores what a copy brings. The sanitizer keeps account by elements, so that few are best.
fn store(spaces: &mut Spaces, InFlightCopy { to, bytes, len }: InFlightCopy) -> Result<(), Trap> {
    let bytes = &bytes[..len];
    if let ([], words) = bytes.as_rchunks::<4>() {
        let words: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
        return spaces.write(to, &words);
    }
    match *bytes {
        [low, high] => spaces.write(to, &[u16::from_le_bytes([low, high])]),
        _ => spaces.write(to, bytes),
    }
}
