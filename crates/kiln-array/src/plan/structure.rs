//! The structure of a graph, in words.
//!
//! It is all that a plan depends on: operations, element types, shapes, what reads what, what is in
//! memory, what is asked for, the devices. Numbers that are arguments of kernels are not part of
//! it, but for which of them are equal. Graphs of equal words have one plan.

use super::hash::OfWords;
use super::program::is_part_of_code;
use crate::error::{Error, Result};
use crate::node::{Array, Recipe, Seen, Walk};
use crate::op::Op;
use kiln_ir::{Literal, UnaryOp};
use kiln_runtime::{Device, DynTensor};
use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

/// The arrays that targets are made of, and their structure.
#[derive(Default)]
pub(crate) struct Structure {
    /// Inputs before what is made of them.
    pub(crate) arrays: Vec<Array>,
    /// Of those whose elements are there, the elements.
    pub(crate) tensors: Vec<Option<Arc<DynTensor>>>,
    /// The positions of what is asked for and not computed yet, in order.
    pub(crate) targets: Vec<usize>,
    /// The numbers that kernels take as arguments, each once.
    pub(crate) constants: Vec<Literal>,
    pub(crate) words: Vec<u64>,
    slots: HashMap<Literal, usize, OfWords>,
    devices: Vec<Device>,
}

impl Structure {
    /// The structure of what targets are made of.
    ///
    /// # Errors
    /// The error of a target that has one, or that depends on what `vmap` maps over.
    pub(crate) fn of(targets: &[&Array]) -> Result<Structure> {
        let mut structure = Structure::default();
        let walk = Walk::begin();
        for &target in targets {
            if !target.is_lazy()? {
                continue;
            }
            let at = structure.visit(target, &walk)?;
            if structure.tensors[at].is_none() {
                structure.targets.push(at);
            }
        }
        structure.targets.sort_unstable();
        structure.targets.dedup();
        structure.words.extend(structure.targets.iter().map(|&at| at as u64));
        structure.words.push(structure.targets.len() as u64);
        Ok(structure)
    }

    /// All devices that arrays are on.
    pub(crate) fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The device of what is asked for; `None` if nothing is.
    pub(crate) fn device(&self) -> Option<&Device> {
        self.targets.first().and_then(|&target| self.arrays[target].device())
    }

    /// Adds an array and what it is made of, without recursion: chains are long.
    fn visit(&mut self, root: &Array, walk: &Walk) -> Result<usize> {
        let mut pending = vec![root.clone()];
        // Small graphs need no more.
        self.words.reserve(256);
        self.arrays.reserve(32);
        self.tensors.reserve(32);
        while let Some(array) = pending.pop() {
            if walk.position(&array).is_some() {
                continue;
            }
            let from = pending.len();
            let tensor = array.look(|seen| match seen {
                Seen::Tensor(tensor) => Ok(Some(tensor.clone())),
                Seen::Recipe(Recipe { op: Op::Mapped, .. }) => Err(Error::Mapped { location: array.site() }),
                Seen::Recipe(recipe) => {
                    let inputs = recipe.read_inputs();
                    let missing = inputs.iter().rev().filter(|input| walk.position(input).is_none());
                    pending.extend(missing.cloned());
                    if pending.len() == from {
                        self.describe(&array, recipe, walk);
                    }
                    Ok(None)
                }
            })??;
            if pending.len() > from {
                // Again, after its inputs.
                pending.insert(from, array);
                continue;
            }
            if tensor.is_some() {
                self.head(&array, 0, 0);
                self.place_on(&array);
            }
            walk.place(&array, self.arrays.len());
            self.arrays.push(array);
            self.tensors.push(tensor);
        }
        Ok(walk.position(root).unwrap_or_default())
    }

    /// The words of an array that is to be computed.
    fn describe(&mut self, array: &Array, recipe: &Recipe, walk: &Walk) {
        let lists: &[&[usize]] = match &recipe.op {
            Op::Permute(axes) | Op::Flip(axes) | Op::Reduce { axes, .. } => &[axes],
            Op::Slice { start, step } => &[start, step],
            Op::Pad { before } => &[before],
            Op::Windows { step, .. } => &[slice::from_ref(step)],
            Op::Full(_)
            | Op::Iota { .. }
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Cast
            | Op::Broadcast
            | Op::Reshape
            | Op::CumSum { .. }
            | Op::Take { .. }
            | Op::Product
            | Op::ArgSort { .. }
            | Op::AddParts
            | Op::Attention { .. }
            | Op::AttentionSums { .. }
            | Op::AttentionGradient { .. }
            | Op::Decode
            | Op::Kernel(_)
            | Op::Mapped
            | Op::Variable
            | Op::Stop
            | Op::After
            | Op::Custom => &[],
        };
        let (kind, detail) = self.kind(&recipe.op);
        self.head(array, kind, detail);
        for list in lists {
            self.words.push(list.len() as u64);
            self.words.extend(list.iter().map(|&number| number as u64));
        }
        if recipe.inputs.is_empty() {
            self.place_on(array);
        }
        let inputs = recipe.read_inputs().iter().filter_map(|input| walk.position(input));
        self.words.extend(inputs.map(|at| at as u64));
    }

    /// A number for the kind of an operation, and one for what it has beside lists.
    fn kind(&mut self, op: &Op) -> (u64, u64) {
        match op {
            Op::Full(literal) if is_part_of_code(*literal) => (1, literal.bits()),
            Op::Full(literal) => (2, self.slot(*literal)),
            Op::Iota { axis } => (3, *axis as u64),
            Op::Unary(op) => (4, UnaryOp::ALL.iter().position(|other| other == op).map_or(0, |at| at as u64)),
            Op::Binary(op) => (5, *op as u64),
            Op::Compare(op) => (6, *op as u64),
            Op::Select => (7, 0),
            Op::Cast => (8, 0),
            Op::Broadcast => (9, 0),
            Op::Reshape => (10, 0),
            Op::Permute(_) => (11, 0),
            Op::Slice { .. } => (12, 0),
            Op::Flip(_) => (13, 0),
            Op::Pad { .. } => (14, 0),
            Op::Reduce { op, numbers_only, .. } => (15, (*op as u64) << 1 | u64::from(*numbers_only)),
            Op::CumSum { axis, reverse } => (16, (*axis as u64) << 1 | u64::from(*reverse)),
            Op::Take { axis } => (17, *axis as u64),
            Op::Product => (18, 0),
            Op::ArgSort { descending } => (19, (*descending).into()),
            Op::Variable => (20, 0),
            Op::Stop => (21, 0),
            Op::Custom => (22, 0),
            Op::AddParts => (23, 0),
            Op::Windows { axis, .. } => (24, *axis as u64),
            Op::Attention { causal } => (25, (*causal).into()),
            Op::AttentionSums { causal } => (26, (*causal).into()),
            Op::AttentionGradient { causal } => (27, (*causal).into()),
            Op::Mapped => (28, 0),
            Op::After => (29, 0),
            Op::Decode => (30, 0),
            Op::Kernel(kernel) => (31, kernel.number),
        }
    }

    fn head(&mut self, array: &Array, kind: u64, detail: u64) {
        let shape = array.shape();
        self.words.extend([kind | (array.dtype() as u64) << 8 | (shape.len() as u64) << 16, detail]);
        self.words.extend(shape.iter().map(|&extent| extent as u64));
    }

    /// The number of a constant among those that are arguments.
    fn slot(&mut self, literal: Literal) -> u64 {
        let next = self.constants.len();
        let slot = *self.slots.entry(literal).or_insert(next);
        if slot == next {
            self.constants.push(literal);
        }
        slot as u64
    }

    /// Which device an array is on: what kernels are made for. Of one that was not met before, its
    /// name.
    fn place_on(&mut self, array: &Array) {
        let Some(device) = array.device() else { return };
        let known = self.devices.iter().position(|other| other == device);
        self.words.push(known.unwrap_or(self.devices.len()) as u64);
        if known.is_none() {
            let name = device.id().as_bytes();
            self.words.push(name.len() as u64);
            let (words, rest) = name.as_chunks::<8>();
            self.words.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
            self.words.extend(rest.iter().map(|&byte| u64::from(byte)));
            self.devices.push(device.clone());
        }
    }
}
