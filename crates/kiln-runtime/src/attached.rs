//! What libraries keep with a device.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError};

/// One value of each type.
#[derive(Default)]
pub(crate) struct Attached(Mutex<Vec<(TypeId, Arc<dyn Any + Send + Sync>)>>);

impl Attached {
    /// The value of a type, made when it is first asked for.
    pub(crate) fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let find = |all: &[(TypeId, Arc<dyn Any + Send + Sync>)]| {
            let found = all.iter().find(|(of, _)| *of == TypeId::of::<T>())?;
            found.1.clone().downcast::<T>().ok()
        };
        // Changed by pushes only.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = find(&lock()) {
            return found;
        }
        // Made outside of the lock: it may ask for another type.
        let made = Arc::new(T::default());
        let mut all = lock();
        find(&all).unwrap_or_else(|| {
            all.push((TypeId::of::<T>(), made.clone()));
            made
        })
    }
}
