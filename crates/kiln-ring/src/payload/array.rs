//! Arrays in handlers.

use super::elem::PayloadElem;
use super::inline::InlineVal;
use super::memory::{ARENA, ArrayMemory};
use crate::outcome::Zeroed;
use kiln_lang::{DeviceValue, IntoVal, Val, device_assert, val};
use std::marker::PhantomData;

/// A [`Payload`](super::Payload) on the device: a reference, which
/// [`RingCtx::array`](crate::RingCtx::array) opens.
///
/// Put into a reply or into a message to another actor, it stands for the same array there.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Message, Payload, PayloadVal, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[derive(Message)]
/// #[kiln(crate = kiln_ring)]
/// struct Two { a: Payload<u32>, b: Payload<u32> }
///
/// /// The one of two arrays that has more elements.
/// #[device(crate = kiln_lang)]
/// fn longer(ctx: &RingCtx, a: PayloadVal<u32>, b: PayloadVal<u32>) -> PayloadVal<u32> {
///     if ctx.array(&a).len() < ctx.array(&b).len() { b } else { a }
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn choose(ctx: &RingCtx, m: Two) -> Payload<u32> {
///     longer(ctx, m.a, m.b)
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(choose, RingConfig::default())?;
/// actor.activate()?;
/// let two = Two { a: runtime.payload_of(&[1, 2])?, b: runtime.payload_of(&[3, 4, 5])? };
/// let chosen = actor.ask(two)?.expect("a reply to every message");
/// assert_eq!(chosen.to_vec()?, [3, 4, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub struct PayloadVal<T: PayloadElem> {
    words: [Val<u32>; 3],
    elem: PhantomData<T>,
}

impl<T: PayloadElem> PayloadVal<T> {
    pub(super) fn new(words: [Val<u32>; 3]) -> Self {
        PayloadVal { words, elem: PhantomData }
    }

    pub(super) fn words(&self) -> [Val<u32>; 3] {
        self.words
    }
}

impl<T: PayloadElem> Zeroed for PayloadVal<T> {
    fn zeroed() -> Self {
        PayloadVal::new([val(0); 3])
    }
}

/// What [`RingCtx::array`](crate::RingCtx::array) opens: a [`PayloadVal`] or an [`InlineVal`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{ArrayRef, Inline, InlineVal, Message, Payload, PayloadVal, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[derive(Message)]
/// #[kiln(crate = kiln_ring)]
/// struct Both { large: Payload<u32>, small: Inline<u32, 2> }
///
/// /// The number of elements of an array, wherever it lies.
/// fn count(ctx: &RingCtx, array: &impl ArrayRef) -> Val<u32> {
///     ctx.array(array).len()
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn count_both(ctx: &RingCtx, m: Both) -> u32 {
///     let large: PayloadVal<u32> = m.large;
///     let small: InlineVal<u32, 2> = m.small;
///     count(ctx, &large) * 10 + count(ctx, &small)
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(count_both, RingConfig::default())?;
/// actor.activate()?;
/// let both = Both { large: runtime.payload(5)?, small: Inline::from([1, 2]) };
/// assert_eq!(actor.ask(both)?, Some(52));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ArrayRef: sealed::Opens {}

impl<T: PayloadElem> ArrayRef for PayloadVal<T> {}
impl<T: PayloadElem, const N: usize> ArrayRef for InlineVal<T, N> {}

pub(crate) mod sealed {
    use super::{Array, ArrayMemory, InlineVal, PayloadElem, PayloadVal};
    use kiln_lang::val;

    pub trait Opens {
        /// What the array is of.
        type Elem: PayloadElem;
        #[doc(hidden)]
        fn open(&self, memory: ArrayMemory) -> Array<Self::Elem>;
    }

    impl<T: PayloadElem> Opens for PayloadVal<T> {
        type Elem = T;

        fn open(&self, memory: ArrayMemory) -> Array<T> {
            let [at, len, _] = self.words;
            Array { memory, source: None, at, len, elem: std::marker::PhantomData }
        }
    }

    impl<T: PayloadElem, const N: usize> Opens for InlineVal<T, N> {
        type Elem = T;

        fn open(&self, memory: ArrayMemory) -> Array<T> {
            let (at, len) = (self.at, val(N as u32));
            Array { memory, source: Some(self.source), at, len, elem: std::marker::PhantomData }
        }
    }
}

/// An open array.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Message, Payload, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[derive(Message)]
/// #[kiln(crate = kiln_ring)]
/// struct Lookup { table: Payload<f32>, index: u32 }
///
/// /// An element and the number of elements: 0 stands for those that are not there.
/// #[ring_kernel(crate = kiln_ring)]
/// fn look_up(ctx: &RingCtx, m: Lookup) -> f32 {
///     let table = ctx.array(&m.table);
///     table.get_or(m.index, 0.0) * 100.0 + table.get(0) * 10.0 + table.len().cast::<f32>()
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let table = runtime.payload_of(&[1.0f32, 2.0, 3.0])?;
/// let actor = runtime.launch(look_up, RingConfig::default())?;
/// actor.activate()?;
/// assert_eq!(actor.ask(Lookup { table: table.clone(), index: 2 })?, Some(313.0));
/// assert_eq!(actor.ask(Lookup { table, index: 9 })?, Some(13.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Array<T: PayloadElem> {
    memory: ArrayMemory,
    /// What it lies in; `None` for the arena.
    source: Option<Val<u32>>,
    at: Val<u32>,
    len: Val<u32>,
    elem: PhantomData<T>,
}

impl<T: PayloadElem> Array<T> {
    #[track_caller]
    fn word(&self, index: Val<u32>) -> Val<u32> {
        match self.source {
            // A reference that no host made may name words outside the arena: those read as zero.
            None => self.memory.arena.get_or(self.at + index, 0),
            Some(source) => self.memory.word(source, self.at + index),
        }
    }

    /// The first `N` elements as a field of a reply, of a message to another actor, or of the
    /// state: they are copied there once the handler has ended. An array with fewer fails the
    /// actor.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Inline, Message, Payload, RingCtx, State, ring_kernel};
    ///
    /// #[derive(State)]
    /// #[kiln(crate = kiln_ring)]
    /// struct Window { at: u32, last: Payload<f32> }
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn keep(ctx: &RingCtx, s: &mut Window, x: f32) -> Inline<f32, 256> {
    ///     let last = ctx.array(&s.last);
    ///     last.set(s.at % 256, x);
    ///     s.at += 1;
    ///     last.inline()
    /// }
    /// # let _ = keep;
    /// ```
    #[track_caller]
    pub fn inline<const N: usize>(&self) -> InlineVal<T, N> {
        device_assert!(self.len.ge(N as u32), "{} elements of an array of {}", N as u32, self.len);
        InlineVal::new(self.source.unwrap_or_else(|| val(ARENA)), self.at)
    }

    /// How many elements it has.
    pub fn len(&self) -> Val<u32> {
        self.len
    }

    /// The element at an index. An index outside fails the actor.
    #[track_caller]
    pub fn get(&self, index: impl IntoVal<u32>) -> Val<T> {
        let index = index.into_val();
        device_assert!(index.lt(self.len), "index {} of an array of {}", index, self.len);
        T::load(&[self.word(index)])
    }

    /// The element at an index, or `other` for an index outside.
    #[track_caller]
    pub fn get_or(&self, index: impl IntoVal<u32>, other: impl IntoVal<T>) -> Val<T> {
        let index = index.into_val();
        // No word of a neighbor's, nor of a slot's end, is read.
        let inside = index.lt(self.len);
        let word = self.word(kiln_lang::select(inside, index, 0));
        kiln_lang::select(inside, T::load(&[word]), other)
    }

    /// Replaces an element. An index outside fails the actor, and so does an
    /// [inline](crate::Inline) array of a message, which is read-only. What a handler has replaced
    /// remains replaced when it fails.
    ///
    /// The threads of a worker that replace the same element must do so with the same value. One
    /// that reads what another has replaced for the same message needs a
    /// [`sync`](crate::RingCtx::sync) between; in the next message everything is there.
    #[track_caller]
    pub fn set(&self, index: impl IntoVal<u32>, value: impl IntoVal<T>) {
        let index = index.into_val();
        device_assert!(index.lt(self.len), "index {} of an array of {}", index, self.len);
        if let Some(source) = self.source {
            device_assert!(source.eq(ARENA), "an element of a message is set: it is only read");
        }
        // SAFETY: the words belong to the array; who may use an array at a time is up to the
        // messages that name it, and words are written whole.
        unsafe { self.memory.arena.scatter(self.at + index, T::store(&value.into_val())[0]) };
    }
}
