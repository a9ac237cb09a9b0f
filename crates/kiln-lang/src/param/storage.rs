//! What holds a view's elements, of a type that the language does not know.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A borrowed storage of elements, of a type of the runtime's: as `&dyn Any`, but that its type is
/// compared without a call, for each tensor of each launch.
///
/// ```
/// use kiln_lang::param::Storage;
/// let elements = vec![1.0f32; 4];
/// let storage = Storage::new(&elements);
/// assert_eq!(storage.get::<Vec<f32>>(), Some(&elements));
/// assert_eq!(storage.get::<Vec<f64>>(), None);
/// ```
#[derive(Clone, Copy)]
pub struct Storage<'a> {
    address: NonNull<()>,
    of: TypeId,
    borrowed: PhantomData<&'a ()>,
}

impl<'a> Storage<'a> {
    /// A storage of this type.
    ///
    /// ```
    /// # use kiln_lang::param::Storage;
    /// assert!(Storage::new(&7u32).get::<u32>().is_some());
    /// ```
    #[inline]
    pub fn new<T: 'static>(storage: &'a T) -> Storage<'a> {
        Storage { address: NonNull::from_ref(storage).cast(), of: TypeId::of::<T>(), borrowed: PhantomData }
    }

    /// The storage, if it is of this type.
    ///
    /// ```
    /// # use kiln_lang::param::Storage;
    /// assert_eq!(Storage::new(&7u32).get::<u32>(), Some(&7));
    /// assert_eq!(Storage::new(&7u32).get::<i32>(), None);
    /// ```
    #[inline]
    pub fn get<T: 'static>(self) -> Option<&'a T> {
        // SAFETY: it was made by `new` from a reference of this lifetime to a value of type `of`,
        // which is `T`.
        (self.of == TypeId::of::<T>()).then(|| unsafe { self.address.cast::<T>().as_ref() })
    }
}
