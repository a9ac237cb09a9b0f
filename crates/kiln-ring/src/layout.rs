//! How values are laid out in memory that the host and a device share: in words of 32 bits.
//!
//! | type | words |
//! |---|---|
//! | `u32`, `i32`, `f32` | one, the bits |
//! | `bool` | one, 0 or 1; any other word reads as `true` |
//! | `u64`, `i64`, `f64` | two, the low half first |
//! | `f16`, `bf16` | one, the bits of the same value as `f32` (a NaN's payload may change) |
//! | `[T; N]` | those of the elements in order |
//! | [`Inline<T, N>`](crate::Inline) | those of the elements in order |
//! | [`Payload<T>`](crate::Payload) | three, a reference to an array in device memory |
//! | a struct deriving [`Message`](crate::Message), [`State`](crate::State) | its fields in order |

use crate::outcome::Zeroed;
use crate::payload::Hold;
use half::{bf16, f16};
use kiln_lang::{DeviceValue, Val};
use std::ops::Range;

/// The most words that a message, reply or state may have: 64 KiB.
pub const MAX_WORDS: usize = 16 * 1024;

/// A type with a fixed layout of 32-bit words, and its counterpart in kernels.
///
/// Derived with [`Message`](crate::Message) and [`State`](crate::State); implemented here for the
/// types that their fields may have.
///
/// ```
/// use kiln_ring::{Layout, Message};
///
/// #[derive(Message, Debug, PartialEq)]
/// #[kiln(crate = kiln_ring)]
/// struct Reading { at: u64, valid: bool, axes: [f32; 3] }
///
/// let reading = Reading { at: 1 << 32, valid: true, axes: [1.0, 2.0, 3.0] };
/// let mut words = [0; Reading::WORDS];
/// reading.encode(&mut words);
/// assert_eq!(words[..3], [0, 1, 1]);
/// assert_eq!(Reading::decode(&words), reading);
/// ```
///
/// Kernels read and write values of the same layout, in whatever memory the words lie:
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Layout, Message};
/// use kiln_runtime::{Device, Tensor};
///
/// #[derive(Message, Debug, PartialEq)]
/// #[kiln(crate = kiln_ring)]
/// struct Reading { at: u64, axes: [f32; 2] }
///
/// /// The reading in some words, a moment later and with its axes exchanged.
/// #[kernel(crate = kiln_runtime)]
/// fn exchange(words: &Tensor<u32, 1>, out: &mut Tensor<u32, 1>) {
///     let words: Vec<Val<u32>> = (0..Reading::WORDS).map(|i| words.get(i as u32)).collect();
///     let ReadingVal { at, axes: [x, y] } = Reading::load(&words);
///     let mut swapped = Reading::store(&ReadingVal { at: at + 1, axes: [y, x] });
///     // Another value behind it.
///     bool::append(&x.lt(y), &mut swapped);
///     for (i, word) in swapped.into_iter().enumerate() {
///         // SAFETY: there is one thread.
///         unsafe { out.write(i as u32, word) };
///     }
/// }
///
/// let device = Device::open("interp")?;
/// let mut words = [0; Reading::WORDS];
/// Reading { at: 7, axes: [1.0, 2.0] }.encode(&mut words);
/// let mut out = device.uninit::<u32, 1>([Reading::WORDS + 1])?;
/// exchange(&device.tensor(&words, [Reading::WORDS])?, &mut out).grid([1]).block([1]).launch(&device)?;
/// let out = out.to_vec()?;
/// assert_eq!(Reading::decode(&out), Reading { at: 8, axes: [2.0, 1.0] });
/// assert!(bool::decode(&out[Reading::WORDS..]));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a message or state",
    label = "not a type of fixed layout",
    note = "fields are bool, u32, i32, u64, i64, f32, f64, f16, bf16, arrays of those, `Inline` arrays, `Payload`s, `Address`es, and structs that derive `Message` (or `State`)"
)]
pub trait Layout: Sized + Send + 'static {
    /// How many words a value takes.
    const WORDS: usize;

    /// Identifies the layout: a hash of the name, and of the fields' names and types.
    const ID: u64;

    /// Whether values refer to arrays in device memory, which [`hold`](Self::hold) names.
    const HOLDS: bool = false;

    /// Whether values mean the same on every device: not so for what names places in a device's
    /// memory, [`Payload`](crate::Payload)s and [`Address`](crate::Address)es.
    const PORTABLE: bool = true;

    /// The value in a kernel.
    type Device: DeviceValue + Zeroed + Copy;

    /// Writes the value's words. `words` has [`WORDS`](Self::WORDS) of them; with fewer, it panics.
    fn encode(&self, words: &mut [u32]);

    /// The value that these words stand for. `words` has [`WORDS`](Self::WORDS) of them; with
    /// fewer, it panics.
    fn decode(words: &[u32]) -> Self;

    /// Adds the arrays in device memory that the value refers to: none where
    /// [`HOLDS`](Self::HOLDS) is false.
    ///
    /// ```
    /// use kiln_ring::{Hold, Layout, Payload, RingRuntime};
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let array = runtime.payload_of(&[1u32, 2, 3])?;
    /// let mut held: Vec<Hold> = Vec::new();
    /// 7u32.hold(&mut held);
    /// assert!(held.is_empty() && !u32::HOLDS);
    /// [array.clone(), array].hold(&mut held);
    /// assert!(held.len() == 2 && <[Payload<u32>; 2]>::HOLDS);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn hold(&self, held: &mut Vec<Hold>) {
        let _ = held;
    }

    /// Adds the [inline](crate::Inline) arrays of a value whose words begin at `at`: their words'
    /// numbers.
    #[doc(hidden)]
    fn inlines(at: usize, found: &mut Vec<Range<usize>>) {
        let _ = (at, found);
    }

    /// Adds the references to arrays in device memory ([`Payload`](crate::Payload)s) of a value
    /// whose words begin at `at`: the number of the first of each one's three words.
    #[doc(hidden)]
    fn references(at: usize, found: &mut Vec<usize>) {
        let _ = (at, found);
    }

    /// Adds the [addresses](crate::Address) in a value whose words begin at `at`: the number of the
    /// first of each one's two words, and the [`ID`](Self::ID) of the messages that it takes.
    #[doc(hidden)]
    fn addresses(at: usize, found: &mut Vec<(usize, u64)>) {
        let _ = (at, found);
    }

    /// In a kernel: the value that these words stand for. `words` has [`WORDS`](Self::WORDS) of
    /// them; with fewer, it panics.
    #[track_caller]
    fn load(words: &[Val<u32>]) -> Self::Device;

    /// In a kernel: appends the value's words.
    #[track_caller]
    fn append(value: &Self::Device, words: &mut Vec<Val<u32>>);

    /// In a kernel: the value's words.
    #[track_caller]
    fn store(value: &Self::Device) -> Vec<Val<u32>> {
        let mut words = Vec::with_capacity(Self::WORDS);
        Self::append(value, &mut words);
        words
    }
}

macro_rules! one_word {
    ($($t:ident: |$v:ident| $encode:expr, |$w:ident| $decode:expr, |$lw:ident| $load:expr, |$sv:ident| $store:expr;)*) => {$(
        impl Layout for $t {
            const WORDS: usize = 1;
            const ID: u64 = layout_id(stringify!($t), &[]);
            type Device = Val<$t>;

            #[inline]
            fn encode(&self, words: &mut [u32]) {
                let $v = *self;
                words[0] = $encode;
            }

            #[inline]
            fn decode(words: &[u32]) -> Self {
                let $w = words[0];
                $decode
            }

            #[track_caller]
            fn load(words: &[Val<u32>]) -> Val<$t> {
                let $lw = words[0];
                $load
            }

            #[track_caller]
            fn append(value: &Val<$t>, words: &mut Vec<Val<u32>>) {
                let $sv = *value;
                words.push($store);
            }
        }
    )*};
}

one_word! {
    u32: |v| v, |w| w, |w| w, |v| v.bitcast();
    i32: |v| v as u32, |w| w as i32, |w| w.bitcast(), |v| v.bitcast();
    f32: |v| v.to_bits(), |w| f32::from_bits(w), |w| w.bitcast(), |v| v.bitcast();
    bool: |v| u32::from(v), |w| w != 0, |w| w.cast(), |v| v.cast();
    f16: |v| v.to_f32().to_bits(), |w| f16::from_f32(f32::from_bits(w)),
        |w| w.bitcast::<f32>().cast(), |v| v.cast::<f32>().bitcast();
    bf16: |v| v.to_f32().to_bits(), |w| bf16::from_f32(f32::from_bits(w)),
        |w| w.bitcast::<f32>().cast(), |v| v.cast::<f32>().bitcast();
}

macro_rules! two_words {
    ($($t:ident: |$v:ident| $encode:expr, |$w:ident| $decode:expr;)*) => {$(
        impl Layout for $t {
            const WORDS: usize = 2;
            const ID: u64 = layout_id(stringify!($t), &[]);
            type Device = Val<$t>;

            #[inline]
            fn encode(&self, words: &mut [u32]) {
                let $v = *self;
                let bits: u64 = $encode;
                words[..2].copy_from_slice(&[bits as u32, (bits >> 32) as u32]);
            }

            #[inline]
            fn decode(words: &[u32]) -> Self {
                let $w = u64::from(words[0]) | u64::from(words[1]) << 32;
                $decode
            }

            #[track_caller]
            fn load(words: &[Val<u32>]) -> Val<$t> {
                (words[0].cast::<u64>() | (words[1].cast::<u64>() << 32u32)).bitcast()
            }

            #[track_caller]
            fn append(value: &Val<$t>, words: &mut Vec<Val<u32>>) {
                let bits = value.bitcast::<u64>();
                words.push(bits.cast());
                words.push((bits >> 32u32).cast());
            }
        }
    )*};
}

two_words! {
    u64: |v| v, |w| w;
    i64: |v| v as u64, |w| w as i64;
    f64: |v| v.to_bits(), |w| f64::from_bits(w);
}

impl<T: Layout, const N: usize> Layout for [T; N] {
    const WORDS: usize = N * T::WORDS;
    const ID: u64 = layout_id("array", &[("element", T::ID), ("length", N as u64)]);
    const HOLDS: bool = T::HOLDS;
    const PORTABLE: bool = T::PORTABLE;
    type Device = [T::Device; N];

    #[inline]
    fn encode(&self, words: &mut [u32]) {
        for (i, element) in self.iter().enumerate() {
            element.encode(&mut words[i * T::WORDS..][..T::WORDS]);
        }
    }

    #[inline]
    fn decode(words: &[u32]) -> Self {
        std::array::from_fn(|i| T::decode(&words[i * T::WORDS..][..T::WORDS]))
    }

    #[track_caller]
    fn load(words: &[Val<u32>]) -> [T::Device; N] {
        std::array::from_fn(|i| T::load(&words[i * T::WORDS..][..T::WORDS]))
    }

    #[track_caller]
    fn append(value: &[T::Device; N], words: &mut Vec<Val<u32>>) {
        value.iter().for_each(|element| T::append(element, words));
    }

    fn inlines(at: usize, found: &mut Vec<Range<usize>>) {
        (0..N).for_each(|i| T::inlines(at + i * T::WORDS, found));
    }

    fn references(at: usize, found: &mut Vec<usize>) {
        if T::HOLDS {
            (0..N).for_each(|i| T::references(at + i * T::WORDS, found));
        }
    }

    fn addresses(at: usize, found: &mut Vec<(usize, u64)>) {
        (0..N).for_each(|i| T::addresses(at + i * T::WORDS, found));
    }

    fn hold(&self, held: &mut Vec<Hold>) {
        if T::HOLDS {
            self.iter().for_each(|element| element.hold(held));
        }
    }
}

/// Nothing: the state of a handler without one, the reply of a handler that gives none.
impl Layout for () {
    const WORDS: usize = 0;
    const ID: u64 = layout_id("()", &[]);
    type Device = ();

    fn encode(&self, _: &mut [u32]) {}

    fn decode(_: &[u32]) -> Self {}

    fn load(_: &[Val<u32>]) {}

    fn append((): &(), _: &mut Vec<Val<u32>>) {}
}

/// Hashes a type's name and its fields' names and identities: FNV-1a of 64 bits.
pub const fn layout_id(name: &str, fields: &[(&str, u64)]) -> u64 {
    let mut hash = text(0xcbf2_9ce4_8422_2325, name);
    let mut i = 0;
    while i < fields.len() {
        hash = text(hash, fields[i].0);
        let id = fields[i].1.to_le_bytes();
        let mut byte = 0;
        while byte < id.len() {
            hash = step(hash, id[byte]);
            byte += 1;
        }
        i += 1;
    }
    hash
}

/// Hashes a text and its end.
const fn text(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        hash = step(hash, bytes[i]);
        i += 1;
    }
    // No byte of UTF-8 is 0xff, so one text cannot run on into the next.
    step(hash, 0xff)
}

const fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3)
}
