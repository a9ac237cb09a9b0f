//! The module under construction: which expression each value of the kernel is, and errors.

use crate::body::{Body, Expr};
use crate::exit_points::ExitPoints;
use crate::features::Features;
use crate::long::PairFunction;
use crate::narrow::Ranges;
use crate::parameters::Parameters;
use crate::regions::{Cell, Regions};
use crate::report::Site;
use crate::rounds::loop_limit;
use kiln_backend::{Error, Result};
use kiln_ir::{Kernel, OpData, Scalar as Elem, Uniformity, Value};
use naga::{ArraySize, Function, GlobalVariable, Handle, Scalar, Span, Type, TypeInner};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// What errors call the device.
const DEVICE: &str = "this GPU through wgpu";

/// The threads' positions, which are found when something asks for them.
#[derive(Default)]
pub(crate) struct Builtins {
    pub(crate) local_id: Option<Expr>,
    pub(crate) local_index: Option<Expr>,
    pub(crate) group_id: Option<Expr>,
    /// The index of the block in the launch's grid.
    pub(crate) program: Option<Expr>,
    pub(crate) subgroup_id: Option<Expr>,
    pub(crate) subgroup_lane: Option<Expr>,
}

pub(crate) struct Writer<'k> {
    pub(crate) kernel: &'k Kernel,
    pub(crate) features: Features,
    pub(crate) block: [u32; 3],
    pub(crate) module: naga::Module,
    pub(crate) body: Body,
    pub(crate) parameters: Parameters,
    /// Of the 64-bit integers that are held in 32 bits.
    pub(crate) ranges: Ranges,
    pub(crate) regions: Regions,
    pub(crate) builtins: Builtins,
    pub(crate) uniformity: Uniformity,
    /// Workgroup variables through which lanes exchange words and votes, once there are any.
    pub(crate) exchange: Option<Expr>,
    pub(crate) votes: Option<Expr>,
    /// Where threads may leave, and the variables by which they do.
    pub(crate) exits: ExitPoints,
    pub(crate) left: Option<Expr>,
    pub(crate) faulted: Option<Expr>,
    pub(crate) deciding: Option<[Expr; 2]>,
    /// A word that is zero, which no driver can assume; if results are hidden from it.
    pub(crate) zero: Option<Expr>,
    /// After how many rounds the driver ends loops, if the kernel may make as many.
    pub(crate) round_limit: Option<u32>,
    /// The number of the site of a loop that the driver ended, and 1; or 0. A pointer.
    pub(crate) cut: Option<Expr>,
    /// The report's buffer, its functions, and the places that report.
    pub(crate) report: Option<Handle<GlobalVariable>>,
    pub(crate) claim_function: Option<Handle<Function>>,
    pub(crate) print_function: Option<Handle<Function>>,
    pub(crate) sites: Vec<Site>,
    /// The type of fragments of sums, and their variables, by allocation.
    pub(crate) sums: BTreeMap<Value, (Handle<Type>, Vec<Expr>)>,
    /// Expressions that are a half of a word, the lower one or not.
    pub(crate) halves: BTreeMap<Expr, (Expr, bool)>,
    /// Functions of 64-bit integers that are pairs of words.
    pub(crate) pair_functions: BTreeMap<PairFunction, Handle<Function>>,
    /// By value of the kernel.
    values: Vec<Option<Expr>>,
}

impl<'k> Writer<'k> {
    pub(crate) fn new(kernel: &'k Kernel, features: Features, block: [u32; 3]) -> Writer<'k> {
        let uniformity = Uniformity::of(kernel);
        Writer {
            kernel,
            features,
            block,
            module: naga::Module::default(),
            body: Body::default(),
            parameters: Parameters::default(),
            ranges: if features.int64 { Ranges::default() } else { Ranges::of(kernel) },
            regions: Regions::default(),
            builtins: Builtins::default(),
            exits: ExitPoints::of(kernel, features, &uniformity),
            uniformity,
            exchange: None,
            votes: None,
            left: None,
            faulted: None,
            deciding: None,
            zero: None,
            round_limit: loop_limit(kernel, features.loop_rounds),
            cut: None,
            report: None,
            claim_function: None,
            print_function: None,
            sites: Vec::new(),
            sums: BTreeMap::new(),
            halves: BTreeMap::new(),
            pair_functions: BTreeMap::new(),
            values: vec![None; kernel.counts().0],
        }
    }

    pub(crate) fn type_of(&mut self, inner: TypeInner) -> Handle<Type> {
        self.module.types.insert(Type { name: None, inner }, Span::UNDEFINED)
    }

    pub(crate) fn scalar_type(&mut self, scalar: Scalar) -> Handle<Type> {
        match self.is_pair(scalar) {
            true => self.pair_type(),
            false => self.type_of(TypeInner::Scalar(scalar)),
        }
    }

    /// An array of scalars or atomics; without a length it reaches to the end of its buffer.
    pub(crate) fn array_type(&mut self, scalar: Scalar, atomic: bool, length: Option<u32>) -> Handle<Type> {
        let base = if atomic { self.type_of(TypeInner::Atomic(scalar)) } else { self.scalar_type(scalar) };
        self.array_of(base, scalar.width.into(), length)
    }

    /// The type of an array of cells with so many scalars in all.
    pub(crate) fn cells_type(&mut self, cell: Cell, scalars: Option<u32>) -> Handle<Type> {
        let (scalar, atomic) = cell.element();
        let Some(size) = cell.vector() else { return self.array_type(scalar, atomic, scalars) };
        let vector = self.type_of(TypeInner::Vector { size, scalar });
        let count = u32::from(size as u8);
        self.array_of(vector, count * u32::from(scalar.width), scalars.map(|scalars| scalars.div_ceil(count)))
    }

    fn array_of(&mut self, base: Handle<Type>, stride: u32, length: Option<u32>) -> Handle<Type> {
        let size = match length {
            // An allocation of no elements has no element that is accessed.
            Some(length) => ArraySize::Constant(NonZeroU32::new(length).unwrap_or(NonZeroU32::MIN)),
            None => ArraySize::Dynamic,
        };
        self.type_of(TypeInner::Array { base, size, stride })
    }

    /// How many threads a block has.
    pub(crate) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    pub(crate) fn define(&mut self, value: Value, expr: Expr) {
        self.values[value.index()] = Some(expr);
    }

    /// Defines the only result of an operation.
    pub(crate) fn set(&mut self, op: &OpData, expr: Expr) {
        if let [result] = op.results[..] {
            self.define(result, expr);
        }
    }

    pub(crate) fn get(&self, value: Value) -> Result<Expr> {
        self.values[value.index()]
            .ok_or_else(|| self.internal(format!("{value} is used before it is defined")))
    }

    pub(crate) fn elem(&self, value: Value) -> Elem {
        self.kernel.ty(value).elem()
    }

    /// The type in which a value is held. Without 64-bit integers, indices are of 32 bits.
    pub(crate) fn scalar(&self, op: &OpData, value: Value) -> Result<Scalar> {
        match (self.is_narrow(value), self.elem(value)) {
            (true, Elem::U64) => Ok(Scalar::U32),
            (true, _) => Ok(self.index_scalar()),
            (false, elem) => self.require(Some(op), elem),
        }
    }

    /// The type of indices: 64 bits where the adapter has them.
    pub(crate) fn index_scalar(&self) -> Scalar {
        if self.features.int64 { Scalar::I64 } else { Scalar::I32 }
    }

    /// Whether a value of 64 bits is held in 32.
    pub(crate) fn is_narrow(&self, value: Value) -> bool {
        !self.features.int64 && self.ranges.has(value)
    }

    /// The type in which values of an element type are held, if the adapter has it.
    pub(crate) fn require(&self, op: Option<&OpData>, elem: Elem) -> Result<Scalar> {
        match self.features.missing(elem) {
            None => Ok(self.features.register(elem)),
            Some(feature) => Err(self.refuse(op, format!("{elem}, the feature {feature}"), "")),
        }
    }

    /// The error for an operation that cannot be compiled for this adapter.
    pub(crate) fn unsupported(&self, op: &OpData, what: impl Into<String>, hint: &str) -> Error {
        self.refuse(Some(op), what.into(), hint)
    }

    fn refuse(&self, op: Option<&OpData>, what: String, hint: &str) -> Error {
        let hint = if hint.is_empty() { "Use a device that has it." } else { hint };
        Error::Unsupported {
            kernel: self.kernel.name.clone(),
            what,
            device: DEVICE.into(),
            location: self.kernel.describe(op.map(|op| op.loc).unwrap_or_default()),
            hint: hint.into(),
        }
    }

    pub(crate) fn internal(&self, message: String) -> Error {
        Error::Internal { place: "the writer of naga modules", message }
    }
}
