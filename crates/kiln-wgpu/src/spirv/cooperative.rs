//! What modules with cooperative matrices need beside what naga writes.
//!
//! - Fragments of words are fragments of f16: `OpTypeCooperativeMatrixKHR` of factors has its
//!   element type changed, and the type of f16 goes before it.
//! - The memory model of Vulkan, which such modules have, orders among threads only accesses that
//!   say so: loads and stores of shared memory and of buffers get `NonPrivatePointer`, and barriers
//!   make memory available and visible.
//! - Arrays in shared memory have no strides, which naga gives them and the validator refuses.

use super::words::{Instruction, Malformed, op, parse, push};
use std::collections::{HashMap, HashSet};

/// `NonPrivatePointer` of an access (SPIR-V 1.6, section 3.26, "Memory Operands").
const NON_PRIVATE: u32 = 0x20;

/// `MakeAvailable` and `MakeVisible` of a barrier (section 3.25, "Memory Semantics").
const AVAILABLE_AND_VISIBLE: u32 = 0x2000 | 0x4000;

/// Storage classes of memory that threads share: `Workgroup` and `StorageBuffer`.
const SHARED: [u32; 2] = [4, 12];

/// The storage class of shared memory, and the decoration of arrays that are laid out.
const WORKGROUP: u32 = 4;
const ARRAY_STRIDE: u32 = 6;

/// The use of sums (SPV_KHR_cooperative_matrix, "Cooperative Matrix Use"). The others are factors.
const ACCUMULATOR: u32 = 2;

/// The word of the header that says below what all ids are.
const BOUND: usize = 3;

/// What is known of a module's ids.
struct Module<'a> {
    /// Values of constants of 32 bits, and their types.
    constants: HashMap<u32, (u32, u32)>,
    /// The storage class of pointers, by type.
    pointers: HashMap<u32, u32>,
    /// The types of results that are pointers.
    types: HashMap<u32, u32>,
    /// Arrays in shared memory.
    arrays: HashSet<u32>,
    word: Option<u32>,
    half: Option<&'a [u32]>,
}

/// The words of a module, with what it needs if it has cooperative matrices.
pub(super) fn with_matrices(words: Vec<u32>) -> Result<Vec<u32>, Malformed> {
    let (header, instructions) = parse(&words)?;
    if !instructions.iter().any(|i| i.op == op::TYPE_COOPERATIVE_MATRIX) {
        return Ok(words);
    }
    let module = Module::of(&instructions);
    let Some(half) = module.half else {
        return Err(Malformed { at: 0, what: "matrices without a type of f16" });
    };
    let mut finished = header.to_vec();
    let (mut bound, mut made) = (header[BOUND], HashMap::new());
    let mut types = false;
    for instruction in &instructions {
        if !types && instruction.is_type() {
            types = true;
            finished.extend_from_slice(half);
        }
        match instruction.op {
            op::TYPE_FLOAT if instruction.words == half => {}
            op::DECORATE if module.is_stride(instruction) => {}
            op::TYPE_COOPERATIVE_MATRIX => module.retype(instruction, half, &mut finished),
            // Behind all constants, whose types are there.
            op::FUNCTION if made.is_empty() => {
                for semantics in instructions.iter().filter_map(Instruction::semantics) {
                    if let Some(&(value, ty)) = module.constants.get(&semantics)
                        && value != 0
                        && !made.contains_key(&semantics)
                    {
                        push(&mut finished, op::CONSTANT, &[ty, bound, value | AVAILABLE_AND_VISIBLE]);
                        made.insert(semantics, bound);
                        bound += 1;
                    }
                }
                finished.extend_from_slice(instruction.words);
            }
            op::CONTROL_BARRIER | op::MEMORY_BARRIER => {
                let mut words = instruction.words.to_vec();
                if let Some(last) = words.last_mut() {
                    *last = made.get(last).copied().unwrap_or(*last);
                }
                finished.extend_from_slice(&words);
            }
            op::LOAD | op::STORE | op::COOPERATIVE_LOAD | op::COOPERATIVE_STORE => {
                module.shared(instruction, &mut finished);
            }
            _ => finished.extend_from_slice(instruction.words),
        }
    }
    finished[BOUND] = bound;
    Ok(finished)
}

impl<'a> Module<'a> {
    fn of(instructions: &[Instruction<'a>]) -> Module<'a> {
        let (constants, pointers, types) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut module =
            Module { constants, pointers, types, arrays: HashSet::new(), word: None, half: None };
        for instruction in instructions {
            match (instruction.op, instruction.words) {
                (op::TYPE_INT, &[_, id, 32, 0]) => module.word = Some(id),
                (op::TYPE_FLOAT, words @ &[_, _, 16, ..]) => module.half = Some(words),
                (op::CONSTANT, &[_, ty, id, value]) => {
                    module.constants.insert(id, (value, ty));
                }
                (op::TYPE_POINTER, &[_, id, class, to]) => {
                    module.pointers.insert(id, class);
                    module.arrays.extend((class == WORKGROUP).then_some(to));
                }
                (op::VARIABLE | op::ACCESS_CHAIN | op::IN_BOUNDS_ACCESS_CHAIN, &[_, ty, id, ..]) => {
                    module.types.insert(id, ty);
                }
                _ => {}
            }
        }
        module
    }

    /// Whether a decoration is the stride of an array in shared memory.
    fn is_stride(&self, instruction: &Instruction<'_>) -> bool {
        let array = instruction.operand(1).is_some_and(|id| self.arrays.contains(&id));
        array && instruction.operand(2) == Some(ARRAY_STRIDE)
    }

    /// The type of a matrix, of f16 where it is a factor of words.
    fn retype(&self, instruction: &Instruction<'_>, half: &[u32], finished: &mut Vec<u32>) {
        let mut words = instruction.words.to_vec();
        if let [_, _, elem, .., part] = words.as_mut_slice() {
            let of_sums = self.constants.get(part).is_some_and(|&(value, _)| value == ACCUMULATOR);
            if !of_sums && Some(*elem) == self.word {
                *elem = half[1];
            }
        }
        finished.extend_from_slice(&words);
    }

    /// An access, which others see if memory is shared.
    fn shared(&self, instruction: &Instruction<'_>, finished: &mut Vec<u32>) {
        // The operand that is the pointer, and how many words there are before memory operands.
        let (pointer, plain) = match instruction.op {
            op::LOAD => (3, 4),
            op::STORE => (1, 3),
            op::COOPERATIVE_LOAD => (3, 6),
            _ => (1, 5),
        };
        let class = instruction.operand(pointer).and_then(|id| self.types.get(&id));
        let class = class.and_then(|ty| self.pointers.get(ty));
        if instruction.words.len() == plain && class.is_some_and(|class| SHARED.contains(class)) {
            let mut operands = instruction.words[1..].to_vec();
            operands.push(NON_PRIVATE);
            push(finished, instruction.op, &operands);
        } else {
            finished.extend_from_slice(instruction.words);
        }
    }
}

impl Instruction<'_> {
    /// Whether it begins the part of types and constants.
    fn is_type(&self) -> bool {
        matches!(self.op, op::TYPE_VOID..=op::TYPE_FUNCTION)
    }

    /// The constant that says what a barrier orders.
    fn semantics(&self) -> Option<u32> {
        matches!(self.op, op::CONTROL_BARRIER | op::MEMORY_BARRIER).then(|| self.words.last().copied())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{ShaderTarget, shader};
    use crate::features::{Features, MatrixSize};
    use crate::float_modes::FloatModes;

    /// A product of which both factors are loaded in the loop.
    const PRODUCT: &str = include_str!("../../tests/kernels/product.kir");

    fn words() -> Vec<u32> {
        let features = Features {
            int64: true,
            float16: true,
            float_modes: Some(FloatModes::ALL),
            subgroup: Some(32),
            matrices: Some(MatrixSize::Sixteen),
            immediate_bytes: 256,
            ..Features::default()
        };
        let target = ShaderTarget { device: "a GPU", features, max_threads: 256, shared_memory: 48 << 10 };
        let kernel = kiln_ir::parse(PRODUCT).unwrap();
        let module = shader(&kernel, &target).unwrap();
        module.finished(&module.naga, module.finishing.unwrap()).unwrap()
    }

    /// The factors are copied as words and multiplied as f16, and each access of shared memory or a
    /// buffer says that others see it.
    #[test]
    fn factors_are_words_in_memory_and_halves_in_units() {
        let words = words();
        let (_, instructions) = parse(&words).unwrap();
        let module = Module::of(&instructions);
        let half = module.half.unwrap()[1];
        let of = |op| instructions.iter().filter(move |i| i.op == op);
        let elements: Vec<u32> = of(op::TYPE_COOPERATIVE_MATRIX).filter_map(|i| i.operand(2)).collect();
        assert_eq!(elements.len(), 3);
        assert_eq!(elements.iter().filter(|&&elem| elem == half).count(), 2);
        assert_eq!(of(op::TYPE_FLOAT).filter(|i| i.operand(1) == Some(half)).count(), 1);
        // What is copied is not packed again: `PackHalf2x16` is number 58 of `GLSL.std.450`.
        assert!(of(op::EXT_INST).all(|i| i.operand(4) != Some(58)));
        // Two steps of the depth, of 4 and 4 fragments.
        assert_eq!(of(op::COOPERATIVE_LOAD).count(), 16);
        for access in of(op::COOPERATIVE_LOAD).chain(of(op::COOPERATIVE_STORE)) {
            assert_eq!(access.words.last(), Some(&NON_PRIVATE));
        }
        for barrier in of(op::CONTROL_BARRIER) {
            let (value, _) = module.constants[&barrier.semantics().unwrap()];
            assert_eq!(value & AVAILABLE_AND_VISIBLE, AVAILABLE_AND_VISIBLE);
        }
    }

    /// `spirv-val` of SPIRV-Tools 2023.3 or later, where it is there.
    #[test]
    fn the_validator_accepts_products() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let mut command = Command::new(std::env::var_os("KILN_SPIRV_VAL").unwrap_or("spirv-val".into()));
        let version = command.arg("--version").output().map(|output| output.stdout).unwrap_or_default();
        let version = String::from_utf8_lossy(&version).into_owned();
        let year = |text: &str| text.split(['v', '.']).find_map(|part| part.parse::<u32>().ok());
        if version.lines().next().and_then(year).is_none_or(|year| year < 2024) {
            eprintln!("skipped: no `spirv-val` that knows matrices");
            return;
        }
        let mut command = Command::new(std::env::var_os("KILN_SPIRV_VAL").unwrap_or("spirv-val".into()));
        command.args(["--target-env", "vulkan1.3", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let bytes: Vec<u8> = words().iter().flat_map(|word| word.to_le_bytes()).collect();
        process.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
