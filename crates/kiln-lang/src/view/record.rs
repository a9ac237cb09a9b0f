//! Elements that are structs: a tensor for each field.
//!
//! A load of an element is a load from each field's tensor, at one index. So threads next to each
//! other read adjacent numbers, whatever the other fields are, and each tensor is one that every
//! other kernel can take.

use super::core::ViewCore;
use super::selection::Selection;
use super::{Indices, OwnIndex, View, ViewMut};
use crate::elem::Elem;
use crate::flow::{DeviceValue, IntoDevice};
use crate::memory::alloc;
use crate::trace::{Raw, Site, error};
use crate::val::{Idx, Val};
use kiln_ir::{Bounds, Literal, Scalar, Space};
use std::ops::Deref;
use std::panic::Location;

/// A field of a [`Record`].
///
/// ```
/// use kiln_lang::prelude::*;
///
/// #[derive(Clone, Copy, Record)]
/// #[kiln(crate = kiln_lang)]
/// struct Particle {
///     mass: f32,
///     cell: u32,
/// }
///
/// let [mass, cell] = [0, 1].map(|i| <Particle as kiln_lang::Record>::FIELDS[i]);
/// assert_eq!((mass.name, mass.elem, cell.elem), ("mass", kiln_ir::Scalar::F32, kiln_ir::Scalar::U32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name; of a field without one its number.
    pub name: &'static str,
    /// The type of its elements.
    pub elem: Scalar,
}

/// A struct of numbers and bools that is an element of tensors, of shared and of local memory, each
/// field in a tensor of its own.
///
/// `#[derive(Record)]` implements it for a struct `Name` whose fields are element types, and makes
/// the struct `NameVal` of device values, which is what a kernel reads and writes.
///
/// ```
/// use kiln_lang::prelude::*;
///
/// #[derive(Clone, Copy, Record)]
/// #[kiln(crate = kiln_lang)]
/// struct Particle {
///     x: f32,
///     v: f32,
/// }
///
/// #[device(crate = kiln_lang)]
/// fn moved(p: ParticleVal, dt: f32) -> ParticleVal {
///     ParticleVal { x: p.x + p.v * dt, ..p }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element of records",
    note = "for a struct of numbers and bools, add `#[derive(Clone, Copy, Record)]`"
)]
pub trait Record: Copy + Send + Sync + 'static + IntoDevice<Self::Val> {
    /// The fields, in the order of the struct.
    const FIELDS: &'static [Field];

    /// The struct of device values.
    type Val: DeviceValue;

    /// A view for each field.
    #[doc(hidden)]
    type Cores: Copy + AsRef<[derived::Core]>;

    #[doc(hidden)]
    fn cores(f: &mut dyn FnMut(usize) -> derived::Core) -> Self::Cores;

    #[doc(hidden)]
    fn value(f: &mut dyn FnMut(usize) -> Raw) -> Self::Val;

    /// Appends the bytes of the fields of structs to a list for each field.
    #[doc(hidden)]
    fn append(records: &[Self], columns: &mut [Vec<u8>]);

    /// The struct at an index of such lists.
    #[doc(hidden)]
    fn at(columns: &[Vec<u8>], index: usize) -> Self;
}

/// The handles of a value, in the order of its fields.
fn handles<D: DeviceValue>(value: &D) -> Vec<Raw> {
    let mut handles = Vec::new();
    value.map(&mut |raw| {
        handles.push(raw);
        raw
    });
    handles
}

/// What the derive names.
#[doc(hidden)]
pub mod derived {
    use super::{Elem, Raw, Val, ViewCore};

    /// The view of a field.
    #[derive(Clone, Copy)]
    pub struct Core(pub(super) ViewCore);

    pub fn value<T: Elem>(raw: Raw) -> Val<T> {
        Val::from_raw(raw)
    }

    pub fn append<T: Elem>(column: &mut Vec<u8>, elements: impl Iterator<Item = T>) {
        let size = T::SCALAR.bytes() as usize;
        elements
            .for_each(|element| column.extend_from_slice(&element.literal().bits().to_le_bytes()[..size]));
    }

    /// An element by its number; zero where there is none.
    pub fn at<T: Elem>(column: Option<&Vec<u8>>, index: usize) -> T {
        let size = T::SCALAR.bytes() as usize;
        let bytes = column.and_then(|column| column.get(index * size..(index + 1) * size));
        let mut bits = [0; 8];
        if let Some(bytes) = bytes {
            bits[..size].copy_from_slice(bytes);
        }
        T::from_bits(u64::from_le_bytes(bits))
    }
}

/// Records of rank `R` that a kernel reads: what `&Records<B, R>` is in a kernel.
///
/// ```
/// # use kiln_lang::{param::Facts, prelude::*};
/// #[derive(Clone, Copy, Record)]
/// #[kiln(crate = kiln_lang)]
/// struct Particle {
///     mass: f32,
///     v: f32,
/// }
///
/// #[device(crate = kiln_lang)]
/// fn energy(particles: RecordView<Particle, 1>, y: ViewMut<f32, 1>) {
///     let i = thread_index();
///     let p = particles.get(i);
///     y.set(i, p.mass * p.v * p.v * 0.5);
/// }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
/// #     let particles = p.records("particles", &mut |_| Facts::default());
/// #     energy(particles, p.view_mut("y", Facts::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub struct RecordView<B: Record, const R: usize> {
    cores: B::Cores,
}

/// Records of rank `R` that a kernel reads and writes: what `&mut Records<B, R>` is in a kernel.
///
/// ```
/// # use kiln_lang::{param::Facts, prelude::*};
/// #[derive(Clone, Copy, Record)]
/// #[kiln(crate = kiln_lang)]
/// struct Particle {
///     x: f32,
///     v: f32,
/// }
///
/// #[device(crate = kiln_lang)]
/// fn step(particles: RecordViewMut<Particle, 1>, dt: Val<f32>) {
///     let i = thread_index();
///     let mut p = particles.get_or(i, Particle { x: 0.0, v: 0.0 });
///     p.x += p.v * dt;
///     if p.x > 1.0 {
///         p = ParticleVal { x: p.x - 1.0, ..p };
///     }
///     particles.set_or_skip(i, p);
/// }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
/// #     let particles = p.records_mut("particles", &mut |_| Facts::default());
/// #     step(particles, p.scalar("dt", Default::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub struct RecordViewMut<B: Record, const R: usize> {
    view: RecordView<B, R>,
}

impl<B: Record, const R: usize> Clone for RecordView<B, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Record, const R: usize> Copy for RecordView<B, R> {}

impl<B: Record, const R: usize> Clone for RecordViewMut<B, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Record, const R: usize> Copy for RecordViewMut<B, R> {}

/// What can be asked of writable records for reading too.
impl<B: Record, const R: usize> Deref for RecordViewMut<B, R> {
    type Target = RecordView<B, R>;
    fn deref(&self) -> &RecordView<B, R> {
        &self.view
    }
}

impl<B: Record, const R: usize> RecordView<B, R> {
    pub(crate) fn from_cores(mut core: impl FnMut(usize) -> ViewCore) -> Self {
        RecordView { cores: B::cores(&mut |field| derived::Core(core(field))) }
    }

    fn gather(&self, index: [Raw; R], other: &[Raw], bounds: Bounds, site: Site) -> B::Val {
        let cores = self.cores.as_ref();
        B::value(&mut |field| {
            let (Some(derived::Core(view)), Some(info)) = (cores.get(field), B::FIELDS.get(field)) else {
                return Raw::Poison;
            };
            let zero = Raw::Const(Literal::zero(info.elem));
            let other = other.get(field).copied().unwrap_or(zero);
            Selection { view, indices: &index, mask: None }.gather(other, bounds, info.elem, site)
        })
    }

    /// The element at an index. An index outside the records ends the kernel with a fault.
    #[track_caller]
    pub fn get(&self, index: impl Indices<R>) -> B::Val {
        self.gather(index.indices(), &[], Bounds::Check, Location::caller())
    }

    /// As [`get`](Self::get); where the index lies outside the records, `other`.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
    /// #[derive(Clone, Copy, Record)]
    /// #[kiln(crate = kiln_lang)]
    /// struct Point {
    ///     x: f32,
    ///     y: f32,
    /// }
    ///
    /// let (points, i) = (shared_records::<Point, 1>([64]), thread_index());
    /// points.set(i, Point { x: 1.0, y: 2.0 }); // the thread's own
    /// // SAFETY: threads write an element of their own, and read it alone until the barrier.
    /// unsafe { points.write(i.get(), PointVal { x: points.get(i).x + 2.0, y: points.get(i).y }) };
    /// points.field_mut::<f32>("y").set(i, 4.0);
    /// barrier();
    /// let outside = points.get_or(thread_id(0) + 64, Point { x: -1.0, y: 0.0 });
    /// let other = points.get_or(63 - thread_id(0), Point { x: -1.0, y: 0.0 });
    /// device_assert!(outside.x.eq(-1.0) & other.x.eq(3.0) & other.y.eq(4.0));
    /// device_assert!(points.len().eq(64) & points.shape()[0].eq(64));
    /// # });
    /// ```
    #[track_caller]
    pub fn get_or(&self, index: impl Indices<R>, other: impl IntoDevice<B::Val>) -> B::Val {
        let other = handles(&other.into_device());
        self.gather(index.indices(), &other, Bounds::Mask, Location::caller())
    }

    fn first(&self) -> View<crate::Untyped, R> {
        View::from_core(self.cores.as_ref().first().map_or_else(ViewCore::poison, |core| core.0))
    }

    /// The number of elements on an axis.
    #[track_caller]
    pub fn extent(&self, axis: usize) -> Idx {
        self.first().extent(axis)
    }

    /// The numbers of elements on all axes, outermost first.
    #[track_caller]
    pub fn shape(&self) -> [Idx; R] {
        self.first().shape()
    }

    /// The number of elements: of rank 1 the extent, else the product of all.
    #[track_caller]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> Idx {
        self.first().len()
    }

    /// The elements of one field, by its name, as a view like any other.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # #[derive(Clone, Copy, Record)]
    /// # #[kiln(crate = kiln_lang)]
    /// # struct Particle { mass: f32, v: f32 }
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let particles: RecordView<Particle, 1> = p.records("particles", &mut |_| Facts::default());
    /// let heaviest = particles.field::<f32>("mass").load(64, 0.0).reduce_max();
    /// # _ = heaviest;
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn field<T: Elem>(&self, name: &str) -> View<T, R> {
        View::from_core(self.core_of(name, T::SCALAR, Location::caller()))
    }

    fn core_of(&self, name: &str, elem: Scalar, site: Site) -> ViewCore {
        let found = B::FIELDS.iter().position(|field| field.name == name);
        match found.map(|at| (B::FIELDS[at], self.cores.as_ref().get(at))) {
            Some((field, Some(core))) if field.elem == elem => core.0,
            Some((field, _)) => {
                let message = format!("field `{name}` of these records has elements of {}", field.elem);
                error(site, message, "ask for a view of that type");
                ViewCore::poison()
            }
            None => {
                let names: Vec<&str> = B::FIELDS.iter().map(|field| field.name).collect();
                let message =
                    format!("these records have no field `{name}`: it is none of {}", names.join(", "));
                error(site, message, "use the name of a field of the struct");
                ViewCore::poison()
            }
        }
    }
}

impl<B: Record, const R: usize> RecordViewMut<B, R> {
    pub(crate) fn from_cores(core: impl FnMut(usize) -> ViewCore) -> Self {
        RecordViewMut { view: RecordView::from_cores(core) }
    }

    fn put(&self, index: [Raw; R], value: &B::Val, bounds: Bounds, site: Site) {
        for (derived::Core(view), value) in self.view.cores.as_ref().iter().zip(handles(value)) {
            Selection { view, indices: &index, mask: None }.scatter(value, bounds, site);
        }
    }

    /// Stores an element at the thread's own index. An index outside the records ends the kernel
    /// with a fault.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// #[derive(Clone, Copy, Record)]
    /// #[kiln(crate = kiln_lang)]
    /// struct Point {
    ///     x: f32,
    ///     y: f32,
    /// }
    ///
    /// let kernel = trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    ///     let points: RecordViewMut<Point, 1> = p.records_mut("points", &mut |_| Default::default());
    ///     let i = thread_index();
    ///     points.set(i, Point { x: 1.0, y: 2.0 });
    ///     points.field_mut::<f32>("y").set(i, 4.0); // of one field
    ///     // SAFETY: no two threads have the same place.
    ///     unsafe { points.write(points.len() - 1 - i, points.get(i)) };
    /// })?;
    /// assert_eq!(kernel.params.iter().map(|param| &param.name[..]).collect::<Vec<_>>(), ["points_x", "points_y"]);
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn set(&self, index: impl OwnIndex<R>, value: impl IntoDevice<B::Val>) {
        self.put(index.own(), &value.into_device(), Bounds::Check, Location::caller());
    }

    /// As [`set`](Self::set); where the index lies outside the records, nothing is stored.
    #[track_caller]
    pub fn set_or_skip(&self, index: impl OwnIndex<R>, value: impl IntoDevice<B::Val>) {
        self.put(index.own(), &value.into_device(), Bounds::Mask, Location::caller());
    }

    /// Stores an element at any index. An index outside the records ends the kernel with a fault.
    ///
    /// # Safety
    ///
    /// No other thread of the launch may read or write the element, unless a barrier or an atomic
    /// orders the two.
    #[track_caller]
    pub unsafe fn write(&self, index: impl Indices<R>, value: impl IntoDevice<B::Val>) {
        self.put(index.indices(), &value.into_device(), Bounds::Check, Location::caller());
    }

    /// The elements of one field, by its name, to be written; as
    /// [`field`](RecordView::field).
    #[track_caller]
    pub fn field_mut<T: Elem>(&self, name: &str) -> ViewMut<T, R> {
        ViewMut::from_core(self.view.core_of(name, T::SCALAR, Location::caller()))
    }
}

/// Records that the threads of a block share. Uninitialized at first.
///
/// ```
/// # use kiln_lang::prelude::*;
/// #[derive(Clone, Copy, Record)]
/// #[kiln(crate = kiln_lang)]
/// struct Particle {
///     x: f32,
///     mass: f32,
/// }
///
/// # trace("k", Level::Thread { block: [16, 1, 1] }, |_| {
/// let s = shared_records::<Particle, 1>([16]);
/// let i = thread_id(0);
/// // SAFETY: each thread writes its own element, and the barrier comes before any is read.
/// unsafe { s.put(i, Particle { x: 0.0, mass: 1.0 }) };
/// barrier();
/// let neighbor = s.get((i + 1) % 16).mass;
/// # _ = neighbor;
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy)]
pub struct SharedRecords<B: Record, const R: usize> {
    view: RecordViewMut<B, R>,
}

/// Reading is that of a view.
impl<B: Record, const R: usize> Deref for SharedRecords<B, R> {
    type Target = RecordViewMut<B, R>;
    fn deref(&self) -> &RecordViewMut<B, R> {
        &self.view
    }
}

/// Allocates shared memory for records, of a static shape.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// #[derive(Clone, Copy, Record)]
/// #[kiln(crate = kiln_lang)]
/// struct Pair {
///     key: u32,
///     count: u32,
/// }
///
/// let pairs = shared_records::<Pair, 1>([64]);
/// pairs.set(thread_index(), Pair { key: 3, count: 1 });
/// barrier();
/// device_assert!(pairs.get(63 - thread_id(0)).key.eq(3));
/// # });
/// ```
#[track_caller]
pub fn shared_records<B: Record, const R: usize>(shape: [usize; R]) -> SharedRecords<B, R> {
    let site = Location::caller();
    let core = |field: usize| alloc(Space::Shared, B::FIELDS[field].elem, &shape, site);
    SharedRecords { view: RecordViewMut::from_cores(core) }
}

impl<B: Record, const R: usize> SharedRecords<B, R> {
    /// Stores an element. An index outside the extents ends the kernel with a fault.
    ///
    /// # Safety
    ///
    /// No other thread of the block may read or write the element without a
    /// [`barrier`](crate::barrier) in between.
    #[track_caller]
    pub unsafe fn put(&self, index: impl Indices<R>, value: impl IntoDevice<B::Val>) {
        self.view.put(index.indices(), &value.into_device(), Bounds::Check, Location::caller());
    }
}

/// An array of records of one thread, with indices on the device. Uninitialized at first.
///
/// ```
/// # use kiln_lang::prelude::*;
/// #[derive(Clone, Copy, Record)]
/// #[kiln(crate = kiln_lang)]
/// struct Entry {
///     key: u32,
///     found: bool,
/// }
///
/// # trace("k", Level::Thread { block: [32, 1, 1] }, |_| {
/// let entries = local_records::<Entry>(4);
/// for i in 0..4u32 {
///     entries.set(i, Entry { key: i * i, found: false });
/// }
/// let key = entries.get(thread_id(0) % 4).key;
/// # _ = key;
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy)]
pub struct LocalRecords<B: Record> {
    view: RecordViewMut<B, 1>,
}

/// Allocates an array of `len` records for each thread.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// #[derive(Clone, Copy, Record)]
/// #[kiln(crate = kiln_lang)]
/// struct Entry {
///     key: u32,
///     found: bool,
/// }
///
/// let entries = local_records::<Entry>(4);
/// for i in 0..4u32 {
///     entries.set(i, Entry { key: i * i, found: i == 3 });
/// }
/// device_assert!(entries.get(3).key.eq(9) & entries.get(3).found);
/// # });
/// ```
#[track_caller]
pub fn local_records<B: Record>(len: usize) -> LocalRecords<B> {
    let site = Location::caller();
    let core = |field: usize| alloc(Space::Local, B::FIELDS[field].elem, &[len], site);
    LocalRecords { view: RecordViewMut::from_cores(core) }
}

impl<B: Record> LocalRecords<B> {
    /// The element at an index. An index outside the array ends the kernel with a fault.
    #[track_caller]
    pub fn get(&self, index: impl Indices<1>) -> B::Val {
        self.view.get(index)
    }

    /// Stores an element. An index outside the array ends the kernel with a fault.
    #[track_caller]
    pub fn set(&self, index: impl Indices<1>, value: impl IntoDevice<B::Val>) {
        self.view.put(index.indices(), &value.into_device(), Bounds::Check, Location::caller());
    }
}
