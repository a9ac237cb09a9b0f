//! The unsigned number that puts an element in order.

use kiln_lang::prelude::*;

/// An element type with an order: each element has a key, an unsigned number, and keys compare as
/// the elements do. -0 and 0 have the same key, and all NaN have the greatest one.
///
/// ```
/// use kiln_kernels::sort::Sortable;
///
/// assert_eq!((<f32 as Sortable>::BITS, <i64 as Sortable>::BITS), (32, 64));
/// ```
pub trait Sortable: Num {
    /// The type of a key.
    type Key: Sortable<Key = Self::Key> + Int;

    /// The bits of a key, from the lowest one on, that may be set.
    const BITS: u32;

    /// The keys of elements.
    ///
    /// ```
    /// use kiln_kernels::sort::Sortable;
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor};
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn keys<T: Sortable<Key = u32>>(x: &Tensor<T, 1>, y: &mut Tensor<u32, 1>) {
    ///     y.tile(0, 4).store(T::key(x.tile(0, 4).load(0)));
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let mut y = device.uninit([4])?;
    /// keys(&device.tensor(&[i32::MIN, -1, 0, 1], [4])?, &mut y).launch(&device)?;
    /// assert_eq!(y.to_vec()?, [0, (1 << 31) - 1, 1 << 31, (1 << 31) + 1]);
    /// keys(&device.tensor(&[-1.0f32, -0.0, 0.0, f32::NAN], [4])?, &mut y).launch(&device)?;
    /// let y = y.to_vec()?;
    /// assert!(y[0] < y[1] && y[1] == y[2] && y[3] == u32::MAX);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    fn key(elements: Val<Self>) -> Val<Self::Key>;
}

impl Sortable for u32 {
    type Key = u32;
    const BITS: u32 = 32;

    fn key(elements: Val<u32>) -> Val<u32> {
        elements
    }
}

impl Sortable for u64 {
    type Key = u64;
    const BITS: u32 = 64;

    fn key(elements: Val<u64>) -> Val<u64> {
        elements
    }
}

impl Sortable for i32 {
    type Key = u32;
    const BITS: u32 = 32;

    fn key(elements: Val<i32>) -> Val<u32> {
        elements.bitcast::<u32>() ^ (1u32 << 31)
    }
}

impl Sortable for i64 {
    type Key = u64;
    const BITS: u32 = 64;

    fn key(elements: Val<i64>) -> Val<u64> {
        elements.bitcast::<u64>() ^ (1u64 << 63)
    }
}

impl Sortable for f32 {
    type Key = u32;
    const BITS: u32 = 32;

    fn key(elements: Val<f32>) -> Val<u32> {
        // Below zero the magnitude counts the other way.
        let bits = select(elements.eq(0.0), 0.0, elements).bitcast::<u32>();
        let flipped = bits ^ select(bits.ge(1u32 << 31), u32::MAX, 1u32 << 31);
        select(elements.is_nan(), u32::MAX, flipped)
    }
}

impl Sortable for f64 {
    type Key = u64;
    const BITS: u32 = 64;

    fn key(elements: Val<f64>) -> Val<u64> {
        let bits = select(elements.eq(0.0), 0.0, elements).bitcast::<u64>();
        let flipped = bits ^ select(bits.ge(1u64 << 63), u64::MAX, 1u64 << 63);
        select(elements.is_nan(), u64::MAX, flipped)
    }
}

macro_rules! small {
    ($($t:ty, $bits:ty: $sign:expr;)*) => {$(
        impl Sortable for $t {
            type Key = u32;
            const BITS: u32 = <$t>::BITS;

            fn key(elements: Val<$t>) -> Val<u32> {
                elements.bitcast::<$bits>().cast::<u32>() ^ $sign
            }
        }
    )*};
}

small! {
    u8, u8: 0u32;
    i8, u8: 1u32 << 7;
    u16, u16: 0u32;
    i16, u16: 1u32 << 15;
}

impl Sortable for bf16 {
    type Key = u32;
    const BITS: u32 = 16;

    fn key(elements: Val<bf16>) -> Val<u32> {
        // As an f32 it has no other bits than the upper half; nor has the key of a NaN here.
        f32::key(elements.cast::<f32>()) >> 16
    }
}

impl Sortable for f16 {
    type Key = u32;
    const BITS: u32 = 19;

    fn key(elements: Val<f16>) -> Val<u32> {
        // As an f32 it has 8 bits of exponent and 10 of fraction.
        f32::key(elements.cast::<f32>()) >> 13
    }
}
