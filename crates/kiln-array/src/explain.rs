//! What a plan does, in words.

use crate::error::Result;
use crate::node::Array;
use crate::op::Op;
use crate::plan::body::{Body, Group, Value};
use crate::plan::graph::Graph;
use crate::plan::partition::Part;
use crate::plan::peak::peak;
use crate::plan::program::Columns;
use crate::plan::steps::{Plan, Step, plan};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The kernels that would compute arrays: what each reads and writes, and why what it writes is not
/// kept in registers for the kernel that reads it.
///
/// ```
/// use kiln_array::{Array, explain};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32; 12], &[3, 4]);
/// let text = explain(&[&((x * 2.0).exp() + 1.0)])?;
/// assert_eq!(
///     text,
///     "1 kernel, 48 bytes read, 48 bytes written, at most 48 held at once\n\
///      1. array_add: 3 operations\n   reads f32 [3, 4]\n   writes f32 [3, 4]\n"
/// );
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The error of an array that has one.
pub fn explain(arrays: &[&Array]) -> Result<String> {
    let graph = Graph::of(arrays)?;
    let plan = plan(&graph);
    let explanation = Explanation::of(&graph, &plan);
    Ok(explanation.text())
}

/// The most bytes of device memory that the evaluation of arrays takes at once beside what is there
/// before: results and what lies between them, without the memory that sorts and other kernels of
/// the library have while they run. Nothing runs.
///
/// ```
/// use kiln_array::{Array, peak_memory};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32; 12], &[3, 4]);
/// let product = x.matmul(&x.transpose()); // 36 bytes
/// assert_eq!(peak_memory(&[&product.exp().sum()])?, 36 + 4);
/// assert_eq!(peak_memory(&[&x])?, 0); // it is there
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The error of an array that has one.
pub fn peak_memory(arrays: &[&Array]) -> Result<usize> {
    let graph = Graph::of(arrays)?;
    Ok(peak(&graph, &plan(&graph)))
}

/// A kernel of a plan.
struct Kernel {
    what: String,
    reads: Vec<usize>,
    writes: Vec<usize>,
}

struct Explanation<'a> {
    graph: &'a Graph,
    kernels: Vec<Kernel>,
    /// The most bytes that are there at once of what the kernels write.
    peak: usize,
}

impl<'a> Explanation<'a> {
    fn of(graph: &'a Graph, plan: &Plan) -> Explanation<'a> {
        let kernels = plan.steps.iter().map(|step| kernel(graph, plan, step)).collect();
        Explanation { graph, kernels, peak: peak(graph, plan) }
    }

    fn text(&self) -> String {
        let bytes = |arrays: fn(&Kernel) -> &Vec<usize>| -> usize {
            self.kernels.iter().flat_map(arrays).map(|&vertex| self.bytes(vertex)).sum()
        };
        let count = self.kernels.len();
        let mut text = format!(
            "{count} kernel{}, {} bytes read, {} bytes written, at most {} held at once\n",
            if count == 1 { "" } else { "s" },
            bytes(|kernel| &kernel.reads),
            bytes(|kernel| &kernel.writes),
            self.peak
        );
        for (at, kernel) in self.kernels.iter().enumerate() {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{}. {}", at + 1, kernel.what);
            let reads: Vec<String> = kernel.reads.iter().map(|&vertex| self.array(vertex)).collect();
            if !reads.is_empty() {
                let _ = writeln!(text, "   reads {}", reads.join(", "));
            }
            for &vertex in &kernel.writes {
                let _ = writeln!(text, "   writes {}{}", self.array(vertex), self.reason(vertex));
            }
        }
        text
    }

    fn bytes(&self, vertex: usize) -> usize {
        let array = &self.graph[vertex].array;
        array.len() * array.dtype().bytes() as usize
    }

    fn array(&self, vertex: usize) -> String {
        let array = &self.graph[vertex].array;
        format!("{} {:?}", array.dtype(), array.shape())
    }

    /// Why a result that nobody asks for is written.
    fn reason(&self, vertex: usize) -> String {
        if self.graph[vertex].is_target {
            return String::new();
        }
        let readers = self.kernels.iter().enumerate().filter(|(_, kernel)| kernel.reads.contains(&vertex));
        let reason = |(at, kernel): (usize, &Kernel)| {
            let of_library =
                kernel.writes.iter().find_map(|&made| self.graph[made].op().filter(|op| op.is_library()));
            let is_made_by_library = self.graph[vertex].op().is_some_and(Op::is_library);
            let why = match of_library {
                Some(op) => format!("{} reads it from memory", op.name()),
                None if is_made_by_library => {
                    "which reads it in another order, combines it, or is not its only reader".to_owned()
                }
                None => "which counts over other axes, or reads it in another order".to_owned(),
            };
            format!(" for kernel {}: {why}", at + 1)
        };
        readers.map(reason).next().unwrap_or_default()
    }
}

fn kernel(graph: &Graph, plan: &Plan, step: &Step) -> Kernel {
    match step {
        Step::Library { vertex, also } => {
            let part = Part::Library { vertex: *vertex };
            let name = graph[*vertex].op().map_or("", |op| op.name());
            let of = match graph[*vertex].op() {
                Some(Op::Kernel(_)) => "a function of the program",
                _ => "the kernel library",
            };
            let what = format!("{name}: by {of}");
            let writes = [Some(*vertex), *also].into_iter().flatten().collect();
            Kernel { what, reads: plan.partition.reads(graph, &part), writes }
        }
        Step::Fused(fused) => {
            let part = Part::Library { vertex: fused.product };
            let mut reads = plan.partition.reads(graph, &part);
            reads.extend(fused.operands.iter().map(|view| view.vertex));
            let count = fused.chain.stages.iter().filter(|stage| stage.is_work()).count();
            let name = graph[fused.result].op().map_or("", |op| op.name());
            let are = if count == 1 { "is" } else { "are" };
            let count = counted(count);
            let what = format!("matmul: by the kernel library; {count} up to {name} {are} its epilogue");
            Kernel { what, reads, writes: vec![fused.result] }
        }
        Step::Kernel(launch) => {
            let mut reads: Vec<usize> = launch.inputs.iter().map(|view| view.vertex).collect();
            reads.sort_unstable();
            reads.dedup();
            let writes: Vec<usize> = launch.outputs.iter().map(|view| view.vertex).collect();
            let name = writes.last().and_then(|&vertex| graph[vertex].op()).map_or("kernel", |op| op.name());
            let of = plan.partition.parts.iter().find_map(|part| match part {
                Part::Kernel { group, body } if writes.iter().all(|&made| group.member(made).is_some()) => {
                    Some(operations(graph, group, body))
                }
                Part::Kernel { .. } | Part::Library { .. } => None,
            });
            let mut what = format!("array_{name}: {}", of.unwrap_or_default());
            let row = launch.program.rows_extent(&launch.numbers);
            let _ = match launch.program.columns {
                Columns::Grid => Ok(()),
                Columns::Whole => write!(what, ", rows of {row} in a tile"),
                Columns::Loop => write!(what, ", rows of {row} in loops"),
            };
            Kernel { what, reads, writes }
        }
    }
}

/// What a group combines, and how many operations it has.
fn operations(graph: &Graph, group: &Group, body: &Body) -> String {
    let mut combined: BTreeMap<usize, &str> = BTreeMap::new();
    for member in &group.members {
        if let Some(op) = graph[member.vertex].op().filter(|op| op.is_row_wise()) {
            combined.insert(member.vertex, op.name());
        }
    }
    let is_work = |value: &&Value| match value {
        Value::Literal(_) | Value::Index(_) | Value::Read { .. } => false,
        Value::Unary(..)
        | Value::Binary(..)
        | Value::Compare(..)
        | Value::Select(_)
        | Value::Cast(..)
        | Value::Reduce(..)
        | Value::CumSum { .. }
        | Value::Checked { .. } => true,
    };
    let count = body.values.iter().filter(is_work).count();
    let names: Vec<&str> = combined.into_values().collect();
    let of = if names.is_empty() { String::new() } else { format!("{}; ", names.join(", ")) };
    format!("{of}{}", counted(count))
}

fn counted(operations: usize) -> String {
    format!("{operations} operation{}", if operations == 1 { "" } else { "s" })
}
