//! The tasks that multiply: products of what has arrived, and what becomes of the sums.

use super::super::stream::{Exchange, take};
use super::deliver::{Delivery, Held};
use super::jobs::{Job, Jobs};
use super::ring::{Position, Ring};
use super::{MatmulPlan, Results, TilePosition};
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;

/// A task's sums of a tile, by halves of its columns; the second is unused where there is one.
type Sums<S> = [Val<S>; 2];

/// All jobs of a task.
#[device(crate = kiln_runtime)]
pub(super) fn multiply<S: Num>(
    ring: Ring,
    jobs: Jobs,
    delivery: Delivery,
    finish: &dyn Results<S>,
    exchange: Option<Exchange<S>>,
) {
    let (plan, task) = (jobs.plan, delivery.task);
    let mut at = Position::first();
    let mut held = Held::none(&plan);
    for number in range_step(jobs.first, jobs.end, jobs.apart) {
        // Before the products, where its time does not count.
        let job = jobs.job(number).of_task(task, &plan);
        // Whether a tile's results wait.
        let waiting = if exchange.is_some() { held.any } else { number.gt(jobs.first) };
        let (sums, next) = products(ring, at, task, job.count, plan, (delivery, held, waiting));
        at = next;
        // Sums of a tile that another program stores: the first that this one has, so that no
        // results wait.
        let left = if exchange.is_some() { (job.from + job.count).lt(jobs.steps) } else { val(false) };
        if left {
            if let Some(exchange) = exchange {
                exchange.leave(task, sums);
            }
            held.pairs = Held::none(&plan).pairs;
        } else {
            let sums = complete(sums, exchange, jobs, job, task);
            held = conclude(sums, job, delivery, finish, plan, held);
        }
    }
    if plan.held {
        let waiting = if exchange.is_some() { held.any } else { jobs.first.lt(jobs.end) };
        if waiting {
            delivery.held(held);
        }
    }
    if plan.bulk {
        store_wait(0);
    }
}

/// The sums of some steps, from a position in the ring on, and the position behind them. Results
/// that wait are delivered beside the first products.
#[device(crate = kiln_runtime)]
fn products<S: Num>(
    ring: Ring,
    begin: Position,
    task: Idx,
    count: Idx,
    plan: MatmulPlan,
    (delivery, held, waiting): (Delivery, Held, Val<bool>),
) -> (Sums<S>, Position) {
    let shape = (plan.task_rows(), plan.product_columns());
    let (mut at, mut before) = (begin, begin.stage);
    // Of this tile alone: sums that outlived the epilogue would need registers beside what becomes
    // of them.
    let (mut sum, mut second) = (zeros::<S>(shape), zeros::<S>(shape));
    // Beside the products of the first two steps, if there are two.
    let beside = (count - 1).minimum(1);
    for step in range(0, count) {
        ring.wait(at);
        let x = ring.a(at, task);
        let y = |half: usize| ring.b(at, half);
        if plan.two_level {
            let partial = |i: usize| wgmma_wait(wgmma(x, y(i), zeros::<S>(shape), false), 0);
            sum += partial(0);
            if plan.halves == 2 {
                second += partial(1);
            }
            ring.release(at.stage);
        } else {
            sum = wgmma(x, y(0), sum, step.gt(0));
            if plan.held {
                if step.eq(beside) & waiting {
                    delivery.held(held);
                }
            }
            // The product before this one is done, and its stage free.
            sum = wgmma_wait(sum, 1);
            if step.gt(0) {
                ring.release(before);
            }
            before = at.stage;
        }
        at.advance(plan.stages);
    }
    if !plan.two_level {
        let product = wgmma_wait(sum, 0);
        ring.release(before);
        sum = product;
    }
    ([sum, second], at)
}

/// The sums of a tile with what other programs have of it.
#[device(crate = kiln_runtime)]
fn complete<S: Num>(
    sums: Sums<S>,
    exchange: Option<Exchange<S>>,
    jobs: Jobs,
    job: Job,
    task: Idx,
) -> Sums<S> {
    let mut all = sums;
    if let (Some(exchange), Some(shares)) = (exchange, jobs.shares) {
        if job.from.gt(0) {
            all = take(exchange, shares, job.tile, task, sums);
        }
    }
    all
}

/// Stores what becomes of a tile's sums, or holds it.
#[device(crate = kiln_runtime)]
fn conclude<S: Num>(
    sums: Sums<S>,
    job: Job,
    delivery: Delivery,
    finish: &dyn Results<S>,
    plan: MatmulPlan,
    before: Held,
) -> Held {
    let mut held = before;
    let shape = [plan.task_rows(), plan.product_columns()];
    let Job { corner: (matrix, row, column), batch, .. } = job;
    for part in 0..plan.halves {
        let column = column + part * shape[1];
        let place = TilePosition { batch, row, column, shape };
        let corner = (matrix, row, column);
        if plan.held {
            let pairs = finish.pairs(sums[part], &place);
            held = Held { pairs, matrix, row, column, any: val(true) };
        } else if plan.bulk {
            let result = finish.elements(sums[part], &place);
            delivery.in_bulk(result, [part, shape[1]], plan.group > 0, corner);
        } else {
            finish.store(sums[part], &place, corner);
        }
    }
    held
}
