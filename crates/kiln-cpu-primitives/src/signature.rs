//! The few function types that all primitives share, and how a loop becomes one function per
//! [`Isa`].
//!
//! Every argument is an integer or a pointer of 8 bytes and every result an integer of 4, so that
//! generated code needs one kind of call.

use super::isa::Portable;
#[cfg(target_arch = "x86_64")]
use super::isa::{Avx2, Avx512};
use super::isa::{Isa, IsaProfile};

/// An operand that is an array in one form of a primitive and a scalar in another. It is passed as
/// 8 bytes in a register.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Operand {
    /// The address of the first element.
    pub array: *const u8,
    /// The value's bits, in the lowest bits; the others are ignored.
    pub bits: u64,
}

/// One axis of a strided copy. Strides are in elements and may be 0 or negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CopyAxis {
    /// How many elements the axis has.
    pub extent: i64,
    /// From one element to the next in the destination.
    pub to_stride: i64,
    /// From one element to the next in the source.
    pub from_stride: i64,
}

/// One axis of a box of a view, which a tile is loaded from or stored to. The tile itself is
/// contiguous and row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct BoxAxis {
    /// The tile's extent.
    pub tile: i64,
    /// Where in the view the box begins; may be negative or beyond the extent.
    pub offset: i64,
    /// The view's extent.
    pub extent: i64,
    /// From one element of the view to the next, in elements.
    pub stride: i64,
}

/// The shape of a matrix product `c += a · b`, with `a` m × k, `b` k × n and `c` m × n. Strides are
/// in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DotShape {
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `b` and `c`.
    pub n: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// From one row of `a` to the next.
    pub a_row: isize,
    /// From one column of `a` to the next.
    pub a_column: isize,
    /// From one row of `b` to the next.
    pub b_row: isize,
    /// From one column of `b` to the next.
    pub b_column: isize,
    /// From one row of `c` to the next; its columns are adjacent.
    pub c_row: isize,
    /// Memory of [`scratch_bytes`](DotShape::scratch_bytes), aligned to the accumulator, which
    /// overlaps nothing else; 64-byte alignment is faster.
    pub scratch: *mut u8,
}

/// Declares a function type, the trait of loops of that type, and the compilation of such a loop
/// for each instruction set.
macro_rules! signature {
    ($(#[$doc:meta])* $function:ident, $kernel:ident, ($($arg:ident: $ty:ty),* $(,)?) $(-> $result:ty)?) => {
        $(#[$doc])*
        pub type $function = unsafe extern "C" fn($($arg: $ty),*) $(-> $result)?;

        #[doc = concat!("A loop that can be compiled to a [`", stringify!($function), "`] for each isa.")]
        pub(crate) trait $kernel: 'static {
            /// Whether a version for AVX-512 is worth its code: else that instruction set runs the
            /// one for AVX2.
            #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
            const WIDE: bool = true;

            /// The loop. Implementations are `#[inline(always)]`: it takes on the target features
            /// of the function that it is inlined into.
            ///
            /// # Safety
            /// As for the function type; and the processor supports `I`.
            unsafe fn run<I: IsaProfile>($($arg: $ty),*) $(-> $result)?;

            /// The loop compiled for an instruction set.
            fn at(isa: Isa) -> $function
            where
                Self: Sized,
            {
                unsafe extern "C" fn portable<K: $kernel>($($arg: $ty),*) $(-> $result)? {
                    // SAFETY: the caller keeps the function type's contract; every processor
                    // supports the portable instruction set.
                    unsafe { K::run::<Portable>($($arg),*) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
                unsafe extern "C" fn avx2<K: $kernel>($($arg: $ty),*) $(-> $result)? {
                    // SAFETY: as above; the caller has checked for the features.
                    unsafe { K::run::<Avx2>($($arg),*) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
                #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
                unsafe extern "C" fn avx512<K: $kernel>($($arg: $ty),*) $(-> $result)? {
                    // SAFETY: as above; the caller has checked for the features.
                    unsafe { K::run::<Avx512>($($arg),*) }
                }
                match isa {
                    Isa::Portable => portable::<Self>,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => avx2::<Self>,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => {
                        if Self::WIDE {
                            avx512::<Self>
                        } else {
                            avx2::<Self>
                        }
                    }
                }
            }
        }
    };
}

signature! {
    /// Writes `n` elements made from a scalar's bits.
    ///
    /// # Safety
    /// `out` is valid for `n` elements.
    FillFn, FillLoop, (out: *mut u8, bits: u64, n: usize)
}

signature! {
    /// Writes `n` elements, each made from the element of `a` at the same place.
    ///
    /// # Safety
    /// Both pointers are valid for `n` elements of their types and aligned to them. If the element
    /// sizes are equal they may be the same address; apart from that they do not overlap.
    UnaryFn, UnaryLoop, (out: *mut u8, a: *const u8, n: usize)
}

signature! {
    /// Writes `n` elements made from two operands each. The result is not 0 if an integer was
    /// divided by zero; the element is then 0.
    ///
    /// # Safety
    /// As for [`UnaryFn`], for each operand that is an array.
    BinaryFn, BinaryLoop, (out: *mut u8, a: Operand, b: Operand, n: usize) -> u32
}

signature! {
    /// Writes `n` elements made from three operands each, of which the third is always an array.
    ///
    /// # Safety
    /// As for [`UnaryFn`], for each operand that is an array.
    TernaryFn, TernaryLoop, (out: *mut u8, a: Operand, b: Operand, c: *const u8, n: usize)
}

signature! {
    /// Reduces or scans the middle axis of a contiguous tile of shape `outer` × `len` × `inner`.
    ///
    /// # Safety
    /// `a` is valid for `outer * len * inner` elements, `out` for as many (a scan) or for
    /// `outer * inner` elements of the result type (a reduction). A scan may work in place; apart
    /// from that the two do not overlap.
    AxisFn, AxisLoop, (out: *mut u8, a: *const u8, outer: usize, len: usize, inner: usize)
}

/// Copies elements between two strided arrays of one shape.
///
/// # Safety
/// `axes` is valid for `rank` axes, outermost first; both arrays for every element that these
/// address; they do not overlap.
pub type StridedCopyFn =
    unsafe extern "C" fn(to: *mut u8, from: *const u8, axes: *const CopyAxis, rank: usize);

/// Moves a tile from (load) or to (store) a box of a view. A load fills elements outside the view's
/// extents with the padding; a store drops them and ignores `padding`.
///
/// # Safety
/// `axes` is valid for `rank` axes, outermost first, the tile for all of its elements, `view` (the
/// address of the view's element 0) for every element of the box inside the extents. Tile and view
/// do not overlap.
pub type BoxFn =
    unsafe extern "C" fn(tile: *mut u8, view: *mut u8, axes: *const BoxAxis, rank: usize, padding: u64);

/// `tile[i] = memory[index[i]]` for `n` elements; where the mask is 0, the padding and no access. A
/// null mask is all ones.
///
/// # Safety
/// `tile`, `index` and a mask that is not null are valid for `n` elements; `memory` at each index
/// whose mask is not 0.
pub type GatherFn = unsafe extern "C" fn(
    tile: *mut u8,
    memory: *const u8,
    index: *const i64,
    mask: *const u8,
    padding: u64,
    n: usize,
);

/// `memory[index[i]] = tile[i]` for `n` elements, in order; nothing where the mask is 0. A null
/// mask is all ones.
///
/// # Safety
/// As for [`GatherFn`], with `memory` writable.
pub type ScatterFn =
    unsafe extern "C" fn(memory: *mut u8, tile: *const u8, index: *const i64, mask: *const u8, n: usize);

signature! {
    /// Adds the product of a sliver and a panel to a tile of `c`, whose rows begin `c_row` elements
    /// apart; those of the sliver, of `depth` elements, begin as far apart as the loop says, the
    /// `depth` rows of the panel `stride` elements.
    ///
    /// # Safety
    /// All of these are valid for the elements of a tile of the loop's extents.
    RegisterTileFn, RegisterTileLoop, (
        c: *mut u8,
        c_row: isize,
        sliver: *const u8,
        panel: *const u8,
        stride: isize,
        depth: usize,
    )
}

signature! {
    /// `c += a · b` for matrices.
    ///
    /// # Safety
    /// `shape` is readable, and the matrices and its scratch memory are valid for the elements that
    /// it addresses. `c` and the scratch memory overlap neither `a` nor `b`.
    DotFn, DotLoop, (c: *mut u8, a: *const u8, b: *const u8, shape: *const DotShape)
}

/// Atomically (relaxed) replaces `memory[index[i]]` by `op(itself, value[i])`, for `n` elements in
/// order, and writes the old values to `old` unless that is null. Where the mask is 0 nothing is
/// accessed and the old value is 0. A null mask is all ones.
///
/// # Safety
/// `value`, `index`, and `old` and the mask if not null, are valid for `n` elements; `memory` at
/// each index whose mask is not 0, where it is aligned and other threads access it only atomically.
/// `old` may be `value`.
pub type AtomicFn = unsafe extern "C" fn(
    old: *mut u8,
    memory: *mut u8,
    index: *const i64,
    mask: *const u8,
    value: *const u8,
    n: usize,
);

/// Atomically (relaxed) replaces `memory[index[i]]` by `desired[i]` if its bits are those of
/// `expected[i]`; else as [`AtomicFn`].
///
/// # Safety
/// As for [`AtomicFn`].
pub type AtomicCasFn = unsafe extern "C" fn(
    old: *mut u8,
    memory: *mut u8,
    index: *const i64,
    mask: *const u8,
    expected: *const u8,
    desired: *const u8,
    n: usize,
);

/// How an [`AddEachFn`] adds: a set of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct AddMode(pub u64);

impl AddMode {
    /// The values are an array; else they are one scalar.
    pub const VALUES: AddMode = AddMode(1);
    /// An index outside is an error; else nothing is added there.
    pub const CHECKED: AddMode = AddMode(2);
    /// Other threads reach the memory: each addition is atomic (relaxed).
    pub const SHARED: AddMode = AddMode(4);
    /// The index is one number, and each next one 1 more; else they are an array.
    pub const NEIGHBORS: AddMode = AddMode(8);

    /// Whether a flag is set.
    #[inline(always)]
    pub fn has(self, flag: AddMode) -> bool {
        self.0 & flag.0 != 0
    }
}

/// `memory[index[i] * stride] += value[i]` for `n` elements, modulo a power of two, where the mask
/// is not 0 and the index is at least 0 and less than `extent`. A null mask is all ones. Returns 1
/// if indices are checked and one lies outside where the mask is not 0; nothing is added then.
///
/// # Safety
/// An array of indices, values that are an array, and a mask that is not null are valid for `n`
/// elements; `memory` at each index that is inside and whose mask is not 0, where it is aligned. It
/// overlaps none of the others. Unless the mode is shared, no other thread reaches it meanwhile.
pub type AddEachFn = unsafe extern "C" fn(
    memory: *mut u8,
    extent: usize,
    stride: isize,
    index: *const u8,
    mask: *const u8,
    value: Operand,
    n: usize,
    mode: AddMode,
) -> u32;

/// A primitive: the address of a function of a known type.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum PrimitiveFn {
    Fill(FillFn),
    Unary(UnaryFn),
    Binary(BinaryFn),
    Ternary(TernaryFn),
    Axis(AxisFn),
    StridedCopy(StridedCopyFn),
    Box(BoxFn),
    Gather(GatherFn),
    Scatter(ScatterFn),
    Dot(DotFn),
    Atomic(AtomicFn),
    AtomicCas(AtomicCasFn),
    AddEach(AddEachFn),
}

impl PrimitiveFn {
    /// The address to call.
    pub fn address(self) -> *const u8 {
        match self {
            PrimitiveFn::Fill(f) => f as *const u8,
            PrimitiveFn::Unary(f) => f as *const u8,
            PrimitiveFn::Binary(f) => f as *const u8,
            PrimitiveFn::Ternary(f) => f as *const u8,
            PrimitiveFn::Axis(f) => f as *const u8,
            PrimitiveFn::StridedCopy(f) => f as *const u8,
            PrimitiveFn::Box(f) => f as *const u8,
            PrimitiveFn::Gather(f) => f as *const u8,
            PrimitiveFn::Scatter(f) => f as *const u8,
            PrimitiveFn::Dot(f) => f as *const u8,
            PrimitiveFn::Atomic(f) => f as *const u8,
            PrimitiveFn::AtomicCas(f) => f as *const u8,
            PrimitiveFn::AddEach(f) => f as *const u8,
        }
    }

    /// How many arguments it takes, each an integer or pointer of 8 bytes.
    pub fn arity(self) -> usize {
        match self {
            PrimitiveFn::Fill(_) | PrimitiveFn::Unary(_) => 3,
            PrimitiveFn::Binary(_) | PrimitiveFn::StridedCopy(_) | PrimitiveFn::Dot(_) => 4,
            PrimitiveFn::Ternary(_)
            | PrimitiveFn::Axis(_)
            | PrimitiveFn::Box(_)
            | PrimitiveFn::Scatter(_) => 5,
            PrimitiveFn::Gather(_) | PrimitiveFn::Atomic(_) => 6,
            PrimitiveFn::AtomicCas(_) => 7,
            PrimitiveFn::AddEach(_) => 8,
        }
    }

    /// Whether it returns a 32-bit integer: not 0 if an integer was divided by zero, or an index
    /// was outside.
    pub fn returns_flag(self) -> bool {
        matches!(self, PrimitiveFn::Binary(_) | PrimitiveFn::AddEach(_))
    }
}
