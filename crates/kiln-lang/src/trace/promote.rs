//! Variables to SSA: a trace becomes a kernel of the IR.
//!
//! One walk in order. [`Held`] maps each variable to its value here; a region that writes a
//! variable which is read later yields it, and a loop carries it.

use super::item::{Id, Item, Loop, NameItem, NamedAs, Raw, Region, UnrolledBody, Var};
use super::liveness;
use super::naming::records_names;
use super::recorder::Recorder;
use super::site::Site;
use super::var_set::VarSet;
use kiln_ir::{Block, ExplicitOp, Kernel, Level, Literal, Loc, Named, Naming, OpKind, Task, Type, Value};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The kernel that a finished trace describes.
pub(super) fn promote(mut recorder: Recorder) -> Kernel {
    let mut body = recorder.close();
    liveness::annotate(&mut body, &VarSet::default());
    if records_names() {
        let mut kept = VarSet::default();
        liveness::named(&body, &mut kept);
        // A tile in code over threads may be written where only some threads are.
        let tiles = matches!(recorder.level, Level::Tile { .. });
        kept.retain(|var| {
            recorder.vars[var.0 as usize].as_tile().is_some_and(|ty| tiles || ty.shape.rank() == 0)
        });
        liveness::keep(&mut body, &kept);
    }
    let mut kernel = Kernel::new(std::mem::take(&mut recorder.name), recorder.level);
    kernel.messages = std::mem::take(&mut recorder.messages);
    kernel.cluster = recorder.cluster;
    kernel.contract = recorder.contract;
    let mut values = FxHashMap::with_capacity_and_hasher(recorder.types.len(), Default::default());
    for (param, id) in std::mem::take(&mut recorder.params) {
        values.insert(id, kernel.add_param(param));
    }
    let block = kernel.body;
    let held = Held { values: vec![None; recorder.vars.len()], undo: Vec::new() };
    let mut promoter = Promoter { kernel, values, recorder: &recorder, held, names: BTreeMap::new() };
    promoter.region(&body, block);
    promoter.kernel
}

/// The value that each variable holds, and how to go back to what they held before a region.
pub(super) struct Held {
    values: Vec<Option<Value>>,
    undo: Vec<(Var, Option<Value>)>,
}

impl Held {
    fn set(&mut self, var: Var, value: Value) {
        let old = self.values[var.0 as usize].replace(value);
        self.undo.push((var, old));
    }

    fn get(&self, var: Var) -> Option<Value> {
        self.values[var.0 as usize]
    }

    /// The length of the log.
    pub(super) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Forgets what was set since the log had this length.
    pub(super) fn back_to(&mut self, mark: usize) {
        for (var, old) in self.undo.drain(mark..).rev() {
            self.values[var.0 as usize] = old;
        }
    }
}

pub(super) struct Promoter<'a> {
    pub(super) kernel: Kernel,
    values: FxHashMap<Id, Value>,
    recorder: &'a Recorder,
    pub(super) held: Held,
    /// The names of each variable.
    names: BTreeMap<Var, Vec<Naming>>,
}

impl Promoter<'_> {
    pub(super) fn region(&mut self, region: &Region, block: Block) {
        for item in &region.items {
            match item {
                Item::Op { kind, operands, results, site } => {
                    let operands: Vec<Value> = operands.iter().map(|id| self.value(*id)).collect();
                    let types: Vec<Type> = results.iter().map(|id| self.type_of(*id)).collect();
                    let loc = self.loc(site);
                    let op = self.kernel.append(block, kind.clone(), &operands, &types, &[], loc);
                    for (i, id) in results.iter().enumerate() {
                        self.values.insert(*id, self.kernel.op(op).results[i]);
                    }
                }
                Item::Get { var, result } => {
                    let value = self.held(*var, block);
                    self.values.insert(*result, value);
                }
                Item::Set { var, value } => {
                    let value = self.value(*value);
                    self.held.set(*var, value);
                    self.rename(*var, block);
                }
                Item::Name(item) => self.name(item, block),
                Item::If { cond, then, otherwise, site, live } => {
                    self.branch(*cond, [then, otherwise], live, site, block)
                }
                Item::FaultRegion { budget, record, fault, body, site, live } => {
                    let operands = [*budget].into_iter().chain(*record);
                    let operands = operands.map(|id| self.value(id)).collect();
                    self.fault_region(operands, *fault, body, live, site, block)
                }
                Item::Tasks { tasks, site } => self.tasks(tasks, site, block),
                Item::Loop { head, body, site, live } => self.lower_loop(head, body, live, site, block),
            }
        }
    }

    fn branch(&mut self, cond: Id, arms: [&Region; 2], live: &[Var], site: Site, block: Block) {
        let cond = self.value(cond);
        let blocks = arms.map(|arm| {
            let inner = self.kernel.add_block();
            let mark = self.held.undo.len();
            self.region(arm, inner);
            self.terminate(inner, OpKind::Yield, &[], live, site);
            self.held.back_to(mark);
            inner
        });
        let types = self.types(live);
        let loc = self.loc(site);
        let op = self.kernel.append(block, OpKind::If, &[cond], &types, &blocks, loc);
        self.hand_on(op, 0, live, block);
    }

    /// The fallbacks are what the variables hold before.
    fn fault_region(
        &mut self,
        mut operands: Vec<Value>,
        fault: Id,
        body: &Region,
        live: &[Var],
        site: Site,
        block: Block,
    ) {
        for var in live {
            operands.push(self.held(*var, block));
        }
        let inner = self.kernel.add_block();
        let mark = self.held.undo.len();
        self.region(body, inner);
        self.terminate(inner, OpKind::Yield, &[], live, site);
        self.held.back_to(mark);
        let mut types = vec![self.type_of(fault)];
        types.extend(self.types(live));
        let loc = self.loc(site);
        let op = self.kernel.append(block, OpKind::FaultRegion, &operands, &types, &[inner], loc);
        self.values.insert(fault, self.kernel.result(op));
        self.hand_on(op, 1, live, block);
    }

    fn tasks(&mut self, tasks: &[(Task, Region)], site: Site, block: Block) {
        let mut blocks = Vec::new();
        for (_, region) in tasks {
            let inner = self.kernel.add_block();
            let mark = self.held.undo.len();
            self.region(region, inner);
            self.terminate(inner, OpKind::Yield, &[], &[], site);
            self.held.back_to(mark);
            blocks.push(inner);
        }
        let kind = OpKind::Explicit(ExplicitOp::Tasks(tasks.iter().map(|(task, _)| *task).collect()));
        let loc = self.loc(site);
        self.kernel.append(block, kind, &[], &[], &blocks, loc);
    }

    fn lower_loop(&mut self, head: &Loop, body: &Region, live: &[Var], site: Site, block: Block) {
        if let Loop::For { lo, hi, step, index, unroll } = *head
            && unroll > 1
            && let [lo, hi, step] = [lo, hi, step].map(|id| self.value(id))
            && let Some(step) = self.kernel.as_const(step)
        {
            let (rounds, step) = (unroll, step.as_i128());
            let body = UnrolledBody { index, rounds, step, region: body, live, site };
            if self.unrolled([lo, hi], &body, block) {
                return;
            }
        }
        let types = self.types(live);
        let mut operands = match head {
            Loop::For { lo, hi, step, .. } => vec![self.value(*lo), self.value(*hi), self.value(*step)],
            Loop::While { .. } => Vec::new(),
        };
        for var in live {
            operands.push(self.held(*var, block));
        }
        let mut blocks = Vec::new();
        if let Loop::While { test, cond } = head {
            let mark = self.held.undo.len();
            let inner = self.loop_block(None, live, &types);
            self.region(test, inner);
            let cond = self.value(*cond);
            self.terminate(inner, OpKind::Condition, &[cond], &[], site);
            self.held.back_to(mark);
            blocks.push(inner);
        }
        let index = match head {
            Loop::For { index, .. } => Some(*index),
            Loop::While { .. } => None,
        };
        let mark = self.held.undo.len();
        let inner = self.loop_block(index, live, &types);
        self.region(body, inner);
        self.terminate(inner, OpKind::Yield, &[], live, site);
        self.held.back_to(mark);
        blocks.push(inner);
        let kind = if index.is_some() { OpKind::For } else { OpKind::While };
        let loc = self.loc(site);
        let op = self.kernel.append(block, kind, &operands, &types, &blocks, loc);
        self.hand_on(op, 0, live, block);
    }

    /// A block of a loop, whose arguments are the index of a `for` and the carried variables.
    fn loop_block(&mut self, index: Option<Id>, live: &[Var], types: &[Type]) -> Block {
        let inner = self.kernel.add_block();
        if let Some(index) = index {
            let arg = self.kernel.add_arg(inner, self.type_of(index));
            self.values.insert(index, arg);
        }
        for (var, ty) in live.iter().zip(types) {
            let arg = self.kernel.add_arg(inner, ty.clone());
            self.hold(*var, arg, inner);
        }
        inner
    }

    pub(super) fn terminate(
        &mut self,
        block: Block,
        kind: OpKind,
        first: &[Value],
        live: &[Var],
        site: Site,
    ) {
        let mut operands = first.to_vec();
        for var in live {
            operands.push(self.held(*var, block));
        }
        let loc = self.loc(site);
        self.kernel.append(block, kind, &operands, &[], &[], loc);
    }

    /// The variables hold the results from `first` on.
    pub(super) fn hand_on(&mut self, op: kiln_ir::Op, first: usize, live: &[Var], block: Block) {
        for (i, var) in live.iter().enumerate() {
            self.hold(*var, self.kernel.op(op).results[first + i], block);
        }
    }

    /// Writes down a name for what it is bound to.
    fn name(&mut self, item: &NameItem, block: Block) {
        let what = match &item.what {
            NamedAs::Host(text) => Named::Host(text.clone()),
            NamedAs::Device(Raw::Const(literal)) => Named::Host(format!("{literal} {}", literal.elem())),
            NamedAs::Device(Raw::Value(id)) => match self.values.get(id) {
                Some(&value) => Named::Value(value),
                None => return,
            },
            NamedAs::Device(Raw::Var(var)) => Named::Value(self.held(*var, block)),
            NamedAs::Device(Raw::Poison) => return,
        };
        let Loc { file, line, .. } = self.loc(item.site);
        let at = self.kernel.block(block).ops.len();
        let naming = Naming { block, at, name: item.name.clone(), what, file, lines: (line, item.last) };
        if let NamedAs::Device(Raw::Var(var)) = item.what {
            self.names.entry(var).or_default().push(naming.clone());
        }
        self.kernel.names.push(naming);
    }

    /// A recorded value is this one from here on.
    pub(super) fn bind(&mut self, id: Id, value: Value) {
        self.values.insert(id, value);
    }

    /// A variable holds a value from here on.
    pub(super) fn hold(&mut self, var: Var, value: Value, block: Block) {
        self.held.set(var, value);
        self.rename(var, block);
    }

    /// The names of a variable stand for what it holds now.
    fn rename(&mut self, var: Var, block: Block) {
        let (Some(names), Some(value)) = (self.names.get(&var), self.held.get(var)) else { return };
        let at = self.kernel.block(block).ops.len();
        let again = |naming: &Naming| Naming { block, at, what: Named::Value(value), ..naming.clone() };
        self.kernel.names.extend(names.iter().map(again));
    }

    /// What a variable holds; zeros before its first write.
    pub(super) fn held(&mut self, var: Var, block: Block) -> Value {
        if let Some(value) = self.held.get(var) {
            return value;
        }
        let ty = self.recorder.vars[var.0 as usize].clone();
        let zero = OpKind::Const(Literal::zero(ty.elem()));
        let op = self.kernel.append(block, zero, &[], &[ty], &[], Loc::default());
        let value = self.kernel.result(op);
        self.held.set(var, value);
        value
    }

    /// The IR value of a recorded one, which an earlier step has made.
    fn value(&self, id: Id) -> Value {
        self.values[&id]
    }

    fn type_of(&self, id: Id) -> Type {
        self.recorder.types[id.0 as usize].clone()
    }

    pub(super) fn types(&self, vars: &[Var]) -> Vec<Type> {
        vars.iter().map(|v| self.recorder.vars[v.0 as usize].clone()).collect()
    }

    pub(super) fn loc(&mut self, site: Site) -> Loc {
        Loc { file: self.kernel.file(site.file()), line: site.line(), column: site.column() }
    }
}
