//! Where the first NaN or infinity comes from.
//!
//! Arrays are computed as ever, and their results are counted through. Only where one is not finite
//! is more done: what it was recorded of is computed again, an operation at a time, and counted
//! through too.
//!
//! ```text
//!   x ── log ── sub ── exp ── sum      log: 2 infinities of finite inputs
//!         └─ max ┘                     sub: 4 NaN of inputs with infinities
//!                                      the rest has NaN because its inputs have some
//! ```
//!
//! The first one in the order of recording counts from which only arrays that are not finite lead
//! to a result: what `where_` does not select leads to none.

use crate::dtype::{Kind, kind};
use crate::error::{Error, NonFinite, Result, Site};
use crate::node::{Array, Recipe};
use crate::op::Op;
use crate::run::evaluate;
use kiln_ir::{Literal, Scalar};
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};

thread_local! {
    /// Whether what this thread computes is looked through.
    static IS_DETECTING: Cell<bool> = const { Cell::new(false) };
}

/// The mode of this thread, until it is dropped, when the one before is back.
struct Mode {
    before: bool,
}

impl Mode {
    fn set(is_detecting: bool) -> Mode {
        Mode { before: IS_DETECTING.replace(is_detecting) }
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        IS_DETECTING.set(self.before);
    }
}

/// Calls a function in which every evaluation looks for NaN and infinities in what it has computed,
/// and returns [`Error::NotFinite`] if there are some, with the first operation that made one. It
/// is JAX's `debug_nans` and `debug_infs`.
///
/// This is for all that computes arrays on this thread until the function returns: `eval`, `item`,
/// `to_vec`, `Display`, an optimizer's `step`. Calls may be nested. What
/// [`first_non_finite`] says of which operation is reported, of deliberate infinities and of memory
/// is true here too.
///
/// - Each evaluation waits for the device. Once a result is not finite, operations are computed one
///   by one.
/// - An array that is not finite keeps its elements, so that reading it again gives them.
/// - A step of an optimizer that fails so has changed nothing.
/// - With [`Mixed::f16`](crate::nn::Mixed::f16), a scaled gradient that overflows is no error: the
///   parameters that the step computes are finite, for it leaves them as they were, and the scale
///   is halved as ever. A loss that is not finite is an error. The policy counts that step: the
///   scale is halved if the gradients were not finite either.
/// - What is recorded into a [graph](kiln_runtime::Device::graph) of launches is not looked
///   through, for it has not run.
///
/// ```
/// use kiln_array::{Array, Error, detect_non_finite};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32, 0.0, 3.0], &[3]);
/// let loss = |x: &Array| (x.log() * 2.0).sum().item::<f32>();
/// assert_eq!(loss(&x)?, f32::NEG_INFINITY);
/// let line = line!() - 2;
/// let error = detect_non_finite(|| loss(&x)).unwrap_err();
/// let Error::NotFinite { found } = error else { panic!("the loss is infinite") };
/// assert_eq!((found.op, found.location.line()), (Some("log"), line));
/// assert_eq!((found.infinities, found.first), (1, vec![1]));
/// # Ok::<(), kiln_array::Error>(())
/// ```
pub fn detect_non_finite<R>(f: impl FnOnce() -> R) -> R {
    let _mode = Mode::set(true);
    f()
}

/// Returns the first operation that made a NaN or an infinity which arrays have, or `None` if their
/// elements are all finite. The arrays are computed.
///
/// An operation has made them if it gives NaN and no input has some, or an infinity and all inputs
/// are finite. The first one is that which was recorded first among those that lead to one of the
/// arrays: each array on the way has an element that is not finite. To find out about an array on
/// the way too, name it among the arrays.
///
/// - Elements that were in memory before have no operation. An array with NaN is reported itself;
///   one with infinities alone is if no operation is: it may be a mask.
/// - A constant that is infinite or NaN, such as the -∞ that a mask puts in front of a softmax, is
///   deliberate, and so is an infinity which an operation makes of infinities. What is reported is
///   an operation that makes NaN of them, with the line that they come from.
/// - An infinity that the arrays do not show is not reported: what
///   [`where_`](Array::where_) does not select, 1/∞ = 0.
/// - Only floats are looked at: integers and bools are finite.
///
/// If all is finite, this costs a read of the arrays. Else what they were recorded of is computed
/// again without fusion, where each operation writes its result, which is freed after the last
/// operation that reads it. What was computed before has no operations any more; call this before
/// something else computes the arrays, or use [`detect_non_finite`].
///
/// ```
/// use kiln_array::{Array, first_non_finite};
/// let device = kiln_runtime::Device::open("interp")?;
/// let scores = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]);
/// let masked = scores.where_(&scores.less(4.0), f32::NEG_INFINITY);
/// assert_eq!(first_non_finite(&[&masked.softmax(-1)])?, None);
///
/// let loss = (scores - 2.0).sqrt().sum();
/// let found = first_non_finite(&[&loss])?.unwrap();
/// assert_eq!((found.op, found.nans, found.first.as_slice()), (Some("sqrt"), 1, &[0, 0][..]));
/// assert!(found.to_string().ends_with(
///     "`sqrt` made 0 infinities and 1 NaN in an array of f32 and shape [2, 2], first at [0, 0], of \
///      finite inputs"
/// ));
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The error of an array that has one; those of launches and reads.
pub fn first_non_finite(arrays: &[&Array]) -> Result<Option<NonFinite>> {
    let _mode = Mode::set(false);
    // Computing the arrays frees what they are made of.
    let recorded = |array: &&Array| array.recipe().map(|recipe| (array.identity(), recipe));
    let recorded: HashMap<usize, Recipe> = arrays.iter().filter_map(recorded).collect();
    evaluate(arrays)?;
    let counts = count(arrays)?;
    let is_bad = |(_, count): &(&&Array, &Count)| !count.is_finite();
    let bad: Vec<(&Array, Count)> =
        arrays.iter().zip(&counts).filter(is_bad).map(|(&array, &count)| (array, count)).collect();
    if bad.is_empty() {
        return Ok(None);
    }
    let mut search = Search::of(&bad, &recorded)?;
    search.compute()?;
    Ok(search.first().or_else(|| search.by_fusion(&bad)))
}

/// Computes arrays, and looks through them in the mode for that.
///
/// # Errors
/// As of [`evaluate`]; [`Error::NotFinite`].
pub(crate) fn computed(arrays: &[&Array]) -> Result<()> {
    let is_capturing = |array: &&Array| array.device().is_some_and(|device| device.is_capturing());
    if !IS_DETECTING.get() || arrays.iter().any(is_capturing) {
        return evaluate(arrays);
    }
    let mut lazy = Vec::with_capacity(arrays.len());
    for &array in arrays {
        if array.is_lazy()? {
            lazy.push(array);
        }
    }
    match first_non_finite(&lazy)? {
        Some(found) => Err(Error::NotFinite { found: Box::new(found) }),
        None => Ok(()),
    }
}

/// How many elements are not finite.
#[derive(Clone, Copy, Default)]
struct Count {
    nans: usize,
    infinities: usize,
    /// The index of the first one, in row-major order.
    first: usize,
}

impl Count {
    fn is_finite(&self) -> bool {
        self.nans == 0 && self.infinities == 0
    }

    /// That of one number in all elements.
    fn of_constant(literal: Literal, len: usize) -> Count {
        let number = literal.as_f64();
        let all = |is_so: bool| if is_so { len } else { 0 };
        Count { nans: all(number.is_nan()), infinities: all(number.is_infinite()), first: 0 }
    }
}

/// Counts through arrays, on their devices.
fn count(arrays: &[&Array]) -> Result<Vec<Count>> {
    let counted: Vec<Option<[Array; 3]>> = arrays
        .iter()
        .map(|array| {
            let is_counted = kind(array.dtype()) == Kind::Float && !array.is_empty();
            array.device().filter(|_| is_counted).map(|device| {
                let (shape, site) = ([array.len()], array.site());
                let flat = array.reshaped(&shape, site);
                let (bad, nans) = (!flat.is_finite(), flat.is_nan());
                let places = Array::iota(device, &shape, 0, site).where_(&bad, i64::MAX);
                [bad.cast(Scalar::I64).sum(), nans.cast(Scalar::I64).sum(), places.min()]
            })
        })
        .collect();
    evaluate(&counted.iter().flatten().flatten().collect::<Vec<_>>())?;
    let read = |(array, of): (&&Array, &Option<[Array; 3]>)| -> Result<Count> {
        let Some(of) = of else { return Ok(Count::default()) };
        let number = |at: usize| of[at].item::<i64>().map(|number| usize::try_from(number).unwrap_or(0));
        let number = |at: usize| number(at).map_err(|error| at_line(error, array.site()));
        let bad = number(0)?;
        if bad == 0 {
            return Ok(Count::default());
        }
        let nans = number(1)?;
        Ok(Count { nans, infinities: bad.saturating_sub(nans), first: number(2)? })
    };
    arrays.iter().zip(&counted).map(read).collect()
}

/// An error of a read that the user did not write, at the line of the array that was read.
fn at_line(error: Error, location: Site) -> Error {
    match error {
        Error::Run { error, .. } => Error::Run { error, location },
        other => other,
    }
}

/// An array that others are made of.
struct Vertex {
    array: Array,
    /// `None` of one whose elements were there.
    recipe: Option<Recipe>,
    /// Positions of the inputs whose elements are read.
    inputs: Vec<usize>,
    /// How many have still to read its elements.
    readers: usize,
    /// While they are needed.
    elements: Option<Array>,
    /// The name of the operation.
    op: Option<&'static str>,
    role: Role,
    count: Count,
}

/// What an array can have to do with elements that are not finite.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Its elements were there.
    Given,
    /// They are one number.
    Constant,
    /// They are those of its input.
    View,
    Operation,
}

/// The arrays that others are made of, in the order in which they were recorded.
struct Search {
    vertices: Vec<Vertex>,
    /// What the search is about.
    roots: Vec<usize>,
}

impl Search {
    fn of(roots: &[(&Array, Count)], recorded: &HashMap<usize, Recipe>) -> Result<Search> {
        let mut met: HashMap<usize, (Array, Option<Recipe>)> = HashMap::new();
        let mut pending: Vec<Array> = roots.iter().map(|(array, _)| (*array).clone()).collect();
        while let Some(array) = pending.pop() {
            if met.contains_key(&array.identity()) {
                continue;
            }
            let recipe = match recorded.get(&array.identity()) {
                Some(recipe) => Some(recipe.clone()),
                None => worth_computing(&array)?,
            };
            if let Some(Recipe { op: Op::Mapped, .. }) = &recipe {
                return Err(Error::Mapped { location: array.site() });
            }
            pending.extend(recipe.iter().flat_map(inputs).cloned());
            met.insert(array.identity(), (array, recipe));
        }
        let mut met: Vec<(Array, Option<Recipe>)> = met.into_values().collect();
        met.sort_unstable_by_key(|(array, _)| array.number());
        let identities = met.iter().enumerate().map(|(at, (array, _))| (array.identity(), at));
        let positions: HashMap<usize, usize> = identities.collect();
        let position = |array: &Array| positions.get(&array.identity()).copied();
        let roots = roots.iter().filter_map(|(array, _)| position(array)).collect();
        let vertex = |(array, recipe): (Array, Option<Recipe>)| Vertex {
            inputs: recipe.iter().flat_map(inputs).filter_map(position).collect(),
            role: if recipe.is_some() { Role::Operation } else { Role::Given },
            array,
            recipe,
            readers: 0,
            elements: None,
            op: None,
            count: Count::default(),
        };
        let mut vertices: Vec<Vertex> = met.into_iter().map(vertex).collect();
        for at in 0..vertices.len() {
            for input in vertices[at].inputs.clone() {
                vertices[input].readers += 1;
            }
        }
        Ok(Search { vertices, roots })
    }

    /// Computes and counts through one after the other.
    fn compute(&mut self) -> Result<()> {
        for at in 0..self.vertices.len() {
            self.compute_one(at)?;
            for input in self.vertices[at].inputs.clone() {
                let input = &mut self.vertices[input];
                input.readers -= 1;
                if input.readers == 0 {
                    input.elements = None;
                }
            }
        }
        Ok(())
    }

    fn compute_one(&mut self, at: usize) -> Result<()> {
        let vertex = &self.vertices[at];
        let array = vertex.array.clone();
        let Some(recipe) = vertex.recipe.clone() else {
            let count = counted(&array)?;
            self.set(at, array, count);
            return Ok(());
        };
        let first = vertex.inputs.first().copied();
        let elements = vertex.inputs.iter().filter_map(|&input| self.vertices[input].elements.clone());
        let inputs: SmallVec<[Array; 2]> = elements.collect();
        let of_input = first.map(|input| (self.vertices[input].role, self.vertices[input].count));
        let again = array.again(Recipe { op: recipe.op.clone(), inputs, rule: None }, array.shape());
        self.vertices[at].op = Some(again.caller());
        let Some((role, before)) = of_input else {
            // A constant takes no memory in what reads it.
            let count = match recipe.op {
                Op::Full(literal) => Count::of_constant(literal, array.len()),
                _ => Count::default(),
            };
            self.vertices[at].role = Role::Constant;
            self.set(at, again, count);
            return Ok(());
        };
        if recipe.op.is_view() {
            // As of a constant. It is computed by what reads through it.
            self.vertices[at].role = if role == Role::Constant { role } else { Role::View };
            let elements = match passes(&recipe) {
                true => first.and_then(|input| self.vertices[input].elements.clone()).unwrap_or(again),
                false => again,
            };
            let count = if before.is_finite() { before } else { counted(&elements)? };
            self.set(at, elements, count);
            return Ok(());
        }
        evaluate(&[&again])?;
        let count = counted(&again)?;
        self.set(at, again, count);
        Ok(())
    }

    fn set(&mut self, at: usize, elements: Array, count: Count) {
        let vertex = &mut self.vertices[at];
        vertex.count = count;
        vertex.elements = (vertex.readers > 0).then_some(elements);
    }

    /// The first one that made something not finite which the roots have.
    fn first(&self) -> Option<NonFinite> {
        let reached = self.behind(&self.roots);
        let made = reached.iter().find(|&&at| self.has_made(at));
        let given = || reached.iter().find(|&&at| self.vertices[at].role == Role::Given);
        made.or_else(given).map(|&at| self.described(at, &self.vertices[at].count))
    }

    /// A root that is not finite where fusion rounds otherwise than operations one by one.
    fn by_fusion(&self, roots: &[(&Array, Count)]) -> Option<NonFinite> {
        let mut of_roots = self.roots.iter().zip(roots);
        let found = of_roots.find(|(at, _)| self.vertices[**at].count.is_finite());
        found.map(|(at, (_, count))| self.described(*at, count))
    }

    fn has_made(&self, at: usize) -> bool {
        let Vertex { role, count, inputs, .. } = &self.vertices[at];
        let mut inputs = inputs.iter().map(|&input| &self.vertices[input]);
        match role {
            Role::Given => count.nans > 0,
            Role::Constant | Role::View => false,
            // NaN of a constant NaN is made where that is used.
            Role::Operation if count.nans > 0 => {
                !inputs.any(|input| input.count.nans > 0 && input.role != Role::Constant)
            }
            Role::Operation => count.infinities > 0 && inputs.all(|input| input.count.is_finite()),
        }
    }

    /// The positions of arrays that are not finite, and of those of their inputs that are not.
    fn behind(&self, from: &[usize]) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut pending = from.to_vec();
        while let Some(at) = pending.pop() {
            let vertex = &self.vertices[at];
            if !vertex.count.is_finite() && reached.insert(at) {
                pending.extend(&vertex.inputs);
            }
        }
        reached
    }

    fn described(&self, at: usize, count: &Count) -> NonFinite {
        let vertex = &self.vertices[at];
        let sources = self.behind(&vertex.inputs);
        let is_source = |at: &&usize| matches!(self.vertices[**at].role, Role::Given | Role::Constant);
        let (array, shape) = (&vertex.array, self.shape_of_line(at));
        NonFinite {
            op: vertex.op,
            location: self.line_of_user(at),
            dtype: array.dtype(),
            shape: shape.to_vec(),
            nans: count.nans,
            infinities: count.infinities,
            first: place(count.first, shape),
            source: sources.iter().find(is_source).map(|&at| self.line_of_user(at)),
        }
    }

    /// The line that recorded an array, or, of one that a function of this crate made on its way,
    /// that of the first array after it which is made of it and has a line of the user's.
    fn line_of_user(&self, at: usize) -> Site {
        let own = self.vertices[at].array.site();
        let mut of_it = HashSet::from([at]);
        let mut later = self.vertices.iter().enumerate().skip(at).filter(|(next, vertex)| {
            let is_of_it = *next == at || vertex.inputs.iter().any(|input| of_it.contains(input));
            if is_of_it {
                of_it.insert(*next);
            }
            is_of_it
        });
        let found = later.find(|(_, vertex)| !is_of_crate(vertex.array.site()));
        found.map_or(own, |(_, vertex)| vertex.array.site())
    }

    /// The shape of what the line gives that recorded an array: a product of matrices, for example,
    /// is recorded as one of batches, and then reshaped.
    fn shape_of_line(&self, at: usize) -> &[usize] {
        let site = self.vertices[at].array.site();
        let is_reshape = |of: &Vertex| matches!(of.recipe, Some(Recipe { op: Op::Reshape, .. }));
        let mut last = at;
        for (next, vertex) in self.vertices.iter().enumerate().skip(at) {
            if is_reshape(vertex) && vertex.inputs == [last] && vertex.array.site() == site {
                last = next;
            }
        }
        self.vertices[last].array.shape()
    }
}

/// Whether a line is one of this crate.
fn is_of_crate(site: Site) -> bool {
    let folder = file!().strip_suffix("non_finite.rs");
    folder.is_some_and(|folder| site.file().starts_with(folder))
}

/// How an array is computed, if that tells more than its elements: of one that was computed while
/// a gradient is taken only if it is not finite.
fn worth_computing(array: &Array) -> Result<Option<Recipe>> {
    match array.recipe() {
        Some(recipe) if array.is_lazy()? || !counted(array)?.is_finite() => Ok(Some(recipe)),
        _ => Ok(None),
    }
}

fn counted(array: &Array) -> Result<Count> {
    Ok(count(&[array])?.pop().unwrap_or_default())
}

/// Whether the elements are those of the first input, in their places.
fn passes(recipe: &Recipe) -> bool {
    matches!(recipe.op, Op::Variable | Op::Stop | Op::After | Op::Custom)
}

/// The inputs that elements are computed of.
fn inputs(recipe: &Recipe) -> &[Array] {
    if passes(recipe) { recipe.inputs.get(..1).unwrap_or_default() } else { recipe.read_inputs() }
}

/// The index on each axis of an element that is counted in row-major order.
fn place(mut index: usize, shape: &[usize]) -> Vec<usize> {
    let mut place = vec![0; shape.len()];
    for (at, &extent) in place.iter_mut().zip(shape).rev() {
        *at = index % extent.max(1);
        index /= extent.max(1);
    }
    place
}
