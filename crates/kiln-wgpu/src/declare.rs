//! The variables that views, allocations and scratch memory lie in.

use crate::body::Expr;
use crate::parameters::Parameter;
use crate::regions::{Cell, Region, RegionBase, Uses, uses};
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{OpKind, Scalar as Elem, Space, Value};
use naga::{AddressSpace, GlobalVariable, Handle, ResourceBinding, Scalar, Span, StorageAccess, Type};
use std::collections::BTreeMap;

impl Writer<'_> {
    /// Declares what the kernel's views lie in. Views of global memory are bound from `binding` on,
    /// in the order of the parameters.
    pub(crate) fn declare_memory(&mut self, binding: u32) -> Result<()> {
        let uses = uses(self.kernel);
        let args = self.kernel.block(self.kernel.body).args.clone();
        let mut bindings = binding..;
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
            let region = self.global(name, space, binding, used.cell(held), None);
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
            let used = uses.get(&RegionBase::View(view)).cloned().unwrap_or_default();
            // Nobody else sees how an element lies in memory: it lies there as a value does.
            let has = self.features.missing(elem).is_none();
            // Drivers of NVIDIA's make wrong code of bools in workgroup memory.
            let held =
                has.then(|| if elem == Elem::Bool { Scalar::U32 } else { self.features.register(elem) });
            let cell = match used.scalar_cell(held) {
                Cell::Words(_) if held.is_none() => Cell::Plain(Scalar::U32),
                cell => cell,
            };
            let region = if space == Space::Local {
                let (scalar, atomic) = cell.element();
                let ty = self.array_type(scalar, atomic, Some(length));
                Region { array: self.body.variable("local", ty, None), cell, base: None }
            } else {
                let words =
                    if matches!(cell, Cell::Words(_)) { (length * elem.bytes()).div_ceil(4) } else { length };
                self.global("shared".into(), AddressSpace::WorkGroup, None, cell, Some(words.max(1)))
            };
            self.regions.views.insert(view, region);
        }
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
