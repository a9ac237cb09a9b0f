//! Arrays that lie in a message, a reply or a state themselves.

use super::elem::PayloadElem;
use crate::layout::{Layout, layout_id};
use crate::message::Message;
use crate::outcome::Zeroed;
use kiln_lang::{DeviceValue, Val, val};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

/// `N` elements that lie in the message (or the reply, or the state) itself, and that a handler
/// reads by index where they lie.
///
/// A field of type `[f32; 64]` is 64 values of the kernel, which every thread of a worker has in
/// registers; an `Inline<f32, 64>` remains in memory, and its elements are loaded one by one. So it
/// is what messages of up to 64 KiB are made of. `N` is at least 2.
///
/// In a handler it is an [`InlineVal`], which [`RingCtx::array`](crate::RingCtx::array) opens.
/// Those of a message can be read; those of the state can be changed too, in place: what a handler
/// that fails has replaced remains replaced. Threads that [share](crate::RingCtx::share) the work
/// on an array of the state [`sync`](crate::RingCtx::sync) before one reads what another has
/// replaced. As a field of a reply, of a message to another actor or of the state, any of them may
/// stand, also [of a payload](crate::Array::inline): its elements are copied once the handler has
/// ended.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Inline, Message, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[derive(Message)]
/// #[kiln(crate = kiln_ring)]
/// struct Frame { number: u32, samples: Inline<f32, 4096> }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn energy(ctx: &RingCtx, frame: Frame) -> f32 {
///     let samples = ctx.array(&frame.samples);
///     let mut sum: Val<f32> = 0.0;
///     for i in ctx.share(samples.len()) {
///         sum += samples.get(i) * samples.get(i);
///     }
///     ctx.sum(sum)
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(energy, RingConfig::default().capacity(8))?;
/// actor.activate()?;
/// assert_eq!(actor.ask(Frame { number: 1, samples: Inline::from([0.5; 4096]) })?, Some(1024.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Inline<T, const N: usize> {
    /// `N` of them.
    elements: Box<[T]>,
}

impl<T: PayloadElem, const N: usize> Inline<T, N> {
    /// The elements that a function gives for the numbers from 0.
    ///
    /// ```
    /// use kiln_ring::Inline;
    /// assert_eq!(*Inline::<u32, 3>::from_fn(|i| i as u32 * 2), [0, 2, 4]);
    /// ```
    pub fn from_fn(element: impl FnMut(usize) -> T) -> Self {
        Inline { elements: (0..N).map(element).collect() }
    }

    /// A copy of a slice; `None` unless it has `N` elements.
    ///
    /// ```
    /// use kiln_ring::Inline;
    /// assert!(Inline::<f32, 2>::from_slice(&[1.0, 2.0]).is_some());
    /// assert!(Inline::<f32, 2>::from_slice(&[1.0]).is_none());
    /// ```
    pub fn from_slice(elements: &[T]) -> Option<Self> {
        (elements.len() == N).then(|| Inline { elements: elements.into() })
    }
}

impl<T: PayloadElem, const N: usize> From<[T; N]> for Inline<T, N> {
    fn from(elements: [T; N]) -> Self {
        Inline { elements: Box::new(elements) }
    }
}

/// Zeros.
impl<T: PayloadElem, const N: usize> Default for Inline<T, N> {
    fn default() -> Self {
        Inline::from_fn(|_| T::zeroed())
    }
}

impl<T, const N: usize> Deref for Inline<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T, const N: usize> DerefMut for Inline<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for Inline<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.elements.fmt(f)
    }
}

/// An [`Inline`] array on the device: where its elements lie. [`RingCtx::array`] opens it.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Inline, InlineVal, Message, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[derive(Message)]
/// #[kiln(crate = kiln_ring)]
/// struct Pair { a: Inline<f32, 8>, b: Inline<f32, 8> }
///
/// /// The sum of products, of whatever handler calls it.
/// #[device(crate = kiln_lang)]
/// fn dot<const N: usize>(ctx: &RingCtx, a: InlineVal<f32, N>, b: InlineVal<f32, N>) -> Val<f32> {
///     let (a, b) = (ctx.array(&a), ctx.array(&b));
///     let mut sum: Val<f32> = 0.0;
///     for i in ctx.share(N as u32) {
///         sum += a.get(i) * b.get(i);
///     }
///     ctx.sum(sum)
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn product(ctx: &RingCtx, m: Pair) -> f32 {
///     dot(ctx, m.a, m.b)
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(product, RingConfig::default())?;
/// actor.activate()?;
/// let pair = Pair { a: Inline::from([0.5; 8]), b: Inline::from_fn(|i| i as f32) };
/// assert_eq!(actor.ask(pair)?, Some(14.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`RingCtx::array`]: crate::RingCtx::array
#[derive(Clone, Copy, Debug, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub struct InlineVal<T: PayloadElem, const N: usize> {
    /// The first word, of what `source` says.
    pub(super) at: Val<u32>,
    /// See `memory.rs`.
    pub(super) source: Val<u32>,
    elem: PhantomData<T>,
}

impl<T: PayloadElem, const N: usize> InlineVal<T, N> {
    pub(super) fn new(source: Val<u32>, at: Val<u32>) -> Self {
        InlineVal { at, source, elem: PhantomData }
    }
}

/// Nothing but zeros.
impl<T: PayloadElem, const N: usize> Zeroed for InlineVal<T, N> {
    fn zeroed() -> Self {
        InlineVal { at: val(0), source: val(0), elem: PhantomData }
    }
}

/// In a kernel, the first word says where the elements begin and the second one of what.
impl<T: PayloadElem, const N: usize> Layout for Inline<T, N> {
    const WORDS: usize = {
        assert!(N >= 2, "an inline array has at least 2 elements");
        N
    };
    const ID: u64 = layout_id("inline", &[("elem", T::ID), ("length", N as u64)]);
    type Device = InlineVal<T, N>;

    #[inline]
    fn encode(&self, words: &mut [u32]) {
        words[..N].copy_from_slice(bytemuck::cast_slice(&self.elements));
    }

    #[inline]
    fn decode(words: &[u32]) -> Self {
        Inline { elements: bytemuck::cast_slice(&words[..N]).into() }
    }

    fn inlines(at: usize, found: &mut Vec<Range<usize>>) {
        found.push(at..at + N);
    }

    fn load(words: &[Val<u32>]) -> InlineVal<T, N> {
        InlineVal { at: words[0], source: words[1], elem: PhantomData }
    }

    fn append(value: &InlineVal<T, N>, words: &mut Vec<Val<u32>>) {
        words.push(value.at);
        words.extend(std::iter::repeat_n(value.source, N - 1));
    }
}

impl<T: PayloadElem, const N: usize> Message for Inline<T, N> {
    const NAME: &'static str = "inline";
}
