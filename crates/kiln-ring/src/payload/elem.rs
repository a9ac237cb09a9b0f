//! What arrays can be of.

use crate::layout::Layout;
use kiln_lang::{Elem, Val};

/// What arrays can be of: numbers of one word.
pub trait PayloadElem: Elem + Layout<Device = Val<Self>> + bytemuck::Pod {}

impl PayloadElem for u32 {}
impl PayloadElem for i32 {}
impl PayloadElem for f32 {}
