//! SPIR-V as instructions (SPIR-V 1.6, section 2.3, "Physical Layout of a SPIR-V Module").

/// The first word of every module.
const MAGIC: u32 = 0x0723_0203;

/// The words before the first instruction: the magic number, the version, the generator, the bound
/// of ids and a reserved one.
const HEADER: usize = 5;

/// Numbers of instructions, by the specification's names.
pub(super) mod op {
    pub const SOURCE_CONTINUED: u16 = 2;
    pub const NAME: u16 = 5;
    pub const MEMBER_NAME: u16 = 6;
    pub const STRING: u16 = 7;
    pub const EXTENSION: u16 = 10;
    pub const EXT_INST_IMPORT: u16 = 11;
    pub const EXT_INST: u16 = 12;
    pub const MEMORY_MODEL: u16 = 14;
    pub const ENTRY_POINT: u16 = 15;
    pub const EXECUTION_MODE: u16 = 16;
    pub const CAPABILITY: u16 = 17;
    pub const TYPE_VOID: u16 = 19;
    pub const TYPE_INT: u16 = 21;
    pub const TYPE_FLOAT: u16 = 22;
    pub const TYPE_POINTER: u16 = 32;
    pub const TYPE_FUNCTION: u16 = 33;
    pub const CONSTANT: u16 = 43;
    pub const FUNCTION: u16 = 54;
    pub const VARIABLE: u16 = 59;
    pub const LOAD: u16 = 61;
    pub const STORE: u16 = 62;
    pub const ACCESS_CHAIN: u16 = 65;
    pub const IN_BOUNDS_ACCESS_CHAIN: u16 = 66;
    pub const DECORATE: u16 = 71;
    pub const MEMBER_DECORATE: u16 = 72;
    pub const F_NEGATE: u16 = 127;
    pub const F_ADD: u16 = 129;
    pub const F_SUB: u16 = 131;
    pub const F_MUL: u16 = 133;
    pub const F_DIV: u16 = 136;
    pub const F_REM: u16 = 140;
    pub const F_MOD: u16 = 141;
    pub const VECTOR_TIMES_SCALAR: u16 = 142;
    pub const DOT: u16 = 148;
    pub const CONTROL_BARRIER: u16 = 224;
    pub const MEMORY_BARRIER: u16 = 225;
    pub const MODULE_PROCESSED: u16 = 330;
    pub const EXECUTION_MODE_ID: u16 = 331;
    // SPV_KHR_cooperative_matrix.
    pub const TYPE_COOPERATIVE_MATRIX: u16 = 4456;
    pub const COOPERATIVE_LOAD: u16 = 4457;
    pub const COOPERATIVE_STORE: u16 = 4458;
}

/// What is wrong with words that are no module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Malformed {
    /// The number of the word.
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Instruction<'a> {
    pub(super) op: u16,
    /// All its words; the first has the number of words and of the instruction.
    pub(super) words: &'a [u32],
}

impl Instruction<'_> {
    /// An operand, counted from 1; `None` if it has fewer.
    pub(super) fn operand(&self, number: usize) -> Option<u32> {
        self.words.get(number).copied()
    }
}

/// The header and the instructions of a module.
pub(super) fn parse(words: &[u32]) -> Result<(&[u32], Vec<Instruction<'_>>), Malformed> {
    let malformed = |at, what| Malformed { at, what };
    if words.first() != Some(&MAGIC) || words.len() < HEADER {
        return Err(malformed(0, "no header"));
    }
    let (header, mut rest) = words.split_at(HEADER);
    let mut instructions = Vec::with_capacity(rest.len() / 4);
    while let Some(&first) = rest.first() {
        let count = (first >> 16) as usize;
        if count == 0 || count > rest.len() {
            return Err(malformed(words.len() - rest.len(), "an instruction without an end"));
        }
        let (words, after) = rest.split_at(count);
        instructions.push(Instruction { op: first as u16, words });
        rest = after;
    }
    Ok((header, instructions))
}

/// Adds an instruction to a module.
pub(super) fn push(words: &mut Vec<u32>, op: u16, operands: &[u32]) {
    words.push((operands.len() as u32 + 1) << 16 | u32::from(op));
    words.extend_from_slice(operands);
}
