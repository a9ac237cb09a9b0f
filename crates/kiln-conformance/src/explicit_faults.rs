//! Faults where others wait for the one that has it: tasks at an mbarrier, programs for a signal,
//! warps for a product. Each launch ends, with the fault and its line, and the next one with good
//! input is right.

use crate::case::{Case, cases};
use crate::matrix_units::{matrix, product, scale};
use crate::trial::{Stop, Trial, Verdict, ensure, holds, holds_near, list};
use half::{bf16, f16};
use kiln_kernels::matmul::epilogue::{Epilogue, TilePosition};
use kiln_kernels::matmul::hopper::{self, MatmulPlan};
use kiln_kernels::matmul::{Factor, Matmul};
use kiln_lang::explicit::*;
use kiln_lang::param::{ArgSink, IntFact, KernelParam, ParamDecl, SpecKey};
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::{FaultKind, Result, Tensor};

pub fn cases() -> Vec<Case> {
    [
        cases!["explicit::faults":
            epilogue_of_tiles_in_turn for bf16;
            epilogue_of_clusters for f16;
            epilogue_of_shared_tiles for bf16 f16;
            loop_that_only_a_check_ends;
            loop_that_elements_end;
            task_that_copies;
            copies_from_between;
        ],
        cases!["faults":
            epilogue_of_a_product for bf16;
            tiles_with_a_task_that_copies for bf16;
            round_of_products for f16;
        ],
    ]
    .concat()
}

/// Matrices of whole tiles, and whole blocks of [`OWN`] rows.
const SIZES: [usize; 3] = [256, 128, 136];
/// Rows that a task of the plans computes.
const OWN: usize = 64;
/// Rows for each element of the table.
const STEP: usize = 8;

/// Sums that are checked in three ways: none is above the limit of its row, an index lies inside a
/// table, and no divisor is zero. To the sums come the element of the table and a quotient.
struct Checked {
    limits: Tensor<f32, 1>,
    table: Tensor<f32, 1>,
    divisors: Tensor<i32, 1>,
    shift: i64,
}

impl Clone for Checked {
    fn clone(&self) -> Checked {
        let (limits, table, divisors) = (self.limits.alias(), self.table.alias(), self.divisors.alias());
        Checked { limits, table, divisors, ..*self }
    }
}

/// That in a kernel.
struct Traced {
    limits: View<f32, 1>,
    table: View<f32, 1>,
    divisors: View<i32, 1>,
    shift: Val<i64>,
}

impl KernelParam for Checked {
    type Arg = Checked;
    type Traced = Traced;

    fn key(arg: &Checked, key: &mut SpecKey) {
        <&Tensor<f32, 1>>::key(&&arg.limits, key);
        <&Tensor<f32, 1>>::key(&&arg.table, key);
        <&Tensor<i32, 1>>::key(&&arg.divisors, key);
    }

    fn declare(arg: &Checked, _: &'static str, decl: &mut ParamDecl) -> Traced {
        Traced {
            limits: <&Tensor<f32, 1>>::declare(&&arg.limits, "limits", decl),
            table: <&Tensor<f32, 1>>::declare(&&arg.table, "table", decl),
            divisors: <&Tensor<i32, 1>>::declare(&&arg.divisors, "divisors", decl),
            shift: decl.scalar("shift", IntFact::default()),
        }
    }

    fn pack<'a>(arg: &'a Checked, sink: &mut dyn ArgSink<'a>) {
        arg.limits.pack(sink);
        arg.table.pack(sink);
        arg.divisors.pack(sink);
        sink.scalar(arg.shift.literal());
    }
}

const CHECKS: u32 = line!();
impl Epilogue<f32> for Checked {
    type Out = f32;

    fn apply(checked: &Traced, sums: Val<f32>, place: &TilePosition) -> Val<f32> {
        let Traced { limits, table, divisors, shift } = checked;
        device_assert!(sums.le(place.per_row(limits)), "a sum of the rows from {} is too large", place.row);
        let term = table.get(place.row / STEP + *shift);
        let quotient = full::<i32>((place.shape[0], place.shape[1]), 100) / place.per_column(divisors);
        sums + term + quotient.cast::<f32>()
    }

    fn transposed(self) -> Checked {
        self
    }
}
const CHECKS_END: u32 = line!();

/// What is wrong with the input of a launch.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Nothing,
    Sum,
    Index,
    Divisor,
}

/// The wrong ones, each followed by a good one.
const LAUNCHES: [Wrong; 6] =
    [Wrong::Sum, Wrong::Nothing, Wrong::Index, Wrong::Nothing, Wrong::Divisor, Wrong::Nothing];

/// The row whose limit is too low.
const ROW: usize = 202;

/// Numbers that the checks find right or wrong.
fn checked(trial: &Trial<'_>, terms: &[f32], wrong: Wrong) -> std::result::Result<Checked, Stop> {
    let [m, n, _] = SIZES;
    let (mut limits, mut divisors) = (vec![1e30; m], vec![7; n]);
    match wrong {
        Wrong::Sum => limits[ROW] = -1e30,
        Wrong::Divisor => divisors[99] = 0,
        Wrong::Nothing | Wrong::Index => {}
    }
    let shift = if matches!(wrong, Wrong::Index) { 10 } else { 0 };
    let (limits, divisors) = (trial.vector(&limits)?, trial.vector(&divisors)?);
    Ok(Checked { limits, table: trial.vector(terms)?, divisors, shift })
}

/// The fault of a launch is that of its input, at a line between these; nothing wrong is no fault.
fn expect_fault(trial: &Trial<'_>, what: &str, wrong: Wrong, lines: [u32; 2]) -> Verdict {
    let error = trial.device.synchronize().err();
    let Some(fault) = error.as_ref().and_then(|e| e.fault()) else {
        let right = error.is_none() && matches!(wrong, Wrong::Nothing);
        return ensure(right, || format!("{what}, {wrong:?}: the launch gave {error:?}"));
    };
    let right = match (&fault.kind, wrong) {
        (FaultKind::Assert { message }, Wrong::Sum) => {
            let from = message.strip_prefix("a sum of the rows from ");
            let from = from.and_then(|rest| rest.strip_suffix(" is too large")).and_then(|n| n.parse().ok());
            from.is_some_and(|from: usize| (from..from + 2 * OWN).contains(&ROW))
        }
        // Places beyond the end are those of the last rows: 192 / 8 + 10.
        (FaultKind::OutOfBounds { index, extent: 32 }, Wrong::Index) => (32..42).contains(index),
        (FaultKind::DivisionByZero, Wrong::Divisor) => true,
        _ => false,
    };
    ensure(right, || format!("{what}, {wrong:?}: the fault is {:?}", fault.kind))?;
    at_line(&fault.location, lines)
}

fn at_line(location: &str, lines: [u32; 2]) -> Verdict {
    let line = location.strip_prefix(concat!(file!(), ":")).and_then(|rest| rest.split(':').next());
    let inside = line.and_then(|l| l.parse().ok()).is_some_and(|l: u32| lines[0] < l && l < lines[1]);
    ensure(inside, || format!("at `{location}`, expected {} between lines {lines:?}", file!()))
}

/// Launches a product through the checks with each input, and compares what good input gives with
/// f64; `own` rows have one element of the table.
fn launches<T: Sample + Factor<Sum = f32>>(
    trial: &mut Trial<'_>,
    what: &str,
    own: usize,
    mut launch: impl FnMut(&mut Trial<'_>, &[Tensor<T, 2>; 2], &mut Tensor<f32, 2>, Checked) -> Verdict,
) -> Verdict {
    let [m, n, k] = SIZES;
    let (a, xs) = matrix::<T>(trial, [m, k], false)?;
    let (b, ys) = matrix::<T>(trial, [k, n], false)?;
    let terms: Vec<f32> = list(0..m / STEP, |i| i as f32);
    let sums = product(&xs, &ys, SIZES);
    let element =
        |(i, sum): (usize, &f64)| Host::Float(sum + f64::from(terms[i / n / own * own / STEP]) + 14.0);
    let expected: Vec<Host> = sums.iter().enumerate().map(element).collect();
    let (factors, scale) = ([a, b], scale(&xs, &ys, k) + 64.0);
    for wrong in LAUNCHES {
        let mut c = trial.output::<f32, 2>([m, n])?;
        let epilogue = checked(trial, &terms, wrong)?;
        launch(trial, &factors, &mut c, epilogue)?;
        expect_fault(trial, what, wrong, [CHECKS, CHECKS_END])?;
        if matches!(wrong, Wrong::Nothing) {
            holds_near(what, &c, &expected, 8.0, scale)?;
        }
    }
    Ok(())
}

const WHOLE: MatmulPlan = MatmulPlan {
    rows: 128,
    columns: 128,
    stages: 3,
    group: 2,
    tasks: 2,
    registers: [232, 40],
    ..MatmulPlan::PLAIN
};
const NARROW: MatmulPlan = MatmulPlan { columns: 64, tasks: 1, rows: 64, bulk: false, ..WHOLE };

/// The kernel on tensor cores, by so many programs.
fn by_plan<T: Sample + Factor<Sum = f32>>(trial: &mut Trial<'_>, plan: MatmulPlan, programs: u32) -> Verdict {
    let registers = if plan.tasks == 1 { [0, 0] } else { plan.registers };
    let plan = MatmulPlan { registers, ..plan };
    let mut signals = trial.device.zeros::<u32, 1>([programs as usize * plan.tasks])?;
    launches::<T>(trial, &format!("{plan:?} by {programs}"), OWN, |trial, [a, b], c, epilogue| {
        let (a, b, mut c) = (a.stacked(), b.stacked(), c.stacked());
        if plan.streamed == 0 {
            let launch = hopper::matmul::<T, T, f32, Checked>(&a, &b, &mut c, epilogue, plan);
            return Ok(launch.grid([programs]).launch(trial.device)?);
        }
        let mut parts = trial.output::<f32, 1>([plan.parts(programs as usize)])?;
        hopper::stream_k::<T, T, f32, Checked>(&a, &b, &mut c, &mut parts, &mut signals, epilogue, plan)
            .grid([programs])
            .launch(trial.device)?;
        Ok(())
    })?;
    // Every launch has left them so, for the next one.
    holds("the signals", &signals, &vec![0; programs as usize * plan.tasks])
}

fn epilogue_of_tiles_in_turn<T: Sample + Factor<Sum = f32>>(trial: &mut Trial<'_>) -> Verdict {
    by_plan::<T>(trial, WHOLE, 1)?;
    by_plan::<T>(trial, NARROW, 3)
}

fn epilogue_of_clusters<T: Sample + Factor<Sum = f32>>(trial: &mut Trial<'_>) -> Verdict {
    by_plan::<T>(trial, MatmulPlan { cluster: 2, ..WHOLE }, 2)
}

/// Stream-K: programs with a part of a tile, and with more than one.
fn epilogue_of_shared_tiles<T: Sample + Factor<Sum = f32>>(trial: &mut Trial<'_>) -> Verdict {
    by_plan::<T>(trial, MatmulPlan { streamed: 1, ..WHOLE }, 5)?;
    by_plan::<T>(trial, MatmulPlan { streamed: 2, ..NARROW }, 3)
}

/// The library's product, which chooses how.
fn epilogue_of_a_product<T: Sample + Factor<Sum = f32>>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = SIZES;
    let (a, xs) = matrix::<T>(trial, [m, k], false)?;
    let (b, ys) = matrix::<T>(trial, [k, n], false)?;
    // Where tiles begin is not known here, so each element of the table is the same.
    let sums = product(&xs, &ys, SIZES);
    let expected: Vec<Host> = sums.iter().map(|sum| Host::Float(sum + 17.0)).collect();
    for wrong in LAUNCHES {
        let mut c = trial.output::<f32, 2>([m, n])?;
        let mut epilogue = checked(trial, &vec![3.0; m / STEP], wrong)?;
        if epilogue.shift != 0 {
            epilogue.shift = (m / STEP) as i64;
        }
        Matmul::new(&a, &b).then(epilogue).run(&mut c)?;
        let error = trial.device.synchronize().err();
        let kind = error.as_ref().and_then(|e| e.fault()).map(|fault| (&fault.kind, fault.location.clone()));
        let right = match (&kind, wrong) {
            (None, Wrong::Nothing) => error.is_none(),
            (Some((FaultKind::Assert { .. }, _)), Wrong::Sum) => true,
            (Some((FaultKind::OutOfBounds { .. }, _)), Wrong::Index) => true,
            (Some((FaultKind::DivisionByZero, _)), Wrong::Divisor) => true,
            _ => false,
        };
        ensure(right, || format!("{wrong:?}: the product gave {error:?}"))?;
        match kind {
            Some((_, location)) => at_line(&location, [CHECKS, CHECKS_END])?,
            None => holds_near("the product", &c, &expected, 8.0, scale(&xs, &ys, k) + 64.0)?,
        }
    }
    Ok(())
}

const TILES: u32 = line!();
/// Tiles of which a GPU may give the copies to a warp of their own.
#[kernel(crate = kiln_runtime)]
fn checked_tiles<T: Accumulate<Acc = f32>>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<f32, 2>,
    limits: &Tensor<f32, 1>,
    table: &Tensor<f32, 1>,
    divisors: &Tensor<i32, 1>,
    shift: Val<i64>,
    own: usize,
    each_round: bool,
) {
    let (row, column) = (program_id(1) * own, program_id(0) * own);
    let rows = || limits.tile(row, own).load(0).expand(1).broadcast_to((own, own));
    let columns = divisors.tile(column, own).load(1).expand(0).broadcast_to((own, own));
    let mut total = zeros::<f32>((own, own));
    for at in range_step(0, a.extent(1), 64) {
        total = dot_acc(a.tile((row, at), (own, 64)).load(0), b.tile((at, column), (64, own)).load(0), total);
        if each_round {
            device_assert!(total.le(rows()), "a sum of the rows from {} is too large", row);
        }
    }
    device_assert!(total.le(rows()), "a sum of the rows from {} is too large", row);
    let term = table.get(row / STEP + shift);
    let result = total + term + (full::<i32>((own, own), 100) / columns).cast::<f32>();
    c.tile((row, column), (own, own)).store(result);
}
const TILES_END: u32 = line!();

fn by_tiles<T: Sample + Factor<Sum = f32> + Accumulate<Acc = f32>>(
    trial: &mut Trial<'_>,
    own: usize,
    k: usize,
    each_round: bool,
) -> Verdict {
    let sizes @ [m, n, _] = [SIZES[0], SIZES[1], k];
    let (a, xs) = matrix::<T>(trial, [m, k], false)?;
    let (b, ys) = matrix::<T>(trial, [k, n], false)?;
    let terms: Vec<f32> = list(0..m / STEP, |i| i as f32);
    let sums = product(&xs, &ys, sizes);
    let element =
        |(i, sum): (usize, &f64)| Host::Float(sum + f64::from(terms[i / n / own * own / STEP]) + 14.0);
    let expected: Vec<Host> = sums.iter().enumerate().map(element).collect();
    let what = format!(
        "tiles of {own}, {k} products, checked {}",
        if each_round { "each round" } else { "in the end" }
    );
    for wrong in LAUNCHES {
        let mut c = trial.output::<f32, 2>([m, n])?;
        let Checked { limits, table, divisors, shift } = checked(trial, &terms, wrong)?;
        let shift = if shift == 0 { 0 } else { 16 };
        checked_tiles(&a, &b, &mut c, &limits, &table, &divisors, shift, own, each_round)
            .warps(4)
            .launch(trial.device)?;
        expect_fault(trial, &what, wrong, [TILES, TILES_END])?;
        if matches!(wrong, Wrong::Nothing) {
            holds_near(&what, &c, &expected, 8.0, scale(&xs, &ys, k) + 64.0)?;
        }
    }
    Ok(())
}

fn tiles_with_a_task_that_copies<T: Sample + Factor<Sum = f32> + Accumulate<Acc = f32>>(
    trial: &mut Trial<'_>,
) -> Verdict {
    by_tiles::<T>(trial, 128, SIZES[2], false)
}

/// Products of warpgroups, before which one warp of four alone fails: with a task that copies, and
/// from rows that bulk copies do not know, without.
fn round_of_products<T: Sample + Factor<Sum = f32> + Accumulate<Acc = f32>>(
    trial: &mut Trial<'_>,
) -> Verdict {
    by_tiles::<T>(trial, 64, SIZES[2], true)?;
    by_tiles::<T>(trial, 64, 131, true)
}

const CHASE: u32 = line!();
/// Each element names the next, and a negative one ends the walk. A task waits for its end.
#[kernel(crate = kiln_runtime)]
fn chase(next: &Tensor<i64, 1>, last: &mut Tensor<i64, 1>) {
    let done = mbarriers(1, 1);
    tasks()
        .task(1, 0, || done.at(0).wait(0))
        .task(4, 0, || {
            let mut at = val::<i64>(0);
            while at.ge(0) {
                at = next.get(at);
            }
            done.at(0).arrive();
            // SAFETY: there is one program.
            unsafe { last.tile(0, 64).store_overlapping(full::<i64>(64, at)) };
        })
        .run();
}

/// The same, where each step looks at as many elements as a task of two warps has threads, and goes
/// to the largest.
#[kernel(crate = kiln_runtime)]
fn chase_by_rows(names: &Tensor<i64, 2>, next: &Tensor<i64, 1>, last: &mut Tensor<i64, 1>) {
    let done = mbarriers(1, 1);
    tasks()
        .task(1, 0, || done.at(0).wait(0))
        .task(2, 0, || {
            let mut at = val::<i64>(0);
            while at.ge(0) {
                at = next.get(names.row(at).load(64, 0)).reduce_max();
            }
            done.at(0).arrive();
            // SAFETY: there is one program.
            unsafe { last.tile(0, 64).store_overlapping(full::<i64>(64, at)) };
        })
        .run();
}

/// Each program copies eight rows of x, from one that is an argument.
#[kernel(crate = kiln_runtime)]
fn pick(x: &Tensor<f32, 2>, from: &Tensor<i64, 1>, y: &mut Tensor<f32, 2>) {
    let tile = shared_tiles::<f32>(1, 8, 32);
    let arrived = mbarriers(1, 1);
    tasks()
        .task(1, 0, || {
            let row = from.get(program_id(0));
            arrived.at(0).expect(8 * 32 * size_of::<f32>());
            tile.at(0).load(x, (row, 0), arrived.at(0));
        })
        .task(1, 0, || {
            arrived.at(0).wait(0);
            // SAFETY: each program has rows of its own.
            unsafe { tile.at(0).store(y, (program_id(0) * 8, 0)) };
            store_wait(0);
        })
        .run();
}

/// Each program copies 32 columns of eight rows of x, from a column that is an argument.
#[kernel(crate = kiln_runtime)]
fn pick_columns(x: &Tensor<f32, 2>, from: &Tensor<i64, 1>, y: &mut Tensor<f32, 2>) {
    let (tile, arrived) = (shared_tiles::<f32>(1, 8, 32).at(0), mbarriers(1, 1).at(0));
    let column = from.get(program_id(0));
    tile.prefetch(x, (0, column));
    arrived.expect(8 * 32 * size_of::<f32>());
    tile.load(x, (0, column), arrived);
    arrived.wait(0);
    // SAFETY: each program has rows of its own.
    unsafe { tile.store(y, (program_id(0) * 8, 0)) };
    store_wait(0);
}
const CHASE_END: u32 = line!();

/// Launches one of these with good and bad input, and good input again.
fn walk(
    trial: &mut Trial<'_>,
    wrong: i64,
    end: i64,
    mut launch: impl FnMut(&Trial<'_>, bool, &mut Tensor<i64, 1>) -> Result<()>,
) -> Verdict {
    for good in [true, false, true] {
        let mut last = trial.output::<i64, 1>([64])?;
        launch(trial, good, &mut last)?;
        if good {
            holds("the end of the walk", &last, &[end; 64])?;
            continue;
        }
        let error = trial.device.synchronize().err();
        let fault = error.as_ref().and_then(|e| e.fault());
        let index = fault.and_then(|f| match f.kind {
            FaultKind::OutOfBounds { index, .. } => Some(index),
            _ => None,
        });
        ensure(index == Some(wrong), || format!("the launch gave {error:?}"))?;
        at_line(fault.map_or("", |f| &f.location), [CHASE, CHASE_END])?;
    }
    Ok(())
}

fn loop_that_only_a_check_ends(trial: &mut Trial<'_>) -> Verdict {
    walk(trial, 77, -3, |trial, good, last| {
        // An access that is left out gives zero: then the walk would never end.
        let next = trial.device.tensor(&[2, 0, 3, if good { -3 } else { 77 }], [4])?;
        chase(&next, last).grid([1]).launch(trial.device)
    })
}

fn loop_that_elements_end(trial: &mut Trial<'_>) -> Verdict {
    walk(trial, 9, -1, |trial, good, last| {
        // From the first row to the second, and from there to the end. What an access that is left
        // out gives leads back to the first.
        let mut names = [[0i64; 64], [1; 64]].concat();
        if !good {
            names[64 + 40] = 9;
        }
        let (names, next) = (trial.device.tensor(&names, [2, 64])?, trial.device.tensor(&[1, -1], [2])?);
        chase_by_rows(&names, &next, last).grid([1]).launch(trial.device)
    })
}

fn task_that_copies(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 2>([64, 32])?;
    let rows = [5i64, 40, 17, 0];
    for told in [4, 3, 4] {
        let from = trial.vector(&rows[..told])?;
        let mut y = trial.output::<f32, 2>([32, 32])?;
        pick(&x, &from, &mut y).grid([4]).launch(trial.device)?;
        if told == 4 {
            let row = |i: usize| rows[i / 8] as usize + i % 8;
            let expected: Vec<f32> = (0..32).flat_map(|i| &data[row(i) * 32..][..32]).copied().collect();
            holds("what was picked", &y, &expected)?;
            continue;
        }
        let error = trial.device.synchronize().err();
        let fault = error.as_ref().and_then(|e| e.fault());
        let right = fault.is_some_and(|f| {
            f.kind == FaultKind::OutOfBounds { index: 3, extent: 3 } && f.block == [3, 0, 0]
        });
        ensure(right, || format!("the launch gave {error:?}"))?;
        at_line(fault.map_or("", |f| &f.location), [CHASE, CHASE_END])?;
    }
    Ok(())
}

/// Copies begin at multiples of 16 bytes of a row, also before it, and nowhere else.
fn copies_from_between(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<f32, 2>([8, 100])?;
    for columns in [[0i64, 4, -12, 96], [16, 33, 16, 16], [20, -8, 88, 100]] {
        let from = trial.vector(&columns)?;
        let mut y = trial.output::<f32, 2>([32, 32])?;
        pick_columns(&x, &from, &mut y).grid([4]).launch(trial.device)?;
        if columns.iter().all(|column| column % 4 == 0) {
            let expected: Vec<f32> = list(0..32 * 32, |i| {
                let column = columns[i / 256] + (i % 32) as i64;
                let column = usize::try_from(column).ok().filter(|&column| column < 100);
                column.map_or(0.0, |column| data[i / 32 % 8 * 100 + column])
            });
            holds("what was picked", &y, &expected)?;
            continue;
        }
        let error = trial.device.synchronize().err();
        let fault = error.as_ref().and_then(|e| e.fault());
        let text = fault.map(ToString::to_string).unwrap_or_default();
        let right = text.contains("begins at element 33 of a row, which is no multiple of 4 elements");
        ensure(right, || format!("the launch gave {error:?}"))?;
        at_line(fault.map_or("", |f| &f.location), [CHASE, CHASE_END])?;
    }
    Ok(())
}
