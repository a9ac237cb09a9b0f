//! What belongs to an operation besides its operands: axes, combinations, bounds, scopes, orders.
//! Each has a word in the text format.

/// One of the three axes of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Axis {
    X = 0,
    Y = 1,
    Z = 2,
}

/// What `Reduce` and `Scan` combine with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReduceOp {
    /// Sum. The order is unspecified; f16 and bf16 accumulate in f32 and round once.
    Sum,
    /// Product, as `Sum`.
    Prod,
    /// The least element; NaN loses to numbers.
    Min,
    /// The greatest element; NaN loses to numbers.
    Max,
    /// Bitwise and, or logical for bool.
    And,
    /// Bitwise or, or logical for bool.
    Or,
    /// Bitwise exclusive or, or logical for bool.
    Xor,
    /// The i64 index along the axis of the first least element (`Reduce` only).
    ArgMin,
    /// The i64 index along the axis of the first greatest element (`Reduce` only).
    ArgMax,
}

/// How exact a product of matrices is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Precision {
    /// Elements count in full, and sums are about as exact as their type.
    #[default]
    Full,
    /// Of f32 the first 10 bits of the significand count, where a device has matrix units for that
    /// ("TF32"); elsewhere they count in full.
    Tf32,
    /// Of f32 the first 20 bits of the significand count, where a device has matrix units for
    /// `Tf32`: an element is the sum of two, and three products of these are added up ("3xTF32"). A
    /// sum in which an infinite element takes part may be NaN. Elsewhere they count in full.
    Tf32x3,
    /// Sums of 8-bit floats keep the fewer bits that matrix units keep, where a device has them; in
    /// full, these are added up in f32 every 128 products or sooner ("fast accumulation").
    FastSums,
}

/// Read-modify-write operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    /// Of words of u32: the sum of the two f16 that each is made of, one by one.
    AddF16x2,
    /// The same of two bf16.
    AddBf16x2,
}

/// Read-modify-write operations of 128 bits.
///
/// ```
/// use kiln_ir::{Atomic128Op, OpKind, Scope};
/// let swap = OpKind::Atomic128 { op: Atomic128Op::Exchange, scope: Scope::Device };
/// assert_eq!(swap.mnemonic(), "atomic_exchange_128");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Atomic128Op {
    /// Stores, whatever is there.
    Exchange,
    /// Stores if what is expected is there.
    CompareExchange,
}

/// What happens where an index lies outside a view's extent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bounds {
    /// Loads give the padding, stores do nothing.
    Mask,
    /// The program ends with a fault that names the index and the extent.
    Check,
    /// The front end or a pass has proved that it cannot happen.
    Trust,
}

/// How a warp shuffle picks the lane it reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ShuffleMode {
    /// Lane `b`.
    Index,
    /// This lane - `b`; below lane 0, this lane.
    Up,
    /// This lane + `b`; above lane 31, this lane.
    Down,
    /// This lane xor `b`.
    Xor,
}

/// What a warp vote asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VoteMode {
    /// Whether the predicate holds in every thread; bool.
    All,
    /// Whether it holds in any; bool.
    Any,
    /// A bit for each lane where it holds; u32.
    Ballot,
}

/// Among whom a fence or an atomic orders memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// The threads of a block.
    Block,
    /// The threads of a device.
    Device,
    /// Every device and the host.
    System,
}

/// What an ordered access orders, beyond being whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Nothing. Accesses of one place are still seen in one order by all.
    Relaxed,
    /// Loads only: what the thread does after comes after the load. A value that a release stored
    /// brings what was stored before it.
    Acquire,
    /// Stores only: what the thread did before comes before the store.
    Release,
}

/// What a clock counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClockUnit {
    /// Nanoseconds since an instant that all threads of a device share. A GPU advances it in steps,
    /// of a microsecond at worst.
    Nanos,
    /// Cycles of the core that runs the thread, from anywhere: only differences taken by one thread
    /// mean something.
    Cycles,
}

/// How soon loaded or stored data will be used again, and which caches are to hold it. A hint: it
/// never changes a result, and devices that have no use for one ignore it.
///
/// ```
/// use kiln_ir::{OpKind, Reuse, parse};
/// let kernel = parse(
///     "kernel @k(%x: view<f32, 1, global>) tile {
///       %0 = const 0 : i64
///       %1 = const 0.0 : f32
///       %2 = load.streaming %x[%0] pad %1 : f32[8]
///     }",
/// )?;
/// let load = kernel.op(kernel.block(kernel.body).ops[2]);
/// assert_eq!(load.kind, OpKind::Load(Reuse::Streaming));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reuse {
    /// Nothing is known.
    #[default]
    Normal,
    /// It is touched once: do not keep it in caches.
    Streaming,
    /// It goes first where a multiprocessor's cache needs room.
    EvictFirst,
    /// It goes last where a multiprocessor's cache needs room.
    EvictLast,
    /// It is cached for the whole device alone, not for one multiprocessor.
    L2Only,
    /// Stores only: it is written through the caches to memory.
    WriteThrough,
}

/// What a check of the whole block, or a deferred one, is about.
///
/// ```
/// use kiln_ir::{Check, Message, OpKind};
/// let mnemonics = [Check::Assert(Message(0)), Check::Bounds, Check::Divisor].map(|check| OpKind::BlockCheck(check).mnemonic());
/// assert_eq!(mnemonics, ["block_assert", "block_check_bounds", "block_check_divisor"]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Check {
    /// As for `OpKind::Assert`.
    Assert(Message),
    /// As for `OpKind::CheckBounds`.
    Bounds,
    /// As for `OpKind::CheckDivisor`.
    Divisor,
}

/// An index into [`Kernel::messages`](crate::Kernel::messages).
///
/// ```
/// use kiln_ir::{Kernel, Level, Message};
/// let mut kernel = Kernel::new("k", Level::Tile { warps: None });
/// assert_eq!([kernel.message("a"), kernel.message("b"), kernel.message("a")], [0, 1, 0].map(Message));
/// assert_eq!(kernel.messages, ["a", "b"]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Message(pub u32);

/// The words of an enum in the text format, for the printer, the parser and test generators.
macro_rules! words {
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
            ///
            /// ```
            #[doc = concat!("use kiln_ir::", stringify!($ty), ";")]
            #[doc = concat!("let names: Vec<&str> = ", stringify!($ty), "::ALL.iter().map(|each| each.name()).collect();")]
            #[doc = concat!("assert_eq!(names, [", $("\"", $name, "\", ",)* "]);")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_name(names[1]), Some(", stringify!($ty), "::ALL[1]));")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_name(\"nothing\"), None);")]
            /// ```
            pub fn from_name(name: &str) -> Option<$ty> {
                Self::ALL.iter().copied().find(|v| v.name() == name)
            }
        }
    };
}

words!(Axis, "axis", { X = "x", Y = "y", Z = "z" });
words!(ReduceOp, "combination", {
    Sum = "sum", Prod = "prod", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor", ArgMin = "argmin",
    ArgMax = "argmax",
});
words!(Precision, "precision", { Full = "full", Tf32 = "tf32", Tf32x3 = "tf32x3", FastSums = "fast_sums" });
words!(AtomicOp, "atomic operation", {
    Add = "add", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor", Exchange = "exchange",
    AddF16x2 = "add_f16x2", AddBf16x2 = "add_bf16x2",
});
words!(Bounds, "treatment of bounds", { Mask = "mask", Check = "check", Trust = "trust" });
words!(ShuffleMode, "shuffle mode", { Index = "index", Up = "up", Down = "down", Xor = "xor" });
words!(VoteMode, "vote mode", { All = "all", Any = "any", Ballot = "ballot" });
words!(ClockUnit, "unit", { Nanos = "nanos", Cycles = "cycles" });
words!(Reuse, "use of caches", {
    Normal = "normal", Streaming = "streaming", EvictFirst = "evict_first", EvictLast = "evict_last",
    L2Only = "l2_only", WriteThrough = "write_through",
});
words!(Order, "order", { Relaxed = "relaxed", Acquire = "acquire", Release = "release" });
words!(Scope, "scope", { Block = "block", Device = "device", System = "system" });
