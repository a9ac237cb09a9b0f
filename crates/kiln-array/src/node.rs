//! An array, and how one is recorded.

use crate::error::{Error, Result, Site};
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::Scalar;
use kiln_runtime::{Device, DynTensor};
use smallvec::SmallVec;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// An array of any number of axes: numbers on a device, or how to compute them.
///
/// Operations record what is to be done and return at once. [`eval`](Array::eval) and the functions
/// that read elements compute it, with few kernels. An array never changes; a clone is a handle to
/// the same one.
///
/// - Elements are of bool, i8, u8, i16, u16, i32, u32, i64, f16, bf16, f32 or f64. Where two types
///   meet, the result is of the smallest one that holds both, as in NumPy; integers of 32 and 64
///   bits beside floats become f64.
/// - Shapes broadcast as in NumPy: the last axes are aligned, and extents of 1 stretch.
/// - Axes count from 0, and negative ones from the end: -1 is the last.
/// - What cannot be, such as shapes that do not fit, is an array with an [`Error`] in place of
///   elements, and so is all that is made of it. Where a function says that *the result has an
///   error*, it is found by [`eval`](Array::eval), by a read, or by [`error`](Array::error).
///
/// ```
/// use kiln_array::Array;
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]);
/// let shares = &x / x.sum_keep(&[1]); // records
/// assert_eq!(shares.shape(), [2, 2]);
/// assert_eq!(shares.to_vec::<f32>()?, [1.0 / 3.0, 2.0 / 3.0, 3.0 / 7.0, 4.0 / 7.0]); // computes
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// Functions of each element:
///
/// ```
/// use kiln_array::{Array, Result};
///
/// fn same(a: Array, b: &Array) -> Result<()> {
///     assert!((a - b).abs().max().item::<f64>()? < 1e-9);
///     Ok(())
/// }
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[0.25f64, 0.5, 1.0], &[3]);
/// same(x.sin().square() + x.cos().square(), &(&x / &x))?;
/// same(x.tan().atan(), &x)?;
/// same(x.sin().atan2(x.cos()), &x)?;
/// same(x.cos().acos(), &x)?;
/// same(x.sinh() / x.cosh(), &x.tanh())?;
/// same(x.log2().exp2(), &x)?;
/// same(x.log10() * 10f64.ln(), &x.log())?;
/// same(x.log1p().expm1(), &x)?;
/// same(x.sqrt() * x.rsqrt(), &(&x * x.recip()))?;
/// same(x.sigmoid() * &x, &x.silu())?;
/// same((&x * 0.5f64.sqrt()).erf() * 0.5 * &x + &x * 0.5, &x.gelu())?;
/// same((-&x).relu() + x.floor(), &x.trunc())?;
/// same(x.clip(0.3, 0.6), &x.maximum(0.3).minimum(0.6))?;
/// assert_eq!((&x * 3.0).round().to_vec::<f64>()?, [1.0, 2.0, 3.0]); // halves to the even
/// assert_eq!(x.ceil().to_vec::<f64>()?, [1.0; 3]);
/// assert_eq!((&x / 0.0).is_nan().to_vec::<bool>()?, [false; 3]);
/// assert_eq!(x.not_equal(0.5).to_vec::<bool>()?, [true, false, true]);
/// assert_eq!(x.less(0.5).to_vec::<bool>()?, [true, false, false]);
/// assert_eq!(x.less_equal(0.5).to_vec::<bool>()?, [true, true, false]);
/// assert_eq!(x.greater_equal(0.5).to_vec::<bool>()?, [false, true, true]);
/// let bits = Array::new(&device, &[1i32, 2, 5], &[3]);
/// assert_eq!(bits.shift_left(3).shift_right(1).to_vec::<i32>()?, [4, 8, 20]);
///
/// let mut sum = bits.clone();
/// sum += &bits; // the variable becomes the sum; what else has the array keeps it
/// sum *= 10;
/// assert_eq!((sum.to_vec::<i32>()?, bits.to_vec::<i32>()?), (vec![20, 40, 100], vec![1, 2, 5]));
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// What is combined along axes, of all elements, of some axes, or of axes that stay with an extent
/// of 1; and other shapes of the same elements:
///
/// ```
/// use kiln_array::Array;
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
/// assert_eq!((x.rank(), x.len(), x.is_empty()), (2, 6, false));
/// assert_eq!(x.sum_axes(&[1]).to_vec::<f64>()?, [6.0, 15.0]);
/// assert_eq!(x.prod_axes(&[1]).to_vec::<f64>()?, [6.0, 120.0]);
/// assert_eq!(x.mean_axes(&[0]).to_vec::<f64>()?, x.mean_keep(&[0]).to_vec::<f64>()?);
/// assert_eq!(x.var_axes(&[0]).to_vec::<f64>()?, x.std_axes(&[0]).square().to_vec::<f64>()?);
/// assert_eq!(x.var_keep(&[0]).shape(), x.std_keep(&[0]).shape());
/// assert_eq!(x.min_axes(&[1]).to_vec::<f64>()?, [1.0, 4.0]);
/// assert_eq!(x.max_axes(&[1]).to_vec::<f64>()?, [3.0, 6.0]);
/// assert_eq!((x.max_keep(&[1]) - x.min_keep(&[1])).to_vec::<f64>()?, [2.0, 2.0]);
/// assert_eq!(x.prod_keep(&[0, 1]).item::<f64>()?, x.prod().item::<f64>()?);
/// assert_eq!(x.min().item::<f64>()? + x.var().item::<f64>()?, 1.0 + 35.0 / 12.0);
/// assert!(x.equal(3.0).any().item::<bool>()? && !x.equal(3.0).all().item::<bool>()?);
/// assert_eq!(x.equal(3.0).any_axes(&[1]).to_vec::<bool>()?, [true, false]);
/// assert_eq!(x.greater(3.0).all_axes(&[1]).to_vec::<bool>()?, [false, true]);
/// assert_eq!(x.less(3.0).any_keep(&[0]).shape(), x.less(3.0).all_keep(&[0]).shape());
/// assert_eq!(x.argmin(1).to_vec::<i64>()?, [0, 0]);
/// assert_eq!(x.flip(&[1]).cummin(1).to_vec::<f64>()?, x.flip(&[-1]).flatten().to_vec::<f64>()?);
/// assert_eq!(x.swap_axes(0, 1).unsqueeze(0).squeeze(0).shape(), [3, 2]);
/// assert_eq!((x.trace().item::<f64>()?, x.triu(1).sum().item::<f64>()?), (6.0, 11.0));
/// let shares = x.log_softmax(1) - (&x - x.logsumexp(1).unsqueeze(1));
/// assert!(shares.abs().max().item::<f64>()? < 1e-12);
/// let (ones, zeros) = (Array::full(&device, 1.0f64, &[3]), Array::full(&device, 0.0f64, &[3]));
/// let normal = x.layer_norm(&ones, &zeros, 0.0).square() - x.rms_norm(&ones, 0.0).square();
/// assert!(normal.mean().abs().item::<f64>()? < 1e-12); // the squares of both have the mean 1
/// assert_eq!(x.stop_gradient().to_device(&device).to_vec::<f64>()?, x.to_vec::<f64>()?);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone)]
pub struct Array(Arc<Node>);

/// An array as long as somebody else has it.
pub(crate) struct WeakArray(Weak<Node>);

impl WeakArray {
    pub(crate) fn upgrade(&self) -> Option<Array> {
        self.0.upgrade().map(Array)
    }

    pub(crate) fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// What arrays point to.
struct Node {
    dtype: Scalar,
    shape: Extents,
    /// `None` for an array with an error, which is on no device.
    device: Option<Device>,
    /// The line that recorded it.
    site: Site,
    /// The operation that the line names, where it is another one than the array's own.
    caller: Option<&'static str>,
    /// Whether it depends on a variable, so that its recipe stays when it is computed while
    /// gradients are taken, or on an element that `vmap` maps over.
    tracked: bool,
    /// The number of arrays that were made before it.
    before: u64,
    /// The run that made it, if that can have had a fault: its number among those of its device.
    doubt: AtomicU64,
    /// The walk that found it last, and the position that it has there.
    found: [AtomicU64; 2],
    state: Mutex<ArrayState>,
    /// Its elements in narrower floats, if they were made together with it.
    narrow: OnceLock<Array>,
}

/// How far an array is.
enum ArrayState {
    Lazy(Recipe),
    /// Computed. The recipe of a tracked array stays.
    Ready {
        tensor: Arc<DynTensor>,
        recipe: Option<Recipe>,
    },
    Failed(Error),
}

/// How an array is computed.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub(crate) op: Op,
    pub(crate) inputs: SmallVec<[Array; 2]>,
    /// The rule of `Op::Custom`.
    pub(crate) rule: Option<Rule>,
}

thread_local! {
    /// Gradients that are being taken on this thread.
    static OPEN_SCOPES: Cell<usize> = const { Cell::new(0) };
}

/// The number of arrays that were made so far.
static MADE: AtomicU64 = AtomicU64::new(0);

/// The number of walks over graphs so far.
static WALKS: Mutex<u64> = Mutex::new(0);

/// A walk over a graph, which knows the arrays that it has met. There is one at a time: what it
/// knows stands in the arrays, where no table is to be asked.
pub(crate) struct Walk(MutexGuard<'static, u64>);

impl Walk {
    pub(crate) fn begin() -> Walk {
        let mut walks = WALKS.lock().unwrap_or_else(PoisonError::into_inner);
        *walks += 1;
        Walk(walks)
    }

    /// The position that an array was given in this walk.
    pub(crate) fn position(&self, array: &Array) -> Option<usize> {
        let [walk, position] = &array.0.found;
        (walk.load(Relaxed) == *self.0).then(|| position.load(Relaxed) as usize)
    }

    /// Gives an array a position.
    pub(crate) fn place(&self, array: &Array, at: usize) {
        let [walk, position] = &array.0.found;
        walk.store(*self.0, Relaxed);
        position.store(at as u64, Relaxed);
    }
}

/// While it lives, arrays that depend on variables keep their recipes when they are computed.
pub(crate) struct GradientScope(
    /// It counts on the thread that opened it.
    PhantomData<*const ()>,
);

impl GradientScope {
    pub(crate) fn open() -> GradientScope {
        OPEN_SCOPES.set(OPEN_SCOPES.get() + 1);
        GradientScope(PhantomData)
    }
}

impl Drop for GradientScope {
    fn drop(&mut self) {
        OPEN_SCOPES.set(OPEN_SCOPES.get() - 1);
    }
}

/// What an array has.
pub(crate) enum Content {
    Tensor(Arc<DynTensor>),
    Recipe(Recipe),
}

/// What an array has, where it lies.
pub(crate) enum Seen<'a> {
    Tensor(&'a Arc<DynTensor>),
    Recipe(&'a Recipe),
}

impl Recipe {
    /// The inputs that derivatives go through: of one with a user's rule not the value, whose own
    /// derivatives do not count.
    pub(crate) fn differentiated_inputs(&self) -> &[Array] {
        match self.op {
            Op::Custom => &self.inputs[1..],
            _ => &self.inputs,
        }
    }

    /// The inputs whose elements are read: of one with a user's rule the value alone.
    pub(crate) fn read_inputs(&self) -> &[Array] {
        match self.op {
            Op::Custom => &self.inputs[..1],
            _ => &self.inputs,
        }
    }
}

/// What a user's rule computes: of the inputs, the result and its gradient, the gradients of the
/// inputs.
pub(crate) type Rule = Arc<dyn Fn(&[Array], &Array, &Array) -> Vec<Array> + Send + Sync>;

/// What an operation makes: its kind, element type and shape.
pub(crate) struct Made {
    pub(crate) op: Op,
    pub(crate) dtype: Scalar,
    pub(crate) shape: Extents,
}

impl Array {
    /// Records an operation. `make` says what comes of it, and is not asked where an input has an
    /// error, which becomes the result's.
    pub(crate) fn record(inputs: &[&Array], site: Site, make: impl FnOnce() -> Result<Made>) -> Array {
        if let Some(error) = inputs.iter().find_map(|input| input.error()) {
            return Array::failed(error, site);
        }
        let made = make().and_then(|made| {
            let device = common_device(inputs, made.op.name(), site)?;
            Ok((made, device))
        });
        match made {
            Ok((Made { op, dtype, shape }, device)) => {
                let inputs: SmallVec<_> = inputs.iter().map(|&input| input.clone()).collect();
                Array::lazy(Recipe { op, inputs, rule: None }, dtype, shape, device, site)
            }
            Err(error) => Array::failed(error, site),
        }
    }

    /// An array that is computed by a recipe.
    pub(crate) fn lazy(
        recipe: Recipe,
        dtype: Scalar,
        shape: Extents,
        device: Option<Device>,
        site: Site,
    ) -> Array {
        let of_variable = matches!(recipe.op, Op::Variable | Op::Mapped);
        let tracked = of_variable || recipe.inputs.iter().any(|input| input.0.tracked);
        let state = Mutex::new(ArrayState::Lazy(recipe));
        let (doubt, found, narrow) = (AtomicU64::new(0), Default::default(), OnceLock::new());
        let (caller, before) = (None, MADE.fetch_add(1, Relaxed));
        let node = Node { dtype, shape, device, site, caller, tracked, before, doubt, found, state, narrow };
        Array(Arc::new(node))
    }

    /// What an operation gives of other inputs, in the place of what this array was made of.
    pub(crate) fn again(&self, recipe: Recipe, shape: &[usize]) -> Array {
        let device = self.device().cloned();
        let again = Array::lazy(recipe, self.dtype(), Extents::from_slice(shape), device, self.site());
        self.0.caller.into_iter().fold(again, Array::called)
    }

    /// An array whose elements are there.
    pub(crate) fn ready(tensor: DynTensor, site: Site) -> Array {
        let (dtype, shape) = (tensor.dtype(), Extents::from_slice(tensor.shape()));
        let device = Some(tensor.device().clone());
        let state = Mutex::new(ArrayState::Ready { tensor: Arc::new(tensor), recipe: None });
        let (tracked, doubt, found, narrow) = (false, AtomicU64::new(0), Default::default(), OnceLock::new());
        let (caller, before) = (None, MADE.fetch_add(1, Relaxed));
        let node = Node { dtype, shape, device, site, caller, tracked, before, doubt, found, state, narrow };
        Array(Arc::new(node))
    }

    /// An array with an error in place of elements.
    pub(crate) fn failed(error: Error, site: Site) -> Array {
        let (dtype, shape) = (Scalar::F32, Extents::new());
        let state = Mutex::new(ArrayState::Failed(error));
        Array(Arc::new(Node {
            dtype,
            shape,
            device: None,
            site,
            caller: None,
            tracked: false,
            before: MADE.fetch_add(1, Relaxed),
            doubt: AtomicU64::new(0),
            found: Default::default(),
            state,
            narrow: OnceLock::new(),
        }))
    }

    /// The type of the elements; f32 of an array with an error.
    ///
    /// ```
    /// # use kiln_array::{Array, Scalar};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 3);
    /// assert_eq!((x.dtype(), (&x * 2.0).dtype()), (Scalar::I64, Scalar::F64));
    /// assert_eq!(x.cast(Scalar::BF16).dtype(), Scalar::BF16);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    pub fn dtype(&self) -> Scalar {
        self.0.dtype
    }

    /// The extents, outermost first. An array with an error has none.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.shape.len()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        crate::shape::count(&self.0.shape)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device; `None` of an array with an error.
    pub fn device(&self) -> Option<&Device> {
        self.0.device.as_ref()
    }

    /// Why there are no elements, if an operation that it is made of cannot be.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1, 2, 3], &[3]);
    /// assert!(x.error().is_none());
    /// let wrong = x.reshape(&[2, 2]);
    /// assert!(wrong.error().unwrap().to_string().contains("`reshape`: 3 elements do not fill shape [2, 2]"));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    pub fn error(&self) -> Option<Error> {
        match &*self.0.lock() {
            ArrayState::Failed(error) => Some(error.clone()),
            ArrayState::Lazy(_) | ArrayState::Ready { .. } => None,
        }
    }

    /// The line that recorded it.
    pub(crate) fn site(&self) -> Site {
        self.0.site
    }

    /// The array as what another operation made, whose name is to be in errors. It is nobody
    /// else's yet.
    pub(crate) fn called(mut self, name: &'static str) -> Array {
        if let Some(node) = Arc::get_mut(&mut self.0) {
            node.caller = Some(name);
        }
        self
    }

    /// The name of the operation that the user called.
    pub(crate) fn caller(&self) -> &'static str {
        let own = || match &*self.0.lock() {
            ArrayState::Lazy(recipe) | ArrayState::Ready { recipe: Some(recipe), .. } => recipe.op.name(),
            ArrayState::Ready { recipe: None, .. } | ArrayState::Failed(_) => "take",
        };
        self.0.caller.unwrap_or_else(own)
    }

    /// The number of the run that made it, if that can have had a fault, or 0.
    pub(crate) fn doubt(&self) -> u64 {
        self.0.doubt.load(Relaxed)
    }

    pub(crate) fn set_doubt(&self, run: u64) {
        self.0.doubt.store(run, Relaxed);
    }

    /// The array for those who do not keep it.
    pub(crate) fn downgrade(&self) -> WeakArray {
        WeakArray(Arc::downgrade(&self.0))
    }

    /// A number that no other array has while this one is there.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// The elements, or how to compute them.
    ///
    /// # Errors
    /// The array's error.
    pub(crate) fn content(&self) -> Result<Content> {
        self.look(|seen| match seen {
            Seen::Tensor(tensor) => Content::Tensor(tensor.clone()),
            Seen::Recipe(recipe) => Content::Recipe(recipe.clone()),
        })
    }

    /// Calls a function with what the array has, without a copy of it.
    ///
    /// # Errors
    /// The array's error.
    pub(crate) fn look<R>(&self, f: impl FnOnce(Seen<'_>) -> R) -> Result<R> {
        match &*self.0.lock() {
            ArrayState::Lazy(recipe) => Ok(f(Seen::Recipe(recipe))),
            ArrayState::Ready { tensor, .. } => Ok(f(Seen::Tensor(tensor))),
            ArrayState::Failed(error) => Err(error.clone()),
        }
    }

    /// Whether it is to be computed.
    ///
    /// # Errors
    /// The array's error.
    pub(crate) fn is_lazy(&self) -> Result<bool> {
        self.look(|seen| matches!(seen, Seen::Recipe(_)))
    }

    /// Whether it depends on a variable.
    pub(crate) fn is_tracked(&self) -> bool {
        self.0.tracked
    }

    /// The number of arrays that were made so far.
    pub(crate) fn made() -> u64 {
        MADE.load(Relaxed)
    }

    /// The number of arrays that were made before it: its inputs have smaller ones.
    pub(crate) fn number(&self) -> u64 {
        self.0.before
    }

    /// Whether it was there when so many arrays were made.
    pub(crate) fn is_older(&self, made: u64) -> bool {
        self.0.before < made
    }

    /// Its elements in narrower floats, if they were made together with it.
    pub(crate) fn narrow(&self, dtype: Scalar) -> Option<&Array> {
        self.0.narrow.get().filter(|narrow| narrow.dtype() == dtype)
    }

    /// Keeps its elements in narrower floats for as long as it is there.
    pub(crate) fn keep_narrow(&self, narrow: Array) {
        self.0.narrow.get_or_init(|| narrow);
    }

    /// How it is computed, if that is still known.
    pub(crate) fn recipe(&self) -> Option<Recipe> {
        match &*self.0.lock() {
            ArrayState::Lazy(recipe) | ArrayState::Ready { recipe: Some(recipe), .. } => Some(recipe.clone()),
            ArrayState::Ready { recipe: None, .. } | ArrayState::Failed(_) => None,
        }
    }

    /// Has the array hold an error in place of elements, or of how to compute them.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.0.lock();
        if matches!(*state, ArrayState::Failed(_)) {
            return;
        }
        let before = mem::replace(&mut *state, ArrayState::Failed(error));
        drop(state);
        if let ArrayState::Lazy(recipe) | ArrayState::Ready { recipe: Some(recipe), .. } = before {
            release(recipe.inputs);
        }
    }

    /// Sets the elements, which were computed. What only the recipe holds is freed.
    pub(crate) fn set_tensor(&self, tensor: Arc<DynTensor>) {
        let mut state = self.0.lock();
        if let ArrayState::Lazy(recipe) = &mut *state {
            let recipe = Recipe {
                op: recipe.op.clone(),
                inputs: mem::take(&mut recipe.inputs),
                rule: recipe.rule.take(),
            };
            let is_needed = self.0.tracked && OPEN_SCOPES.get() > 0;
            let (kept, freed) = if is_needed { (Some(recipe), None) } else { (None, Some(recipe)) };
            *state = ArrayState::Ready { tensor, recipe: kept };
            drop(state);
            release(freed.map_or_else(SmallVec::new, |recipe| recipe.inputs));
        }
    }
}

/// The one device of all inputs.
pub(crate) fn common_device(inputs: &[&Array], op: &'static str, site: Site) -> Result<Option<Device>> {
    let mut devices = inputs.iter().filter_map(|input| input.device());
    let Some(first) = devices.next() else { return Ok(None) };
    match devices.find(|device| *device != first) {
        None => Ok(Some(first.clone())),
        Some(other) => {
            let (left, right) = (first.id().to_owned(), other.id().to_owned());
            Err(Error::Devices { op, left, right, location: site })
        }
    }
}

impl Node {
    /// The state. A thread that panicked has left it whole: nothing that changes it can panic.
    fn lock(&self) -> MutexGuard<'_, ArrayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A long chain of arrays is freed link by link: each would free the next one inside its own call
/// otherwise, until the stack is full.
impl Drop for Node {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let ArrayState::Lazy(recipe) | ArrayState::Ready { recipe: Some(recipe), .. } = state {
            release(mem::take(&mut recipe.inputs));
        }
    }
}

/// Frees arrays, and what only they hold, without recursion.
fn release(inputs: SmallVec<[Array; 2]>) {
    let mut pending: Vec<Array> = inputs.into_vec();
    while let Some(Array(node)) = pending.pop() {
        let Some(mut node) = Arc::into_inner(node) else { continue };
        let state = node.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let ArrayState::Lazy(recipe) | ArrayState::Ready { recipe: Some(recipe), .. } = state {
            pending.extend(mem::take(&mut recipe.inputs));
        }
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, shape) = (self.dtype(), self.shape());
        match &*self.0.lock() {
            ArrayState::Lazy(recipe) => write!(f, "Array<{dtype}>({shape:?}, {:?})", recipe.op),
            ArrayState::Ready { .. } => write!(f, "Array<{dtype}>({shape:?})"),
            ArrayState::Failed(error) => write!(f, "Array({error})"),
        }
    }
}
