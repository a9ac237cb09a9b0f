//! What a launch must know of a compiled kernel: all of a module but its code.

use super::passes;
use crate::module::{Binding, Module};
use crate::narrow::Ranges;
use crate::parameters::{Field, Parameter};
use kiln_backend::{ArgumentCount, view_span};
use kiln_ir::Kernel;
use naga::{AddressSpace, StorageAccess};

/// How a compiled kernel is launched.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Interface {
    pub(crate) kernel: String,
    /// Where an error of the whole kernel is.
    pub(crate) location: String,
    /// The name of the entry point.
    pub(crate) entry: String,
    /// The block's extents.
    pub(crate) block: [u32; 3],
    /// Bytes of workgroup memory.
    pub(crate) shared: u32,
    pub(crate) params: Vec<ParamNumbers>,
    /// As [`Module::parameters`].
    pub(crate) parameters: Vec<Field>,
    /// As [`Module::parameter_bytes`].
    pub(crate) parameter_bytes: u32,
    /// As [`Module::has_immediates`].
    pub(crate) has_immediates: bool,
    /// As [`Module::bindings`].
    pub(crate) bindings: Vec<Binding>,
    /// Its bind group.
    pub(crate) slots: Vec<Slot>,
    /// The ranges of indices that are held in 32 bits.
    pub(crate) ranges: Ranges,
}

/// Where the buffer and the numbers of a parameter are in a launch.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ParamNumbers {
    pub(crate) name: String,
    pub(crate) is_view: bool,
    /// The place of its buffer, or of the next view's.
    pub(crate) buffer: usize,
    /// The place of its first number: a scalar, or the extents and then the strides of a view.
    pub(crate) first: usize,
    /// Axes of a view; 0 for a scalar.
    pub(crate) rank: usize,
    /// Bytes of an element.
    pub(crate) elem_bytes: u64,
}

/// A binding of a module's group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) binding: u32,
    pub(crate) holds: Holds,
}

/// What is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    /// The parameter block, with a dynamic offset.
    Parameters,
    /// A storage buffer that is read.
    Read,
    /// A storage buffer that is written too.
    Written,
}

impl Interface {
    /// That of a kernel and the module that was made of it.
    pub(crate) fn of(kernel: &Kernel, module: &Module) -> Interface {
        Interface {
            kernel: kernel.name.clone(),
            location: passes::first_line(kernel),
            entry: module.entry.clone(),
            block: module.block,
            shared: passes::shared_bytes(&module.naga),
            params: ParamNumbers::list(kernel),
            parameters: module.parameters.clone(),
            parameter_bytes: module.parameter_bytes,
            has_immediates: module.has_immediates,
            bindings: module.bindings.clone(),
            slots: slots(&module.naga),
            ranges: module.ranges.clone(),
        }
    }

    /// What a launch carries.
    pub(crate) fn arguments(&self) -> ArgumentCount {
        ArgumentCount {
            buffers: self.params.iter().filter(|param| param.is_view).count(),
            numbers: self.params.iter().map(ParamNumbers::count).sum(),
        }
    }

    /// Whether a launch can give a field of the parameter block its value.
    #[cfg_attr(
        not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")),
        allow(dead_code)
    )]
    pub(crate) fn has(&self, parameter: Parameter) -> bool {
        let param = |at: usize| self.params.get(at);
        match parameter {
            Parameter::Offset(at) => self.bindings.iter().any(|binding| binding.parameter == at),
            Parameter::Extent(at, axis) | Parameter::Stride(at, axis) => {
                param(at).is_some_and(|param| param.is_view && (axis as usize) < param.rank)
            }
            Parameter::Scalar(at) => param(at).is_some_and(|param| !param.is_view),
            Parameter::Grid(axis) => axis < 3,
            Parameter::Fold | Parameter::Program => true,
        }
    }

    /// The layout of the bind group, with all storage buffers writable if it says so.
    pub(crate) fn layout(&self, all_writable: bool) -> Vec<wgpu::BindGroupLayoutEntry> {
        let entry = |slot: &Slot| {
            let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
            let ty = match slot.holds {
                Holds::Parameters => wgpu::BufferBindingType::Uniform,
                Holds::Read => storage(!all_writable),
                Holds::Written => storage(false),
            };
            let is_block = slot.holds == Holds::Parameters;
            let size = if is_block { wgpu::BufferSize::new(self.parameter_bytes.into()) } else { None };
            wgpu::BindGroupLayoutEntry {
                binding: slot.binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: is_block, min_binding_size: size },
                count: None,
            }
        };
        self.slots.iter().map(entry).collect()
    }
}

impl ParamNumbers {
    fn list(kernel: &Kernel) -> Vec<ParamNumbers> {
        let one = |param: &kiln_ir::Param| {
            let view = param.ty.as_view();
            ParamNumbers {
                name: param.name.clone(),
                is_view: view.is_some(),
                rank: view.map_or(0, |view| view.rank as usize),
                elem_bytes: param.ty.elem().bytes().into(),
                buffer: 0,
                first: 0,
            }
        };
        ParamNumbers::placed(kernel.params.iter().map(one).collect())
    }

    /// These, each behind those before it.
    pub(crate) fn placed(mut params: Vec<ParamNumbers>) -> Vec<ParamNumbers> {
        let (mut buffer, mut first) = (0, 0);
        for param in &mut params {
            (param.buffer, param.first) = (buffer, first);
            buffer += usize::from(param.is_view);
            first += param.count();
        }
        params
    }

    /// How many numbers it has.
    fn count(&self) -> usize {
        if self.is_view { 2 * self.rank } else { 1 }
    }

    /// The bytes that the view spans in a launch with these numbers.
    pub(crate) fn span(&self, numbers: &[u64]) -> u64 {
        let (extents, strides) = numbers[self.first..][..2 * self.rank].split_at(self.rank);
        view_span(extents, strides).saturating_mul(self.elem_bytes)
    }
}

/// The bindings of a module.
fn slots(naga: &naga::Module) -> Vec<Slot> {
    let bound = naga.global_variables.iter().filter_map(|(_, variable)| {
        let holds = match variable.space {
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => Holds::Written,
            AddressSpace::Storage { .. } => Holds::Read,
            AddressSpace::Uniform => Holds::Parameters,
            _ => return None,
        };
        Some(Slot { binding: variable.binding?.binding, holds })
    });
    bound.collect()
}
