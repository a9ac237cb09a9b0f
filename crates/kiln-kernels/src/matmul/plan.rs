//! How a product is divided on a Hopper GPU: the fastest of a few dozen plans, by an estimate of
//! the time of each from the shape alone (`estimate.rs`).
//!
//! ```
//! use kiln_kernels::matmul::plan::{Choice, Division, Request, choose, of_form, ranked};
//! use kiln_runtime::CostModel;
//!
//! // A product of bf16 with few rows and a long inner extent.
//! let request = Request {
//!     products: 1,
//!     m: 64,
//!     n: 512,
//!     k: 16_384,
//!     factor_bytes: 2,
//!     result_bytes: 2,
//!     sum_bytes: 4,
//!     two_level: false,
//!     packs: true,
//!     epilogue: false,
//! };
//! let best: Choice = choose(&request, &CostModel::H200);
//! // So few tiles would leave most of an H200 idle: several programs share the inner extent.
//! assert_eq!(best.form().division, Division::SplitK);
//! // Other ways to divide it, from the fastest by the estimate on.
//! let all = ranked(&request, &CostModel::H200);
//! assert!(all[0] == best && all.len() > 1);
//! assert_eq!(of_form(&request, &CostModel::H200, all[1].form()), Some(all[1]));
//! ```

pub use super::choice::{Choice, Division, Form, Request};

use super::choice::ROW;
use super::estimate::cycles;
use super::hopper::MatmulPlan;
use kiln_runtime::CostModel;

/// Steps of divided tiles that programs can count.
const MOST_STEPS: usize = 1 << 31;
/// The most columns of a stage's product that fit a task's registers beside the sums.
const MOST_PARTIAL_COLUMNS: usize = 128;
/// Steps from which on parts of an inner extent may take several rounds, and how many parts then.
const LONG_STEPS: usize = 256;
const MOST_SPLITS_OF_ROUNDS: usize = 6;
/// Columns up to which tiles narrower than 64 are considered.
const NARROW_UP_TO: usize = 64;

/// The fastest plan by the estimate, which takes a stream-K plan where that was measured to be
/// faster: see `is_known`.
pub fn choose(request: &Request, gpu: &CostModel) -> Choice {
    let columns = MatmulPlan::strip(request.result_bytes);
    let least = Tile { transposed: false, rows: 64, columns, tasks: 1, depth: 1, bulk: true };
    fastest(request, gpu, |choice| is_known(request, gpu, choice))
        .unwrap_or_else(|| least.choice(request, gpu, 2, 1))
}

/// Whether the estimate is to be trusted with a plan: a stream-K plan where whole rounds leave at
/// most a part of a round ([`ProductCosts::stream_k_rest`](kiln_runtime::ProductCosts)), which is
/// divided together with the round before it. Then programs go through the inner extent nearly
/// together; in other cases what was measured is up to half slower than estimated
/// (`bench/notes.md`).
fn is_known(request: &Request, gpu: &CostModel, choice: &Choice) -> bool {
    let [rest, of] = gpu.products.stream_k_rest;
    let programs = choice.grid[0] as usize;
    let tiles = choice.tiles(request).iter().product::<usize>();
    match choice.plan.streamed {
        0 => true,
        1 => false,
        _ => tiles > programs && of * (tiles % programs) <= rest * programs,
    }
}

/// The fastest of the plans that have this [form](Choice::form), if there is one.
pub fn of_form(request: &Request, gpu: &CostModel, form: Form) -> Option<Choice> {
    fastest(request, gpu, |choice| choice.form() == form)
}

fn fastest(request: &Request, gpu: &CostModel, wanted: impl Fn(&Choice) -> bool) -> Option<Choice> {
    let mut best: Option<(f64, Choice)> = None;
    for choice in candidates(request, gpu).into_iter().filter(wanted) {
        let time = cycles(request, gpu, &choice);
        if best.is_none_or(|(least, _)| time < least) {
            best = Some((time, choice));
        }
    }
    best.map(|(_, choice)| choice)
}

/// The fastest plan of each [form](Choice::form), the fastest of all by the estimate first.
pub fn ranked(request: &Request, gpu: &CostModel) -> Vec<Choice> {
    let mut timed: Vec<(f64, Choice)> =
        candidates(request, gpu).into_iter().map(|choice| (cycles(request, gpu, &choice), choice)).collect();
    timed.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut all = vec![choose(request, gpu)];
    for (_, choice) in timed {
        if all.iter().all(|earlier| earlier.form() != choice.form()) {
            all.push(choice);
        }
    }
    all
}

/// A shape of tile.
#[derive(Clone, Copy)]
struct Tile {
    transposed: bool,
    rows: usize,
    columns: usize,
    tasks: usize,
    /// In rows of 128 bytes.
    depth: usize,
    bulk: bool,
}

/// Plans whose tiles fit shared memory in four stages or more. None has clusters: by turns with
/// others they were no faster (`bench/notes.md`).
fn candidates(request: &Request, gpu: &CostModel) -> Vec<Choice> {
    // Rows, columns, tasks.
    const WIDE: &[[usize; 3]] =
        &[[128, 256, 2], [192, 128, 3], [128, 128, 2], [64, 256, 1], [64, 128, 1], [128, 64, 2], [64, 64, 1]];
    const NARROW: &[[usize; 3]] = &[[64, 8, 1], [64, 16, 1], [64, 32, 1], [64, 64, 1]];
    let few = |extent: usize| extent <= NARROW_UP_TO;
    // Transposed or not, shapes, whether they store in bulk, whether they are considered.
    let lists = [
        (true, NARROW, false, few(request.m)),
        (false, NARROW, false, few(request.n)),
        (false, WIDE, true, true),
    ];
    let mut all = Vec::new();
    for (transposed, shapes, bulk, _) in lists.into_iter().filter(|list| list.3) {
        let fits = |columns: usize| {
            // Half of the columns are stored at a time where they are multiplied in halves.
            !bulk || columns / halves(request, columns) >= MatmulPlan::strip(request.result_bytes)
        };
        // Of three tasks one may add while two multiply.
        let wanted = |shape: &&[usize; 3]| fits(shape[1]) && (shape[2] < 3 || request.two_level);
        for &[rows, columns, tasks] in shapes.iter().filter(wanted) {
            let depths: &[usize] = if request.two_level { &[1] } else { &[1, 2, 4] };
            for &depth in depths {
                let tile = Tile { transposed, rows, columns, tasks, depth, bulk };
                for splits in tile.splits(request, gpu) {
                    let stages = tile.stages(request, gpu, splits > 1, false);
                    if stages >= 4 {
                        all.push(tile.choice(request, gpu, stages, splits));
                    }
                }
                let stages = tile.stages(request, gpu, false, true);
                if stages >= 4 {
                    all.extend(tile.streamed(request, gpu, stages));
                }
            }
        }
    }
    all
}

/// In how many parts the columns of a tile are multiplied.
fn halves(request: &Request, columns: usize) -> usize {
    if request.two_level { columns.div_ceil(MOST_PARTIAL_COLUMNS) } else { 1 }
}

impl Tile {
    /// As many stages as shared memory holds, up to 16.
    fn stages(&self, request: &Request, gpu: &CostModel, split: bool, streamed: bool) -> usize {
        // Without bulk copies, the threads may exchange a tile before they store it.
        let bytes = if split { request.sum_bytes } else { request.result_bytes };
        let columns = if self.bulk { 2 * MatmulPlan::strip(bytes) } else { self.columns };
        let out = self.rows * columns * bytes;
        let exchanged = if (request.epilogue && !split || streamed) && self.tasks == 1 {
            4 * self.rows * self.columns
        } else {
            0
        };
        // What tiles are aligned to, and the mbarriers.
        let spare = 2048 + exchanged;
        let stage = (self.rows + self.columns) * self.depth * ROW;
        (gpu.shared_memory.saturating_sub(out + spare) / stage).min(16)
    }

    fn steps(&self, request: &Request) -> usize {
        (request.k * request.factor_bytes).div_ceil(self.depth * ROW)
    }

    /// Numbers of parts of the inner extent to consider: more than one where there are fewer tiles
    /// than multiprocessors.
    fn splits(&self, request: &Request, gpu: &CostModel) -> Vec<usize> {
        let whole = self.choice(request, gpu, 2, 1);
        let (tiles, steps) = (whole.tiles(request).iter().product::<usize>(), self.steps(request));
        let most = (gpu.units / tiles).min(steps / gpu.products.least_steps);
        // No part is empty.
        // Of long sums also more than programs have at a time, if one part for each would leave
        // many idle: then several rounds leave fewer.
        let several = steps >= LONG_STEPS && most <= 1 && tiles < gpu.units && self.tasks == 2;
        let most = if several { MOST_SPLITS_OF_ROUNDS } else { most };
        let all = (1..=most.max(1)).map(|n| steps.div_ceil(steps.div_ceil(n)));
        let mut all: Vec<usize> = all.collect();
        all.dedup();
        all
    }

    /// Plans that divide the steps of the last tiles among all programs, where whole tiles would
    /// leave some idle.
    fn streamed(&self, request: &Request, gpu: &CostModel, stages: usize) -> Vec<Choice> {
        let whole = self.choice(request, gpu, stages, 1);
        let (tiles, steps) = (whole.tiles(request).iter().product::<usize>(), self.steps(request));
        let fits = 2 * gpu.units * steps < MOST_STEPS;
        let plan = |programs: usize, streamed: usize| {
            let held = tiles > programs && self.holds(request, 1);
            let plan = MatmulPlan { group: 8, held, staggered: false, streamed, ..whole.plan };
            Choice { plan, transposed: self.transposed, grid: [programs as u32, 1, 1] }
        };
        if tiles > gpu.units {
            let rest = !tiles.is_multiple_of(gpu.units) && fits && steps >= gpu.products.least_steps;
            return (1..=2).filter(|_| rest).map(|rounds| plan(gpu.units, rounds)).collect();
        }
        // As many programs for each tile, or all.
        let even = gpu.units / tiles * tiles;
        let mut all = vec![even, gpu.units];
        all.dedup();
        let enough = |programs: &usize| {
            *programs > tiles && tiles * steps / programs >= gpu.products.least_steps && fits
        };
        all.into_iter().filter(enough).map(|programs| plan(programs, 1)).collect()
    }

    /// Whether results fit a task's registers beside the sums of the next tile.
    fn holds(&self, request: &Request, splits: usize) -> bool {
        request.packs && self.bulk && self.tasks > 1 && splits == 1 && !request.two_level
    }

    fn choice(&self, request: &Request, gpu: &CostModel, stages: usize, splits: usize) -> Choice {
        let plan = MatmulPlan {
            rows: self.rows,
            columns: self.columns,
            depth: self.depth * ROW / request.factor_bytes,
            stages,
            group: 8,
            tasks: self.tasks,
            registers: match self.tasks {
                1 => [0, 0],
                2 => [232, 40],
                _ => [152, 40],
            },
            bulk: self.bulk,
            splits,
            two_level: request.two_level,
            halves: halves(request, self.columns),
            held: self.holds(request, splits),
            ..MatmulPlan::PLAIN
        };
        let choice = Choice { plan, transposed: self.transposed, grid: [gpu.units as u32, 1, 1] };
        let tiles = choice.tiles(request);
        if tiles.iter().product::<usize>() > gpu.units {
            return choice;
        }
        // A program for each tile begins sooner: it divides nothing.
        let staggered = !self.bulk && splits == 1 && self.columns < gpu.products.staggered_below;
        Choice {
            plan: MatmulPlan { group: 0, held: false, staggered, ..plan },
            grid: tiles.map(|n| n as u32),
            ..choice
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::estimate::shares;

    const HALVES: Request = Request {
        products: 1,
        m: 1,
        n: 1,
        k: 1,
        factor_bytes: 2,
        result_bytes: 2,
        sum_bytes: 4,
        two_level: false,
        packs: true,
        epilogue: false,
    };
    const H200: CostModel = CostModel::H200;

    fn chosen(m: usize, n: usize, k: usize) -> Choice {
        choose(&Request { m, n, k, ..HALVES }, &H200)
    }

    fn tile(m: usize, n: usize, k: usize) -> (bool, usize, usize) {
        let Choice { plan, transposed, .. } = chosen(m, n, k);
        (transposed, plan.rows, plan.columns)
    }

    #[test]
    fn large_products_have_the_largest_tile() {
        for [m, n, k] in
            [[2048; 3], [4096; 3], [8192; 3], [16384; 3], [4096, 14336, 4096], [8192, 1024, 8192]]
        {
            let choice = chosen(m, n, k);
            assert_eq!(tile(m, n, k), (false, 128, 256), "{m} x {n} x {k}");
            assert_eq!((choice.plan.stages, choice.plan.depth), (4, 64));
            let tiles = m / 128 * n / 256;
            assert_eq!(choice.grid.iter().product::<u32>(), tiles.min(132) as u32);
            assert_eq!(choice.plan.group == 0, tiles <= 132);
            assert_eq!(choice.plan.held, tiles > 132);
        }
    }

    #[test]
    fn rounds_that_leave_most_programs_idle_are_divided_by_steps() {
        // 288 tiles, 2.2 rounds; 800, 6.1.
        for n in [3072, 5120] {
            let choice = chosen(n, n, n);
            assert_eq!((choice.plan.streamed, choice.grid, choice.plan.held), (2, [132, 1, 1], true), "{n}");
            assert_eq!(tile(n, n, n), (false, 128, 256));
        }
        // 1.5 rounds.
        assert_eq!(chosen(2560, 2560, 8192).plan.streamed, 2);
        // Of 8-bit floats in full, tiles of 192 x 128 would leave a third of a round, but larger
        // ones are faster.
        let bytes = Request { m: 4096, n: 4096, k: 4096, factor_bytes: 1, two_level: true, ..HALVES };
        assert_eq!(choose(&bytes, &H200).plan.streamed, 0);
        // 15.5 rounds, and 62.1: there is little to win.
        for n in [8192, 16384] {
            assert_eq!(chosen(n, n, n).plan.streamed, 0, "{n}");
        }
    }

    #[test]
    fn small_products_occupy_every_unit() {
        assert_eq!(tile(1024, 1024, 1024), (false, 64, 128));
        assert_eq!(tile(128, 8192, 8192), (false, 64, 128));
    }

    #[test]
    fn long_sums_of_few_tiles_are_split() {
        assert!(chosen(128, 128, 65536).plan.splits > 8);
        assert!(chosen(512, 512, 16384).plan.splits > 1);
        // Gradients of a transformer's weights: 72 tiles, of which five parts each are 2.7 rounds.
        for [m, n] in [[3072, 768], [768, 3072]] {
            let Choice { plan, grid, .. } = chosen(m, n, 32768);
            assert_eq!((plan.splits, plan.streamed, plan.group, grid), (5, 0, 8, [132, 1, 1]), "{m} x {n}");
        }
        for [m, n, k] in [[1024; 3], [128, 8192, 8192], [16, 8192, 8192], [64, 64, 700]] {
            assert_eq!(chosen(m, n, k).plan.splits, 1, "{m} x {n} x {k}");
        }
    }

    #[test]
    fn results_wait_where_they_pack() {
        let held = |request| choose(&request, &H200).plan.held;
        let large = Request { m: 4096, n: 4096, k: 4096, ..HALVES };
        assert!(held(large));
        assert!(!held(Request { packs: false, result_bytes: 4, ..large }));
        assert!(held(Request { factor_bytes: 1, ..large }));
        assert!(!held(Request { factor_bytes: 1, two_level: true, ..large }));
        assert!(!held(Request { m: 512, n: 512, k: 16384, ..large }));
    }

    #[test]
    fn bytes_have_the_largest_tile_that_their_sums_fit() {
        let bytes = Request { m: 8192, n: 8192, k: 8192, factor_bytes: 1, ..HALVES };
        let tile = |request| {
            let plan = choose(&request, &H200).plan;
            (plan.rows, plan.columns, plan.depth, plan.stages)
        };
        assert_eq!(tile(bytes), (128, 256, 128, 4));
        assert_eq!(tile(Request { two_level: true, ..bytes }), (192, 128, 128, 4));
        assert_eq!(tile(Request { factor_bytes: 4, result_bytes: 4, ..bytes }), (128, 256, 32, 4));
    }

    #[test]
    fn few_rows_become_columns() {
        assert_eq!(tile(16, 8192, 8192), (true, 64, 16));
        assert_eq!(tile(64, 8192, 8192), (true, 64, 64));
        assert_eq!(tile(3, 500, 100), (true, 64, 8));
        assert_eq!(tile(500, 3, 100), (false, 64, 8));
        assert!(chosen(16, 8192, 8192).plan.staggered);
        assert!(!chosen(64, 8192, 8192).plan.staggered);
        assert!(!chosen(128, 8192, 8192).plan.staggered);
    }

    #[test]
    fn ranked_plans_have_forms_of_their_own_and_the_estimates_choice_first() {
        for (m, n, k) in
            [(1024, 1024, 1024), (4096, 4096, 4096), (512, 512, 16384), (16, 8192, 8192), (3, 5, 7)]
        {
            for two_level in [false, true] {
                let factor_bytes = if two_level { 1 } else { 2 };
                let request = Request { m, n, k, two_level, factor_bytes, ..HALVES };
                let ranked = ranked(&request, &H200);
                assert_eq!(ranked.first(), Some(&choose(&request, &H200)), "{request:?}");
                for (i, choice) in ranked.iter().enumerate() {
                    let form = choice.form();
                    assert!(ranked[..i].iter().all(|earlier| earlier.form() != form));
                    assert_eq!(form.to_string().parse(), Ok(form));
                    assert_eq!(of_form(&request, &H200, form), Some(*choice));
                }
            }
        }
        let split_k = |k| {
            let request = Request { m: 512, n: 512, k, ..HALVES };
            ranked(&request, &H200).iter().any(|choice| choice.form().division == Division::SplitK)
        };
        assert!(split_k(16384) && !split_k(64));
    }

    #[test]
    fn tiles_that_are_no_multiple_of_the_programs_can_be_divided_by_steps() {
        let stream_k = |m, n, k| -> Vec<Choice> {
            let of = candidates(&Request { m, n, k, ..HALVES }, &H200);
            let wide = |c: &Choice| c.plan.streamed > 0 && c.plan.columns == 256 && c.plan.rows == 128;
            of.into_iter().filter(wide).collect()
        };
        // 512 tiles: 3 rounds and 116 tiles of 64 steps; 128 tiles of 32 steps; 33 rounds; 32
        // tiles, of which 4 programs can share each.
        let shares = |m, n, k| -> Vec<_> {
            let request = Request { m, n, k, ..HALVES };
            let all = stream_k(m, n, k).into_iter().filter(|c| c.plan.depth == 64);
            all.map(|c| (c.grid[0], c.plan.streamed, shares(&request, &c)))
                .map(|(g, s, t)| (g, s, t.whole + t.shared, t.taken))
                .collect()
        };
        assert_eq!(shares(4096, 4096, 4096), [(132, 1, 249.0, 2.0), (132, 2, 249.0, 1.0)]);
        assert_eq!(shares(2048, 2048, 2048), [(132, 1, 32.0, 1.0)]);
        assert_eq!(shares(132 * 128, 33 * 256, 4096), []);
        assert_eq!(shares(128, 8192, 8192), [(128, 1, 32.0, 3.0), (132, 1, 32.0, 4.0)]);
        // None of a share of fewer steps than a part has, and none that programs cannot count.
        assert_eq!(shares(4096, 4096, 320), []);
        assert_eq!(shares(4096, 4096, 1 << 30), []);
    }

    /// The choices for an H200 as they were measured: the tile, its tasks and stages, parts, rounds
    /// of stream-K, programs.
    #[test]
    fn an_h200_has_the_plans_that_were_measured() {
        let table = [
            ([4096, 4096, 4096], ([128, 256, 64], 2, 4, 1, 0, 132)),
            ([8192, 8192, 8192], ([128, 256, 64], 2, 4, 1, 0, 132)),
            ([3072, 3072, 4096], ([128, 256, 64], 2, 4, 1, 2, 132)),
            ([2048, 2048, 4096], ([128, 256, 64], 2, 4, 1, 0, 128)),
            ([1024, 1024, 1024], ([64, 128, 128], 1, 4, 1, 0, 128)),
            ([512, 512, 65536], ([128, 256, 64], 2, 4, 16, 0, 128)),
            ([64, 4096, 4096], ([64, 32, 256], 1, 4, 1, 0, 128)),
            ([16, 8192, 8192], ([64, 16, 256], 1, 5, 1, 0, 128)),
        ];
        for ([m, n, k], expected) in table {
            let Choice { plan, grid, .. } = chosen(m, n, k);
            let tile = [plan.rows, plan.columns, plan.depth];
            let programs = grid.iter().product::<u32>();
            let got = (tile, plan.tasks, plan.stages, plan.splits, plan.streamed, programs);
            assert_eq!(got, expected, "{m} x {n} x {k}");
        }
    }

    #[test]
    fn other_gpus_have_other_plans() {
        // 40 multiprocessors, and 300 GB/s at 1.7 GHz.
        let mut small = CostModel { units: 40, ..CostModel::H200 };
        small.rates.memory = 300 * 10 / 17;
        let of = |m, n, k, gpu| choose(&Request { m, n, k, ..HALVES }, gpu);
        let programs = |choice: &Choice| choice.grid.iter().product::<u32>();
        // Fewer tiles fill it, so that they are larger.
        let area = |choice: &Choice| choice.plan.rows * choice.plan.columns;
        let (here, there) = (of(1024, 1024, 1024, &H200), of(1024, 1024, 1024, &small));
        assert!(area(&there) > area(&here) && programs(&there) <= 40, "{here:?} {there:?}");
        // 128 tiles are one round of an H200, and several here.
        let (here, there) = (of(2048, 2048, 4096, &H200), of(2048, 2048, 4096, &small));
        assert_eq!((programs(&here), programs(&there)), (128, 40));
        // Fewer programs share a long sum.
        let parts = |gpu| of(512, 512, 65536, gpu).plan.splits;
        assert!(parts(&H200) > parts(&small), "{} {}", parts(&H200), parts(&small));
        // Shared memory for fewer stages.
        let little = CostModel { shared_memory: 100 << 10, ..CostModel::H200 };
        let choice = of(4096, 4096, 4096, &little);
        let bytes = choice.plan.stages * (choice.plan.rows + choice.plan.columns) * choice.plan.depth * 2;
        assert!(choice.plan.stages >= 4 && bytes <= 100 << 10, "{choice:?}");
        // A plan takes longer on slower matrix units, and on slower memory where that decides.
        let (large, flat) =
            (Request { m: 4096, n: 4096, k: 4096, ..HALVES }, Request { m: 16, n: 8192, k: 8192, ..HALVES });
        let mut slow = CostModel::H200;
        slow.rates.multiply_adds /= 8;
        let time = |request: &Request, gpu| cycles(request, gpu, &choose(request, &H200));
        assert!(time(&large, &slow) > 4.0 * time(&large, &H200));
        let mut far = CostModel::H200;
        far.rates.memory /= 8;
        assert!(time(&flat, &far) > 4.0 * time(&flat, &H200));
    }

    #[test]
    fn every_plan_fits() {
        let extents = [1, 7, 64, 100, 513, 1024, 4099, 100_000];
        for m in extents {
            for n in extents {
                for (k, result_bytes, factor_bytes) in
                    [(1, 2, 2), (4099, 4, 2), (512, 2, 2), (4099, 1, 1), (9999, 4, 4)]
                {
                    let two_level = factor_bytes == 1;
                    let request = Request { m, n, k, result_bytes, factor_bytes, two_level, ..HALVES };
                    let Choice { plan, grid, transposed } = choose(&request, &H200);
                    let stages = plan.stages * (plan.rows + plan.columns) * plan.depth * factor_bytes;
                    let stored = if plan.splits > 1 { 4 } else { result_bytes };
                    let columns = if plan.bulk { 2 * MatmulPlan::strip(stored) } else { plan.columns };
                    let out = plan.rows * columns * stored;
                    assert!(
                        stages + out + 2048 <= H200.shared_memory && plan.stages > 1,
                        "{request:?}: {plan:?}"
                    );
                    assert!((1..=H200.units as u32).contains(&grid.iter().product()));
                    assert!(!plan.bulk || !transposed && plan.columns >= MatmulPlan::strip(stored));
                    assert!(!two_level || plan.columns / plan.halves <= MOST_PARTIAL_COLUMNS);
                }
            }
        }
    }
}
