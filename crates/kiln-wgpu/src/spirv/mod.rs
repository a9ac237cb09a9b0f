//! SPIR-V as Kiln hands it to a driver of Vulkan: naga's, finished here.
//!
//! naga writes the operations, and leaves to the driver how floats are computed: it declares no
//! modes of floats and forbids no contraction. So a pass over its words adds
//!
//! - the modes of [`FloatModes`] that the driver has, for each width of floats;
//! - `NoContraction` to every result of float arithmetic, unless the kernel asks for `contract`;
//!   to the multiply-adds that the kernel wrote always, which makes one operation of each.
//!
//! ```text
//!  words of naga                      added
//!  capabilities                       DenormPreserve, RoundingModeRTE, ..
//!  extensions, imports, memory model
//!  entry points, execution modes      DenormPreserve 32, ..
//!  names, decorations                 %sum NoContraction, ..
//!  types, constants, functions
//! ```
//!
//! Modules with cooperative matrices get more (`cooperative.rs`). Nothing else is changed, so that
//! what naga's validator has accepted stays true.
//!
//! # Checks
//!
//! Of naga's checks, those of indices stay in kernels with an access that its author vouches for
//! (`unsafe`): others are masked or checked by Kiln's code. Those of divisors stay always, as a
//! thread with a deferred fault goes on, and limits of rounds in kernels with a `while`. The
//! driver's robust access of buffers stays on in any case.

mod cooperative;
mod words;

use crate::finishing::Finishing;
use crate::float_modes::FloatModes;
use crate::module::Module;
use kiln_backend::{Error, Result};
use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use std::collections::BTreeMap;
use words::{Instruction, Malformed, op, parse, push};

/// The version of SPIR-V: that of Vulkan 1.2, which has the modes of floats without an extension.
const VERSION: (u8, u8) = (1, 5);

/// `NoContraction` (SPIR-V 1.6, section 3.20, "Decoration").
const NO_CONTRACTION: u32 = 42;

/// `NonWritable`, likewise.
const NON_WRITABLE: u32 = 24;

/// `Fma` of the instructions that `GLSL.std.450` names.
const GLSL_FMA: u32 = 50;

/// The capability and the execution mode of each mode of floats.
const SUBNORMALS: Mode = Mode { capability: 4464, mode: 4459 };
const SPECIAL_VALUES: Mode = Mode { capability: 4466, mode: 4461 };
const NEAREST: Mode = Mode { capability: 4467, mode: 4462 };

#[derive(Clone, Copy)]
struct Mode {
    capability: u32,
    mode: u32,
}

impl Module {
    /// The words for a driver, of this module or of one that differs from it in how buffers may be
    /// accessed. Bindings have the numbers that wgpu gives them: one after another.
    pub(crate) fn finished(&self, naga: &naga::Module, finishing: Finishing) -> Result<Vec<u32>> {
        let failed =
            |message| Error::Internal { place: "SPIR-V", message: format!("`{}`: {message}", self.entry) };
        let policy =
            if finishing.checks_indices { BoundsCheckPolicy::Restrict } else { BoundsCheckPolicy::Unchecked };
        let options = spv::Options {
            lang_version: VERSION,
            flags: spv::WriterFlags::empty(),
            fake_missing_bindings: false,
            binding_map: bindings(naga),
            bounds_check_policies: BoundsCheckPolicies {
                index: policy,
                buffer: policy,
                image_load: policy,
                binding_array: BoundsCheckPolicy::Unchecked,
            },
            zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
            force_loop_bounding: finishing.limits_loops,
            ..spv::Options::default()
        };
        let words = spv::write_vec(naga, &self.info, &options, None);
        let words = words.map_err(|error| failed(error.to_string()))?;
        let finished = cooperative::with_matrices(words).and_then(|words| finish(&words, finishing));
        finished.map_err(|Malformed { at, what }| failed(format!("{what} at word {at}")))
    }
}

/// The numbers of bindings: wgpu's Vulkan leaves none out.
fn bindings(naga: &naga::Module) -> spv::BindingMap {
    let bound = naga.global_variables.iter().filter_map(|(_, variable)| variable.binding);
    let sorted: BTreeMap<(u32, u32), naga::ResourceBinding> =
        bound.map(|binding| ((binding.group, binding.binding), binding)).collect();
    let numbered = sorted.into_values().zip(0..).map(|(from, number)| {
        (from, spv::BindingInfo { descriptor_set: from.group, binding: number, binding_array_size: None })
    });
    numbered.collect()
}

/// The words of a module with all its storage buffers writable: a variable that is only read is so
/// by a decoration.
pub(crate) fn with_writable_buffers(words: &[u32]) -> Result<Vec<u32>> {
    let parsed = parse(words).map_err(|Malformed { at, what }| Error::Internal {
        place: "SPIR-V",
        message: format!("{what} at word {at}"),
    });
    let (header, instructions) = parsed?;
    let is_kept = |i: &&Instruction<'_>| i.op != op::DECORATE || i.operand(2) != Some(NON_WRITABLE);
    let kept = instructions.iter().filter(is_kept).flat_map(|instruction| instruction.words);
    Ok(header.iter().chain(kept).copied().collect())
}

/// Adds the modes and the decorations.
fn finish(words: &[u32], finishing: Finishing) -> std::result::Result<Vec<u32>, Malformed> {
    let (header, instructions) = parse(words)?;
    let FloatModes { special_values, subnormals, nearest } = finishing.modes;
    let modes = [(SUBNORMALS, subnormals), (SPECIAL_VALUES, special_values), (NEAREST, nearest)];
    let entries: Vec<u32> =
        instructions.iter().filter(|i| i.op == op::ENTRY_POINT).filter_map(|i| i.operand(2)).collect();
    let mut finished = header.to_vec();
    finished.reserve(words.len());
    let mut section = Section::Capabilities;
    for instruction in &instructions {
        let next = Section::of(instruction.op);
        if section < next {
            for ended in Section::ALL.into_iter().filter(|ended| (section..next).contains(ended)) {
                match ended {
                    Section::Capabilities => {
                        for (mode, _) in modes.iter().filter(|(_, widths)| widths.bits().next().is_some()) {
                            push(&mut finished, op::CAPABILITY, &[mode.capability]);
                        }
                    }
                    Section::ExecutionModes => {
                        for (entry, (mode, widths)) in
                            entries.iter().flat_map(|entry| modes.map(|mode| (*entry, mode)))
                        {
                            for bits in widths.bits() {
                                push(&mut finished, op::EXECUTION_MODE, &[entry, mode.mode, bits]);
                            }
                        }
                    }
                    Section::Decorations => {
                        for result in kept_apart(&instructions, finishing.contract) {
                            push(&mut finished, op::DECORATE, &[result, NO_CONTRACTION]);
                        }
                    }
                    Section::Code => {}
                }
            }
            section = next;
        }
        finished.extend_from_slice(instruction.words);
    }
    Ok(finished)
}

/// The parts of a module, in their order, behind each of which something is added (SPIR-V 1.6,
/// section 2.4, "Logical Layout of a Module").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Capabilities,
    /// With what stands between them and the capabilities.
    ExecutionModes,
    /// With names.
    Decorations,
    /// Types, constants, variables and functions.
    Code,
}

impl Section {
    const ALL: [Section; 4] =
        [Section::Capabilities, Section::ExecutionModes, Section::Decorations, Section::Code];

    fn of(op: u16) -> Section {
        match op {
            op::CAPABILITY => Section::Capabilities,
            op::EXTENSION
            | op::EXT_INST_IMPORT
            | op::MEMORY_MODEL
            | op::ENTRY_POINT
            | op::EXECUTION_MODE
            | op::EXECUTION_MODE_ID => Section::ExecutionModes,
            op::SOURCE_CONTINUED..=op::NAME
            | op::MEMBER_NAME
            | op::STRING
            | op::DECORATE
            | op::MEMBER_DECORATE
            | op::MODULE_PROCESSED => Section::Decorations,
            _ => Section::Code,
        }
    }
}

/// The results that no driver may compute together with others.
fn kept_apart(instructions: &[Instruction<'_>], contract: bool) -> Vec<u32> {
    let import = instructions.iter().find(|i| i.op == op::EXT_INST_IMPORT).and_then(|i| i.operand(1));
    let is_fused = |i: &Instruction<'_>| {
        i.op == op::EXT_INST && i.operand(3) == import && i.operand(4) == Some(GLSL_FMA)
    };
    let is_arithmetic = |i: &Instruction<'_>| {
        matches!(
            i.op,
            op::F_NEGATE
                | op::F_ADD
                | op::F_SUB
                | op::F_MUL
                | op::F_DIV
                | op::F_REM
                | op::F_MOD
                | op::VECTOR_TIMES_SCALAR
                | op::DOT
        )
    };
    let apart = instructions.iter().filter(|i| is_fused(i) || !contract && is_arithmetic(i));
    apart.filter_map(|i| i.operand(2)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Features, compile};

    const KERNEL: &str = "kernel @k(%x: mut view<f32, 1, global>) thread [32, 1, 1] {
  %0 = thread_id x : i64
  %1 = cast %0 : i32
  %a = view_load.x1 %x[%1] : f32
  %b = mul %a, %a : f32
  %c = add %b, %a : f32
  %d = fma %c, %b, %a : f32
  view_store.x1 %x[%1] = %d
}";

    fn written(contract: bool, modes: FloatModes) -> Vec<u32> {
        let mut kernel = kiln_ir::parse(KERNEL).unwrap();
        kernel.contract = contract;
        let module = compile(&kernel, Features { float_modes: Some(modes), ..Features::default() }).unwrap();
        module.finished(&module.naga, module.finishing.unwrap()).unwrap()
    }

    fn count(words: &[u32], op: u16, last: u32) -> usize {
        let (_, all) = parse(words).unwrap();
        all.iter().filter(|i| i.op == op && i.words.last() == Some(&last)).count()
    }

    #[test]
    fn results_are_kept_apart_unless_the_kernel_contracts() {
        let apart = written(false, FloatModes::ALL);
        assert_eq!(count(&apart, op::DECORATE, NO_CONTRACTION), 3);
        let contracted = written(true, FloatModes::ALL);
        assert_eq!(count(&contracted, op::DECORATE, NO_CONTRACTION), 1, "the multiply-add stays one");
    }

    #[test]
    fn buffers_become_writable() {
        let text = KERNEL.replace("%x: mut", "%y: mut").replace("%x[", "%y[");
        let text = text.replace("@k(", "@k(%x: view<f32, 1, global>, ").replace("load.x1 %y", "load.x1 %x");
        let kernel = kiln_ir::parse(&text).unwrap();
        let features = Features { float_modes: Some(FloatModes::ALL), ..Features::default() };
        let module = compile(&kernel, features).unwrap();
        let finished = |naga| module.finished(naga, module.finishing.unwrap()).unwrap();
        let mut writable = module.naga.clone();
        for (_, variable) in writable.global_variables.iter_mut() {
            if let naga::AddressSpace::Storage { access } = &mut variable.space {
                *access = naga::StorageAccess::LOAD | naga::StorageAccess::STORE;
            }
        }
        let (exact, writable) = (finished(&module.naga), finished(&writable));
        assert_ne!(exact, writable);
        assert_eq!(with_writable_buffers(&exact).unwrap(), writable);
        assert_eq!(with_writable_buffers(&writable).unwrap(), writable);
        assert!(with_writable_buffers(&[1, 2]).is_err());
    }

    #[test]
    fn modes_are_those_of_the_driver() {
        let all = written(false, FloatModes::ALL);
        for mode in [SUBNORMALS, SPECIAL_VALUES, NEAREST] {
            assert_eq!(count(&all, op::CAPABILITY, mode.capability), 1);
        }
        assert_eq!([16, 32, 64].map(|bits| count(&all, op::EXECUTION_MODE, bits)), [3; 3]);
        let single = crate::Widths { single: true, ..Default::default() };
        let some = written(false, FloatModes { special_values: single, ..FloatModes::default() });
        assert_eq!(count(&some, op::CAPABILITY, SPECIAL_VALUES.capability), 1);
        assert_eq!(count(&some, op::CAPABILITY, SUBNORMALS.capability), 0);
        assert_eq!([16, 32, 64].map(|bits| count(&some, op::EXECUTION_MODE, bits)), [0, 1, 0]);
    }

    /// What was there stays, in its order.
    #[test]
    fn nothing_is_lost() {
        let finished = written(false, FloatModes::ALL);
        let plain = finish(&finished, Finishing { modes: FloatModes::default(), ..none() }).unwrap();
        assert_eq!(plain.len(), finished.len() + 3, "one decoration again, of the multiply-add");
        let mut rest = parse(&plain).unwrap().1.into_iter();
        for kept in parse(&finished).unwrap().1 {
            assert!(rest.any(|instruction| instruction == kept));
        }
    }

    fn none() -> Finishing {
        Finishing { modes: FloatModes::default(), contract: true, limits_loops: true, checks_indices: true }
    }

    #[test]
    fn what_is_no_module_is_an_error() {
        let refused = |words: &[u32]| finish(words, none()).unwrap_err();
        assert_eq!(refused(&[]).at, 0);
        assert_eq!(refused(&[1; 9]).at, 0);
        let mut words = written(false, FloatModes::ALL);
        words.push(9 << 16);
        assert_eq!(refused(&words).at, words.len() - 1);
        words.pop();
        words.push(0);
        assert_eq!(refused(&words).what, "an instruction without an end");
    }
}
