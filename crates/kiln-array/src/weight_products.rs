//! How the weights of layers are multiplied while a function records.

use std::cell::Cell;
use std::marker::PhantomData;

/// How layers multiply by their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WeightProducts {
    /// In the element type that the factors have.
    #[default]
    AsGiven,
    /// In 8-bit floats.
    Fp8,
}

thread_local! {
    /// What functions that record on this thread are to do.
    static CURRENT: Cell<WeightProducts> = const { Cell::new(WeightProducts::AsGiven) };
}

/// While it lives, layers that record on its thread multiply so. Dropping it, by a panic too,
/// restores what was before.
pub(crate) struct WeightProductScope {
    before: WeightProducts,
    /// It concerns the thread that entered it.
    thread: PhantomData<*const ()>,
}

impl WeightProducts {
    /// Those of the innermost scope on this thread.
    pub(crate) fn current() -> WeightProducts {
        CURRENT.get()
    }

    /// Enters a scope with these.
    pub(crate) fn enter(self) -> WeightProductScope {
        WeightProductScope { before: CURRENT.replace(self), thread: PhantomData }
    }
}

impl Drop for WeightProductScope {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}
