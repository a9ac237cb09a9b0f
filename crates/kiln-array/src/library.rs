//! Launches of kernels that are not made of graphs: products of matrices, attention, sorting, sums
//! by indices.

use crate::epilogue::{ChainEpilogue, for_numbers};
use crate::op::Op;
use kiln_ir::Scalar;
use kiln_kernels::attention::{Cache, Given};
use kiln_kernels::matmul::Factor;
use kiln_kernels::{Attention, Matmul, Sort};
use kiln_lang::prelude::*;
use kiln_runtime::{DynTensor, Result, Tensor};

/// Kernels over rows.
mod kernels {
    use super::*;

    /// The sums of the parts `[.., part, ..]` of x whose index is that of the part of y, in order:
    /// each program adds up a tile of `block` elements of one part.
    #[kernel(crate = kiln_runtime)]
    pub fn add_parts<T: Factor>(
        x: &Tensor<T, 3>,
        indices: &Tensor<i64, 1>,
        y: &mut Tensor<T, 3>,
        block: usize,
        ahead: usize,
    ) {
        let (outer, part, inner) = (program_id(2), program_id(1), program_id(0) * block);
        let mut sum = zeros::<T::Sum>(block);
        let count = indices.extent(0);
        for from in range_step(0, count, ahead) {
            // Most parts of a large table have no index among so many.
            if indices.tile(from, ahead).load(-1).eq(part).any() {
                for at in range(from, (from + ahead).minimum(count)) {
                    if indices.get(at).eq(part) {
                        sum = sum + x.row(outer).row(at).tile(inner, block).load(0).cast::<T::Sum>();
                    }
                }
            }
        }
        y.row(outer).row(part).tile(inner, block).store(sum.cast::<T>());
    }

    /// Where each of `0 ..= parts` begins among indices that `order` puts in order; a program finds
    /// `block` of them by bisection, in as many `steps` as the number of indices has bits.
    #[kernel(crate = kiln_runtime)]
    pub fn beginnings(
        indices: &Tensor<i64, 1>,
        order: &Tensor<i64, 1>,
        starts: &mut Tensor<i64, 1>,
        steps: usize,
        block: usize,
    ) {
        let at = program_id(0) * block;
        let (part, count) = (iota::<i64>(block) + at, indices.extent(0));
        let mut before = zeros::<i64>(block);
        for step in 0..steps {
            let next = before + (1i64 << (steps - 1 - step));
            let last = order.get_where(next - 1, next.le(count), 0);
            let is_before = next.le(count) & indices.get_or(last, 0).lt(part);
            before = select(is_before, next, before);
        }
        starts.tile(at, block).store(before);
    }

    /// The sums of `chunk` parts of x each, in the order of `order`, where these have one index: a
    /// part that many indices have is added up by many programs.
    #[kernel(crate = kiln_runtime)]
    pub fn add_chunks<T: Num, S: Num>(
        x: &Tensor<T, 3>,
        indices: &Tensor<i64, 1>,
        order: &Tensor<i64, 1>,
        sums: &mut Tensor<S, 3>,
        block: usize,
        chunk: usize,
    ) {
        let (outer, inner, number) = (program_id(2), program_id(1) * block, program_id(0));
        let from = number * chunk;
        let index = |place: Val<i64>| indices.get(order.get(place));
        if index(from).eq(index(from + (chunk - 1))) {
            let mut sum = zeros::<S>(block);
            for at in range(from, from + chunk) {
                sum = sum + x.row(outer).row(order.get(at)).tile(inner, block).load(0).cast::<S>();
            }
            sums.row(outer).row(number).tile(inner, block).store(sum);
        }
    }

    /// As [`add_parts`], of indices that `order` puts in order: those of a part are the ones from
    /// its start to the next one's. `S` is what is added up in, as by [`add_chunks`], whose sums
    /// are taken of the chunks within.
    #[kernel(crate = kiln_runtime)]
    pub fn add_sorted_parts<T: Num, S: Num>(
        x: &Tensor<T, 3>,
        order: &Tensor<i64, 1>,
        starts: &Tensor<i64, 1>,
        sums: &Tensor<S, 3>,
        y: &mut Tensor<T, 3>,
        block: usize,
        chunk: usize,
    ) {
        // A grid has most room for parts on its first axis.
        let (outer, inner, part) = (program_id(2), program_id(1) * block, program_id(0));
        let (from, to) = (starts.get(part), starts.get(part + 1));
        let (first, last) = ((from + (chunk - 1)) / chunk, to / chunk);
        let head = (first * chunk).minimum(to);
        let tail = (last * chunk).maximum(head);
        let (x, mut sum) = (x.row(outer), zeros::<S>(block));
        for at in range(from, head) {
            sum = sum + x.row(order.get(at)).tile(inner, block).load(0).cast::<S>();
        }
        for number in range(first, last) {
            sum = sum + sums.row(outer).row(number).tile(inner, block).load(0);
        }
        for at in range(tail, to) {
            sum = sum + x.row(order.get(at)).tile(inner, block).load(0).cast::<S>();
        }
        y.row(outer).row(part).tile(inner, block).store(sum.cast::<T>());
    }
}

/// Launches an operation of the library. Attention may be asked for its sums too.
pub(crate) fn launch(
    op: &Op,
    inputs: &[DynTensor],
    result: &mut DynTensor,
    also: Option<&mut DynTensor>,
) -> Result<()> {
    match (op, inputs) {
        (Op::Product, [a, b]) => product(a, b, result),
        (Op::ArgSort { descending }, [x]) => argsort(x, result, *descending),
        (Op::AddParts, [x, indices]) => add_parts(x, indices, result),
        (Op::Attention { causal }, [qkv]) => attention(qkv, *causal, [Some(result), also]),
        (Op::AttentionSums { causal }, [qkv]) => attention(qkv, *causal, [None, Some(result)]),
        (Op::AttentionGradient { causal }, [qkv, g, sums, means]) => {
            attention_gradient(qkv, [g, sums, means], *causal, result)
        }
        (Op::Kernel(kernel), inputs) => kernel.launch(inputs, result),
        (Op::Decode, [q, k, v, lengths]) => decode([q, k, v], lengths, result),
        _ => Ok(()),
    }
}

fn product(a: &DynTensor, b: &DynTensor, c: &mut DynTensor) -> Result<()> {
    for_numbers!(a.dtype(), T => {
        let (a, b) = (a.downcast_ref::<T, 3>()?, b.downcast_ref::<T, 3>()?);
        let c: &mut Tensor<T, 3> = c.downcast_mut()?;
        Matmul::new(a, b).run(c)
    })
}

/// The most elements of a part that a program adds up, and the indices that it compares at once.
const PART: usize = 1024;
const AHEAD: usize = 256;

/// Sorted indices that a program adds up of a part that has more.
const CHUNK: usize = 64;

/// The most indices that every part looks at; more are sorted first.
const MOST_COMPARED: usize = 1024;

fn add_parts(x: &DynTensor, indices: &DynTensor, y: &mut DynTensor) -> Result<()> {
    let block = x.shape().last().map_or(1, |extent| extent.next_power_of_two()).min(PART);
    let device = x.device().clone();
    let indices = indices.downcast_ref::<i64, 1>()?;
    if indices.len() > MOST_COMPARED || !x.dtype().is_float() {
        return add_sorted_parts(x, indices, y, block);
    }
    let ahead = indices.len().next_power_of_two().min(AHEAD);
    macro_rules! of {
        ($of:ty) => {{
            let x = x.downcast_ref::<$of, 3>()?;
            kernels::add_parts::<$of>(x, indices, y.downcast_mut()?, block, ahead).launch(&device)
        }};
    }
    match x.dtype() {
        Scalar::F16 => of!(f16),
        Scalar::BF16 => of!(bf16),
        Scalar::F64 => of!(f64),
        _ => of!(f32),
    }
}

fn add_sorted_parts(x: &DynTensor, indices: &Tensor<i64, 1>, y: &mut DynTensor, block: usize) -> Result<()> {
    let (device, count, parts) = (x.device().clone(), indices.len(), y.shape()[1]);
    let mut order = device.uninit([1, count])?;
    Sort::new().order(&indices.reshape([1, count])?, &mut order)?;
    let (order, mut starts) = (order.reshape([count])?, device.uninit([parts + 1])?);
    let steps = (usize::BITS - count.leading_zeros()) as usize;
    kernels::beginnings(indices, &order, &mut starts, steps, AHEAD).launch(&device)?;
    macro_rules! of {
        ($of:ty, $sum:ty) => {{
            let sorted = Sorted { indices, order: &order, starts: &starts };
            sorted.add::<$of, $sum>(x.downcast_ref()?, y.downcast_mut()?, block, CHUNK)
        }};
    }
    match x.dtype() {
        Scalar::F16 => of!(f16, f32),
        Scalar::BF16 => of!(bf16, f32),
        Scalar::F64 => of!(f64, f64),
        Scalar::I32 => of!(i32, i32),
        Scalar::U32 => of!(u32, u32),
        Scalar::I64 => of!(i64, i64),
        _ => of!(f32, f32),
    }
}

/// Indices, what puts them in order, and where each begins then.
struct Sorted<'a> {
    indices: &'a Tensor<i64, 1>,
    order: &'a Tensor<i64, 1>,
    starts: &'a Tensor<i64, 1>,
}

impl Sorted<'_> {
    /// Adds up parts in `S`: first whole chunks, where there are any.
    fn add<T: Num, S: Num>(
        &self,
        x: &Tensor<T, 3>,
        y: &mut Tensor<T, 3>,
        block: usize,
        chunk: usize,
    ) -> Result<()> {
        let &Sorted { indices, order, starts } = self;
        let device = x.device().clone();
        let ([outer, count, inner], [_, parts, _]) = (x.shape(), y.shape());
        let across = inner.div_ceil(block);
        let grid = |along: usize| [along as u32, across as u32, outer as u32];
        let sums = if count >= chunk {
            let mut sums = device.uninit([outer, count / chunk, inner])?;
            let add_chunks = kernels::add_chunks::<T, S>(x, indices, order, &mut sums, block, chunk);
            add_chunks.grid(grid(count / chunk)).launch(&device)?;
            sums
        } else {
            device.zeros([outer, 1, inner])?
        };
        let add = kernels::add_sorted_parts::<T, S>(x, order, starts, &sums, y, block, chunk);
        add.grid(grid(parts)).launch(&device)
    }
}

/// Evaluates an expression with a type for the elements of attention.
macro_rules! for_attention {
    ($elem:expr, $t:ident => $body:expr) => {{
        macro_rules! of {
            ($of:ty) => {{
                type $t = $of;
                $body
            }};
        }
        match $elem {
            Scalar::F16 => of!(f16),
            Scalar::BF16 => of!(bf16),
            _ => of!(f32),
        }
    }};
}

/// Queries, keys and values of `[batch, length, 3, heads, width]`.
fn three<T: Elem>(qkv: &Tensor<T, 5>) -> Result<[Tensor<T, 4>; 3]> {
    Ok([qkv.select(2, 0)?, qkv.select(2, 1)?, qkv.select(2, 2)?])
}

/// The tensor, or a copy with adjacent elements in its rows.
fn by_rows(x: &DynTensor) -> Result<DynTensor> {
    if x.strides().last().is_none_or(|&stride| stride == 1) { Ok(x.alias()) } else { x.copy() }
}

fn options(causal: bool) -> Attention {
    if causal { Attention::new().causal() } else { Attention::new() }
}

/// Attention, of which results or the logarithms of sums are asked for.
fn attention(qkv: &DynTensor, causal: bool, asked: [Option<&mut DynTensor>; 2]) -> Result<()> {
    let qkv = by_rows(qkv)?;
    for_attention!(qkv.dtype(), T => {
        let [q, k, v] = three::<T>(qkv.downcast_ref()?)?;
        let [o, sums] = asked;
        let (mut own_o, mut own_sums);
        let [batch, length, heads, width] = q.shape();
        let o: &mut Tensor<T, 4> = match o {
            Some(o) => o.downcast_mut()?,
            None => {
                own_o = q.device().uninit([batch, length, heads, width])?;
                &mut own_o
            }
        };
        let sums: &mut Tensor<f32, 3> = match sums {
            Some(sums) => sums.downcast_mut()?,
            None => {
                own_sums = q.device().uninit([batch, heads, length])?;
                &mut own_sums
            }
        };
        options(causal).run_with_sums(&q, &k, &v, o, sums)
    })
}

/// Decoding attention to keys and values of `[sequences, room, key heads, width]`.
fn decode([q, k, v]: [&DynTensor; 3], lengths: &DynTensor, result: &mut DynTensor) -> Result<()> {
    let (q, k, v) = (by_rows(q)?, by_rows(k)?, by_rows(v)?);
    for_attention!(q.dtype(), T => {
        let cache = Cache::new(k.downcast_ref::<T, 4>()?, v.downcast_ref()?, lengths.downcast_ref()?)?;
        Attention::new().decode(q.downcast_ref()?, &cache, result.downcast_mut()?)
    })
}

fn attention_gradient(
    qkv: &DynTensor,
    [g, sums, means]: [&DynTensor; 3],
    causal: bool,
    result: &mut DynTensor,
) -> Result<()> {
    let (qkv, g) = (by_rows(qkv)?, by_rows(g)?);
    for_attention!(qkv.dtype(), T => {
        let means = means.downcast_ref::<f32, 3>()?.permute([0, 2, 1])?;
        let (qkv, g, sums) = (qkv.downcast_ref::<T, 5>()?, g.downcast_ref()?, sums.downcast_ref()?);
        options(causal).gradients(&Given { qkv, g, sums, means: &means }, result.downcast_mut()?)
    })
}

/// Launches a product whose sums go through an epilogue. Other element types have none.
pub(crate) fn fused(a: &DynTensor, b: &DynTensor, c: &mut DynTensor, then: ChainEpilogue) -> Result<()> {
    macro_rules! of {
        ($from:ty, $to:ty) => {{
            let (a, b) = (a.downcast_ref::<$from, 3>()?, b.downcast_ref::<$from, 3>()?);
            let c: &mut Tensor<$to, 3> = c.downcast_mut()?;
            Matmul::new(a, b).then(then).run(c)
        }};
    }
    match (a.dtype(), c.dtype()) {
        (Scalar::F16, Scalar::F32) => of!(f16, f32),
        (Scalar::F16, _) => of!(f16, f16),
        (Scalar::BF16, Scalar::F32) => of!(bf16, f32),
        (Scalar::BF16, _) => of!(bf16, bf16),
        _ => of!(f32, f32),
    }
}

fn argsort(x: &DynTensor, y: &mut DynTensor, descending: bool) -> Result<()> {
    let sort = if descending { Sort::new().descending() } else { Sort::new() };
    for_numbers!(x.dtype(), T => sort.order::<T>(x.downcast_ref()?, y.downcast_mut()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_runtime::Device;

    /// Parts of no, few and many indices, in tiles that go beyond the ends, and chunks within,
    /// across and beyond parts.
    #[test]
    fn sorted_parts_are_added_up_by_chunks() -> Result<()> {
        let device = Device::open("interp")?;
        let (count, parts, inner) = (45, 4, 5);
        let numbers: Vec<i32> = (0..2 * count * inner).map(|i| (i * 37 % 101) as i32 - 50).collect();
        let x = device.tensor(&numbers, [2, count, inner])?;
        let part_of = |at: usize| [0, 1, 3, 1, 1][at % 5];
        let indices: Vec<i64> = (0..count).map(|at| part_of(at) as i64).collect();
        let mut order: Vec<i64> = (0..count as i64).collect();
        order.sort_by_key(|&at| indices[at as usize]);
        let before = |part: usize| (0..count).filter(|&at| part_of(at) < part).count() as i64;
        let starts: Vec<i64> = (0..=parts).map(before).collect();
        let (indices, order) = (device.tensor(&indices, [count])?, device.tensor(&order, [count])?);
        let starts = device.tensor(&starts, [parts + 1])?;
        let sum = |outer: usize, part: usize, at: usize| -> i32 {
            let of = (0..count).filter(|&row| part_of(row) == part);
            of.map(|row| numbers[(outer * count + row) * inner + at]).sum()
        };
        let places = (0..2 * parts * inner).map(|at| (at / inner / parts, at / inner % parts, at % inner));
        let expected: Vec<i32> = places.map(|(outer, part, at)| sum(outer, part, at)).collect();
        let sorted = Sorted { indices: &indices, order: &order, starts: &starts };
        for chunk in [1, 2, 4, 9, 27, 64] {
            let mut y = device.uninit([2, parts, inner])?;
            sorted.add::<i32, i32>(&x, &mut y, 4, chunk)?;
            assert_eq!(y.to_vec()?, expected, "chunks of {chunk}");
        }
        Ok(())
    }
}
