//! Reads that are awaited.

use super::dynamic::{DynTensor, bytes_of, normalize_bools};
use super::typed::Tensor;
use crate::activity::{CallSite, CopyKind};
use crate::awaited::{Awaited, after, at_once};
use crate::buffer::Reading;
use crate::error::Result;
use crate::host_memory::zeroed;
use crate::log::Log;
use crate::residency::Named;
use kiln_backend::on_thread;
use kiln_ir::Scalar;
use kiln_lang::Elem;
use std::future::Future;
use std::panic::Location;
use web_time::Instant;

impl DynTensor {
    /// The elements in row-major order, after all work now enqueued that writes them.
    /// [`Tensor::to_vec_async`] says more.
    ///
    /// ```
    /// use kiln_runtime::{Device, DynTensor};
    /// # pollster::block_on(async {
    /// let device = Device::open_async("interp").await?;
    /// let x = DynTensor::new(&device, &[1i16, 2, 3, 4], &[2, 2])?;
    /// assert_eq!(x.transpose().to_vec_async::<i16>().await?, [1, 3, 2, 4]);
    /// assert_eq!(x.to_bytes_async().await?, x.to_bytes()?);
    /// assert!(x.to_vec_async::<f32>().await.is_err());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// # })?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn to_vec_async<T: Elem>(&self) -> impl Future<Output = Result<Vec<T>>> + Send {
        let site = Location::caller();
        let begun = self.check_type::<T>(site).map(|()| self.begin_bytes(site));
        async move { elements(&begun?.await?) }
    }

    /// The bytes of the elements in row-major order and the host's order of bytes, after all work
    /// now enqueued that writes them.
    ///
    /// ```
    /// use kiln_runtime::{Device, DynTensor};
    /// # pollster::block_on(async {
    /// let x = DynTensor::new(&Device::open_async("interp").await?, &[1u8, 2, 3], &[3])?;
    /// assert_eq!(x.to_bytes_async().await?, [1, 2, 3]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// # })?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`to_bytes`](Self::to_bytes).
    #[track_caller]
    pub fn to_bytes_async(&self) -> impl Future<Output = Result<Vec<u8>>> + Send {
        self.begin_bytes(Location::caller())
    }

    fn begin_bytes(&self, site: CallSite) -> Awaited<'_, Vec<u8>> {
        let start = Instant::now();
        let begun = self.buffer().access(Named::Tensor).and_then(|access| {
            self.device().check_not_capturing("the elements of a tensor were read", site)?;
            Ok((access.begin_read(self.byte_offset(), self.span_bytes())?, access.writer()))
        });
        let (later, stream) = match begun {
            Err(error) => return at_once(Err(error)),
            Ok((Reading::Here(span), _)) => return at_once(Ok(self.finished(span))),
            Ok((Reading::Later(later), stream)) => (later, stream),
            Ok((Reading::Blocking, _)) => {
                let tensor = self.alias();
                return after(on_thread(move || tensor.bytes(&mut Log::at(site))));
            }
        };
        Box::pin(async move {
            let span = self.device().waited(later.await)?;
            Log::at(site).copied(self.device(), (CopyKind::DeviceToHost, span.len(), stream), start);
            Ok(self.finished(span))
        })
    }

    /// The bytes of valid elements, of all that was read.
    fn finished(&self, mut span: Vec<u8>) -> Vec<u8> {
        if self.dtype() == Scalar::Bool {
            normalize_bools(&mut span);
        }
        self.picked(span)
    }
}

impl<T: Elem, const R: usize> Tensor<T, R> {
    /// The elements in row-major order, after all work now enqueued that writes them, without
    /// blocking the thread that awaits them. What is enqueued after this call does not change them.
    ///
    /// A page in a browser reads tensors in this way alone. On other systems any executor will do;
    /// a thread of Kiln's waits meanwhile. If the future is dropped, so are the faults that it
    /// would have reported.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// # pollster::block_on(async {
    /// let device = Device::open_async("interp").await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(x.transpose().to_vec_async().await?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// # })?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn to_vec_async(&self) -> impl Future<Output = Result<Vec<T>>> + Send {
        let begun = self.as_dyn().begin_bytes(Location::caller());
        async move { elements(&begun.await?) }
    }
}

/// The elements that these are the bytes of.
fn elements<T: Elem>(bytes: &[u8]) -> Result<Vec<T>> {
    let mut elements = zeroed::<T>(bytes.len() / size_of::<T>())?;
    bytes_of(&mut elements).copy_from_slice(bytes);
    Ok(elements)
}
