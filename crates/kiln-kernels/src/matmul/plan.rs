//! How a product is divided on a Hopper GPU: an estimate of the time of each of a few dozen plans, from the shape alone.
//!
//! A program's tile takes as long as its products, or as the copies of what they need, whichever is longer; a launch as long as its last program, or as
//! reading every factor once from memory. The constants are those of an H200; only their ratios matter.

use super::hopper::Plan;

/// What is asked for: c `[m, n]` from factors with an inner extent of `k`, of 16-bit floats. No extent is 0.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Rows of a and c.
    pub m: usize,
    /// Columns of b and c.
    pub n: usize,
    /// Columns of a, rows of b.
    pub k: usize,
    /// Bytes of an element of c.
    pub result_bytes: usize,
}

/// What a plan must fit.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    /// Multiprocessors.
    pub units: usize,
    /// Bytes of shared memory of a block.
    pub shared_memory: usize,
}

/// A plan and how to launch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// For factors that are not transposed.
    pub plan: Plan,
    /// Whether the product to launch is cᵀ = bᵀ aᵀ: the few rows of c become columns, of which a tile may have as few as 8.
    pub swapped: bool,
    /// Programs on each axis.
    pub grid: [u32; 2],
}

/// Bytes of an element of a factor.
const ELEMENT: usize = 2;
/// Rows that one instruction multiplies.
const INSTRUCTION_ROWS: usize = 64;
/// Bytes a cycle that a multiprocessor gets from L2.
const FROM_L2: f64 = 40.0;
/// Bytes a cycle that shared memory gives the tensor cores.
const FROM_SHARED: f64 = 128.0;
/// Bytes a cycle that all of them get from memory.
const FROM_MEMORY: f64 = 2400.0;
/// Cycles from the beginning of a program to its first product, and from its last one to its end, without the stores.
const LATENCY: f64 = 3500.0;
/// Bytes a cycle in which a program stores its sums, registers to memory.
const STORED: f64 = 24.0;
/// Cycles that the thread that copies takes for a stage, and for each copy in it.
const STEP: f64 = 100.0;
const COPY: f64 = 25.0;
/// Cycles between two instructions, and between two stages.
const ISSUE: f64 = 2.0;
const WAIT: f64 = 30.0;
/// Columns up to which tiles narrower than 64 are looked at.
const NARROW_UP_TO: usize = 64;

/// The fastest plan by the estimate.
pub fn choose(request: &Request, gpu: &Gpu) -> Choice {
    let mut best: Option<(f64, Choice)> = None;
    for choice in candidates(request, gpu) {
        let time = cycles(request, gpu, &choice);
        if best.is_none_or(|(least, _)| time < least) {
            best = Some((time, choice));
        }
    }
    let least = Tile { swapped: false, rows: 64, columns: 64, tasks: 1, depth: 64, bulk: true };
    best.map_or_else(|| least.choice(request, gpu, 2), |(_, choice)| choice)
}

/// A shape of tile.
#[derive(Clone, Copy)]
struct Tile {
    swapped: bool,
    rows: usize,
    columns: usize,
    tasks: usize,
    depth: usize,
    bulk: bool,
}

/// Plans whose tiles fit shared memory in four stages or more. None has clusters: by turns with others they were no faster (`bench/notes.md`).
fn candidates(request: &Request, gpu: &Gpu) -> Vec<Choice> {
    // Rows, columns, tasks.
    const WIDE: &[[usize; 3]] =
        &[[128, 256, 2], [128, 128, 2], [64, 256, 1], [64, 128, 1], [128, 64, 2], [64, 64, 1]];
    const NARROW: &[[usize; 3]] = &[[64, 8, 1], [64, 16, 1], [64, 32, 1], [64, 64, 1]];
    let few = |extent: usize| extent <= NARROW_UP_TO;
    // Swapped or not, shapes, whether they store in bulk, whether they are looked at.
    let lists = [
        (true, NARROW, false, few(request.m)),
        (false, NARROW, false, few(request.n)),
        (false, WIDE, true, true),
    ];
    let mut all = Vec::new();
    for (swapped, shapes, bulk, _) in lists.into_iter().filter(|list| list.3) {
        for &[rows, columns, tasks] in shapes {
            for depth in [64, 128, 256] {
                let tile = Tile { swapped, rows, columns, tasks, depth, bulk };
                let stages = tile.stages(request, gpu);
                if stages >= 4 {
                    all.push(tile.choice(request, gpu, stages));
                }
            }
        }
    }
    all
}

impl Tile {
    /// As many stages as shared memory holds, up to 16.
    fn stages(&self, request: &Request, gpu: &Gpu) -> usize {
        // Without bulk copies, the threads may exchange a tile before they store it.
        let columns = if self.bulk { 2 * Plan::STRIP } else { self.columns };
        let out = self.rows * columns * request.result_bytes;
        // What tiles are aligned to, and the mbarriers.
        let spare = 2048;
        let stage = (self.rows + self.columns) * self.depth * ELEMENT;
        (gpu.shared_memory.saturating_sub(out + spare) / stage).min(16)
    }

    fn choice(&self, request: &Request, gpu: &Gpu, stages: usize) -> Choice {
        let plan = Plan {
            rows: self.rows,
            columns: self.columns,
            depth: self.depth,
            stages,
            cluster: 1,
            side_by_side: false,
            group: 8,
            tasks: self.tasks,
            registers: if self.tasks > 1 { [232, 40] } else { [0, 0] },
            a_transposed: false,
            b_transposed: false,
            bulk: self.bulk,
        };
        let choice = Choice { plan, swapped: self.swapped, grid: [gpu.units as u32, 1] };
        let tiles = choice.tiles(request);
        if tiles[0] * tiles[1] > gpu.units {
            return choice;
        }
        // A program for each tile begins sooner: it divides nothing.
        Choice { plan: Plan { group: 0, ..plan }, grid: tiles.map(|n| n as u32), ..choice }
    }
}

impl Choice {
    /// The extents of what is launched.
    fn extents(&self, request: &Request) -> (usize, usize) {
        if self.swapped { (request.n, request.m) } else { (request.m, request.n) }
    }

    /// Tiles down and across.
    fn tiles(&self, request: &Request) -> [usize; 2] {
        let (rows, columns) = self.extents(request);
        [rows.div_ceil(self.plan.rows), columns.div_ceil(self.plan.columns)]
    }
}

/// The estimated cycles of a launch.
fn cycles(request: &Request, gpu: &Gpu, choice: &Choice) -> f64 {
    let plan = &choice.plan;
    let rounds = choice.tiles(request).iter().product::<usize>().div_ceil(gpu.units) as f64;
    // An instruction of 64 rows and a depth of 16 takes a cycle for two columns, or what shared memory takes to give it both factors.
    let fed = ((INSTRUCTION_ROWS + plan.columns) * 16 * ELEMENT) as f64 / FROM_SHARED;
    let instruction = (plan.columns as f64 / 2.0).max(fed) + ISSUE;
    let products = (plan.rows / INSTRUCTION_ROWS * plan.depth / 16) as f64 * instruction;
    let copies = ((plan.rows + plan.columns) * plan.depth * ELEMENT) as f64 / FROM_L2;
    // One thread begins the copies of a stage, one for each 64 columns of a tile.
    let begun = STEP
        + COPY
            * ((plan.rows / plan.tasks).div_ceil(64) * plan.tasks + plan.columns.div_ceil(64)) as f64
            * plan.depth as f64
            / 64.0;
    let steps = request.k.div_ceil(plan.depth) as f64;
    let store = (plan.rows * plan.columns * request.result_bytes) as f64 / STORED;
    // With several tasks one stores while another multiplies, but for the last tile.
    let hidden = if plan.tasks > 1 { 0.5 } else { 1.0 };
    let step = products.max(copies).max(begun) + WAIT;
    let compute = rounds * steps * step + (rounds - 1.0) * hidden * store + store;
    let (rows, columns) = choice.extents(request);
    let memory = ((rows + columns) * request.k * ELEMENT) as f64 / FROM_MEMORY;
    // What is hidden behind the longer costs a little too.
    LATENCY + compute.max(memory) + 0.1 * compute.min(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Gpu = Gpu { units: 132, shared_memory: 227 << 10 };

    fn chosen(m: usize, n: usize, k: usize) -> Choice {
        choose(&Request { m, n, k, result_bytes: 2 }, &H200)
    }

    fn tile(m: usize, n: usize, k: usize) -> (bool, usize, usize) {
        let Choice { plan, swapped, .. } = chosen(m, n, k);
        (swapped, plan.rows, plan.columns)
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
        }
    }

    #[test]
    fn small_products_occupy_every_unit() {
        assert_eq!(tile(1024, 1024, 1024), (false, 64, 128));
        assert_eq!(tile(128, 8192, 8192), (false, 64, 128));
    }

    #[test]
    fn few_rows_become_columns() {
        assert_eq!(tile(16, 8192, 8192), (true, 64, 16));
        assert_eq!(tile(64, 8192, 8192), (true, 64, 64));
        assert_eq!(tile(3, 500, 100), (true, 64, 8));
        assert_eq!(tile(500, 3, 100), (false, 64, 8));
    }

    #[test]
    fn every_plan_fits() {
        let extents = [1, 7, 64, 100, 513, 1024, 4099, 100_000];
        for m in extents {
            for n in extents {
                for (k, result_bytes) in [(1, 2), (4099, 4), (512, 2)] {
                    let request = Request { m, n, k, result_bytes };
                    let Choice { plan, grid, swapped } = choose(&request, &H200);
                    let stages = plan.stages * (plan.rows + plan.columns) * plan.depth * ELEMENT;
                    let columns = if plan.bulk { 2 * Plan::STRIP } else { plan.columns };
                    let out = plan.rows * columns * result_bytes;
                    assert!(
                        stages + out + 2048 <= H200.shared_memory && plan.stages > 1,
                        "{request:?}: {plan:?}"
                    );
                    assert!((1..=H200.units as u32).contains(&(grid[0] * grid[1])));
                    assert!(!plan.bulk || !swapped && plan.columns >= Plan::STRIP);
                }
            }
        }
    }
}
