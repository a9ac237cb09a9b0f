//! The variables that views, allocations and scratch memory lie in.

use crate::body::Expr;
use crate::matrices::{is_factor, multiplies};
use crate::parameters::Parameter;
use crate::regions::{Cell, Region, RegionBase, Uses, uses};
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{LinearOp, OpKind, Operand, Scalar as Elem, Space, Value, lies_in_fragments};
use naga::{
    AddressSpace, GlobalVariable, Handle, ResourceBinding, Scalar, Span, StorageAccess, Type, VectorSize,
};
use std::collections::{BTreeMap, BTreeSet};

/// Words of the longest vector.
const WORDS_OF_VECTOR: u32 = 4;

impl Writer<'_> {
    /// Declares what the kernel's views lie in. Views of global memory are bound from `binding` on,
    /// in the order of the parameters.
    pub(crate) fn declare_memory(&mut self, binding: u32) -> Result<()> {
        let uses = uses(self.kernel);
        let args = self.kernel.block(self.kernel.body).args.clone();
        let mut bindings = binding..;
        let in_words = multiplies(self.kernel) && self.factors_may_be_words();
        let is_copied = in_words && self.has_whole_vectors(&uses);
        for (i, &arg) in args.iter().enumerate() {
            let param = &self.kernel.params[i];
            let Some(view) = param.ty.as_view() else { continue };
            let used = uses.get(&RegionBase::View(arg)).cloned().unwrap_or_default();
            self.regions.shares_storage |= used.reads && used.writes;
            let held = self.features.stored(view.elem);
            let mut access = StorageAccess::LOAD;
            access.set(StorageAccess::STORE, param.mutable);
            let binding = bindings.next().map(|binding| ResourceBinding { group: 0, binding });
            let (space, name) = (AddressSpace::Storage { access }, param.name.clone());
            let base = self.parameter(Parameter::Offset(i));
            let copied = is_copied && self.is_copied(arg);
            let cell = if copied { Cell::WordVectors(VectorSize::Quad) } else { used.cell(held) };
            let region = self.global(name, space, binding, cell, None);
            self.regions.views.insert(arg, Region { base, ..region });
        }
        if let Some(used) = uses.get(&RegionBase::Scratch) {
            let one = if used.elems.len() == 1 { used.elems.first().copied() } else { None };
            let held = one.and_then(|elem| self.features.stored(elem));
            let cell = used.cell(held);
            let length = self.kernel.scratch_bytes.div_ceil(cell.element().0.width.into());
            let scratch = self.global("scratch".into(), AddressSpace::WorkGroup, None, cell, Some(length));
            self.declare_views_of_scratch(scratch);
        }
        self.declare_allocations(&uses);
        Ok(())
    }

    fn declare_views_of_scratch(&mut self, scratch: Region) {
        let mut views = Vec::new();
        let kernel = self.kernel;
        kernel.walk(|_, data| {
            if let (OpKind::Scratch { offset }, [view]) = (&data.kind, &data.results[..]) {
                views.push((*view, offset / kernel.ty(*view).elem().bytes()));
            }
        });
        for (view, first) in views {
            let base = (first > 0).then(|| self.body.u32(first));
            self.regions.views.insert(view, Region { base, ..scratch });
        }
    }

    fn declare_allocations(&mut self, uses: &BTreeMap<RegionBase, Uses>) {
        let mut allocations = Vec::new();
        self.kernel.walk(|_, data| {
            if let (OpKind::Alloc { space, elem, shape }, [view]) = (&data.kind, &data.results[..]) {
                allocations.push((*view, *space, *elem, shape.len() as u32));
            }
        });
        for (view, space, elem, length) in allocations {
            if lies_in_fragments(self.kernel, view) {
                self.declare_sums(view);
                continue;
            }
            let used = uses.get(&RegionBase::View(view)).cloned().unwrap_or_default();
            // Nobody else sees how an element lies in memory: it lies there as a value does.
            let has = self.features.missing(elem).is_none();
            // Drivers of NVIDIA's make wrong code of bools in workgroup memory.
            let held =
                has.then(|| if elem == Elem::Bool { Scalar::U32 } else { self.features.register(elem) });
            let cell = match used.scalar_cell(held) {
                _ if is_factor(self.kernel, view) => self.factor_cell(self.has_whole_vectors(uses)),
                Cell::Words(_) if held.is_none() => Cell::Plain(Scalar::U32),
                cell => cell,
            };
            let region = if space == Space::Local {
                let (scalar, atomic) = cell.element();
                let ty = self.array_type(scalar, atomic, Some(length));
                Region { array: self.body.variable("local", ty, None), cell, base: None }
            } else {
                let words = if cell.is_words() { (length * elem.bytes()).div_ceil(4) } else { length };
                self.global("shared".into(), AddressSpace::WorkGroup, None, cell, Some(words.max(1)))
            };
            self.regions.views.insert(view, region);
        }
    }

    /// Whether all stores to factors of products on matrix units are of whole vectors of words.
    fn has_whole_vectors(&self, uses: &BTreeMap<RegionBase, Uses>) -> bool {
        let of_factors = uses.iter().filter(|(base, _)| match base {
            RegionBase::View(view) => is_factor(self.kernel, *view),
            RegionBase::Scratch => false,
        });
        of_factors.into_iter().all(|(_, used)| used.has_whole_vectors())
    }

    /// Whether a view of f16 is only read to be stored to factors of products on matrix units, in
    /// whole vectors of words: its elements are moved as words then.
    fn is_copied(&self, view: Value) -> bool {
        let kernel = self.kernel;
        let (mut loaded, mut stays) = (BTreeSet::new(), kernel.ty(view).elem() == Elem::F16);
        kernel.walk(|_, data| {
            if data.named(Operand::View).first() != Some(&view) {
                return;
            }
            if let OpKind::Linear { op: LinearOp::Load { lanes, .. }, .. } = data.kind {
                stays &= lanes.is_multiple_of(WORDS_OF_VECTOR * 2);
                loaded.extend(data.results.iter().copied());
            } else {
                stays &= matches!(data.kind, OpKind::Extent(_) | OpKind::Stride(_));
            }
        });
        kernel.walk(|_, data| {
            let copies = matches!(data.kind, OpKind::Linear { op: LinearOp::Store { .. }, .. })
                && is_factor(kernel, data.view());
            let uses = data.operands.iter().any(|operand| loaded.contains(operand));
            stays &= copies || !uses;
        });
        stays && !loaded.is_empty()
    }

    fn global(
        &mut self,
        name: String,
        space: AddressSpace,
        binding: Option<ResourceBinding>,
        cell: Cell,
        length: Option<u32>,
    ) -> Region {
        let ty = self.cells_type(cell, length);
        Region { array: self.array_variable(name, space, binding, ty), cell, base: None }
    }

    /// A variable of the module that is an array, as a pointer.
    pub(crate) fn array(
        &mut self,
        name: String,
        space: AddressSpace,
        binding: Option<ResourceBinding>,
        (scalar, atomic): (Scalar, bool),
        length: Option<u32>,
    ) -> Expr {
        let ty = self.array_type(scalar, atomic, length);
        self.array_variable(name, space, binding, ty)
    }

    fn array_variable(
        &mut self,
        name: String,
        space: AddressSpace,
        binding: Option<ResourceBinding>,
        ty: Handle<Type>,
    ) -> Expr {
        let memory_decorations = naga::MemoryDecorations::empty();
        let variable =
            GlobalVariable { name: Some(name), space, binding, ty, init: None, memory_decorations };
        let variable = self.module.global_variables.append(variable, Span::UNDEFINED);
        self.body.add(naga::Expression::GlobalVariable(variable))
    }

    /// The region of a view.
    pub(crate) fn region(&self, view: Value) -> Result<Region> {
        let region = self.regions.views.get(&view).copied();
        region.ok_or_else(|| self.internal(format!("the view {view} is in no region")))
    }
}
