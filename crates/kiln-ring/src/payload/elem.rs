//! What arrays can be of.

use crate::layout::Layout;
use kiln_lang::{Elem, Val};

/// What arrays can be of: numbers of one word.
///
/// ```
/// use kiln_ring::{Payload, PayloadElem, RingError, RingRuntime};
///
/// /// An array on the device with the elements of another in reverse.
/// fn reversed<T: PayloadElem>(runtime: &RingRuntime, data: &[T]) -> Result<Payload<T>, RingError> {
///     runtime.payload_of(&data.iter().rev().copied().collect::<Vec<T>>())
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// assert_eq!(reversed(&runtime, &[1u32, 2, 3])?.to_vec()?, [3, 2, 1]);
/// assert_eq!(reversed(&runtime, &[0.5f32, -1.0])?.to_vec()?, [-1.0, 0.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PayloadElem: Elem + Layout<Device = Val<Self>> + bytemuck::Pod {}

impl PayloadElem for u32 {}
impl PayloadElem for i32 {}
impl PayloadElem for f32 {}
