//! The names of operations and their modifiers in the text format: one table for the printer, the parser and test generators.

use crate::op::*;

macro_rules! mnemonics {
    ($ty:ident, $what:literal, { $($variant:ident = $name:literal),* $(,)? }) => {
        impl $ty {
            #[doc = concat!("Every ", $what, ", in declaration order.")]
            pub const ALL: &[$ty] = &[$($ty::$variant),*];

            /// The name in the text format.
            pub const fn name(self) -> &'static str {
                match self {
                    $($ty::$variant => $name,)*
                }
            }

            #[doc = concat!("The ", $what, " with this name in the text format.")]
            pub fn from_name(name: &str) -> Option<$ty> {
                Self::ALL.iter().copied().find(|v| v.name() == name)
            }
        }
    };
}

mnemonics!(Axis, "axis", { X = "x", Y = "y", Z = "z" });
mnemonics!(UnaryOp, "unary operation", {
    Neg = "neg", Not = "not", Abs = "abs", Exp = "exp", Exp2 = "exp2", Log = "log", Log2 = "log2", Sqrt = "sqrt",
    Rsqrt = "rsqrt", Recip = "recip", Sin = "sin", Cos = "cos", Tanh = "tanh", Erf = "erf", Sigmoid = "sigmoid",
    Floor = "floor", Ceil = "ceil", Round = "round", Trunc = "trunc", Popcount = "popcount", Clz = "clz",
    IsNan = "is_nan",
});
mnemonics!(BinaryOp, "binary operation", {
    Add = "add", Sub = "sub", Mul = "mul", Div = "div", FastDiv = "fast_div", Rem = "rem", Min = "min", Max = "max", And = "and", Or = "or",
    Xor = "xor", Shl = "shl", Shr = "shr", Pow = "pow", Atan2 = "atan2",
});
mnemonics!(CompareOp, "comparison", { Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge" });
mnemonics!(ReduceOp, "combination", {
    Sum = "sum", Prod = "prod", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor", ArgMin = "argmin",
    ArgMax = "argmax",
});
mnemonics!(Precision, "precision", { Full = "full", Tf32 = "tf32", FastSums = "fast_sums" });
mnemonics!(AtomicOp, "atomic operation", {
    Add = "add", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor", Exchange = "exchange",
});
mnemonics!(Bounds, "treatment of bounds", { Mask = "mask", Check = "check", Trust = "trust" });
mnemonics!(ShuffleMode, "shuffle mode", { Index = "index", Up = "up", Down = "down", Xor = "xor" });
mnemonics!(VoteMode, "vote mode", { All = "all", Any = "any", Ballot = "ballot" });
mnemonics!(ClockUnit, "unit", { Nanos = "nanos", Cycles = "cycles" });
mnemonics!(Order, "order", { Relaxed = "relaxed", Acquire = "acquire", Release = "release" });
mnemonics!(Scope, "scope", { Block = "block", Device = "device", System = "system" });

impl OpKind {
    /// The first word of the operation in the text format, without its modifiers.
    pub fn mnemonic(&self) -> &'static str {
        use OpKind::*;
        match self {
            Const(_) => "const",
            Iota => "iota",
            ProgramId(_) => "program_id",
            NumPrograms(_) => "num_programs",
            ThreadId(_) => "thread_id",
            BlockDim(_) => "block_dim",
            Unary(op) => op.name(),
            Binary(op) => op.name(),
            Compare(op) => op.name(),
            Select => "select",
            Fma => "fma",
            Cast => "cast",
            Bitcast => "bitcast",
            Broadcast => "broadcast",
            Reshape => "reshape",
            Transpose(_) => "transpose",
            Reduce { .. } => "reduce",
            Scan { .. } => "scan",
            Dot(_) => "dot",
            Extent(_) => "extent",
            Stride(_) => "stride",
            Alloc { .. } => "alloc",
            Load(_) => "load",
            Store { .. } => "store",
            Gather { .. } => "gather",
            Scatter { .. } => "scatter",
            Atomic { .. } => "atomic",
            AtomicCas { .. } => "atomic_cas",
            Fence(_) => "fence",
            OrderedLoad { .. } => "ordered_load",
            OrderedStore { .. } => "ordered_store",
            LoadQuad(_) => "load_quad",
            StoreQuad(_) => "store_quad",
            Barrier => "barrier",
            Shuffle(_) => "shuffle",
            Vote(_) => "vote",
            BlockUniform => "block_uniform",
            Clock(_) => "clock",
            Sleep => "sleep",
            If => "if",
            For => "for",
            While => "while",
            Yield => "yield",
            Condition => "condition",
            Guard => "guard",
            Assert(_) => "assert",
            Print(_) => "print",
            Cluster(op) => op.name(),
            Explicit(op) => op.name(),
            Fragment(op) => op.name(),
            Address => "address",
            Scratch { .. } => "scratch",
            PtrLoad { .. } => "ptr_load",
            PtrStore { .. } => "ptr_store",
            PtrAtomic { .. } => "ptr_atomic",
            PtrAtomicCas { .. } => "ptr_atomic_cas",
            PtrOrderedLoad { .. } => "ptr_ordered_load",
            PtrOrderedStore { .. } => "ptr_ordered_store",
            CheckBounds => "check_bounds",
            CheckDivisor => "check_divisor",
            Note { check: Check::Assert(_), .. } => "note_assert",
            Note { check: Check::Bounds, .. } => "note_bounds",
            Note { check: Check::Divisor, .. } => "note_divisor",
            Faulted => "faulted",
        }
    }
}
