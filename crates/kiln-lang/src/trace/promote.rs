//! Variables to SSA: a trace becomes a kernel of the IR.
//!
//! One walk in order. `held` maps each variable to the value it holds here; a region that writes a variable which is read
//! later yields it, and a loop carries it.

use super::item::{Id, Item, Loop, Region, Var};
use super::liveness;
use super::recorder::{Recorder, Site};
use kiln_ir::{Block, Kernel, Literal, Loc, OpKind, Type, Value};
use std::collections::{BTreeSet, HashMap};

/// The kernel that a finished trace describes.
pub(super) fn promote(mut recorder: Recorder) -> Kernel {
    let mut body = recorder.close();
    liveness::annotate(&mut body, &BTreeSet::new());
    let mut kernel = Kernel::new(std::mem::take(&mut recorder.name), recorder.level);
    kernel.messages = std::mem::take(&mut recorder.messages);
    let mut values = HashMap::new();
    for (param, id) in std::mem::take(&mut recorder.params) {
        values.insert(id, kernel.add_param(param));
    }
    let block = kernel.body;
    let mut promoter = Promoter { kernel, values, recorder: &recorder };
    promoter.region(&body, block, &mut HashMap::new());
    promoter.kernel
}

type Held = HashMap<Var, Value>;

struct Promoter<'a> {
    kernel: Kernel,
    values: HashMap<Id, Value>,
    recorder: &'a Recorder,
}

impl Promoter<'_> {
    fn region(&mut self, region: &Region, block: Block, held: &mut Held) {
        for item in &region.items {
            match item {
                Item::Op { kind, operands, result, site } => {
                    let operands: Vec<Value> = operands.iter().map(|id| self.value(*id)).collect();
                    let types: Vec<Type> = result.iter().map(|id| self.type_of(*id)).collect();
                    let loc = self.loc(site);
                    let op = self.kernel.append(block, kind.clone(), &operands, &types, &[], loc);
                    if let Some(id) = result {
                        self.values.insert(*id, self.kernel.result(op));
                    }
                }
                Item::Get { var, result } => {
                    let value = self.held(*var, block, held);
                    self.values.insert(*result, value);
                }
                Item::Set { var, value } => {
                    held.insert(*var, self.value(*value));
                }
                Item::If { cond, then, otherwise, site, live } => {
                    self.branch(*cond, [then, otherwise], live, site, block, held)
                }
                Item::Loop { head, body, site, live } => self.lower_loop(head, body, live, site, block, held),
            }
        }
    }

    fn branch(
        &mut self,
        cond: Id,
        arms: [&Region; 2],
        live: &[Var],
        site: Site,
        block: Block,
        held: &mut Held,
    ) {
        let cond = self.value(cond);
        let blocks = arms.map(|arm| {
            let inner = self.kernel.add_block();
            let mut held_inside = held.clone();
            self.region(arm, inner, &mut held_inside);
            self.terminate(inner, OpKind::Yield, &[], live, &mut held_inside, site);
            inner
        });
        let types = self.types(live);
        let loc = self.loc(site);
        let op = self.kernel.append(block, OpKind::If, &[cond], &types, &blocks, loc);
        self.hand_on(op, live, held);
    }

    fn lower_loop(
        &mut self,
        head: &Loop,
        body: &Region,
        live: &[Var],
        site: Site,
        block: Block,
        held: &mut Held,
    ) {
        let types = self.types(live);
        let mut operands = match head {
            Loop::For { lo, hi, step, .. } => vec![self.value(*lo), self.value(*hi), self.value(*step)],
            Loop::While { .. } => Vec::new(),
        };
        for var in live {
            operands.push(self.held(*var, block, held));
        }
        let mut blocks = Vec::new();
        if let Loop::While { test, cond } = head {
            let (inner, mut held_inside) = self.loop_block(None, live, &types, held);
            self.region(test, inner, &mut held_inside);
            let cond = self.value(*cond);
            self.terminate(inner, OpKind::Condition, &[cond], &[], &mut held_inside, site);
            blocks.push(inner);
        }
        let index = match head {
            Loop::For { index, .. } => Some(*index),
            Loop::While { .. } => None,
        };
        let (inner, mut held_inside) = self.loop_block(index, live, &types, held);
        self.region(body, inner, &mut held_inside);
        self.terminate(inner, OpKind::Yield, &[], live, &mut held_inside, site);
        blocks.push(inner);
        let kind = if index.is_some() { OpKind::For } else { OpKind::While };
        let loc = self.loc(site);
        let op = self.kernel.append(block, kind, &operands, &types, &blocks, loc);
        self.hand_on(op, live, held);
    }

    /// A block of a loop, whose arguments are the index of a `for` and the carried variables.
    fn loop_block(&mut self, index: Option<Id>, live: &[Var], types: &[Type], held: &Held) -> (Block, Held) {
        let inner = self.kernel.add_block();
        if let Some(index) = index {
            let arg = self.kernel.add_arg(inner, self.type_of(index));
            self.values.insert(index, arg);
        }
        let mut held = held.clone();
        for (var, ty) in live.iter().zip(types) {
            held.insert(*var, self.kernel.add_arg(inner, ty.clone()));
        }
        (inner, held)
    }

    fn terminate(
        &mut self,
        block: Block,
        kind: OpKind,
        first: &[Value],
        live: &[Var],
        held: &mut Held,
        site: Site,
    ) {
        let mut operands = first.to_vec();
        for var in live {
            operands.push(self.held(*var, block, held));
        }
        let loc = self.loc(site);
        self.kernel.append(block, kind, &operands, &[], &[], loc);
    }

    fn hand_on(&mut self, op: kiln_ir::Op, live: &[Var], held: &mut Held) {
        for (i, var) in live.iter().enumerate() {
            held.insert(*var, self.kernel.op(op).results[i]);
        }
    }

    fn held(&mut self, var: Var, block: Block, held: &mut Held) -> Value {
        if let Some(value) = held.get(&var) {
            return *value;
        }
        let ty = self.recorder.vars[var.0 as usize].clone();
        let zero = OpKind::Const(Literal::zero(ty.elem()));
        let op = self.kernel.append(block, zero, &[], &[ty], &[], Loc::default());
        let value = self.kernel.result(op);
        held.insert(var, value);
        value
    }

    /// The IR value of a recorded one, which an earlier step has made.
    fn value(&self, id: Id) -> Value {
        self.values[&id]
    }

    fn type_of(&self, id: Id) -> Type {
        self.recorder.types[id.0 as usize].clone()
    }

    fn types(&self, vars: &[Var]) -> Vec<Type> {
        vars.iter().map(|v| self.recorder.vars[v.0 as usize].clone()).collect()
    }

    fn loc(&mut self, site: Site) -> Loc {
        Loc { file: self.kernel.file(site.file()), line: site.line(), column: site.column() }
    }
}
