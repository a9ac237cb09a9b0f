//! Wide tile primitives: element-wise mathematics, reductions, moves, matrix products and atomics
//! over tiles in memory, compiled ahead of time for each instruction set the machine may have.
//! Apart from `kiln-cpu`, since they take long to compile and seldom change.
//!
//! Generated code does control flow and addressing and calls these through plain `extern "C"`
//! functions, which [`lookup`] finds by a typed [`PrimitiveKey`]. Tiles are contiguous, row-major
//! arrays of any length, aligned to their element; 64-byte alignment is faster. Bool is one byte, 0
//! or 1, and so are masks. A primitive never panics, allocates or blocks.
//!
//! | file | holds |
//! |---|---|
//! | `isa.rs` | instruction sets, and the choice of one |
//! | `signature.rs` | the function types, and the compilation of a loop for each instruction set |
//! | `element.rs`, `float16.rs` | element types, conversions of 16-bit floats |
//! | `elementwise.rs` | the loops of element-wise primitives |
//! | `through_f32.rs` | those of 16-bit floats |
//! | `unary.rs`, `binary.rs`, `compare.rs`, `ternary.rs` | operations on an element |
//! | `cast.rs`, `fill.rs` | conversions and constants |
//! | `math_f32.rs` | elementary functions |
//! | `reduce.rs`, `scan.rs` | combination along an axis |
//! | `strided.rs`, `boxes.rs`, `gather.rs` | moves |
//! | `streaming.rs` | copies past the caches |
//! | `dot.rs` | matrix products |
//! | `atomic.rs` | read-modify-write of shared memory |
//! | `add_each.rs` | sums at indices |
//! | `indexing.rs` | what gathers, scatters and atomics make of their indices |
//! | `ordered.rs`, `atomic_128.rs` | accesses lane by lane: in order, of quads, of 128 bits |
//! | `warps.rs`, `lane_numbers.rs` | shuffles and votes; numbers that follow from a lane's place |
//!
//! To add an operation, write what it does to an element in one of the files of the third group and
//! name it in that file's `lookup`. Elementary functions must be free of branches and calls, or
//! LLVM does not vectorize them.
//!
//! ```
//! use kiln_cpu_primitives::{PrimitiveFn, PrimitiveKey, lookup};
//! use kiln_ir::{MathFn, Scalar, UnaryOp};
//!
//! let Some(PrimitiveFn::Unary(exp)) = lookup(PrimitiveKey::Unary(UnaryOp::Math(MathFn::Exp), Scalar::F32)) else {
//!     panic!("exp of f32 exists");
//! };
//! let (x, mut y) = ([0.0f32, 1.0, f32::NEG_INFINITY], [0.0f32; 3]);
//! // SAFETY: both arrays have three elements of f32.
//! unsafe { exp(y.as_mut_ptr().cast(), x.as_ptr().cast(), 3) };
//! assert_eq!(y, [1.0, std::f32::consts::E, 0.0]);
//! ```

mod add_each;
mod atomic;
pub mod atomic_128;
mod binary;
mod boxes;
mod bytes;
mod cast;
mod compare;
mod convert;
mod dot;
mod element;
mod elementwise;
mod fill;
mod float16;
mod gather;
pub mod indexing;
mod isa;
pub mod lane_numbers;
mod math_f32;
pub mod ordered;
mod reduce;
mod scan;
mod signature;
pub mod streaming;
mod strided;
mod ternary;
mod through_f32;
mod unary;
pub mod warps;

pub use isa::Isa;
pub use signature::{
    AddEachFn, AddMode, AtomicCasFn, AtomicFn, AxisFn, BinaryFn, BoxAxis, BoxFn, CopyAxis, DotFn, DotShape,
    FillFn, GatherFn, Operand, PrimitiveFn, ScatterFn, StridedCopyFn, TernaryFn, UnaryFn,
};
pub use unary::{UnaryInstruction, unary_instruction};

use kiln_ir::{AtomicOp, BinaryOp, CompareOp, ReduceOp, Scalar, UnaryOp};

/// Which operands of a primitive are arrays and which are scalars passed in a register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// Both operands are arrays.
    Arrays,
    /// The first operand is a scalar.
    ScalarLeft,
    /// The second operand is a scalar.
    ScalarRight,
}

/// Names a primitive. Each variant says which function type it has; the scalar is the operands'
/// element type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PrimitiveKey {
    /// [`FillFn`]: every element is the scalar.
    Splat(Scalar),
    /// [`FillFn`]: the scalar, and each next element 1 more; integers only.
    Iota(Scalar),
    /// [`UnaryFn`].
    Unary(UnaryOp, Scalar),
    /// [`UnaryFn`]: conversion from the first type to the second.
    Cast(Scalar, Scalar),
    /// [`UnaryFn`]: contiguous elements, unchanged.
    Copy(Scalar),
    /// [`UnaryFn`]: as `Copy`, past the caches: for output that is not read again soon.
    CopyStreaming(Scalar),
    /// [`BinaryFn`].
    Binary(BinaryOp, Form, Scalar),
    /// [`BinaryFn`]; the result is a mask.
    Compare(CompareOp, Form, Scalar),
    /// [`TernaryFn`]: the first operand where the third, a mask, is not 0, else the second.
    Select(Form, Scalar),
    /// [`TernaryFn`]: the first times the second plus the third, rounded once.
    Fma(Form, Scalar),
    /// [`AxisFn`]: the axis goes. `ArgMin` and `ArgMax` give i64. NaN loses to numbers; of nothing
    /// but NaN, `Min` and `Max` give NaN and `ArgMin` and `ArgMax` index 0.
    Reduce(ReduceOp, Scalar),
    /// [`AxisFn`]: running combination along the axis, with any operation but `ArgMin` and
    /// `ArgMax`. The identity that an exclusive scan begins with takes no part in the following
    /// results: of nothing but NaN the least is NaN.
    Scan {
        /// What is combined.
        op: ReduceOp,
        /// The element type.
        scalar: Scalar,
        /// From the last element to the first.
        reverse: bool,
        /// Without the element itself; the first result is the identity.
        exclusive: bool,
    },
    /// [`StridedCopyFn`]: broadcasts, transpositions, strided loads and stores.
    StridedCopy(Scalar),
    /// [`BoxFn`]: from a view to a tile.
    LoadBox(Scalar),
    /// [`BoxFn`]: from a tile to a view.
    StoreBox(Scalar),
    /// [`BoxFn`]: as `StoreBox`, past the caches where rows are contiguous.
    StoreBoxStreaming(Scalar),
    /// [`GatherFn`].
    Gather(Scalar),
    /// [`ScatterFn`].
    Scatter(Scalar),
    /// [`DotFn`] of matrices of this type into one of its accumulator type.
    Dot(Scalar),
    /// [`AtomicFn`]; the 16-bit floats by compare and exchange.
    Atomic(AtomicOp, Scalar),
    /// [`AtomicCasFn`].
    AtomicCas(Scalar),
    /// [`AddEachFn`]: at indices of the first type (u8, i32, u32 or i64), of integers of the
    /// second.
    AddEach(Scalar, Scalar),
}

/// The primitive with this key for this processor; none if the operation is not defined on the
/// type.
///
/// The answer for a key never changes within a process.
pub fn lookup(key: PrimitiveKey) -> Option<PrimitiveFn> {
    lookup_at(Isa::best(), key)
}

/// As [`lookup`], for an instruction set that may not be the best: to compare them. The processor
/// must have `isa` if the function is to be called; see [`Isa::available`].
pub fn lookup_at(isa: Isa, key: PrimitiveKey) -> Option<PrimitiveFn> {
    use PrimitiveKey as Key;
    Some(match key {
        Key::Splat(scalar) => PrimitiveFn::Fill(fill::splat(isa, scalar)),
        Key::Iota(scalar) => PrimitiveFn::Fill(fill::iota(isa, scalar)?),
        Key::Unary(op, scalar) => PrimitiveFn::Unary(unary::lookup(isa, op, scalar)?),
        Key::Cast(from, to) => PrimitiveFn::Unary(cast::lookup(isa, from, to)?),
        Key::Copy(scalar) => PrimitiveFn::Unary(convert::copy(isa, scalar.bytes())),
        Key::CopyStreaming(scalar) => PrimitiveFn::Unary(streaming::copy_streaming(scalar)),
        Key::Binary(op, form, scalar) => PrimitiveFn::Binary(binary::lookup(isa, op, form, scalar)?),
        Key::Compare(op, form, scalar) => PrimitiveFn::Binary(compare::lookup(isa, op, form, scalar)?),
        Key::Select(form, scalar) => PrimitiveFn::Ternary(ternary::select(isa, form, scalar)),
        Key::Fma(form, scalar) => PrimitiveFn::Ternary(ternary::fma(isa, form, scalar)?),
        Key::Reduce(op, scalar) => PrimitiveFn::Axis(reduce::lookup(isa, op, scalar)?),
        Key::Scan { op, scalar, reverse, exclusive } => {
            PrimitiveFn::Axis(scan::lookup(op, scalar, reverse, exclusive)?)
        }
        Key::StridedCopy(scalar) => PrimitiveFn::StridedCopy(strided::lookup(scalar)),
        Key::LoadBox(scalar) => PrimitiveFn::Box(boxes::load(scalar)),
        Key::StoreBox(scalar) => PrimitiveFn::Box(boxes::store(scalar)),
        Key::StoreBoxStreaming(scalar) => PrimitiveFn::Box(boxes::store_streaming(scalar)),
        Key::Gather(scalar) => PrimitiveFn::Gather(gather::gather(scalar)),
        Key::Scatter(scalar) => PrimitiveFn::Scatter(gather::scatter(scalar)),
        Key::Dot(scalar) => PrimitiveFn::Dot(dot::lookup(isa, scalar)?),
        Key::Atomic(op, scalar) => PrimitiveFn::Atomic(atomic::lookup(op, scalar)?),
        Key::AtomicCas(scalar) => PrimitiveFn::AtomicCas(atomic::compare_exchange(scalar)),
        Key::AddEach(index, scalar) => PrimitiveFn::AddEach(add_each::lookup(index, scalar)?),
    })
}
