//! What launches kernels of a program's own, and what tells one from another.

use kiln_runtime::{DynTensor, Result};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// What launches a kernel: of its inputs, into its result.
type Launch = dyn Fn(&[DynTensor], &mut DynTensor) -> Result<()> + Send + Sync;

/// A kernel of a program's own with its settings.
pub(crate) struct ProgramKernel {
    launch: Box<Launch>,
    /// Whether the first axis of all inputs and of the result counts parts that have nothing to do
    /// with each other.
    pub(crate) of_parts: bool,
    /// Tells it from all others of the process. Plans are remembered by it.
    pub(crate) number: u64,
}

impl ProgramKernel {
    pub(crate) fn launch(&self, inputs: &[DynTensor], result: &mut DynTensor) -> Result<()> {
        (self.launch)(inputs, result)
    }
}

/// The kernels that were used, by the types of function and settings, and then by the settings.
static KERNELS: LazyLock<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>> = LazyLock::new(Mutex::default);

/// Settings of one function that are remembered. With more of them all are forgotten: another use
/// has another number then, and its plans are made anew.
const MOST_SETTINGS: usize = 1024;

/// The kernel with these settings, which has one number wherever it is used.
pub(crate) fn known<S, F>(settings: S, of_parts: bool, launch: F) -> Arc<ProgramKernel>
where
    S: Clone + Eq + Hash + Send + Sync + 'static,
    F: Fn(&S, &[DynTensor], &mut DynTensor) -> Result<()> + Send + Sync + 'static,
{
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let of_function = kernels.entry(TypeId::of::<(S, F)>());
    let of_function = of_function.or_insert_with(|| Box::new(HashMap::<S, Arc<ProgramKernel>>::new()));
    let own = settings.clone();
    let new = move || {
        let launch = move |inputs: &[DynTensor], result: &mut DynTensor| launch(&own, inputs, result);
        numbered(Box::new(launch), of_parts)
    };
    match of_function.downcast_mut::<HashMap<S, Arc<ProgramKernel>>>() {
        Some(all) => {
            if all.len() >= MOST_SETTINGS {
                all.clear();
            }
            all.entry(settings).or_insert_with(new).clone()
        }
        None => new(),
    }
}

fn numbered(launch: Box<Launch>, of_parts: bool) -> Arc<ProgramKernel> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    Arc::new(ProgramKernel { launch, of_parts, number: NUMBER.fetch_add(1, Relaxed) })
}
