//! Tensor maps of a kernel's launches: made from the words of its views, and kept for the next
//! launch with the same ones.

use crate::driver::{Context, MapElement, MapShape, TensorMap};
use crate::ptx::{self, Way};
use kiln_backend::{DevicePtr, Error, Result};
use kiln_ir::Scalar;
use smallvec::SmallVec;
use std::sync::{Mutex, PoisonError};

/// How many maps of one view parameter are kept: a kernel in a loop often goes through a few
/// tensors in turn.
const KEPT: usize = 16;
/// Addresses and distances of rows are multiples of this many bytes.
const ALIGNMENT: u64 = 16;
/// Bytes of what stands for views without elements: one element that is loaded, and one that is
/// stored.
pub(super) const NOTHING: usize = 2 * ALIGNMENT as usize;

/// What one map of a kernel is made from.
pub(super) struct MapSlot {
    wanted: ptx::TensorMap,
    /// The words of the view and what they gave, the latest last.
    kept: Mutex<Vec<(SmallVec<[u64; 11]>, TensorMap)>>,
}

impl MapSlot {
    pub(super) fn new(wanted: ptx::TensorMap) -> MapSlot {
        MapSlot { wanted, kept: Mutex::default() }
    }

    /// The map for a launch whose parameters are these words.
    ///
    /// `nothing` are [`NOTHING`] bytes of zeros that stand for a view without elements, which a map
    /// cannot be of.
    pub(super) fn get(
        &self,
        context: &Context,
        nothing: DevicePtr,
        kernel: &str,
        words: &[u64],
    ) -> Result<TensorMap> {
        let rank = self.wanted.rank as usize;
        let first = self.wanted.word as usize;
        let view = words.get(first..first + 1 + 2 * rank).ok_or_else(|| Error::Internal {
            place: "kiln-cuda",
            message: format!("launch of `{kernel}`: too few words for a tensor map"),
        })?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, map)) = kept.iter().rev().find(|(words, _)| words[..] == *view) {
            return Ok(*map);
        }
        let map = self.encode(context, nothing, kernel, view)?;
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((SmallVec::from_slice(view), map));
        Ok(map)
    }

    fn encode(&self, context: &Context, nothing: DevicePtr, kernel: &str, view: &[u64]) -> Result<TensorMap> {
        let ptx::TensorMap { elem, extents: [rows, columns], way, .. } = self.wanted;
        let bytes = u64::from(elem.bytes());
        let (mut base, (extents, strides)) = (view[0], view[1..].split_at(self.wanted.rank as usize));
        let reversed = |words: &[u64]| words.iter().rev().copied().collect::<SmallVec<[u64; 5]>>();
        let (mut extents, mut strides) = (reversed(extents), reversed(strides));
        if way == Way::LoadTransposed && extents.len() > 1 {
            extents.swap(0, 1);
            strides.swap(0, 1);
        }
        if extents.contains(&0) {
            // What is loaded of it is zero, like the one element of these; what is stored is never
            // read.
            base = nothing.0 + if way == Way::Store { ALIGNMENT } else { 0 };
            extents.fill(1);
        }
        // A stride along an axis of one element is never taken; a multiple of 16 stands for it.
        let steps: SmallVec<[u64; 5]> = (1..strides.len())
            .map(|i| if extents[i] == 1 { ALIGNMENT } else { strides[i].wrapping_mul(bytes) })
            .collect();
        let what = if !base.is_multiple_of(ALIGNMENT) {
            Some(format!("begins at address {base:#x}"))
        } else if strides[0] != 1 && extents[0] != 1 {
            Some(format!("has elements {} apart on its last axis", strides[0] as i64))
        } else if let Some(step) = steps.iter().find(|s| !s.is_multiple_of(ALIGNMENT) || **s >= 1 << 40) {
            Some(format!("has rows {} bytes apart", *step as i64))
        } else {
            extents
                .iter()
                .find(|e| !(1..=1 << 32).contains(*e))
                .map(|e| format!("has an extent of {}", *e as i64))
        };
        if let Some(what) = what {
            return Err(self.refused(kernel, &what));
        }
        let element = match elem {
            Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 => MapElement::U8,
            Scalar::F16 => MapElement::F16,
            Scalar::BF16 => MapElement::BF16,
            Scalar::F32 => MapElement::F32,
            Scalar::I32 => MapElement::I32,
            Scalar::U32 => MapElement::U32,
            Scalar::I16 | Scalar::U16 => MapElement::U16,
            Scalar::I64 => MapElement::I64,
            Scalar::U64 => MapElement::U64,
            Scalar::F64 => MapElement::F64,
            Scalar::Bool => return Err(self.refused(kernel, &format!("has elements of {elem}"))),
        };
        let mut extents_of_box: SmallVec<[u32; 5]> = SmallVec::from_elem(1, extents.len());
        extents_of_box[0] = columns;
        if let Some(second) = extents_of_box.get_mut(1) {
            *second = rows;
        }
        let shape = MapShape {
            elem: element,
            base,
            extents: &extents,
            strides: &steps,
            extents_of_box: &extents_of_box,
        };
        TensorMap::encode(context, &shape).map_err(|error| error.into_backend("cuda"))
    }

    fn refused(&self, kernel: &str, what: &str) -> Error {
        Error::Unsupported {
            kernel: kernel.to_owned(),
            what: format!("`{}` {what}: a bulk tensor copy", self.wanted.name),
            device: "cuda".into(),
            location: "the launch".into(),
            hint: format!(
                "Bulk tensor copies need elements that are adjacent on the last axis, and an address and other strides in multiples of {ALIGNMENT} bytes"
            ),
        }
    }
}
