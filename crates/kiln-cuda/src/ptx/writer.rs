//! PTX text under construction: labels, instructions, and the state of a kernel that is written.

use super::explicit_state::ExplicitState;
use super::grid_state::GridState;
use super::records::Site;
use super::register::{Class, Reg, Registers};
use super::target::Target;
use kiln_backend::{Error, Result};
use kiln_ir::{Def, Kernel, OpData, OpKind, Scalar, Uniformity, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::{self, Write as _};

/// A branch target.
#[derive(Clone, Copy)]
pub(super) struct Label(u32);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$L{}", self.0)
    }
}

/// The mask of warp operations of a full warp.
pub(super) const ALL_LANES: &str = "0xffffffff";

/// The views that ordered loads read. An address is a view's and what is added to it, in any order.
fn watched(kernel: &Kernel) -> FxHashSet<Value> {
    let mut found = FxHashSet::default();
    let mut todo = Vec::new();
    let mut seen = FxHashSet::default();
    kernel.walk(|_, data| {
        if matches!(data.kind, OpKind::PtrOrderedLoad { .. }) {
            todo.push(data.address());
        }
    });
    while let Some(value) = todo.pop() {
        let Some(from) = kernel.defining_op(value).filter(|_| seen.insert(value)) else { continue };
        if from.kind == OpKind::Address {
            found.insert(from.view());
        } else {
            todo.extend(from.operands.iter().copied());
        }
    }
    found
}

pub(super) struct Writer<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) target: Target,
    pub(super) text: String,
    pub(super) registers: Registers,
    labels: u32,
    /// The lanes that take part in warp operations: a literal, or a register set at entry for a
    /// partial warp.
    pub(super) members: String,
    /// Sites of faults and prints, in order of their numbers.
    pub(super) sites: Vec<Site>,
    /// The reports of checks that end their thread, which stand behind the kernel's own code.
    pub(super) reports: String,
    /// Says whether a deferred check has failed in a thread of the task, in kernels that ask
    /// for it.
    pub(super) faulted: Option<Reg>,
    /// Holds in no lane, which the assembler does not know, in kernels that need it.
    pub(super) no_lane: Option<Reg>,
    /// Views with ordered loads: others write there while the kernel runs.
    pub(super) watched: FxHashSet<Value>,
    /// Byte offset of each `alloc` in shared or local memory, by value index.
    pub(super) offsets: Vec<Option<u32>>,
    /// What to add to a shared address for the generic one, in kernels that need it.
    pub(super) shared_window: Option<Reg>,
    /// The PTX ISA version that the newest instruction needs beyond those of the target.
    pub(super) version: (u32, u32),
    /// Of registers that hold one byte of a word that was loaded: the word, and which.
    pub(super) bytes_of_words: FxHashMap<Reg, (Reg, usize)>,
    /// Which operations only some threads reach, once it was asked.
    pub(super) uniformity: Option<Uniformity>,
    /// The `while` loops around what is being written.
    pub(super) while_loops: usize,
    /// For each loop around what is being written, how many registers of 32 bits there were before
    /// its body.
    before_loops: Vec<u32>,
    /// The state of the explicit level.
    pub(super) explicit: ExplicitState,
    /// What barriers of the grid need, in kernels that have them.
    pub(super) grid: Option<GridState>,
}

impl<'k> Writer<'k> {
    pub(super) fn new(kernel: &'k Kernel, target: Target) -> Writer<'k> {
        let values = kernel.counts().0;
        Writer {
            kernel,
            target,
            text: String::with_capacity(16 << 10),
            registers: Registers::new(values),
            labels: 0,
            members: ALL_LANES.into(),
            sites: Vec::new(),
            reports: String::new(),
            faulted: None,
            no_lane: None,
            watched: watched(kernel),
            offsets: vec![None; values],
            shared_window: None,
            version: (0, 0),
            bytes_of_words: FxHashMap::default(),
            uniformity: None,
            while_loops: 0,
            before_loops: Vec::new(),
            explicit: ExplicitState::default(),
            grid: None,
        }
    }

    /// Writes one instruction.
    pub(super) fn put(&mut self, instruction: fmt::Arguments<'_>) {
        self.text.push('\t');
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(instruction);
        self.text.push_str(";\n");
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    pub(super) fn place(&mut self, label: Label) {
        let _ = writeln!(self.text, "{label}:");
    }

    /// A fresh register.
    pub(super) fn reg(&mut self, class: Class) -> Reg {
        self.registers.fresh(class)
    }

    /// A fresh register for a value, which this defines.
    pub(super) fn define(&mut self, value: Value) -> Reg {
        // Values that share a register have it from the first of them on.
        let shared = self.shares_with(value);
        let known = shared.and_then(|class| self.explicit.registers.get(&class).copied());
        let reg = known.unwrap_or_else(|| self.reg(Class::of(self.kernel.ty(value).elem())));
        if let Some(class) = shared {
            self.explicit.registers.insert(class, reg);
        }
        self.registers.bind(value, reg);
        reg
    }

    /// The body of a loop is written from here on.
    pub(super) fn begin_loop(&mut self) {
        self.before_loops.push(self.registers.count(Class::B32));
    }

    /// The body of the innermost loop has been written.
    pub(super) fn end_loop(&mut self) {
        self.before_loops.pop();
    }

    /// Whether a value of 32 bits was computed before the loop that is being written, which then
    /// reads it in every turn.
    pub(super) fn outlives_turns(&self, value: Value, reg: Reg) -> bool {
        let computed = matches!(self.kernel.def(value), Def::Result(..));
        computed && self.before_loops.last().is_some_and(|&before| reg.is_one_of_first(before))
    }

    /// Lets a value be held by a register that is already there.
    pub(super) fn bind(&mut self, value: Value, reg: Reg) {
        self.registers.bind(value, reg);
    }

    /// The register of a value.
    pub(super) fn get(&self, value: Value) -> Result<Reg> {
        let kernel = &self.kernel.name;
        self.registers
            .get(value)
            .ok_or_else(|| broken(format!("value {value} of `{kernel}` is used before it is defined")))
    }

    /// The registers of an operation's operands.
    pub(super) fn operands(&self, op: &OpData) -> Result<Vec<Reg>> {
        op.operands.iter().map(|&v| self.get(v)).collect()
    }

    pub(super) fn elem(&self, value: Value) -> Scalar {
        self.kernel.ty(value).elem()
    }

    /// Copies a register into another of the same class.
    pub(super) fn mov(&mut self, to: Reg, from: Reg) {
        if to != from {
            self.put(format_args!("mov.{} {to}, {from}", to.class.bits()));
        }
    }

    /// The error for what this target or emitter does not have.
    pub(super) fn unsupported(&self, op: &OpData, what: impl Into<String>, hint: &str) -> Error {
        Error::Unsupported {
            kernel: self.kernel.name.clone(),
            what: what.into(),
            device: format!("sm_{}", self.target.capability()),
            location: self.kernel.describe(op.loc),
            hint: hint.into(),
        }
    }
}

/// The error for a kernel that no pass should have made.
pub(super) fn broken(message: impl Into<String>) -> Error {
    Error::Internal { place: "the PTX emitter", message: message.into() }
}
