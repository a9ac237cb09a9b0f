//! Memory of arrays that nobody reads any more, for those that are made next.
//!
//! The driver of a GPU takes microseconds to free and to allocate, several kernels' worth of what a
//! launch costs the host. What is kept here ends with the evaluation.

use kiln_ir::Scalar;
use kiln_runtime::{Device, DynTensor, Execution, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// The most tensors that wait: of larger numbers the oldest go.
const MOST: usize = 8;

/// Tensors that nothing else refers to.
#[derive(Default)]
pub(crate) struct Spare(SmallVec<[DynTensor; MOST]>);

impl Spare {
    /// Keeps the memory of a tensor, if nobody else has it.
    pub(crate) fn give(&mut self, tensor: Option<Arc<DynTensor>>) {
        let Some(mut tensor) = tensor.and_then(Arc::into_inner) else { return };
        // The interpreter is to see where memory is read that was not written.
        let is_watched = tensor.device().capabilities().execution == Execution::Interpreted;
        if is_watched || !tensor.is_contiguous() || !tensor.is_sole() {
            return;
        }
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(tensor);
    }

    /// A tensor whose elements may be anything.
    pub(crate) fn take(&mut self, device: &Device, dtype: Scalar, shape: &[usize]) -> Result<DynTensor> {
        let fits = |tensor: &DynTensor| {
            tensor.dtype() == dtype && tensor.len() == crate::shape::count(shape) && tensor.device() == device
        };
        match self.0.iter().rposition(fits) {
            Some(at) => self.0.remove(at).reshape(shape),
            None => DynTensor::uninit(device, dtype, shape),
        }
    }
}
