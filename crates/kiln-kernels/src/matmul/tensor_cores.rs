//! How a product goes to the tensor cores of a Hopper GPU: factors as bulk copies can move them, a
//! plan, a launch.

use super::epilogue::Identity;
use super::factor::{Factor, Unit, factors};
use super::finish::Finish;
use super::plan::{Choice, Request, ranked};
use super::seen::{choice, choice_of_form};
use super::{hopper, rows, stream};
use crate::tuning::{self, Choosing, Tuning, Way, class};
use half::{bf16, f16};
use kiln_lang::Precision;
use kiln_lang::prelude::*;
use kiln_runtime::{CostModel, Device, Result, Tensor};
use std::any::TypeId;
use std::sync::Arc;

/// Bytes that addresses and rows of what bulk copies move are multiples of.
const ALIGNMENT: usize = 16;
/// Bytes that the rows of a shared tile have at least.
const ROW: usize = 128;

/// Whether a device has these tensor cores, and there is something to multiply: no extent is 0.
pub(super) fn available(device: &Device, extents: [usize; 4]) -> bool {
    let capabilities = device.capabilities();
    capabilities.warpgroup_products && capabilities.bulk_copies && !extents.contains(&0)
}

/// c = a b through the epilogue, for stacks whose shapes fit.
pub(super) fn multiply<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric>(
    a: &Tensor<T, 3>,
    b: &Tensor<U, 3>,
    c: &mut Tensor<O, 3>,
    finish: &dyn Finish<T, U, O>,
    precision: Precision,
    tuning: Tuning,
) -> Result<()> {
    let device = a.device().clone();
    let plain = finish.is_identity();
    if plain && T::UNIT != Unit::Tf32 && by_vector(a, b, c)? {
        return Ok(());
    }
    let ([_, m, k], [products, _, n]) = (a.shape(), c.shape());
    let request = Request {
        products,
        m,
        n,
        k,
        factor_bytes: size_of::<T>(),
        result_bytes: size_of::<O>(),
        sum_bytes: size_of::<T::Sum>(),
        two_level: T::UNIT == Unit::Float8 && precision != Precision::FastSums,
        packs: finish.gives_f32() && (is::<O, f16>() || is::<O, bf16>()),
        epilogue: !plain,
    };
    let gpu = device.cost_model();
    let estimate = || choice(&request, gpu);
    if movable(c) || anywhere(&estimate()) {
        let chosen = tuned(a, b, c, finish, (&request, gpu), tuning)?;
        launch(a, b, c, finish, chosen.unwrap_or_else(estimate))
    } else if movable(&c.swap_axes(1, 2)?) {
        // cᵀ = bᵀ aᵀ, in any case by another plan.
        let request = Request { m: n, n: m, ..request };
        let (a, b, mut c) = (a.swap_axes(1, 2)?, b.swap_axes(1, 2)?, c.swap_axes(1, 2)?);
        let finish = &*finish.transposed();
        let transposed = tuned(&b, &a, &c, finish, (&request, gpu), tuning)?;
        launch(&b, &a, &mut c, finish, transposed.unwrap_or_else(|| choice(&request, gpu)))
    } else {
        let mut whole = device.uninit([products, m, longer::<O>(n)])?.slice(2, 0..n)?;
        let chosen = tuned(a, b, &whole, finish, (&request, gpu), tuning)?;
        launch(a, b, &mut whole, finish, chosen.unwrap_or_else(estimate))?;
        arrange(&whole, c, 16, 128).launch(&device)
    }
}

/// Whether results are stored at any addresses: by threads, or by what adds up parts.
fn anywhere(choice: &Choice) -> bool {
    !choice.plan.bulk || choice.plan.splits > 1
}

/// The choice by measurement, if that is asked for, for a result such as c.
fn tuned<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric>(
    a: &Tensor<T, 3>,
    b: &Tensor<U, 3>,
    c: &Tensor<O, 3>,
    finish: &dyn Finish<T, U, O>,
    (request, gpu): (&Request, &Arc<CostModel>),
    tuning: Tuning,
) -> Result<Option<Choice>> {
    if tuning.is_off() {
        return Ok(None);
    }
    let fits = |choice: &Choice| anywhere(choice) || movable(c);
    let ways = || {
        let ways = ranked(request, gpu).into_iter().filter(fits).take(tuning::MOST);
        ways.map(|way| Way { name: way.form().to_string(), way }).collect()
    };
    let named = |name: &str| choice_of_form(request, gpu, name.parse().ok()?).filter(fits);
    let order = |adjacent| if adjacent == 1 { "rows" } else { "columns" };
    let Request { products, m, n, k, two_level, epilogue: through, .. } = *request;
    let question = format!(
        "matmul on tensor cores, {} to {}, {} x {} x {} x {}, a by {}, b by {}{}{}",
        factors::<T, U>(),
        O::SCALAR,
        class(products),
        class(m),
        class(n),
        class(k),
        order(a.strides()[2]),
        order(b.strides()[2]),
        if two_level { ", two-level sums" } else { "" },
        if through { ", through an epilogue" } else { "" },
    );
    let device = c.device();
    let result = || device.uninit::<O, 3>([products, m, longer::<O>(n)])?.slice(2, 0..n);
    let choosing = Choosing { device, tuning, question: &question };
    choosing.choose(&named, &ways, &result, &|choice, to| launch(a, b, to, finish, choice))
}

/// Whether two types are one.
fn is<A: 'static, B: 'static>() -> bool {
    TypeId::of::<A>() == TypeId::of::<B>()
}

/// Launches the kernel, and what adds up the parts of its sums if there are any.
fn launch<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric>(
    a: &Tensor<T, 3>,
    b: &Tensor<U, 3>,
    c: &mut Tensor<O, 3>,
    finish: &dyn Finish<T, U, O>,
    chosen: Choice,
) -> Result<()> {
    if chosen.transposed {
        // cᵀ = bᵀ aᵀ.
        let (a, b) = (a.swap_axes(1, 2)?, b.swap_axes(1, 2)?);
        return place(&b, &a, &mut c.swap_axes(1, 2)?, &*finish.transposed(), chosen);
    }
    place(a, b, c, finish, chosen)
}

/// Launches it for factors in this order.
fn place<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric>(
    a: &Tensor<T, 3>,
    b: &Tensor<U, 3>,
    c: &mut Tensor<O, 3>,
    finish: &dyn Finish<T, U, O>,
    chosen: Choice,
) -> Result<()> {
    let (device, mut plan) = (c.device().clone(), chosen.plan);
    let turns = T::UNIT == Unit::Half;
    let (left, a_transposed) = if turns { factor(a)? } else { (by_rows(a)?, false) };
    // Rows of a few columns are too short for a copy.
    let narrow = plan.columns * size_of::<T>() < ROW;
    let (right, b_transposed) =
        if narrow || !turns { (by_rows(&b.swap_axes(1, 2)?)?, true) } else { factor(b)? };
    let [products, m, n] = c.shape();
    (plan.a_transposed, plan.b_transposed) = (a_transposed, b_transposed);
    plan.stack = products > 1;
    plan.shared = [products > 1 && a.shape()[0] == 1, products > 1 && b.shape()[0] == 1];
    if plan.streamed > 0 {
        let programs = chosen.grid[0] as usize;
        let mut parts = device.uninit([plan.parts(programs)])?;
        let mut signals = stream::signals(&device, programs * plan.tasks)?;
        return finish.stream_k((&left, &right), c, (&mut parts, &mut signals), plan, chosen.grid);
    }
    if plan.splits == 1 {
        return finish.hopper((&left, &right), c, plan, chosen.grid);
    }
    let across = n.next_multiple_of(ALIGNMENT / size_of::<T::Sum>());
    let mut parts = device.uninit::<T::Sum, 3>([products * plan.splits, m, across])?.slice(2, 0..n)?;
    hopper::matmul::<T, U, T::Sum, Identity>(&left, &right, &mut parts, Identity, plan)
        .grid(chosen.grid)
        .launch(&device)?;
    finish.add_up(&parts, c, plan.splits)
}

/// The columns of a matrix with rows in multiples of 16 bytes.
fn longer<T>(columns: usize) -> usize {
    columns.next_multiple_of(ALIGNMENT / size_of::<T>())
}

/// Multiplies a matrix whose rows are adjacent elements and one vector, if that is what the factors
/// are.
fn by_vector<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric>(
    a: &Tensor<T, 3>,
    b: &Tensor<U, 3>,
    c: &mut Tensor<O, 3>,
) -> Result<bool> {
    let ([products, m, _], [_, _, n]) = (a.shape(), b.shape());
    if products * b.shape()[0] != 1 {
        return Ok(false);
    }
    match (m, n) {
        (1, _) if b.strides()[1] == 1 => of_rows(&b.swap_axes(1, 2)?, a, c),
        (_, 1) if a.strides()[2] == 1 => of_rows(a, b, c),
        _ => Ok(false),
    }
}

/// c = x v, for a matrix by rows and one vector in whatever shape, if this and c are dense.
fn of_rows<T: Factor, U: Factor, O: Numeric>(
    x: &Tensor<T, 3>,
    v: &Tensor<U, 3>,
    c: &Tensor<O, 3>,
) -> Result<bool> {
    let [_, rows, depth] = x.shape();
    // A view that is not dense cannot be given another shape.
    let (Ok(vector), Ok(mut result)) = (v.reshape([depth]), c.reshape([rows])) else { return Ok(false) };
    rows::multiply(x, &vector, &mut result, x.device())?;
    Ok(true)
}

/// Whether bulk copies can move boxes of a stack: its elements are adjacent on the last axis, and
/// its rows, its matrices and its beginning at multiples of 16 bytes.
fn movable<T: Elem>(x: &Tensor<T, 3>) -> bool {
    let ([matrices, rows, columns], [far, apart, adjacent]) = (x.shape(), x.strides());
    let whole = |elements: usize| (elements * size_of::<T>()).is_multiple_of(ALIGNMENT);
    (adjacent == 1 || columns == 1)
        && (rows == 1 || whole(apart))
        && (matrices == 1 || whole(far))
        && whole(x.offset())
}

/// A factor as bulk copies can move it, and whether it is the transpose: a view if there is one,
/// else a copy with longer rows.
fn factor<T: Numeric>(x: &Tensor<T, 3>) -> Result<(Tensor<T, 3>, bool)> {
    let transpose = x.swap_axes(1, 2)?;
    if !movable(x) && movable(&transpose) {
        return Ok((transpose, true));
    }
    Ok((by_rows(x)?, false))
}

/// A factor as bulk copies can move it row by row: itself, or a copy with rows in multiples of 16
/// bytes.
fn by_rows<T: Numeric>(x: &Tensor<T, 3>) -> Result<Tensor<T, 3>> {
    if movable(x) {
        return Ok(x.alias());
    }
    let ([matrices, rows, columns], device) = (x.shape(), x.device());
    let mut copy = device.uninit([matrices, rows, longer::<T>(columns)])?;
    arrange(x, &mut copy, 16, 128).launch(device)?;
    copy.slice(2, 0..columns)
}

/// Copies x to the beginning of the rows of y, with zeros after, a tile a program.
#[kernel(crate = kiln_runtime)]
fn arrange<T: Numeric>(x: &Tensor<T, 3>, y: &mut Tensor<T, 3>, rows: usize, columns: usize) {
    let (shape, at) = ((rows, columns), (program_id(0) * rows, program_id(1) * columns));
    let matrix = program_id(2);
    y.row(matrix).tile(at, shape).store(x.row(matrix).tile(at, shape).load(0));
}
