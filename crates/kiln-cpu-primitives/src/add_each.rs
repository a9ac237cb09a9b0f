//! Sums at indices: `memory[index[i]] += value[i]`, whose old values nobody reads. Histograms are
//! made of it.
//!
//! Each addition to the element that the one before changed waits for that one's store. Where
//! there are many more additions than elements, they are counted in several tables by turns, which
//! are added up at the end.

use super::signature::{AddEachFn, AddMode, Operand};
use kiln_ir::Scalar;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The most elements that are counted in several tables, which lie on the stack.
const MOST_COUNTED: usize = 1024;
/// How many tables there are.
const TABLES: usize = 4;
/// One more place, for indices outside.
type Tables = [[MaybeUninit<u32>; MOST_COUNTED + 1]; TABLES];

/// An integer that is added, modulo a power of two.
trait Sum: Copy + PartialEq + 'static {
    const ZERO: Self;
    /// Whether many additions are worth a loop of their own.
    const COUNTED: bool;

    fn from_bits(bits: u64) -> Self;

    fn plus(self, other: Self) -> Self;

    fn times(self, count: u32) -> Self;

    fn negated(self) -> Self;

    /// # Safety
    /// `place` is valid and aligned, and other threads access it only atomically.
    unsafe fn add_atomically(place: *mut Self, value: Self);
}

macro_rules! sum {
    ($($t:ty, $atomic:ty, $counted:expr;)*) => {$(
        impl Sum for $t {
            const ZERO: $t = 0;
            const COUNTED: bool = $counted;

            fn from_bits(bits: u64) -> $t {
                bits as $t
            }

            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn times(self, count: u32) -> $t {
                self.wrapping_mul(count as $t)
            }

            #[inline(always)]
            fn negated(self) -> $t {
                self.wrapping_neg()
            }

            #[inline(always)]
            unsafe fn add_atomically(place: *mut $t, value: $t) {
                // SAFETY: the caller's.
                unsafe { <$atomic>::from_ptr(place) }.fetch_add(value, Relaxed);
            }
        }
    )*};
}
sum!(u32, AtomicU32, true; u64, AtomicU64, false;);

/// An index; a negative one is greater than every extent.
trait Index: Copy + 'static {
    /// How many positions there are, at most.
    const POSITIONS: usize;

    fn position(self) -> usize;
}

macro_rules! index {
    ($($t:ty, $positions:expr;)*) => {$(
        impl Index for $t {
            const POSITIONS: usize = $positions;

            #[inline(always)]
            fn position(self) -> usize {
                self as usize
            }
        }
    )*};
}
index!(u8, 1 << 8; u32, usize::MAX; i64, usize::MAX;);

/// What is added where: the arguments of an [`AddEachFn`].
struct Sums<T> {
    memory: *mut T,
    extent: usize,
    stride: isize,
    mask: *const u8,
    value: Operand,
    n: usize,
    mode: AddMode,
}

impl<T: Sum> Sums<T> {
    /// # Safety
    /// `i < n`, and the mask is null or has `n` elements.
    #[inline(always)]
    unsafe fn goes(&self, i: usize) -> bool {
        // SAFETY: the caller's.
        self.mask.is_null() || unsafe { self.mask.add(i).read() } != 0
    }

    /// # Safety
    /// `i < n`, and the values are an array of `n` elements or a scalar, as the mode says.
    #[inline(always)]
    unsafe fn value(&self, i: usize) -> T {
        // SAFETY: the caller's.
        unsafe {
            if self.mode.has(AddMode::VALUES) {
                self.value.array.cast::<T>().add(i).read()
            } else {
                T::from_bits(self.value.bits)
            }
        }
    }

    /// Adds to one element. Of memory that others reach, nothing is not added: it is slow.
    ///
    /// # Safety
    /// `at` is less than the extent, and memory is valid there.
    #[inline(always)]
    unsafe fn add(&self, at: usize, value: T) {
        // SAFETY: the caller's.
        unsafe {
            let place = self.memory.offset((at as isize).wrapping_mul(self.stride));
            if !self.mode.has(AddMode::SHARED) {
                place.write(place.read().plus(value));
            } else if value != T::ZERO {
                T::add_atomically(place, value);
            }
        }
    }

    /// Whether an index whose mask is not 0 lies outside.
    ///
    /// # Safety
    /// As for [`AddEachFn`], with these positions.
    #[inline(never)]
    unsafe fn is_outside(&self, position: &dyn Fn(usize) -> usize) -> bool {
        let mut outside = false;
        for i in 0..self.n {
            // SAFETY: `i < n`.
            outside |= position(i) >= self.extent && unsafe { self.goes(i) };
        }
        outside
    }

    /// Adds one by one. What is common has loops of its own: this one is small.
    ///
    /// # Safety
    /// As for [`AddEachFn`], with these positions.
    #[inline(never)]
    unsafe fn one_by_one(&self, position: &dyn Fn(usize) -> usize) {
        for i in 0..self.n {
            let at = position(i);
            // SAFETY: `i < n`, and the index is inside.
            unsafe {
                if at < self.extent && self.goes(i) {
                    self.add(at, self.value(i));
                }
            }
        }
    }

    /// Adds one value to memory that nobody else reaches, under no mask. Gives whether an index
    /// lies outside; if that is to be checked, what was added before it is taken back.
    ///
    /// # Safety
    /// As for [`AddEachFn`], with these positions.
    #[inline(always)]
    unsafe fn one_value(&self, position: impl Fn(usize) -> usize) -> bool {
        // SAFETY: the position is less than the extent.
        let place = |at: usize| unsafe { self.memory.offset((at as isize).wrapping_mul(self.stride)) };
        let mut outside = false;
        // SAFETY: the value is a scalar, and memory valid at positions inside.
        unsafe {
            let value = T::from_bits(self.value.bits);
            for i in 0..self.n {
                let at = position(i);
                if at < self.extent {
                    place(at).write(place(at).read().plus(value));
                    continue;
                }
                outside = true;
                if self.mode.has(AddMode::CHECKED) {
                    // All of these were inside.
                    let less = value.negated();
                    (0..i).for_each(|i| place(position(i)).write(place(position(i)).read().plus(less)));
                    break;
                }
            }
        }
        outside
    }

    /// Adds one value to memory that nobody else reaches, under no mask, at positions that are
    /// known to be inside: a byte is.
    ///
    /// # Safety
    /// As for [`AddEachFn`], with these positions, which are less than the extent.
    #[inline(always)]
    unsafe fn one_value_inside(&self, position: impl Fn(usize) -> usize) {
        // SAFETY: `i < n`, the value is a scalar, and memory valid at positions inside.
        unsafe {
            let value = T::from_bits(self.value.bits);
            for i in 0..self.n {
                let place = match self.stride {
                    // No product on the way to the element.
                    1 => self.memory.add(position(i)),
                    stride => self.memory.offset((position(i) as isize).wrapping_mul(stride)),
                };
                place.write(place.read().plus(value));
            }
        }
    }

    /// Adds one value by counting, under no mask. Gives whether an index lies outside, and has
    /// added nothing then if that is to be checked.
    ///
    /// # Safety
    /// As for [`AddEachFn`]; there are at most [`MOST_COUNTED`] elements.
    #[inline(always)]
    unsafe fn counted(&self, position: impl Fn(usize) -> usize) -> bool {
        let mut tables: Tables = [[MaybeUninit::uninit(); MOST_COUNTED + 1]; TABLES];
        for table in &mut tables {
            table[..=self.extent].fill(MaybeUninit::new(0));
        }
        let mut count = |table: usize, i: usize| {
            // SAFETY: `i < n`; a place of the first `extent + 1`, which are written.
            unsafe {
                let at = position(i).min(self.extent);
                let place = tables.get_unchecked_mut(table).get_unchecked_mut(at);
                place.write(place.assume_init().wrapping_add(1));
            }
        };
        let whole = self.n / TABLES * TABLES;
        for i in (0..whole).step_by(TABLES) {
            (0..TABLES).for_each(|table| count(table, i + table));
        }
        (whole..self.n).for_each(|i| count(0, i));
        // SAFETY: the first `extent + 1` places are written.
        let all = |at: usize| unsafe {
            tables.iter().fold(0u32, |all, table| all.wrapping_add(table.get_unchecked(at).assume_init()))
        };
        let outside = all(self.extent) != 0;
        if outside && self.mode.has(AddMode::CHECKED) {
            return true;
        }
        // SAFETY: all of these are inside.
        (0..self.extent).for_each(|at| unsafe { self.add(at, self.value(0).times(all(at))) });
        outside
    }

    /// Adds to neighbors, from the position `first` on.
    ///
    /// # Safety
    /// As for [`AddEachFn`], with these positions.
    unsafe fn neighbors(&self, first: i64) -> u32 {
        let position = |i: usize| first.wrapping_add(i as i64) as usize;
        let all_inside = first >= 0 && (first as usize).saturating_add(self.n) <= self.extent;
        // SAFETY: the caller's; where all are inside, the values and the elements are arrays.
        unsafe {
            if !all_inside && self.mode.has(AddMode::CHECKED) && self.is_outside(&position) {
                return 1;
            }
            let values = self.mode.has(AddMode::VALUES) && !self.mode.has(AddMode::SHARED);
            if all_inside && values && self.stride == 1 && self.mask.is_null() {
                let (to, from) = (self.memory.add(first as usize), self.value.array.cast::<T>());
                for i in 0..self.n {
                    to.add(i).write(to.add(i).read().plus(from.add(i).read()));
                }
            } else {
                self.one_by_one(&position);
            }
        }
        0
    }
}

/// # Safety
/// As for [`AddEachFn`].
unsafe extern "C" fn add_each<T: Sum, I: Index>(
    memory: *mut u8,
    extent: usize,
    stride: isize,
    index: *const u8,
    mask: *const u8,
    value: Operand,
    n: usize,
    mode: AddMode,
) -> u32 {
    let sums = Sums { memory: memory.cast::<T>(), extent, stride, mask, value, n, mode };
    let index = index.cast::<I>();
    // SAFETY: `i < n` where the positions are asked for; the caller's.
    unsafe {
        if mode.has(AddMode::NEIGHBORS) {
            return sums.neighbors(index as i64);
        }
        let position = |i: usize| index.add(i).read().position();
        if T::COUNTED && !mode.has(AddMode::VALUES) && mask.is_null() {
            let counts = extent <= MOST_COUNTED && n / 2 >= extent;
            if !counts && !mode.has(AddMode::SHARED) && I::POSITIONS <= extent {
                sums.one_value_inside(position);
                return 0;
            }
            if counts || !mode.has(AddMode::SHARED) {
                let outside = if counts { sums.counted(position) } else { sums.one_value(position) };
                return (outside && mode.has(AddMode::CHECKED)).into();
            }
        }
        if mode.has(AddMode::CHECKED) && sums.is_outside(&position) {
            return 1;
        }
        sums.one_by_one(&position);
    }
    0
}

/// As [`add_each`], at indices of i32: as u32, those below 0 are beyond the greatest of i32.
///
/// # Safety
/// As for [`AddEachFn`].
unsafe extern "C" fn add_each_signed(
    memory: *mut u8,
    extent: usize,
    stride: isize,
    index: *const u8,
    mask: *const u8,
    value: Operand,
    n: usize,
    mode: AddMode,
) -> u32 {
    let extent = extent.min(1 << 31);
    // SAFETY: the caller's.
    unsafe { add_each::<u32, u32>(memory, extent, stride, index, mask, value, n, mode) }
}

/// The primitive for indices and elements of these types, if there is one.
pub(crate) fn lookup(index: Scalar, scalar: Scalar) -> Option<AddEachFn> {
    let elements = match (index, scalar) {
        (Scalar::U8, Scalar::I32 | Scalar::U32) => add_each::<u32, u8>,
        (Scalar::I32, Scalar::I32 | Scalar::U32) => add_each_signed,
        (Scalar::U32, Scalar::I32 | Scalar::U32) => add_each::<u32, u32>,
        (Scalar::I64, Scalar::I32 | Scalar::U32) => add_each::<u32, i64>,
        (Scalar::I64, Scalar::I64 | Scalar::U64) => add_each::<u64, i64>,
        _ => return None,
    };
    Some(elements)
}
