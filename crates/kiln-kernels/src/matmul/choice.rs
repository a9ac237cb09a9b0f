//! What is asked of a plan for a product, what is chosen, and the names of choices.

use super::hopper::MatmulPlan;
use std::fmt;
use std::str::FromStr;

/// Bytes of a row of a stage, or a multiple of it.
pub(super) const ROW: usize = 128;

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

impl Choice {
    /// What distinguishes it from the other `ranked` ones, whatever the shape.
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
    pub(super) fn extents(&self, request: &Request) -> (usize, usize) {
        if self.transposed { (request.n, request.m) } else { (request.m, request.n) }
    }

    /// Tiles down and across, and how often.
    pub(super) fn tiles(&self, request: &Request) -> [usize; 3] {
        let (rows, columns) = self.extents(request);
        let matrices = request.products * self.plan.splits;
        [rows.div_ceil(self.plan.rows), columns.div_ceil(self.plan.columns), matrices]
    }
}
