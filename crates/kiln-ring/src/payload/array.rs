//! Payloads in handlers.

use super::PayloadElem;
use crate::outcome::Zeroed;
use kiln_lang::{DeviceValue, IntoVal, Val, ViewMut, device_assert, val};
use std::marker::PhantomData;

/// A [`Payload`](super::Payload) on the device: a reference, which [`RingCtx::array`](crate::RingCtx::array) opens.
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

/// An open array.
#[derive(Clone, Copy, Debug)]
pub struct Array<T: PayloadElem> {
    arena: ViewMut<u32, 1>,
    at: Val<u32>,
    len: Val<u32>,
    elem: PhantomData<T>,
}

impl<T: PayloadElem> Array<T> {
    pub(crate) fn open(arena: ViewMut<u32, 1>, payload: &PayloadVal<T>) -> Self {
        let [at, len, _] = payload.words;
        Array { arena, at, len, elem: PhantomData }
    }

    /// How many elements it has.
    pub fn len(&self) -> Val<u32> {
        self.len
    }

    /// The element at an index. An index outside fails the actor.
    #[track_caller]
    pub fn get(&self, index: impl IntoVal<u32>) -> Val<T> {
        let index = index.into_val();
        device_assert!(index.lt(self.len), "index {} of a payload of {}", index, self.len);
        // A reference that no host made may name words outside the arena: those read as zero.
        T::load(&[self.arena.get_or(self.at + index, 0)])
    }

    /// The element at an index, or `other` for an index outside.
    #[track_caller]
    pub fn get_or(&self, index: impl IntoVal<u32>, other: impl IntoVal<T>) -> Val<T> {
        let index = index.into_val();
        let word = self.arena.get_or(self.at + index, 0);
        kiln_lang::select(index.lt(self.len), T::load(&[word]), other)
    }

    /// Replaces an element. An index outside fails the actor. What a handler that fails has replaced stays so.
    ///
    /// The threads of a worker that replace the same element must do so with the same value, and one that reads what another has replaced has no order with it.
    #[track_caller]
    pub fn set(&self, index: impl IntoVal<u32>, value: impl IntoVal<T>) {
        let index = index.into_val();
        device_assert!(index.lt(self.len), "index {} of a payload of {}", index, self.len);
        // SAFETY: the words belong to the array; who may use an array at a time is up to the messages that name it, and words are written whole.
        unsafe { self.arena.scatter(self.at + index, T::store(&value.into_val())[0]) };
    }
}
