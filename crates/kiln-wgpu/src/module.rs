//! A module, its entry point and what a launch binds.

use crate::agreement::with_agreement;
use crate::faults;
use crate::features::Features;
use crate::finishing::{Finishing, has_unchecked_index};
use crate::narrow::Ranges;
use crate::parameters::Field;
use crate::report::Report;
use crate::writer::Writer;
use kiln_backend::{Error, Result};
use kiln_ir::{Kernel, Level};
use naga::valid::{ModuleInfo, ValidationFlags, Validator};
use naga::{EntryPoint, ShaderStage};

/// A kernel as a module of naga, with one entry point and one bind group.
///
/// Binding 0 is a uniform buffer of the [`parameters`](Module::parameters), unless they are
/// [immediates](Module::has_immediates). The bindings after it are storage buffers, one for each
/// view, and one for the [`report`](Module::report) if there is any.
#[derive(Debug)]
pub struct Module {
    /// The module, which naga's validator has accepted.
    pub naga: naga::Module,
    /// What the validator found out, which naga's writers ask for.
    pub info: ModuleInfo,
    /// The name of the entry point.
    pub entry: String,
    /// The block's extents.
    pub block: [u32; 3],
    /// The parameter block's fields, in order.
    pub parameters: Vec<Field>,
    /// The size of the parameter block in bytes.
    pub parameter_bytes: u32,
    /// Whether the parameters are immediates, which a launch sets, and binding 0 is not there.
    pub has_immediates: bool,
    /// The storage buffers of views, bound from 1 on.
    pub bindings: Vec<Binding>,
    /// Where faults and prints are reported, if the kernel can fault or print.
    pub report: Option<Report>,
    /// The ranges of indices that are held in 32 bits.
    pub(crate) ranges: Ranges,
    /// How it is finished for a driver of Vulkan, if SPIR-V goes to that.
    pub(crate) finishing: Option<Finishing>,
}

/// A storage buffer of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The number of the binding in group 0.
    pub binding: u32,
    /// The position of the view among the kernel's parameters.
    pub parameter: usize,
    /// Whether the kernel may write to it.
    pub writable: bool,
}

/// Makes a module of a kernel that the verifier has accepted and that was then lowered to threads,
/// with linear indices of views in place of addresses.
///
/// ```
/// use kiln_wgpu::{Features, compile};
/// let text = "kernel @double(%x: mut view<f32, 1, global>) thread [64, 1, 1] {
///   %0 = thread_id x : i64
///   %1 = cast %0 : i32
///   %2 = view_load.x1 %x[%1] : f32
///   %3 = add %2, %2 : f32
///   view_store.x1 %x[%1] = %3
/// }";
/// let kernel = kiln_ir::parse(text).unwrap();
/// let module = compile(&kernel, Features::default())?;
/// assert_eq!((module.entry.as_str(), module.block), ("double", [64, 1, 1]));
/// assert_eq!(module.parameters[0].name, "x_offset");
/// # Ok::<(), kiln_backend::Error>(())
/// ```
///
/// # Errors
/// [`Error::Unsupported`] names an operation or a type that the adapter does not have, with the
/// place in the source.
pub fn compile(kernel: &Kernel, features: Features) -> Result<Module> {
    let Level::Thread { block } = kernel.level else {
        return Err(Error::Internal {
            place: "the writer of naga modules",
            message: format!("`{}` was not lowered to threads", kernel.name),
        });
    };
    let kernel = &*with_agreement(kernel, features);
    let mut writer = Writer::new(kernel, features, block);
    let reports = faults::reports(kernel) || writer.round_limit.is_some();
    writer.find_positions(reports);
    writer.declare_parameters(0, reports)?;
    let bound: Vec<usize> =
        (0..kernel.params.len()).filter(|&i| kernel.params[i].ty.as_view().is_some()).collect();
    writer.declare_memory(1)?;
    let after = 1 + bound.len() as u32;
    if reports {
        writer.declare_report(after);
    }
    writer.define_scalars();
    writer.find_zero()?;
    writer.find_program()?;
    writer.begin_deciding()?;
    writer.body_with_limit()?;
    let entry = entry_name(&kernel.name);
    let workgroup_size = writer.workgroup_size();
    let Writer { mut module, body, parameters, sites, ranges, .. } = writer;
    module.entry_points.push(EntryPoint {
        name: entry.clone(),
        stage: ShaderStage::Compute,
        early_depth_test: None,
        workgroup_size,
        workgroup_size_overrides: None,
        function: body.finish(),
        mesh_info: None,
        task_payload: None,
        incoming_ray_payload: None,
    });
    let mut validator = Validator::new(ValidationFlags::all(), features.capabilities());
    let info = validator.validate(&module).map_err(|error| Error::Internal {
        place: "the writer of naga modules",
        message: format!("`{}`: {}", kernel.name, chain(&error.into_inner())),
    })?;
    let bindings = bound.into_iter().zip(1..).map(|(parameter, binding)| Binding {
        binding,
        parameter,
        writable: kernel.params[parameter].mutable,
    });
    Ok(Module {
        entry,
        block,
        parameter_bytes: parameters.size,
        has_immediates: parameters.are_immediate(features),
        parameters: parameters.fields,
        bindings: bindings.collect(),
        report: reports.then(|| Report {
            binding: after,
            per_thread: true,
            kernel: kernel.name.clone(),
            sites,
        }),
        ranges,
        finishing: Finishing::of(kernel, features),
        naga: module,
        info,
    })
}

impl Module {
    /// Leaves out naga's checks of indices in SPIR-V that is finished for a driver, if Kiln masks
    /// or checks every access of the kernel that this module was made of: the kernel as the front
    /// end made it, in which accesses that nothing checks still show.
    #[must_use]
    pub fn without_double_checks(mut self, source: &Kernel) -> Module {
        if let Some(finishing) = &mut self.finishing {
            finishing.checks_indices = has_unchecked_index(source);
        }
        self
    }
}

/// An error with what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// Identifiers take letters, digits and `_`, and begin with a letter.
fn entry_name(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if plain.starts_with(|c: char| c.is_ascii_alphabetic()) { plain } else { format!("kernel_{plain}") }
}
