//! Quads: four adjacent words that arrive whole, as blocks and threads take turns. Of memory that
//! the host shares, each word is whole, but not the quad. Its last word is read first, and written
//! last, so that a stamp there covers the others.

use crate::machine::Machine;
use crate::mask::Mask;
use crate::memory_access::MemoryAccess;
use crate::register::Register;
use crate::spaces::check_aligned;
use crate::trap::Trap;
use crate::value::View;
use kiln_backend::{FaultKind, Finding};
use kiln_ir::{Bounds, OpData, OpKind};

/// Words of a quad.
const WORDS: usize = 4;

impl Machine<'_> {
    /// `LoadQuad` and `StoreQuad`, one thread after the other.
    pub fn quad(&mut self, data: &OpData, mask: &Mask) -> Result<(), Trap> {
        let (OpKind::LoadQuad(bounds) | OpKind::StoreQuad(bounds)) = data.kind else {
            return Err(Trap::Bug("no quad".into()));
        };
        let values = data.stored_values();
        let view = self.view(data.view())?.clone();
        let indices = i64::of(self.data(data.index()))?.to_vec();
        for lane in mask.lanes() {
            let place = place(&view, indices[lane], bounds, lane)?;
            let mut words = [0u32; WORDS];
            if let OpKind::StoreQuad(_) = data.kind {
                for (word, &value) in words.iter_mut().zip(values) {
                    *word = u32::of(self.data(value))?[lane];
                }
                if let Some(place) = place {
                    self.spaces.write(place, &words)?;
                }
                continue;
            }
            if let Some(place) = place {
                self.spaces.read(place, &mut words)?;
            }
            for (word, &result) in words.into_iter().zip(&data.results) {
                u32::of_mut(&mut self.registers[result.index()])?[lane] = word;
            }
        }
        Ok(())
    }
}

/// Where a quad lies; `None` where it is no whole quad of the view and that is masked.
fn place(view: &View, index: i64, bounds: Bounds, lane: usize) -> Result<Option<MemoryAccess>, Trap> {
    let (extent, stride) = (view.extents[0], view.strides[0]);
    let last = index.checked_add(WORDS as i64 - 1);
    let outside = index < 0 || last.is_none_or(|last| last >= extent) || stride != 1;
    let address = view.base.wrapping_add((index as u64).wrapping_mul(view.elem_bytes));
    let place = MemoryAccess { space: view.space, address, lane: Some(lane), atomic: true };
    match bounds {
        Bounds::Mask if outside || check_aligned(place, 16).is_err() => Ok(None),
        Bounds::Trust if outside => {
            let detail = format!("a quad at index {index} for extent {extent} and stride {stride}");
            let kind = FaultKind::Sanitizer { finding: Finding::BrokenTrust, detail };
            Err(Trap::Fault { kind, lane: Some(lane) })
        }
        _ => check_aligned(place, 16).map(|()| Some(place)),
    }
}
