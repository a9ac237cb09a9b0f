//! How a product goes to the tensor cores of a Hopper GPU: factors as bulk copies can move them, a
//! plan, a launch.

use super::factor::Unit;
use super::finish::{OnTensorCores, Types};
use super::plan::{Choice, Request, ranked};
use super::seen::{Question, choice, choice_of_form, measured, remember};
use super::{extents, stream};
use crate::numeric::for_numeric;
use crate::sizes::grids;
use crate::tuning::{self, Choosing, Tuning, Way, class};
use kiln_ir::Scalar;
use kiln_lang::Precision;
use kiln_lang::prelude::*;
use kiln_runtime::{CostModel, Device, DynTensor, Result, Tensor};
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
pub(super) fn multiply(
    a: &DynTensor,
    b: &DynTensor,
    c: &mut DynTensor,
    finish: &dyn OnTensorCores,
    precision: Precision,
    tuning: Tuning,
) -> Result<()> {
    let (device, types, plain) = (a.device(), finish.types(), finish.is_identity());
    if plain && types.unit != Unit::Tf32 && by_vector(a, b, c, finish)? {
        return Ok(());
    }
    let ([_, m, k], [products, _, n]) = (extents(a), extents(c));
    let request = Request {
        products,
        m,
        n,
        k,
        factor_bytes: types.factor_bytes(),
        result_bytes: types.result.bytes() as usize,
        sum_bytes: types.sum.bytes() as usize,
        two_level: types.two_level(precision),
        packs: finish.gives_f32() && matches!(types.result, Scalar::F16 | Scalar::BF16),
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
        let mut whole = with_long_rows(c)?.slice(2, 0..n)?;
        let chosen = tuned(a, b, &whole, finish, (&request, gpu), tuning)?;
        launch(a, b, &mut whole, finish, chosen.unwrap_or_else(estimate))?;
        arrange(&whole, c)
    }
}

/// Whether results are stored at any addresses: by threads, or by what adds up parts.
fn anywhere(choice: &Choice) -> bool {
    !choice.plan.bulk || choice.plan.splits > 1
}

/// The choice by measurement, if that is asked for, for a result such as c.
fn tuned(
    a: &DynTensor,
    b: &DynTensor,
    c: &DynTensor,
    finish: &dyn OnTensorCores,
    (request, gpu): (&Request, &Arc<CostModel>),
    tuning: Tuning,
) -> Result<Option<Choice>> {
    if tuning.is_off() {
        return Ok(None);
    }
    let (types, device) = (finish.types(), c.device());
    let asked = Question {
        request: *request,
        types: [types.factors[0], types.factors[1], types.result],
        by_rows: [a, b].map(|factor| factor.strides()[2] == 1),
        movable: movable(c),
    };
    let revision = device.choices_revision();
    if let Some(choice) = measured(&asked, gpu, revision) {
        return Ok(Some(choice));
    }
    let chosen = ask(a, b, c, finish, (request, gpu), tuning)?;
    // One that was measured just now has another revision.
    if let Some(choice) = chosen
        && device.choices_revision() == revision
    {
        remember(asked, gpu, revision, choice);
    }
    Ok(chosen)
}

/// The choice by measurement, by its question in words.
fn ask(
    a: &DynTensor,
    b: &DynTensor,
    c: &DynTensor,
    finish: &dyn OnTensorCores,
    (request, gpu): (&Request, &Arc<CostModel>),
    tuning: Tuning,
) -> Result<Option<Choice>> {
    let fits = |choice: &Choice| anywhere(choice) || movable(c);
    let ways = || {
        let ways = ranked(request, gpu).into_iter().filter(fits).take(tuning::MOST);
        ways.map(|way| Way { name: way.form().to_string(), way }).collect()
    };
    let named = |name: &str| choice_of_form(request, gpu, name.parse().ok()?).filter(fits);
    let order = |adjacent| if adjacent == 1 { "rows" } else { "columns" };
    let Request { products, m, n, k, two_level, epilogue: through, .. } = *request;
    let types = finish.types();
    let question = format!(
        "matmul on tensor cores, {} to {}, {} x {} x {} x {}, a by {}, b by {}{}{}",
        types.factors(),
        types.result,
        class(products),
        class(m),
        class(n),
        class(k),
        order(a.strides()[2]),
        order(b.strides()[2]),
        if two_level { ", two-level sums" } else { "" },
        if through { ", through an epilogue" } else { "" },
    );
    let result = || with_long_rows(c)?.slice(2, 0..n);
    let choosing = Choosing { device: c.device(), tuning, question: &question };
    choosing.choose(&named, &ways, &result, &|choice, to| launch(a, b, to, finish, choice))
}

/// Launches the kernel, and what adds up the parts of its sums if there are any.
fn launch(
    a: &DynTensor,
    b: &DynTensor,
    c: &mut DynTensor,
    finish: &dyn OnTensorCores,
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
fn place(
    a: &DynTensor,
    b: &DynTensor,
    c: &mut DynTensor,
    finish: &dyn OnTensorCores,
    chosen: Choice,
) -> Result<()> {
    let Types { unit, sum, .. } = finish.types();
    let (device, mut plan) = (a.device(), chosen.plan);
    let turns = unit == Unit::Half;
    let (left, a_transposed) = if turns { factor(a)? } else { (by_rows(a)?, false) };
    // Rows of a few columns are too short for a copy.
    let narrow = plan.columns * finish.types().factor_bytes() < ROW;
    let (right, b_transposed) =
        if narrow || !turns { (by_rows(&b.swap_axes(1, 2)?)?, true) } else { factor(b)? };
    let [products, m, n] = extents(c);
    (plan.a_transposed, plan.b_transposed) = (a_transposed, b_transposed);
    plan.stack = products > 1;
    plan.shared = [products > 1 && a.shape()[0] == 1, products > 1 && b.shape()[0] == 1];
    if plan.streamed > 0 {
        let programs = chosen.grid[0] as usize;
        let mut parts = DynTensor::uninit(device, sum, &[plan.parts(programs)])?;
        let mut signals = stream::signals(device, programs * plan.tasks)?.into_dyn();
        return finish.stream_k((&left, &right), c, (&mut parts, &mut signals), plan, chosen.grid);
    }
    if plan.splits == 1 {
        return finish.hopper((&left, &right), c, plan, chosen.grid);
    }
    let across = n.next_multiple_of(ALIGNMENT / sum.bytes() as usize);
    let parts = DynTensor::uninit(device, sum, &[products * plan.splits, m, across])?;
    let mut parts = parts.slice(2, 0..n)?;
    finish.hopper_parts((&left, &right), &mut parts, plan, chosen.grid)?;
    finish.add_up(&parts, c, plan.splits)
}

/// A stack such as x whose rows are longer, by what makes them multiples of 16 bytes.
fn with_long_rows(x: &DynTensor) -> Result<DynTensor> {
    let [matrices, rows, columns] = extents(x);
    let long = columns.next_multiple_of(ALIGNMENT / x.dtype().bytes() as usize);
    DynTensor::uninit(x.device(), x.dtype(), &[matrices, rows, long])
}

/// Multiplies a matrix whose rows are adjacent elements and one vector, if that is what the factors
/// are.
fn by_vector(a: &DynTensor, b: &DynTensor, c: &DynTensor, finish: &dyn OnTensorCores) -> Result<bool> {
    let ([products, m, _], [others, _, n]) = (extents(a), extents(b));
    if products * others != 1 {
        return Ok(false);
    }
    match (m, n) {
        (1, _) if b.strides()[1] == 1 => of_rows(&b.swap_axes(1, 2)?, a, c, &*finish.transposed()),
        (_, 1) if a.strides()[2] == 1 => of_rows(a, b, c, finish),
        _ => Ok(false),
    }
}

/// c = x v, for a matrix by rows and one vector in whatever shape, if this and c are dense.
fn of_rows(x: &DynTensor, v: &DynTensor, c: &DynTensor, finish: &dyn OnTensorCores) -> Result<bool> {
    let [_, rows, depth] = extents(x);
    // A view that is not dense cannot be given another shape.
    let (Ok(vector), Ok(mut result)) = (v.reshape(&[depth]), c.reshape(&[rows])) else { return Ok(false) };
    finish.rows((x, &vector), &mut result)?;
    Ok(true)
}

/// Whether bulk copies can move boxes of a stack: its elements are adjacent on the last axis, and
/// its rows, its matrices and its beginning at multiples of 16 bytes.
fn movable(x: &DynTensor) -> bool {
    let [matrices, rows, columns] = extents(x);
    let &[far, apart, adjacent] = x.strides() else { return false };
    let whole = |elements: usize| (elements * x.dtype().bytes() as usize).is_multiple_of(ALIGNMENT);
    (adjacent == 1 || columns == 1)
        && (rows == 1 || whole(apart))
        && (matrices == 1 || whole(far))
        && whole(x.offset())
}

/// A factor as bulk copies can move it, and whether it is the transpose: a view if there is one,
/// else a copy with longer rows.
fn factor(x: &DynTensor) -> Result<(DynTensor, bool)> {
    let transpose = x.swap_axes(1, 2)?;
    if !movable(x) && movable(&transpose) {
        return Ok((transpose, true));
    }
    Ok((by_rows(x)?, false))
}

/// A factor as bulk copies can move it row by row: itself, or a copy with rows in multiples of 16
/// bytes.
fn by_rows(x: &DynTensor) -> Result<DynTensor> {
    if movable(x) {
        return Ok(x.alias());
    }
    let mut copy = with_long_rows(x)?;
    arrange(x, &mut copy)?;
    copy.slice(2, 0..x.shape()[2])
}

/// Copies x to the beginning of the rows of y, with zeros after.
fn arrange(x: &DynTensor, y: &mut DynTensor) -> Result<()> {
    let [matrices, _, columns] = extents(y);
    for [across, stack] in grids(x.device(), [columns.div_ceil(ACROSS), matrices], [1; 2]) {
        let part = |t: &DynTensor| {
            let [from, to] = [across.start, across.end].map(|tile| (tile * ACROSS).min(extents(t)[2]));
            t.slice(0, stack.clone())?.slice(2, from..to)
        };
        let (x, mut y) = (part(x)?, part(y)?);
        for_numeric!(x.dtype(), T => {
            rows_in_tiles::<T>(x.downcast_ref()?, y.downcast_mut()?, 16, ACROSS).launch(x.device())
        })?;
    }
    Ok(())
}

/// Columns of a tile that is copied.
const ACROSS: usize = 128;

/// The same, a tile a program.
#[kernel(crate = kiln_runtime)]
fn rows_in_tiles<T: Numeric>(x: &Tensor<T, 3>, y: &mut Tensor<T, 3>, rows: usize, columns: usize) {
    let (shape, at) = ((rows, columns), (program_id(0) * rows, program_id(1) * columns));
    let matrix = program_id(2);
    y.row(matrix).tile(at, shape).store(x.row(matrix).tile(at, shape).load(0));
}
