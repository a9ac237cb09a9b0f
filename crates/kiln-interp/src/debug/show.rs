//! Values as text.

use super::command::Part;
use crate::machine::Machine;
use crate::mask::Mask;
use crate::value::{Data, each_vec};
use kiln_ir::{Scalar, Shown, Type, Value};
use std::ops::Range;

/// An element in Rust's `Debug` form, by which floats are told from integers.
fn text(data: &Data, at: usize) -> String {
    each_vec!(data, v => v.get(at).map_or_else(|| "?".to_owned(), |x| format!("{x:?}")))
}

fn text_of_bits(elem: Scalar, bits: u64) -> String {
    let mut one = Data::zeros(elem, 1);
    one.fill(bits);
    text(&one, 0)
}

/// The elements of each axis that a slice leaves, and the axes that remain.
struct Slice {
    ranges: Vec<Range<usize>>,
    kept: Vec<usize>,
}

impl Slice {
    fn of(extents: &[usize], parts: &[Part]) -> Result<Slice, String> {
        if parts.len() > extents.len() {
            let axes = if extents.len() == 1 { "axis" } else { "axes" };
            return Err(format!(
                "a slice of {} parts, of a value with {} {axes}",
                parts.len(),
                extents.len()
            ));
        }
        let mut slice = Slice { ranges: Vec::new(), kept: Vec::new() };
        for (axis, &extent) in extents.iter().enumerate() {
            let range = match parts.get(axis) {
                None | Some(Part::All) => 0..extent,
                Some(Part::At(at)) => *at..at.saturating_add(1),
                Some(Part::From(range)) if range.end == usize::MAX => range.start..extent,
                Some(Part::From(range)) => range.clone(),
            };
            if range.start > range.end || range.end > extent {
                return Err(format!("{range:?} is outside of 0..{extent}, axis {axis} of the value"));
            }
            if !matches!(parts.get(axis), Some(Part::At(_))) {
                slice.kept.push(axis);
            }
            slice.ranges.push(range);
        }
        Ok(slice)
    }

    /// `[..] f32[8]`, or the type first where there are several lines.
    fn show(&self, elem: Scalar, element: &mut dyn FnMut(&[usize]) -> String) -> String {
        let extents: Vec<usize> = self.kept.iter().map(|&axis| self.ranges[axis].len()).collect();
        let mut at: Vec<usize> = self.ranges.iter().map(|range| range.start).collect();
        let shown = Shown::of(&extents, &mut |index| {
            for (&axis, i) in self.kept.iter().zip(index) {
                at[axis] = self.ranges[axis].start + i;
            }
            element(&at)
        });
        match extents.len() {
            0 => format!("{shown} {elem}"),
            1 => format!("{shown} {elem}{extents:?}"),
            _ => format!("{elem}{extents:?}\n{shown}"),
        }
    }
}

impl Machine<'_> {
    /// A value of the kernel as text, of scalars that of a thread.
    ///
    /// # Errors
    /// Why a slice does not fit it.
    pub fn shown(&mut self, value: Value, lane: usize, parts: &[Part]) -> Result<String, String> {
        if let Type::View(view) = self.kernel.ty(value) {
            let elem = view.elem;
            let Some(view) = self.views[value.index()].clone() else {
                return Ok("not there yet".to_owned());
            };
            let extents: Vec<usize> = view.extents.iter().map(|&e| usize::try_from(e).unwrap_or(0)).collect();
            let slice = Slice::of(&extents, parts)?;
            return Ok(slice.show(elem, &mut |at| {
                let steps = at.iter().zip(&view.strides);
                let offset = steps
                    .fold(0, |sum: i64, (&i, &stride)| sum.wrapping_add((i as i64).wrapping_mul(stride)));
                let address = view.base.wrapping_add((offset as u64).wrapping_mul(view.elem_bytes));
                let mut bytes = [0; 8];
                let size = (view.elem_bytes as usize).min(8);
                match self.spaces.peek(view.space, lane, address, &mut bytes[..size]) {
                    true => text_of_bits(elem, u64::from_le_bytes(bytes)),
                    false => "?".to_owned(),
                }
            }));
        }
        let shape = self.shape(value);
        let extents: Vec<usize> = shape.extents().iter().map(|&e| e as usize).collect();
        let slice = Slice::of(&extents, parts)?;
        let data = self.data(value);
        Ok(slice.show(data.elem(), &mut |at| {
            let linear = at.iter().zip(&extents).fold(0, |sum, (&i, &extent)| sum * extent + i);
            text(data, if extents.is_empty() { lane } else { linear })
        }))
    }

    /// The value of a scalar in the threads of a mask.
    ///
    /// # Errors
    /// For a tile or a view, which belongs to the block.
    pub fn shown_in_threads(&self, value: Value, mask: &Mask) -> Result<String, String> {
        if self.is_tile(value) || self.kernel.ty(value).as_view().is_some() {
            return Err("it is the same in all threads: leave `threads` away".to_owned());
        }
        let lanes: Vec<usize> = mask.lanes().collect();
        let data = self.data(value);
        let shown = Shown::of(&[lanes.len()], &mut |at| text(data, lanes[at[0]]));
        Ok(format!("{shown} {}, in threads {}", data.elem(), ranges(&lanes)))
    }
}

/// Numbers in increasing order as ranges: `0..32, 40`.
pub fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some(last) if last.end == n => last.end = n + 1,
            _ => parts.push(n..n + 1),
        }
    }
    let one = |range: &Range<usize>| match range.len() {
        1 => range.start.to_string(),
        _ => format!("{range:?}"),
    };
    parts.iter().map(one).collect::<Vec<_>>().join(", ")
}
