//! Memory that the host and running kernels share.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::tensor::{DynTensor, Layout};
use crate::tensor_params::pack;
use kiln_lang::param::{ArgSink, KernelParam, ParamDecl, SpecKey};
use kiln_lang::{ViewMut, Word};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words that the host reads and writes while a kernel runs: what a kernel that does not end needs
/// to receive requests and to send answers.
///
/// In a kernel it is a parameter `&Mapped<T>`, and its body sees a `ViewMut<T, 1>`, whose
/// [`get_ordered`](kiln_lang::View::get_ordered) and
/// [`set_ordered`](kiln_lang::ViewMut::set_ordered) at `Scope::System` go with
/// [`load`](Self::load) and [`store`](Self::store) of the host. What one side stored before a
/// release, the other sees after an acquire that finds the released value.
///
/// On a GPU a launch returns while its kernel runs. On a CPU and in the interpreter it returns when
/// the kernel has ended: there the host talks to it from another thread.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, Error, Mapped};
///
/// /// Answers a number with its square.
/// #[kernel(crate = kiln_runtime)]
/// fn square(mail: &Mapped<u32>) {
///     if thread_id(0) == 0 {
///         while mail.get_ordered(0, Order::Acquire, Scope::System) == 0 {}
///         let x = mail.get_ordered(1, Order::Relaxed, Scope::System);
///         // SAFETY: all accesses of these words are ordered.
///         unsafe {
///             mail.set_ordered(3, x * x, Order::Relaxed, Scope::System);
///             mail.set_ordered(2, 1, Order::Release, Scope::System);
///         }
///     }
/// }
///
/// let device = Device::open("interp")?;
/// let mail = device.mapped::<u32>(4)?;
/// std::thread::scope(|scope| {
///     let kernel = scope.spawn(|| square(&mail).grid([1]).block([32]).launch(&device));
///     mail.store(1, 12)?;
///     mail.store(0, 1)?; // the request is complete
///     while mail.load(2)? == 0 {
///         std::thread::yield_now();
///     }
///     assert_eq!(mail.load(3)?, 144);
///     kernel.join().expect("a launch does not panic")
/// })?;
/// # Ok::<(), Error>(())
/// ```
///
/// NVIDIA's driver loads no kernel while another one of the process runs: compile what is launched
/// beside one that does not end before that one.
///
/// Two launches that have the same words as an argument run one after the other. If it is dropped
/// while a kernel that has it still runs, the memory remains until the process ends.
pub struct Mapped<T: Word> {
    /// All of it, as a kernel's argument.
    tensor: DynTensor,
    len: usize,
    elements: PhantomData<T>,
}

impl Device {
    /// Allocates words of zero that the host and running kernels share: host memory, which a GPU
    /// reads and writes over the bus.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let mail = Device::open("cpu")?.mapped::<u64>(3)?;
    /// mail.store(2, 7)?;
    /// assert_eq!((mail.load(0)?, mail.load(2)?), (0, 7));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`kiln_backend::Error::Unavailable`] on a device without such memory, as through `wgpu`; out
    /// of memory.
    #[track_caller]
    pub fn mapped<T: Word>(&self, len: usize) -> Result<Mapped<T>> {
        let layout = Layout::row_major(&[len], T::SCALAR)?;
        let buffer = Buffer::mapped(self, len * size_of::<T>(), &Log::at(Location::caller()))?;
        let tensor = DynTensor::over(Arc::new(buffer), T::SCALAR, layout);
        Ok(Mapped { tensor, len, elements: PhantomData })
    }
}

impl<T: Word> Mapped<T> {
    /// Returns the number of words.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// assert_eq!(Device::open("interp")?.mapped::<f32>(5)?.len(), 5);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// assert!(Device::open("interp")?.mapped::<f32>(0)?.is_empty());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads a word, with acquire: what its writer stored before a release is visible after it.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let mail = Device::open("interp")?.mapped::<f32>(1)?;
    /// mail.store(0, 2.5)?;
    /// assert_eq!(mail.load(0)?, 2.5);
    /// assert!(mail.load(1).is_err());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] for a word that is not there.
    pub fn load(&self, index: usize) -> Result<T> {
        Ok(T::from_bits(match self.word(index)? {
            Shared::Four(word) => word.load(Ordering::Acquire).into(),
            Shared::Eight(word) => word.load(Ordering::Acquire),
        }))
    }

    /// Writes a word, with release: what the host stored before is visible to a kernel whose
    /// acquire finds it.
    ///
    /// ```
    /// # use kiln_runtime::{Device, Error};
    /// let mail = Device::open("interp")?.mapped::<i64>(2)?;
    /// mail.store(1, -3)?;
    /// assert_eq!(mail.load(1)?, -3);
    /// assert!(matches!(mail.store(2, 0), Err(Error::Range { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] for a word that is not there.
    pub fn store(&self, index: usize, value: T) -> Result<()> {
        let bits = value.literal().bits();
        match self.word(index)? {
            Shared::Four(word) => word.store(bits as u32, Ordering::Release),
            Shared::Eight(word) => word.store(bits, Ordering::Release),
        }
        Ok(())
    }

    fn word(&self, index: usize) -> Result<Shared<'_>> {
        let start = self.tensor.buffer().host_start().filter(|_| index < self.len);
        let Some(start) = start else {
            let what = format!("there is no word {index}");
            return Err(Error::Range { what, shape: vec![self.len] });
        };
        // SAFETY: a word of the memory, which is aligned to 256 bytes and lives as long as the
        // buffer. The host accesses it by atomic operations alone.
        unsafe {
            let at = start.as_ptr().add(index * size_of::<T>());
            Ok(match size_of::<T>() {
                4 => Shared::Four(AtomicU32::from_ptr(at.cast())),
                _ => Shared::Eight(AtomicU64::from_ptr(at.cast())),
            })
        }
    }
}

/// A word of 4 or 8 bytes.
enum Shared<'a> {
    Four(&'a AtomicU32),
    Eight(&'a AtomicU64),
}

impl<T: Word> fmt::Debug for Mapped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.tensor.device().id();
        f.debug_struct("Mapped").field("device", &device).field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'k, T: Word> KernelParam for &'k Mapped<T> {
    type Arg = &'k Mapped<T>;
    type Traced = ViewMut<T, 1>;

    fn key(arg: &Self::Arg, key: &mut SpecKey) {
        key.word(arg.tensor.fact_bits());
    }

    fn declare(arg: &Self::Arg, name: &'static str, decl: &mut ParamDecl) -> ViewMut<T, 1> {
        decl.view_mut(name, arg.tensor.facts())
    }

    fn pack<'a>(arg: &'a Self::Arg, sink: &mut dyn ArgSink<'a>) {
        // It may be written: the host accesses it by atomic operations alone, and launches that
        // have it are ordered as those that write a tensor.
        pack(&arg.tensor, true, sink);
    }
}
