//! The layouts that tiles of a kernel have, by number.

use crate::layout::{Layout, Threads};
use rustc_hash::FxHashMap;

/// The number of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LayoutId(u32);

impl LayoutId {
    /// Every thread holds the one element.
    pub const SCALAR: LayoutId = LayoutId(0);
}

/// Layouts without repetition. The first is that of scalars.
pub(crate) struct Layouts {
    all: Vec<Layout>,
    ids: FxHashMap<Layout, LayoutId>,
}

impl Layouts {
    /// The layout of scalars, held by these threads.
    pub fn new(threads: Threads) -> Layouts {
        let mut layouts = Layouts { all: Vec::new(), ids: FxHashMap::default() };
        layouts.intern(Layout::scalar(threads));
        layouts
    }

    /// A layout.
    pub fn get(&self, id: LayoutId) -> &Layout {
        &self.all[id.0 as usize]
    }

    /// The number of a layout.
    pub fn intern(&mut self, layout: Layout) -> LayoutId {
        if let Some(&id) = self.ids.get(&layout) {
            return id;
        }
        let id = LayoutId(self.all.len() as u32);
        self.all.push(layout.clone());
        self.ids.insert(layout, id);
        id
    }
}
