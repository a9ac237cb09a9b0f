//! How a product is divided on a Hopper GPU: an estimate of the time of each of a few dozen plans,
//! from the shape alone.
//!
//! A program's tile takes as long as its products, or as the copies of what they need, whichever is
//! longer; a launch as long as its last program, or as reading every factor once from memory. The
//! constants are those of an H200; only their ratios matter.

use super::hopper::MatmulPlan;
use std::fmt;
use std::str::FromStr;

/// What is asked for: so many products c `[m, n]` from factors with an inner extent of `k`. No
/// extent is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Matrices c.
    pub products: usize,
    /// Rows of a and c.
    pub m: usize,
    /// Columns of b and c.
    pub n: usize,
    /// Columns of a, rows of b.
    pub k: usize,
    /// Bytes of an element of a factor.
    pub factor_bytes: usize,
    /// Bytes of an element of c.
    pub result_bytes: usize,
    /// Bytes of an element of a sum.
    pub sum_bytes: usize,
    /// Whether every stage is added to the sum outside of the tensor cores: two levels of sums.
    pub two_level: bool,
    /// Whether f32 becomes 16-bit floats at the end, which pack by pairs.
    pub packs: bool,
    /// Whether sums go through an epilogue, for which the threads of a task alone may exchange a
    /// tile.
    pub epilogue: bool,
}

/// What a plan must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub plan: MatmulPlan,
    /// Whether the product to launch is cᵀ = bᵀ aᵀ: the few rows of c become columns, of which a
    /// tile may have as few as 8.
    pub transposed: bool,
    /// Programs on each axis.
    pub grid: [u32; 3],
}

/// What plans for several shapes have in common.
///
/// ```
/// use kiln_kernels::matmul::plan::{Division, Form};
/// let form = Form { tile: [128, 256, 64], tasks: 2, transposed: false, division: Division::SplitK };
/// assert_eq!(form.to_string(), "128 x 256 x 64 by 2, split-K");
/// assert_eq!(form.to_string().parse(), Ok(form));
/// assert!("128 x 256".parse::<Form>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// Rows, columns and depth of a tile.
    pub tile: [usize; 3],
    /// Tasks that multiply.
    pub tasks: usize,
    /// Whether cᵀ = bᵀ aᵀ is launched.
    pub transposed: bool,
    /// How the inner extent is divided among programs.
    pub division: Division,
}

/// How the inner extent of a product is divided among programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// A program multiplies all of it for its tiles.
    DataParallel,
    /// Into so many parts for each tile, which a second launch adds up: split-K.
    SplitK,
    /// That of the last tiles evenly, by steps; who ends a tile adds up what others did of it:
    /// stream-K.
    StreamK,
}

/// Behind the other words of a form.
const SPLIT_K: &str = ", split-K";
const STREAM_K: &str = ", stream-K";

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, columns, depth] = self.tile;
        write!(f, "{rows} x {columns} x {depth} by {}", self.tasks)?;
        f.write_str(if self.transposed { ", transposed" } else { "" })?;
        f.write_str(match self.division {
            Division::DataParallel => "",
            Division::SplitK => SPLIT_K,
            Division::StreamK => STREAM_K,
        })
    }
}

impl FromStr for Form {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Form, &'static str> {
        const WRONG: &str = "expected `ROWS x COLUMNS x DEPTH by TASKS`, then maybe `, transposed`, then maybe `, split-K` or `, stream-K`";
        let split_k = text.strip_suffix(SPLIT_K).map(|rest| (rest, Division::SplitK));
        let stream_k = || text.strip_suffix(STREAM_K).map(|rest| (rest, Division::StreamK));
        let (text, division) = split_k.or_else(stream_k).unwrap_or((text, Division::DataParallel));
        let (text, transposed) = text.strip_suffix(", transposed").map_or((text, false), |rest| (rest, true));
        let (tile, tasks) = text.split_once(" by ").ok_or(WRONG)?;
        let mut numbers = tile.split(" x ").chain([tasks]).map(|n| n.parse().map_err(|_| WRONG));
        let mut next = || numbers.next().unwrap_or(Err(WRONG));
        let (tile, tasks) = ([next()?, next()?, next()?], next()?);
        if numbers.next().is_some() { Err(WRONG) } else { Ok(Form { tile, tasks, transposed, division }) }
    }
}

/// Bytes of a row of a stage, or a multiple of it.
const ROW: usize = 128;
/// Steps of divided tiles that programs can count.
const MOST_STEPS: usize = 1 << 31;
/// Bytes a cycle in which a program leaves sums for another, or takes them.
const EXCHANGED: f64 = 24.0;
/// Cycles until it knows that they are there.
const SIGNAL: f64 = 1500.0;
/// How much longer a step takes of tiles that programs share, since they are not all at the same
/// step and find less in L2.
const APART: f64 = 1.1;
/// How much longer everything takes where no program is idle: the clock falls.
const POWER: f64 = 1.03;
/// Steps that a part of the inner extent has at least.
const LEAST_STEPS: usize = 6;
/// Bytes of the inner extent that one instruction multiplies.
const INSTRUCTION_BYTES: usize = 32;
/// Rows that one instruction multiplies.
const INSTRUCTION_ROWS: usize = 64;
/// Bytes a cycle that a multiprocessor gets from L2.
const FROM_L2: f64 = 40.0;
/// Bytes a cycle that shared memory gives the tensor cores.
const FROM_SHARED: f64 = 128.0;
/// Bytes a cycle that all of them get from memory.
const FROM_MEMORY: f64 = 2400.0;
/// Cycles from the beginning of a program to its first product, and from its last one to its end,
/// without the stores.
const LATENCY: f64 = 3500.0;
/// Bytes a cycle in which a program stores its sums, registers to memory.
const STORED: f64 = 24.0;
/// Cycles that the thread that copies takes for a stage, and for each copy in it.
const STEP: f64 = 100.0;
const COPY: f64 = 25.0;
/// Cycles between two instructions, and between two stages.
const ISSUE: f64 = 2.0;
const WAIT: f64 = 30.0;
/// Cycles that a task waits for the product of a stage, 64 rows of it, and for each of its columns
/// to add it to its sum.
const PARTIAL: f64 = 60.0;
const ADDED: f64 = 0.5;
/// How much of that the tensor cores wait if there are two tasks, which may add at the same time.
const IDLE: f64 = 0.75;
/// Cycles of a second launch that adds up parts, and bytes a cycle in which it does.
const SECOND: f64 = 28000.0;
const ADDED_UP: f64 = 2000.0;
/// The most columns of a stage's product that fit a task's registers beside the sums.
const MOST_PARTIAL_COLUMNS: usize = 128;
/// Columns from which on programs that begin at different steps were slower: they share more of
/// what they read.
const STAGGERED_BELOW: usize = 64;
/// Columns up to which tiles narrower than 64 are looked at.
const NARROW_UP_TO: usize = 64;

/// The fastest plan by the estimate, which takes a stream-K plan where that was measured to be
/// faster: see [`is_known`].
pub fn choose(request: &Request, gpu: &Gpu) -> Choice {
    let columns = MatmulPlan::strip(request.result_bytes);
    let least = Tile { transposed: false, rows: 64, columns, tasks: 1, depth: 1, bulk: true };
    fastest(request, gpu, |choice| is_known(request, choice))
        .unwrap_or_else(|| least.choice(request, gpu, 2, 1))
}

/// Whether the estimate is to be trusted with a plan: a stream-K plan where whole rounds
/// leave at most five ninths of a round, which is divided together with the round before it. Then
/// programs go through the inner extent nearly together; in other cases what was measured is up to
/// half slower than estimated (`bench/notes.md`).
fn is_known(request: &Request, choice: &Choice) -> bool {
    let programs = choice.grid[0] as usize;
    let tiles = choice.tiles(request).iter().product::<usize>();
    match choice.plan.streamed {
        0 => true,
        1 => false,
        _ => tiles > programs && 9 * (tiles % programs) <= 5 * programs,
    }
}

/// The fastest of the plans that have this [form](Choice::form), if there is one.
pub fn of_form(request: &Request, gpu: &Gpu, form: Form) -> Option<Choice> {
    fastest(request, gpu, |choice| choice.form() == form)
}

fn fastest(request: &Request, gpu: &Gpu, wanted: impl Fn(&Choice) -> bool) -> Option<Choice> {
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
pub fn ranked(request: &Request, gpu: &Gpu) -> Vec<Choice> {
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
fn candidates(request: &Request, gpu: &Gpu) -> Vec<Choice> {
    // Rows, columns, tasks.
    const WIDE: &[[usize; 3]] =
        &[[128, 256, 2], [192, 128, 3], [128, 128, 2], [64, 256, 1], [64, 128, 1], [128, 64, 2], [64, 64, 1]];
    const NARROW: &[[usize; 3]] = &[[64, 8, 1], [64, 16, 1], [64, 32, 1], [64, 64, 1]];
    let few = |extent: usize| extent <= NARROW_UP_TO;
    // Swapped or not, shapes, whether they store in bulk, whether they are looked at.
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
    fn stages(&self, request: &Request, gpu: &Gpu, split: bool, streamed: bool) -> usize {
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

    /// Numbers of parts of the inner extent to look at: more than one where there are fewer tiles
    /// than multiprocessors.
    fn splits(&self, request: &Request, gpu: &Gpu) -> Vec<usize> {
        let whole = self.choice(request, gpu, 2, 1);
        let (tiles, steps) = (whole.tiles(request).iter().product::<usize>(), self.steps(request));
        let most = (gpu.units / tiles).min(steps / LEAST_STEPS);
        // No part is empty.
        let all = (1..=most.max(1)).map(|n| steps.div_ceil(steps.div_ceil(n)));
        let mut all: Vec<usize> = all.collect();
        all.dedup();
        all
    }

    /// Plans that divide the steps of the last tiles among all programs, where whole tiles would
    /// leave some idle.
    fn streamed(&self, request: &Request, gpu: &Gpu, stages: usize) -> Vec<Choice> {
        let whole = self.choice(request, gpu, stages, 1);
        let (tiles, steps) = (whole.tiles(request).iter().product::<usize>(), self.steps(request));
        let fits = 2 * gpu.units * steps < MOST_STEPS;
        let plan = |programs: usize, streamed: usize| {
            let held = tiles > programs && self.holds(request, 1);
            let plan = MatmulPlan { group: 8, held, staggered: false, streamed, ..whole.plan };
            Choice { plan, transposed: self.transposed, grid: [programs as u32, 1, 1] }
        };
        if tiles > gpu.units {
            let rest = !tiles.is_multiple_of(gpu.units) && fits && steps >= LEAST_STEPS;
            return (1..=2).filter(|_| rest).map(|rounds| plan(gpu.units, rounds)).collect();
        }
        // As many programs for each tile, or all.
        let even = gpu.units / tiles * tiles;
        let mut all = vec![even, gpu.units];
        all.dedup();
        let enough = |programs: &usize| *programs > tiles && tiles * steps / programs >= LEAST_STEPS && fits;
        all.into_iter().filter(enough).map(|programs| plan(programs, 1)).collect()
    }

    /// Whether results fit a task's registers beside the sums of the next tile.
    fn holds(&self, request: &Request, splits: usize) -> bool {
        request.packs && self.bulk && self.tasks > 1 && splits == 1 && !request.two_level
    }

    fn choice(&self, request: &Request, gpu: &Gpu, stages: usize, splits: usize) -> Choice {
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
        let staggered = !self.bulk && splits == 1 && self.columns < STAGGERED_BELOW;
        Choice {
            plan: MatmulPlan { group: 0, held: false, staggered, ..plan },
            grid: tiles.map(|n| n as u32),
            ..choice
        }
    }
}

impl Choice {
    /// What tells it from the other [`ranked`] ones, whatever the shape.
    pub fn form(&self) -> Form {
        let MatmulPlan { rows, columns, depth, tasks, splits, streamed, .. } = self.plan;
        let division = match (splits, streamed) {
            (1, 0) => Division::DataParallel,
            (1, _) => Division::StreamK,
            _ => Division::SplitK,
        };
        Form { tile: [rows, columns, depth], tasks, transposed: self.transposed, division }
    }

    /// The extents of what is launched.
    fn extents(&self, request: &Request) -> (usize, usize) {
        if self.transposed { (request.n, request.m) } else { (request.m, request.n) }
    }

    /// Tiles down and across, and how often.
    fn tiles(&self, request: &Request) -> [usize; 3] {
        let (rows, columns) = self.extents(request);
        let matrices = request.products * self.plan.splits;
        [rows.div_ceil(self.plan.rows), columns.div_ceil(self.plan.columns), matrices]
    }
}

/// The estimated cycles of a launch.
fn cycles(request: &Request, gpu: &Gpu, choice: &Choice) -> f64 {
    let plan = &choice.plan;
    let rounds = choice.tiles(request).iter().product::<usize>().div_ceil(gpu.units) as f64;
    // An instruction of 64 rows and a depth of 16 takes a cycle for two columns, or what shared
    // memory takes to give it both factors.
    let fed = ((INSTRUCTION_ROWS + plan.columns) * INSTRUCTION_BYTES) as f64 / FROM_SHARED;
    let instruction = (plan.columns as f64 / 2.0).max(fed) + ISSUE;
    let depth = plan.depth * request.factor_bytes;
    let mut products = (plan.rows / INSTRUCTION_ROWS * depth / INSTRUCTION_BYTES) as f64 * instruction;
    let partial = PARTIAL * plan.halves as f64 + ADDED * plan.columns as f64;
    let mut idle = 0.0;
    if plan.two_level {
        idle = if plan.tasks == 2 { IDLE * partial } else { 0.0 };
        // One task adds while another multiplies.
        products = (products / plan.tasks as f64 + partial).max(products);
    }
    let copies = ((plan.rows + plan.columns) * depth) as f64 / FROM_L2;
    // One thread begins the copies of a stage, one for each 64 columns of a tile.
    let begun = STEP
        + COPY
            * ((plan.rows / plan.tasks).div_ceil(64) * plan.tasks + plan.columns.div_ceil(64)) as f64
            * depth as f64
            / ROW as f64;
    let steps = request.k.div_ceil(plan.depth).div_ceil(plan.splits) as f64;
    let split = plan.splits > 1;
    let stored = if split { request.sum_bytes } else { request.result_bytes };
    let store = (plan.rows * plan.columns * stored) as f64 / STORED;
    // With several tasks one stores while another multiplies, but for the last tile.
    let hidden = if plan.tasks > 1 { 0.5 } else { 1.0 };
    let step = products.max(copies).max(begun) + idle + WAIT;
    let mut compute = rounds * steps * step + (rounds - 1.0) * hidden * store + store;
    if plan.streamed > 0 {
        let Shares { whole, shared, taken } = shares(request, choice);
        let exchange = (plan.rows * plan.columns * request.sum_bytes) as f64 / EXCHANGED;
        let steps = (whole + APART * shared) * step;
        compute = steps + (rounds - 1.0) * hidden * store + store + exchange + taken * (exchange + SIGNAL);
        compute *= POWER;
    }
    let (rows, columns) = choice.extents(request);
    let read = request.products * (rows + columns) * request.k * request.factor_bytes;
    let memory = read as f64 / FROM_MEMORY;
    let parts = (plan.splits * request.products * rows * columns * request.sum_bytes) as f64;
    let second = if split { SECOND + parts / ADDED_UP } else { 0.0 };
    // What is hidden behind the longer costs a little too.
    LATENCY + compute.max(memory) + 0.1 * compute.min(memory) + second
}

/// What a program of a [streamed](MatmulPlan::streamed) plan has to do.
struct Shares {
    /// Steps of its whole tiles, and of its share of others.
    whole: f64,
    shared: f64,
    /// How often it takes the sums of another.
    taken: f64,
}

fn shares(request: &Request, choice: &Choice) -> Shares {
    let programs = choice.grid[0] as usize;
    let (tiles, each) =
        (choice.tiles(request).iter().product::<usize>(), request.k.div_ceil(choice.plan.depth));
    let whole = (tiles / programs).saturating_sub(choice.plan.streamed - 1);
    let all = (tiles - whole * programs) * each;
    let share = all.div_ceil(programs);
    // Where shares divide tiles evenly, none begins in the middle of a share.
    let even = all.is_multiple_of(programs) && each.is_multiple_of(share);
    let taken = each.div_ceil(share) - usize::from(even);
    Shares { whole: (whole * each) as f64, shared: share as f64, taken: taken as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    const H200: Gpu = Gpu { units: 132, shared_memory: 227 << 10 };

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
