//! What a name stands for at a place of a kernel.

use kiln_ir::{Block, Kernel, Loc, Named, Naming, Op};

/// A place of a kernel: for each block around it, the innermost last, the number of the operation.
pub type Path = Vec<(Block, usize)>;

/// The path to an operation; to the end of the body without one.
pub fn path(kernel: &Kernel, op: Option<Op>) -> Path {
    let body = kernel.body;
    let found = op.and_then(|op| below(kernel, body, op));
    found.unwrap_or_else(|| vec![(body, kernel.block(body).ops.len())])
}

fn below(kernel: &Kernel, block: Block, op: Op) -> Option<Path> {
    kernel.block(block).ops.iter().enumerate().find_map(|(number, &here)| {
        if here == op {
            return Some(vec![(block, number)]);
        }
        let inner = kernel.op(here).regions.iter().find_map(|&region| below(kernel, region, op))?;
        Some([vec![(block, number)], inner].concat())
    })
}

/// The names in scope at a place, each once, those declared last first.
pub fn in_scope<'k>(kernel: &'k Kernel, path: &Path, loc: Loc) -> Vec<(&'k str, &'k Named)> {
    let depth = |naming: &Naming| {
        path.iter().position(|&(block, number)| block == naming.block && naming.at <= number)
    };
    let seen = kernel.names.iter().filter(|naming| naming.is_in_scope(loc.file, loc.line));
    let mut seen: Vec<_> = seen.filter_map(|naming| Some((depth(naming)?, naming.at, naming))).collect();
    // Stable: of those at one place, the last remains the last.
    seen.sort_by_key(|&(depth, at, _)| (depth, at));
    let mut found: Vec<(&str, &Named)> = Vec::new();
    for (_, _, naming) in seen.into_iter().rev() {
        if !found.iter().any(|(name, _)| *name == naming.name) {
            found.push((&naming.name, &naming.what));
        }
    }
    found
}
