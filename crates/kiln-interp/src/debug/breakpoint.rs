//! Breakpoints.

use super::source::same_file;
use kiln_ir::{Kernel, OpKind};

/// Where a breakpoint stops.
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    /// The first operation of a launch of the kernel with this name.
    Kernel(String),
    /// A line of a file whose path ends so; of any file without one.
    Line(Option<String>, u32),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Kernel(name) => f.write_str(name),
            Target::Line(Some(file), line) => write!(f, "{file}:{line}"),
            Target::Line(None, line) => write!(f, "line {line}"),
        }
    }
}

/// A breakpoint.
#[derive(Clone, Debug)]
pub struct Breakpoint {
    pub id: usize,
    pub target: Target,
    /// The block that it is for, if not for all.
    pub block: Option<u64>,
    /// The thread that it is for, if not for all.
    pub thread: Option<usize>,
    pub hits: u64,
}

/// Whether operations of a kind are places to stop at. The ends of regions have the line of the
/// operation around.
pub fn is_place(kind: &OpKind) -> bool {
    !matches!(kind, OpKind::Yield | OpKind::Condition)
}

impl Breakpoint {
    /// The file and the line where it stops in a kernel: the first one with code from its line on,
    /// if the kernel has code before and behind it. `None` if it is not in this kernel.
    pub fn place(&self, kernel: &Kernel) -> Option<(u32, u32)> {
        let Target::Line(file, wanted) = &self.target else { return None };
        let fits = |name: &str| file.as_ref().is_none_or(|file| same_file(name, file));
        let files: Vec<bool> = kernel.files.iter().map(|name| fits(name)).collect();
        let mut lines: Vec<(u32, u32)> = Vec::new();
        kernel.walk(|_, data| {
            let here = data.loc.line > 0 && files.get(data.loc.file as usize) == Some(&true);
            if here && is_place(&data.kind) {
                lines.push((data.loc.file, data.loc.line));
            }
        });
        lines.sort_unstable();
        let at = lines.iter().find(|(file, line)| {
            let first = lines.iter().find(|(other, _)| other == file).map_or(0, |(_, line)| *line);
            first <= *wanted && *line >= *wanted
        });
        at.copied()
    }
}
