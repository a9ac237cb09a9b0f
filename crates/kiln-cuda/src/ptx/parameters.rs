//! The words of an entry's parameters: one for a scalar; for a view its address, its extents and
//! its strides.

use kiln_ir::{Kernel, Param};

/// How many 64-bit words a parameter takes.
pub(super) fn words(param: &Param) -> usize {
    param.numbers() + usize::from(param.ty.as_view().is_some())
}

/// The first word of the parameter at a position, or the one after all parameters.
pub(super) fn first_word(kernel: &Kernel, position: usize) -> usize {
    kernel.params[..position].iter().map(words).sum()
}

/// The words that are addresses of views, in order.
pub(super) fn addresses(kernel: &Kernel) -> Vec<u32> {
    let views = kernel.params.iter().enumerate().filter(|(_, param)| param.ty.as_view().is_some());
    views.map(|(position, _)| first_word(kernel, position) as u32).collect()
}
