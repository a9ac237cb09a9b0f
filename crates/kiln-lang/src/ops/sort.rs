//! Sorting along an axis, and the greatest elements.
//!
//! Batcher's bitonic sort ("Sorting Networks and their Applications", 1968): a step compares all
//! elements whose indices differ in one bit. The partner of an element is what the exclusive or of
//! the pair leaves of it, so that an exchange is a reduction of pairs: between registers, by a
//! shuffle or through memory of the block, wherever the bit lies.

use super::axis::{Axis, chosen, compared, counted_along, from_bits, int, scalar_of, seen_as, to_bits};
use super::each::{Choose, all_padded, all_seen_as, fit};
use super::rearrange::{padded, slice, stretched};
use super::reduce::reduce_axis;
use super::{binary, convert, elementwise, unary};
use crate::elem::Num;
use crate::flow::DeviceValue;
use crate::trace::{Raw, Site, error};
use crate::val::{Idx, Val, shape_of};
use kiln_ir::{BinaryOp, CompareOp, Literal, OpKind, ReduceOp, Scalar, Shape, UnaryOp};
use smallvec::SmallVec;
use std::panic::Location;

impl<T: Num> Val<T> {
    /// The elements along an axis from the least to the greatest. NaN come last, and -0 comes
    /// before 0.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// The median of each row of an odd number of elements.
    /// fn medians(rows: Val<f32>) -> Val<f32> {
    ///     let middle = rows.shape()[1] / 2;
    ///     rows.sort(1).slice(1, middle..middle + 1)
    /// }
    /// # use kiln_lang::{iota, trace, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// assert_eq!(medians(iota(45).reshape([5, 9])).shape(), [5, 1]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn sort(self, axis: usize) -> Val<T> {
        Val::from_raw(sort(self.raw(), axis, false, Location::caller()))
    }

    /// The elements along an axis from the greatest to the least. NaN come first, and 0 comes
    /// before -0.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// How many elements of each row hold 90 percent of what it holds.
    /// fn of_weight(rows: Val<f32>) -> Val<i32> {
    ///     let missing = rows.sort_descending(1).cumsum(1).lt(rows.sum_keep(1) * 0.9);
    ///     missing.cast::<i32>().sum_axis(1) + 1
    /// }
    /// ```
    #[track_caller]
    pub fn sort_descending(self, axis: usize) -> Val<T> {
        Val::from_raw(sort(self.raw(), axis, true, Location::caller()))
    }

    /// The `k` greatest elements along an axis from the greatest on, and their indices; of equal
    /// ones the first. NaN count as greater than all numbers. All elements are sorted for it.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// Of each row the mean of its 4 greatest elements.
    /// fn of_best(rows: Val<f32>) -> Val<f32> {
    ///     let (best, _columns) = rows.top_k(1, 4);
    ///     best.sum_axis(1) / 4.0
    /// }
    /// # use kiln_lang::{iota, trace, Level};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// assert_eq!(of_best(iota(64).reshape([4, 16])).shape(), [4]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn top_k(self, axis: usize, k: usize) -> (Val<T>, Idx) {
        let (values, indices) = top_k(self.raw(), axis, k, Location::caller());
        (Val::from_raw(values), Val::from_raw(indices))
    }
}

/// The type of the numbers that order elements.
fn key_type(elem: Scalar) -> Scalar {
    match elem {
        Scalar::F16 | Scalar::BF16 | Scalar::F32 => Scalar::I32,
        Scalar::F64 => Scalar::I64,
        other => other,
    }
}

/// The least or the greatest number of an integer type.
fn extreme(elem: Scalar, greatest: bool) -> Literal {
    let bits = u32::from(elem.bytes() as u8) * 8;
    let (least, most) = match elem.is_signed() {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    Literal::wrapping(elem, if greatest { most } else { least })
}

/// Of the bits of a float the number that orders it, and back: below zero the magnitude counts the
/// other way.
fn ordered_bits(bits: Raw, key: Scalar, site: Site) -> Raw {
    let top = Literal::wrapping(key, i128::from(key.bytes()) * 8 - 1);
    let sign = binary(BinaryOp::Shr, bits, Raw::Const(top), key, site);
    let flip = binary(BinaryOp::And, sign, Raw::Const(extreme(key, true)), key, site);
    binary(BinaryOp::Xor, bits, flip, key, site)
}

/// Numbers in the order of the elements.
fn to_key(raw: Raw, elem: Scalar, site: Site) -> Raw {
    let key = key_type(elem);
    if !elem.is_float() {
        return raw;
    }
    let float = if key == Scalar::I32 { Scalar::F32 } else { elem };
    let wide = convert::cast(raw, elem, float, site);
    let ordered = ordered_bits(convert::bitcast(wide, float, key, site), key, site);
    let is_nan = unary(UnaryOp::IsNan, wide, Scalar::Bool, site);
    // The greatest key is that of a NaN.
    chosen(is_nan, Raw::Const(extreme(key, true)), ordered, site)
}

/// The elements that [`to_key`] made numbers of.
fn from_key(key: Raw, elem: Scalar, site: Site) -> Raw {
    let scalar = key_type(elem);
    if !elem.is_float() {
        return key;
    }
    let float = if scalar == Scalar::I32 { Scalar::F32 } else { elem };
    let wide = convert::bitcast(ordered_bits(key, scalar, site), scalar, float, site);
    convert::cast(wide, float, elem, site)
}

fn sort(raw: Raw, axis: usize, descending: bool, site: Site) -> Raw {
    let (Some(shape), Some(elem)) = (shape_of(raw), scalar_of(raw)) else { return Raw::Poison };
    let Some(axis) = Axis::of(shape, axis, site) else { return Raw::Poison };
    let name = if descending { "sort_descending" } else { "sort" };
    let key = key_type(elem);
    // Complements have the opposite order.
    let turned = |raw: Raw| if descending { unary(UnaryOp::Not, raw, key, site) } else { raw };
    let mut keys = turned(to_key(raw, elem, site));
    let extent = axis.len.next_power_of_two();
    if extent != axis.len {
        keys = padded(keys, &axis, (0, extent), extreme(key, true), name, site);
    }
    let network = Network { axis: &axis, extent, site };
    keys = network.run(
        keys,
        &mut |step, mine| {
            let other = partner(mine, site);
            let [least, most] = [BinaryOp::Min, BinaryOp::Max].map(|op| binary(op, mine, other, key, site));
            chosen(step.first, least, most, site)
        },
        &mut |keys, shape| seen_as(keys, shape, site),
    );
    let sorted = slice(keys, axis.at, 0..axis.len as usize, site);
    from_key(turned(sorted), elem, site)
}

fn top_k(raw: Raw, axis: usize, k: usize, site: Site) -> (Raw, Raw) {
    const NONE: (Raw, Raw) = (Raw::Poison, Raw::Poison);
    let (Some(shape), Some(elem)) = (shape_of(raw), scalar_of(raw)) else { return NONE };
    let Some(axis) = Axis::of(shape, axis, site) else { return NONE };
    if k == 0 || k > axis.len as usize {
        let message = format!("axis {} of shape {} has no {k} greatest elements", axis.at, axis.shape);
        error(site, message, format!("ask for 1 to {}", axis.len));
        return NONE;
    }
    let (key, extent) = (key_type(elem), axis.len.next_power_of_two());
    let mut keys = to_key(raw, elem, site);
    if extent != axis.len {
        keys = padded(keys, &axis, (0, extent), extreme(key, false), "top_k", site);
    }
    // What was added has greater indices than all elements.
    let whole = axis.with_len(extent);
    let indices = counted_along(extent, whole.rank() - axis.at - 1, site);
    let indices = stretched(indices, &whole, site);
    let network = Network { axis: &axis, extent, site };
    let (keys, indices) = network.run(
        (keys, indices),
        &mut |step, (mine, at)| {
            let (other, other_at) = (partner(mine, site), partner(at, site));
            let comes_first = |[a, i]: [Raw; 2], [b, j]: [Raw; 2]| {
                let [greater, equal] = [CompareOp::Gt, CompareOp::Eq].map(|op| compared(op, a, b, site));
                let earlier = compared(CompareOp::Lt, i, j, site);
                let tie = binary(BinaryOp::And, equal, earlier, Scalar::Bool, site);
                binary(BinaryOp::Or, greater, tie, Scalar::Bool, site)
            };
            // No two are equal: where the partner does not come first, this element does.
            let other_first = comes_first([other, other_at], [mine, at]);
            let take =
                elementwise(OpKind::Compare(CompareOp::Eq), &[other_first, step.first], Scalar::Bool, site);
            (chosen(take, other, mine, site), chosen(take, other_at, at, site))
        },
        &mut |(keys, indices), shape| (seen_as(keys, shape, site), seen_as(indices, shape, site)),
    );
    let [keys, indices] = [keys, indices].map(|raw| slice(raw, axis.at, 0..k, site));
    (from_key(keys, elem, site), convert::cast(indices, Scalar::I32, Scalar::I64, site))
}

/// Sorts a value whose tiles have one shape.
pub(super) fn sorted_by<D: DeviceValue>(
    values: &D,
    axis: &Axis,
    before: &dyn Fn(D, D) -> Val<bool>,
    site: Site,
) -> D {
    let extent = axis.len.next_power_of_two();
    let network = Network { axis, extent, site };
    let reshape = |values: &D, shape: &Shape| all_seen_as(values, shape, site);
    if extent == axis.len {
        return network.run(
            values.clone(),
            &mut |step, mine| exchanged(&mine, step, before, site),
            &mut |values, shape| reshape(&values, shape),
        );
    }
    // What is added comes behind all elements.
    let many = all_padded(values, axis, (0, extent), "sort_by", site);
    let whole = axis.with_len(extent);
    let along = counted_along(extent, whole.rank() - axis.at - 1, site);
    let counts = compared(CompareOp::Lt, along, int(axis.len), site);
    let counts = Val::<bool>::from_raw(stretched(counts, &whole, site));
    let first = |(a, of_a): (D, Val<bool>), (b, of_b): (D, Val<bool>)| of_a & (!of_b | before(a, b));
    let (sorted, _) = network.run(
        (many, counts),
        &mut |step, mine| exchanged(&mine, step, &first, site),
        &mut |(values, counts), shape| {
            (reshape(&values, shape), counts.map(&mut |raw| seen_as(raw, shape, site)))
        },
    );
    sorted.map(&mut |raw| slice(raw, axis.at, 0..axis.len as usize, site))
}

/// Each element or its partner, whichever the step wants at its place.
fn exchanged<D: DeviceValue>(mine: &D, step: &Step, before: &dyn Fn(D, D) -> Val<bool>, site: Site) -> D {
    let other = mine.map(&mut |raw| partner(raw, site));
    let choose = |condition: Raw, a: &D, b: &D| a.zip(b, &mut Choose { condition, site });
    // An exchange is wanted where what is to be second comes before what is to be first.
    let (to_second, to_first) = (choose(step.first, &other, mine), choose(step.first, mine, &other));
    let wanted = fit(before(to_second, to_first).raw(), &step.shape, "sort_by", site);
    choose(wanted, &other, mine)
}

/// For each element of `[outer, groups, 2, distance, inner]` the other one of its pair.
fn partner(raw: Raw, site: Site) -> Raw {
    let (Some(shape), Some(elem)) = (shape_of(raw), scalar_of(raw)) else { return Raw::Poison };
    let (bits, scalar) = to_bits(raw, elem, site);
    let both = reduce_axis(bits, ReduceOp::Xor, PAIR, scalar, site);
    let mut extents: SmallVec<[u32; 4]> = SmallVec::from_slice(shape.extents());
    extents[PAIR] = 1;
    let both = seen_as(both, &Shape::new(&extents), site);
    from_bits(binary(BinaryOp::Xor, bits, both, scalar, site), elem, site)
}

/// The axis of pairs in the shape that a step works on.
const PAIR: usize = 2;

/// A step of the network.
struct Step {
    /// Whether the element is to be the one that comes first of its pair.
    first: Raw,
    /// The shape in which the tiles are.
    shape: Shape,
}

/// The exchanges that sort an axis of `extent` elements, a power of two.
struct Network<'a> {
    axis: &'a Axis,
    extent: u32,
    site: Site,
}

impl Network<'_> {
    /// Does an exchange for each step, on the value in the shape of the step.
    fn run<V>(
        &self,
        mut value: V,
        exchange: &mut dyn FnMut(&Step, V) -> V,
        reshape: &mut dyn FnMut(V, &Shape) -> V,
    ) -> V {
        for stage in 1..=self.extent.trailing_zeros() {
            for bit in (0..stage).rev() {
                let step = self.step(bit, stage);
                value = reshape(value, &step.shape);
                value = exchange(&step, value);
            }
        }
        reshape(value, &self.axis.with_len(self.extent))
    }

    /// Compares elements whose indices differ in a bit. Runs of `2^stage` elements are sorted by
    /// turns in this order and in the opposite one.
    fn step(&self, bit: u32, stage: u32) -> Step {
        let (site, groups) = (self.site, self.extent >> (bit + 1));
        let group = counted_along(groups, 3, site);
        let shifted = binary(BinaryOp::Shr, group, int(stage - bit - 1), Scalar::I32, site);
        let turned = binary(BinaryOp::And, shifted, int(1), Scalar::I32, site);
        let first = compared(CompareOp::Eq, turned, counted_along(2, 2, site), site);
        Step { first, shape: self.axis.split_into(&[groups, 2, 1 << bit]) }
    }
}
