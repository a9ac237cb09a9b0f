//! Attention at the tile level, for every device.

use super::Problem;
use crate::matmul::plain::has_warpgroups;
use crate::sizes::{grids, row_tile};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Execution, Result, Tensor};
use std::f32::consts::{LN_2, LOG2_E};
use std::ops::Range;

/// Kernels, for launches of one's own.
///
/// ```
/// use kiln_kernels::attention::plain::kernels::{Form, attention};
/// let device = kiln_runtime::Device::open("interp")?;
/// let (q, v) = (device.zeros::<f32, 4>([1, 1, 3, 1])?, device.tensor(&[3.0f32, 6.0, 9.0], [1, 1, 3, 1])?);
/// let (mut o, mut sums) = (device.uninit([1, 1, 3, 1])?, device.uninit([1, 1, 3])?);
/// let no_sequences = device.zeros([1, 4])?;
/// // A query sees no key after its own place: there is a limit of 0 to the right.
/// let form = Form {
///     rows: 16,
///     columns: 16,
///     width: 16,
///     shared: 1,
///     bounded: [false, true],
///     capped: false,
///     packed: false,
/// };
/// attention(&q, &q, &v, &mut o, &mut sums, &no_sequences, 1.0, 1.0, 0, 0, form).launch(&device)?;
/// assert_eq!(o.to_vec()?, [3.0, 4.5, 6.0]);
/// assert!((sums.to_vec()?[2] - 3.0f32.ln()).abs() < 1e-6);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub mod kernels {
    use super::*;

    /// What a kernel is made for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelConst)]
    #[kiln(crate = kiln_runtime)]
    pub struct Form {
        /// Queries of a program.
        pub rows: usize,
        /// Keys of a turn.
        pub columns: usize,
        /// Covers the width of a head.
        pub width: usize,
        /// Heads of q in a row that share one of k and v.
        pub shared: usize,
        /// Whether there is a limit to the keys that a query sees before its place, and after it.
        pub bounded: [bool; 2],
        /// Whether scores are capped.
        pub capped: bool,
        /// Whether `sequences` say where queries and keys lie.
        pub packed: bool,
    }

    /// Numbers for all queries.
    #[derive(Clone, Copy)]
    struct Numbers {
        scale: Val<f32>,
        cap: Val<f32>,
        window: [Idx; 2],
    }

    /// Queries of a program, and the keys of its sequence.
    #[derive(Clone, Copy)]
    struct QueryTile {
        /// The first query, and how many the sequence has.
        first: Idx,
        asked: Idx,
        /// Where queries and keys of the sequence begin in their tensors.
        queries: Idx,
        keys: Idx,
        known: Idx,
    }

    impl QueryTile {
        /// The place of the first query among the keys, where the last query has the place of the
        /// last key.
        fn among_keys(&self) -> Idx {
            self.first + self.known - self.asked
        }
    }

    /// What the turns so far have summed.
    #[derive(Clone, Copy, DeviceValue)]
    #[kiln(crate = kiln_runtime)]
    struct Sums {
        /// The greatest score, as a logarithm to base 2.
        greatest: Val<f32>,
        sum: Val<f32>,
        out: Val<f32>,
    }

    /// o = softmax(scale q kᵀ) v for each head, some queries a program (axis 0; heads and batch are
    /// axes 1 and 2), of which no score outlives its turn: each turn rescales what the turns before
    /// have summed (Dao, "FlashAttention-2", 2023). `sums` are the logarithms of the sums of
    /// e^(scale q kᵀ).
    ///
    /// With a limit, a query at place p sees the keys from p - `left`, or up to p + `right`, where
    /// the last query has the place of the last key. A query that sees no key gives zeros. Capped
    /// scores are `cap` · tanh(score / `cap`).
    ///
    /// `sequences`, used where the form says so, has a row for each sequence, which axis 2 then
    /// counts: its first query, how many, its first key, how many.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn attention<T: Float + Accumulate<Acc = f32>>(
        q: &Tensor<T, 4>,
        k: &Tensor<T, 4>,
        v: &Tensor<T, 4>,
        o: &mut Tensor<T, 4>,
        sums: &mut Tensor<f32, 3>,
        sequences: &Tensor<i32, 2>,
        scale: Val<f32>,
        cap: Val<f32>,
        left: Val<i64>,
        right: Val<i64>,
        form: Form,
    ) {
        let Form { rows, width, .. } = form;
        let (batch, head, first) = (program_id(2), program_id(1), program_id(0) * rows);
        let place = if form.packed {
            let of = |column: usize| sequences.get_or((batch, column), 0).cast::<i64>();
            QueryTile { first, asked: of(1), queries: of(0), keys: of(2), known: of(3) }
        } else {
            QueryTile { first, asked: q.extent(2), queries: val(0), keys: val(0), known: k.extent(2) }
        };
        let batch = if form.packed { val(0) } else { batch };
        let (keys, values) = (k.row(batch).row(head / form.shared), v.row(batch).row(head / form.shared));
        let queries = q.row(batch).row(head).tile((place.queries + first, 0), (rows, width)).load(0);
        let numbers = Numbers { scale, cap, window: [left, right] };
        let Sums { greatest, sum, out } = turns(queries, keys, values, place, numbers, form);

        let some = sum.gt(0.0);
        let logarithm = select(some, greatest * LN_2 + sum.log(), f32::NEG_INFINITY);
        let result = select(some.expand(1), out.fast_div(sum.expand(1)), 0.0).cast::<T>();
        let (o, sums) = (o.row(batch).row(head), sums.row(batch).row(head));
        if form.packed {
            let row = iota::<i64>(rows) + first;
            let (inside, at) = (row.lt(place.asked), row + place.queries);
            let index = (at.expand(1), iota::<i64>(width).expand(0));
            // SAFETY: every query belongs to one sequence and one program.
            unsafe { o.scatter_where(index, inside.expand(1), result) };
            // SAFETY: as above.
            unsafe { sums.scatter_where(at, inside, logarithm) };
        } else {
            o.tile((first, 0), (rows, width)).store(result);
            sums.tile(first, rows).store(logarithm);
        }
    }

    /// Goes through the keys that a program's queries see: first, where only the right is bounded,
    /// those that all of them see.
    #[device(crate = kiln_runtime)]
    fn turns<T: Float + Accumulate<Acc = f32>>(
        queries: Val<T>,
        keys: View<T, 2>,
        values: View<T, 2>,
        place: QueryTile,
        numbers: Numbers,
        form: Form,
    ) -> Sums {
        let Form { rows, columns, bounded: [from_left, to_right], .. } = form;
        let (known, at) = (place.known, place.among_keys());
        let [left, right] = numbers.window;
        let end = if to_right { (at + right + rows as i64).minimum(known) } else { known };
        let by_all = if to_right { (at + right + 1).minimum(known).maximum(0) } else { known };
        let whole = by_all / columns as i64 * columns as i64;
        let begin = if from_left { (at - left).maximum(0) / columns as i64 * columns as i64 } else { val(0) };
        let mut so_far = Sums {
            greatest: full::<f32>(rows, f32::MIN),
            sum: zeros::<f32>(rows),
            out: zeros::<f32>((rows, form.width)),
        };
        for edge in [false, true] {
            if from_left && !edge {
                continue;
            }
            let from = if !edge || from_left { begin } else { whole };
            for key in range_step(from, if edge { end } else { whole }, columns) {
                so_far = turn(so_far, queries, keys, values, (key, edge), place, numbers, form);
            }
        }
        so_far
    }

    /// The keys from one on.
    #[device(crate = kiln_runtime)]
    fn turn<T: Float + Accumulate<Acc = f32>>(
        so_far: Sums,
        queries: Val<T>,
        keys: View<T, 2>,
        values: View<T, 2>,
        (first, edge): (Idx, bool),
        place: QueryTile,
        numbers: Numbers,
        form: Form,
    ) -> Sums {
        let Form { rows, columns, width, .. } = form;
        let shape = (columns, width);
        let products = dot(queries, keys.tile((place.keys + first, 0), shape).load(0).transpose());
        // Powers of two are one instruction on a GPU, those of e are many: scores are kept as their
        // logarithms to base 2.
        let mut scores = if form.capped {
            (products * numbers.scale.fast_div(numbers.cap)).tanh() * (numbers.cap * LOG2_E)
        } else {
            products * (numbers.scale * LOG2_E)
        };
        let mut of_keys = values.tile((place.keys + first, 0), shape).load(0);
        if edge {
            // Places within the tile fit 32 bits; what lies outside it is as good as at its edge.
            let within = |place: Idx| place.maximum(-(rows as i64)).minimum(columns as i64).cast::<i32>();
            let key = iota::<i32>(columns);
            let known = key.lt(within(place.known - first));
            let (key, row) = (key.expand(0), iota::<i32>(rows).expand(1));
            let at = place.among_keys() - first;
            let seen = known.expand(0);
            let seen =
                if form.bounded[0] { seen & key.ge(row + within(at - numbers.window[0])) } else { seen };
            let seen =
                if form.bounded[1] { seen & key.le(row + within(at + numbers.window[1])) } else { seen };
            scores = select(seen, scores, f32::NEG_INFINITY);
            if form.packed {
                // Those of the next sequence may be no numbers.
                of_keys = select(known.expand(1), of_keys, 0);
            }
        }
        let greatest = so_far.greatest.maximum(scores.max_axis(1));
        let weights = (scores - greatest.expand(1)).exp2();
        let shrink = (so_far.greatest - greatest).exp2();
        let sum = so_far.sum * shrink + weights.sum_axis(1);
        let out = dot_acc(weights.cast::<T>(), of_keys, so_far.out * shrink.expand(1));
        Sums { greatest, sum, out }
    }
}

/// Runs the kernel with so many queries of a program and keys of a turn.
pub(super) fn run<T: Float + Accumulate<Acc = f32>>(
    problem: Problem<'_, T>,
    (rows, columns): (usize, usize),
) -> Result<()> {
    let Problem { q, k, v, mut o, mut sums, packed, mask, scale, soft_cap, .. } = problem;
    let device = q.device().clone();
    let ([_, heads, _, width], [_, key_heads, ..]) = (q.shape(), k.shape());
    let form = kernels::Form {
        rows,
        columns,
        width: row_tile(width),
        shared: (heads / key_heads.max(1)).max(1),
        bounded: mask.bounded(),
        capped: soft_cap.is_some(),
        packed: packed.is_some(),
    };
    let [left, right] = mask.limits();
    let cap = soft_cap.unwrap_or(1.0);
    let none;
    let sequences = match packed {
        Some(packed) => &packed.table,
        None => {
            none = device.zeros([1, 4])?;
            &none
        }
    };
    // As many sums as two warpgroups hold, beside which a warp copies keys and values.
    let wide = (rows, columns) == (128, 128) && size_of::<T>() == 2 && has_warpgroups(&device);
    if let Some(packed) = packed {
        let launch =
            kernels::attention(&q, &k, &v, &mut o, &mut sums, sequences, scale, cap, left, right, form);
        let launch = if wide { launch.warps(8) } else { launch };
        let tiles = packed.most_queries().div_ceil(rows);
        return launch.grid([tiles as u32, heads as u32, packed.sequences.len() as u32]).launch(&device);
    }
    for [keys, batch] in grids(&device, [key_heads, q.shape()[0]], [form.shared, 1]) {
        let heads = keys.start * form.shared..keys.end * form.shared;
        let part =
            |t: &Tensor<T, 4>, heads: &Range<usize>| t.slice(0, batch.clone())?.slice(1, heads.clone());
        let (q, k, v, mut o) = (part(&q, &heads)?, part(&k, &keys)?, part(&v, &keys)?, part(&o, &heads)?);
        let mut sums = sums.slice(0, batch.clone())?.slice(1, heads.clone())?;
        let launch =
            kernels::attention(&q, &k, &v, &mut o, &mut sums, sequences, scale, cap, left, right, form);
        let launch = if wide { launch.warps(8) } else { launch };
        launch.launch(&device)?;
    }
    Ok(())
}

/// The queries of a program, and the keys of a turn, that a device is given for heads of a width:
/// the fastest of those tried first.
pub(super) fn tiles<T: Elem>(device: &Device, width: usize) -> &'static [(usize, usize)] {
    let narrow = row_tile(width) <= 64;
    match device.capabilities().execution {
        Execution::Simd => &[(128, 128), (64, 128), (64, 64), (32, 128), (128, 64)],
        // Products of warpgroups: two of them for heads whose sums fill the registers of one.
        Execution::Simt if size_of::<T>() == 2 && has_warpgroups(device) => match row_tile(width) {
            0..=64 => &[(128, 64), (128, 128), (64, 64), (64, 128)],
            65..=128 => &[(64, 64), (128, 64), (128, 128)],
            _ => &[(128, 64), (64, 32)],
        },
        // On tensor cores: as many queries a warp and keys a turn as its registers hold sums for.
        Execution::Simt if size_of::<T>() == 2 => match row_tile(width) {
            0..=64 => &[(128, 64), (64, 64), (128, 128)],
            65..=128 => &[(64, 64), (128, 64), (64, 32)],
            _ => &[(64, 16), (64, 32)],
        },
        Execution::Simt if narrow => &[(32, 32), (64, 32), (64, 64), (32, 64)],
        Execution::Simt => &[(32, 32), (16, 32), (32, 16)],
        Execution::Interpreted => &[(16, 16), (16, 32)],
    }
}
