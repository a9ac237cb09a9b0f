//! Parameters of kernels: the contract between the language, the `#[kernel]` macro and a runtime.
//!
//! # What `#[kernel]` generates
//!
//! ```text
//! #[kernel]
//! fn softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, block: usize) { .. }
//! ```
//!
//! becomes a function that only gathers its arguments (`P` stands for `krate::__private`):
//!
//! ```text
//! fn softmax<'k>(
//!     x: <&'k Tensor<f32, 2> as P::KernelParam>::Arg,
//!     y: <&'k mut Tensor<f32, 2> as P::KernelParam>::Arg,
//!     block: <usize as P::KernelParam>::Arg,
//! ) -> P::Launch<(&'k Tensor<f32, 2>, &'k mut Tensor<f32, 2>, usize)> {
//!     fn body<'k>(x: <&'k Tensor<f32, 2> as P::KernelParam>::Traced, ..) { /* the rewritten body */ }
//!     static SITE: P::KernelSite = P::KernelSite::new("softmax", &["x", "y", "block"], file!(), line!(), column!());
//!     P::Launch::new(P::KernelFn::new(&SITE, TypeId::of::<Types</* generic arguments */>>(), |(x, y, block)| body(x, y, block)), (x, y, block))
//! }
//! ```
//!
//! # What a runtime provides
//!
//! - `krate::__private`, which re-exports [`kiln_lang::__private`](crate::__private) and has a type
//!   `Launch<P: KernelParams>` with `fn new(kernel: KernelFn<P>, args: P::Args) -> Launch<P>`.
//!   `krate` is `::kiln`, or what `#[kernel(crate = path)]` says.
//! - [`KernelParam`] for its tensor references: `&'k Tensor<T, R>` with `Arg = Self` and
//!   `Traced = View<T, R>`, and `&'k mut Tensor<T, R>` with `Traced = ViewMut<T, R>`. Scalars and
//!   host constants are implemented here.
//!
//! # A launch
//!
//! 1. [`SpecKey::of_function`] begins the specialization key with the kernel's static address and
//!    its generic arguments, and [`KernelParams::key`] adds what each argument contributes (facts
//!    of tensors, values of host constants). It does not allocate for ordinary kernels. The runtime
//!    adds the [`Level`] and the device and looks the compiled kernel up.
//! 2. Only if it is not there, [`trace_function`] records the kernel, with the same arguments.
//! 3. [`KernelParams::pack`] hands the arguments to an [`ArgSink`] of the runtime's in the order of
//!    the IR's parameters: [`ArgSink::view`] for a view, [`ArgSink::scalar`] for a scalar. Host
//!    constants pack nothing.
//! 4. The runtime compares what was packed with what the program was compiled for, argument by
//!    argument: their number, the kind, element type, rank and mutability of each, and every
//!    declared fact. What differs is an error and nothing is launched.
//!
//! # What safe code can do
//!
//! [`KernelParam`] is safe to implement: a parameter made of others forwards to them, adds scalars
//! and keeps host constants. It cannot make up a view, because [`ArgSink::view`] is `unsafe` and
//! only a runtime's tensors call it; and it cannot make a program rely on what is not so, because
//! of step 4. An implementation whose [`key`](KernelParam::key) leaves something out that its body
//! decides on runs a program that was made for another value, within the memory of its own
//! arguments.

mod storage;

use crate::elem::Elem;
use crate::trace::{Raw, SourceLocation, TraceErrors, trace_at, with};
use crate::val::Val;
use crate::view::core::ViewCore;
use crate::view::{Field, Record, RecordView, RecordViewMut, View, ViewMut};
pub use kiln_ir::{Facts, IntFact, Level};
use kiln_ir::{Kernel, Literal, Param, Precision, Scalar, Space, Type};
use smallvec::SmallVec;
use std::any::TypeId;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::panic::Location;
pub use storage::Storage;

/// A parameter type of a kernel, as the user writes it in the signature.
///
/// Tensors, numbers and host constants are parameters. A type of your own is made of them: it
/// forwards to their implementations, in the same order in [`declare`](Self::declare) and
/// [`pack`](Self::pack).
///
/// ```
/// use kiln_lang::param::{ArgSink, KernelParam, ParamDecl, SpecKey};
/// use kiln_lang::prelude::*;
///
/// /// A range of numbers that is passed at each launch.
/// struct Limits(f32, f32);
///
/// impl KernelParam for Limits {
///     type Arg = Limits;
///     type Traced = (Val<f32>, Val<f32>);
///
///     fn key(_: &Limits, _: &mut SpecKey) {}
///
///     fn declare(_: &Limits, _: &'static str, decl: &mut ParamDecl) -> (Val<f32>, Val<f32>) {
///         (decl.scalar("low", Default::default()), decl.scalar("high", Default::default()))
///     }
///
///     fn pack(limits: &Limits, sink: &mut dyn ArgSink) {
///         sink.scalar(limits.0.literal());
///         sink.scalar(limits.1.literal());
///     }
/// }
/// ```
///
/// A view cannot be packed from safe code, only forwarded to a tensor:
///
/// ```compile_fail,E0133
/// use kiln_lang::param::{ArgSink, ViewArg};
///
/// fn forge(sink: &mut dyn ArgSink, view: ViewArg<'_>) {
///     sink.view(view);
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a kernel",
    label = "not a kernel parameter",
    note = "parameters are `&Tensor<T, R>`, `&mut Tensor<T, R>`, `Val<T>` for a number known at the launch, and host constants such as `usize` and `bool`",
    note = "for an enum or struct of your own as a host constant, add `#[derive(Clone, Copy, Hash, KernelConst)]`"
)]
pub trait KernelParam {
    /// What the caller passes, and a launch holds.
    type Arg;
    /// What the body sees.
    type Traced;

    /// Adds to the specialization key everything that [`declare`](Self::declare) looks at, apart
    /// from types.
    fn key(arg: &Self::Arg, key: &mut SpecKey);

    /// Declares the IR's parameters, if any, and gives what the body sees.
    fn declare(arg: &Self::Arg, name: &'static str, decl: &mut ParamDecl) -> Self::Traced;

    /// Hands over the values of the declared parameters, in the order of their declarations.
    ///
    /// A launch fails where they differ from the declarations in number, kind, type or facts.
    fn pack<'a>(arg: &'a Self::Arg, sink: &mut dyn ArgSink<'a>);
}

/// The parameters of a kernel: a tuple of [`KernelParam`]s.
///
/// ```
/// use kiln_lang::param::{ArgSink, FunctionId, KernelFn, KernelParams, KernelSite, SpecKey, ViewArg, trace_function};
/// use kiln_lang::prelude::*;
/// use std::any::TypeId;
///
/// /// Collects the numbers of a launch; a runtime takes views too.
/// struct Numbers(Vec<kiln_ir::Literal>);
///
/// impl ArgSink<'_> for Numbers {
///     fn scalar(&mut self, value: kiln_ir::Literal) {
///         self.0.push(value);
///     }
///     unsafe fn view(&mut self, _: ViewArg<'_>) {}
/// }
///
/// static SITE: KernelSite = KernelSite::new("scaled", "x twice", "a.rs", 3, 1).contracted();
/// type Params = (Val<f32>, bool); // a number of the launch, and a host constant
/// let function: KernelFn<Params> = KernelFn::new(&SITE, TypeId::of::<Params>(), |(x, twice): (Val<f32>, bool)| {
///     device_assert!((if twice { x * 2.0 } else { x }).gt(0.0));
/// });
/// let kernel = trace_function(&SITE, Level::Tile { warps: None }, &mut || function.record(&(1.5, true)))?;
/// assert_eq!((&kernel.name[..], &kernel.params[0].name[..], kernel.contract), ("scaled", "x", true));
///
/// // The constant decides on the specialization, and is not passed; the number is passed alone.
/// let key = |args: &(f32, bool)| -> SpecKey {
///     let mut key = SpecKey::of_function(function.id());
///     Params::key(args, &mut key);
///     key
/// };
/// assert!(key(&(1.5, true)) == key(&(2.5, true)) && key(&(1.5, true)) != key(&(1.5, false)));
/// let mut numbers = Numbers(Vec::new());
/// Params::pack(&(1.5, true), &mut numbers);
/// assert_eq!(numbers.0, [1.5f32.literal()]);
/// # let _: FunctionId = function.id();
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub trait KernelParams {
    /// What a launch holds.
    type Args;
    /// What the body sees.
    type Traced;

    /// Adds every argument's part of the key.
    fn key(args: &Self::Args, key: &mut SpecKey);

    /// Declares all parameters, which take the names of the declarations in turn.
    ///
    /// ```
    /// use kiln_lang::{param::KernelParams, prelude::*};
    /// let kernel = trace("k", Level::Tile { warps: None }, |p| {
    ///     let (x, block): (Val<f32>, usize) = <(Val<f32>, usize)>::declare(&(1.5, 64), p);
    ///     device_assert!(x.gt(0.0));
    ///     assert_eq!(block, 64);
    /// })?;
    /// assert_eq!(kernel.params.len(), 1); // the host constant is none
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    fn declare(args: &Self::Args, decl: &mut ParamDecl) -> Self::Traced;

    /// Packs all arguments, in order.
    fn pack<'a>(args: &'a Self::Args, sink: &mut dyn ArgSink<'a>);
}

macro_rules! kernel_params {
    ($($t:ident $n:tt)*) => {
        #[allow(clippy::unused_unit)]
        impl<$($t: KernelParam),*> KernelParams for ($($t,)*) {
            type Args = ($($t::Arg,)*);
            type Traced = ($($t::Traced,)*);

            // Each is called from one place for each kernel, which would have one function more.
            #[inline(always)]
            #[allow(unused_variables)]
            fn key(args: &Self::Args, key: &mut SpecKey) {
                $($t::key(&args.$n, key);)*
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn declare(args: &Self::Args, decl: &mut ParamDecl) -> Self::Traced {
                ($(declare_next::<$t>(&args.$n, decl),)*)
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn pack<'a>(args: &'a Self::Args, sink: &mut dyn ArgSink<'a>) {
                $($t::pack(&args.$n, sink);)*
            }
        }
    };
}

/// Declares a parameter under the next name. Not inlined into every kernel.
#[inline(never)]
fn declare_next<T: KernelParam>(arg: &T::Arg, decl: &mut ParamDecl) -> T::Traced {
    let name = decl.next_name();
    T::declare(arg, name, decl)
}

kernel_params!();
kernel_params!(A 0);
kernel_params!(A 0 B 1);
kernel_params!(A 0 B 1 C 2);
kernel_params!(A 0 B 1 C 2 D 3);
kernel_params!(A 0 B 1 C 2 D 3 E 4);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5 G 6);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14);
kernel_params!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15);

/// What distinguishes one specialization of a kernel from another. Equal keys give equal traces.
///
/// A key is meaningful in one process only.
///
/// ```
/// use kiln_lang::param::SpecKey;
/// let mut key = SpecKey::of_ir([1, 2, 3, 4]);
/// assert_eq!(key, SpecKey::of_ir([1, 2, 3, 4]));
/// key.word(64);
/// key.hashed(&"a setting");
/// assert_ne!(key, SpecKey::of_ir([1, 2, 3, 4]));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SpecKey {
    site: usize,
    types: TypeId,
    words: SmallVec<[u64; 24]>,
}

impl SpecKey {
    /// The key of a kernel function, to which its arguments add.
    ///
    /// ```
    /// use kiln_lang::param::{KernelFn, KernelSite, SpecKey};
    /// use std::any::TypeId;
    /// static SITE: KernelSite = KernelSite::new("k", "", "a.rs", 3, 1);
    /// let function = KernelFn::<()>::new(&SITE, TypeId::of::<()>(), |()| ());
    /// assert_eq!(SpecKey::of_function(function.id()), SpecKey::of_function(function.id()));
    /// ```
    #[inline]
    pub fn of_function(function: FunctionId) -> SpecKey {
        let site = std::ptr::from_ref(function.site) as usize;
        SpecKey { site, types: function.types, words: SmallVec::new() }
    }

    /// The key of a kernel that was given as IR, which these words distinguish from every other.
    pub fn of_ir(identity: [u64; 4]) -> SpecKey {
        struct GivenAsIr;
        // No kernel function stands at address 0.
        let mut key = SpecKey { site: 0, types: TypeId::of::<GivenAsIr>(), words: SmallVec::new() };
        key.words.extend_from_slice(&identity);
        key
    }

    /// Adds a word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.words.push(word);
    }

    /// Adds a value by 128 bits of hash.
    pub fn hashed<T: Hash>(&mut self, value: &T) {
        for seed in [0u64, 0x9e37_79b9_7f4a_7c15] {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(seed);
            value.hash(&mut hasher);
            self.word(hasher.finish());
        }
    }
}

/// A view as a runtime's tensor packs it: where its elements are.
///
/// ```
/// use kiln_lang::param::{Storage, ViewArg};
///
/// /// Bytes from the first element to behind the last one.
/// fn span(view: &ViewArg<'_>) -> usize {
///     let last: usize = view.extents.iter().zip(view.strides).map(|(extent, stride)| (extent - 1) * stride).sum();
///     (last + 1) * view.elem.bytes() as usize
/// }
///
/// let storage = vec![0f32; 64];
/// let (elem, extents, strides) = (kiln_ir::Scalar::F32, &[4, 8][..], &[16, 1][..]);
/// let view = ViewArg { storage: Storage::new(&storage), byte_offset: 0, elem, mutable: false, extents, strides };
/// assert_eq!(span(&view), (3 * 16 + 8) * 4);
/// ```
#[derive(Clone, Copy)]
pub struct ViewArg<'a> {
    /// The storage of the elements, of a type of the runtime's.
    pub storage: Storage<'a>,
    /// Bytes from the start of the storage to the first element.
    pub byte_offset: u64,
    /// The elements' type.
    pub elem: Scalar,
    /// Whether the kernel may write the elements.
    pub mutable: bool,
    /// The extents, outermost first.
    pub extents: &'a [usize],
    /// The strides in elements, outermost first; as many as there are extents.
    pub strides: &'a [usize],
}

/// Where a runtime collects the packed arguments of a launch.
///
/// ```
/// use kiln_lang::param::{ArgSink, KernelParam, ViewArg};
/// use kiln_lang::prelude::*;
///
/// #[derive(Default)]
/// struct Count {
///     numbers: usize,
///     views: usize,
/// }
///
/// impl ArgSink<'_> for Count {
///     fn scalar(&mut self, _: kiln_ir::Literal) {
///         self.numbers += 1;
///     }
///     unsafe fn view(&mut self, _: ViewArg<'_>) {
///         self.views += 1;
///     }
/// }
///
/// let mut count = Count::default();
/// <Val<f32> as KernelParam>::pack(&1.5, &mut count);
/// <usize as KernelParam>::pack(&64, &mut count); // a host constant packs nothing
/// assert_eq!((count.numbers, count.views), (1, 0));
/// ```
pub trait ArgSink<'a> {
    /// The value of a scalar parameter.
    fn scalar(&mut self, value: Literal);

    /// A view of what the arguments of the launch borrow or own. The runtime makes the contents
    /// valid on the device, orders the launch after other uses, and keeps the storage alive until
    /// the launch is done with it.
    ///
    /// # Safety
    /// All elements that the extents and strides reach lie inside the storage and are of type
    /// `elem`. Where the view is mutable, the caller holds the tensor as `&mut`: no other code may
    /// read or write these elements through the storage meanwhile.
    unsafe fn view(&mut self, view: ViewArg<'a>);
}

/// Records what `body` does as a kernel.
///
/// `body` declares the parameters and uses them. It runs once, on this thread.
///
/// # Errors
///
/// Every mistake that the body's operations noticed, with its source location. A panic in the body
/// is one of them.
///
/// ```
/// use kiln_lang::{param::Facts, program_id, trace};
/// let kernel = trace("fill", kiln_ir::Level::Tile { warps: None }, |p| {
///     let y = p.view_mut::<f32, 1>("y", Facts::default());
///     y.tile(program_id(0) * 128, 128).store(1.0);
/// })?;
/// assert_eq!(kernel.params.len(), 1);
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn trace(name: &str, level: Level, body: impl FnOnce(&mut ParamDecl)) -> Result<Kernel, TraceErrors> {
    let mut body = Some(body);
    // Once: `trace_at` says so.
    trace_at(name, Location::caller().into(), level, &mut || {
        if let Some(body) = body.take() {
            body(&mut ParamDecl::new());
        }
    })
}

/// The declarations of a kernel's parameters.
///
/// ```
/// use kiln_lang::param::{Facts, IntFact, ParamDecl};
/// use kiln_lang::prelude::*;
///
/// /// Declares a tensor and how many of its elements count.
/// fn declared(p: &mut ParamDecl) -> (View<f32, 1>, Val<i64>) {
///     let fact = IntFact { divisor: 16, ..IntFact::default() };
///     (p.view("x", Facts::default()), p.scalar("n", fact))
/// }
///
/// let kernel = trace("k", Level::Tile { warps: None }, |p| _ = declared(p))?;
/// assert_eq!(kernel.params[0].ty.to_string(), "view<f32, 1, global>");
/// assert_eq!((&kernel.params[1].name[..], kernel.params[1].facts.value.divisor), ("n", 16));
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub struct ParamDecl {
    /// The names that parameters in order take, those that are left.
    names: &'static str,
}

impl ParamDecl {
    pub(crate) fn new() -> ParamDecl {
        ParamDecl { names: "" }
    }

    fn next_name(&mut self) -> &'static str {
        let (name, rest) = self.names.split_once(' ').unwrap_or((self.names, "_"));
        self.names = rest;
        name
    }

    fn declare(&mut self, name: &str, ty: Type, mutable: bool, facts: Facts) -> Option<crate::trace::Id> {
        with(|r| {
            let id = r.value(ty.clone());
            // Parameters that declare several things may be there more than once.
            let taken = |name: &str| r.params.iter().any(|(param, _)| param.name == name);
            let more = (2..).map(|n| format!("{name}_{n}"));
            let name = std::iter::once(name.to_owned()).chain(more).find(|name| !taken(name));
            r.params.push((Param { name: name.unwrap_or_default(), ty, mutable, facts }, id));
            id
        })
    }

    /// A tensor that the kernel reads.
    pub fn view<T: Elem, const R: usize>(&mut self, name: &str, facts: Facts) -> View<T, R> {
        View::from_core(self.view_core(name, (T::SCALAR, R), false, facts))
    }

    /// A tensor that the kernel reads and writes.
    pub fn view_mut<T: Elem, const R: usize>(&mut self, name: &str, facts: Facts) -> ViewMut<T, R> {
        ViewMut::from_core(self.view_core(name, (T::SCALAR, R), true, facts))
    }

    /// Records that the kernel reads: a view for each field, with the facts of its number.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # #[derive(Clone, Copy, Record)]
    /// # #[kiln(crate = kiln_lang)]
    /// # struct Pixel { red: u8, green: u8 }
    /// let kernel = trace("k", Level::Tile { warps: None }, |p| {
    ///     let image: RecordView<Pixel, 2> = p.records("image", &mut |_| Facts::default());
    /// })?;
    /// let names: Vec<&str> = kernel.params.iter().map(|param| &param.name[..]).collect();
    /// assert_eq!(names, ["image_red", "image_green"]);
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    pub fn records<B: Record, const R: usize>(
        &mut self,
        name: &str,
        facts: &mut dyn FnMut(usize) -> Facts,
    ) -> RecordView<B, R> {
        RecordView::from_cores(|field| self.field_core(name, (B::FIELDS[field], R), false, facts(field)))
    }

    /// Records that the kernel reads and writes, as [`records`](Self::records).
    ///
    /// ```
    /// use kiln_lang::{param::Facts, prelude::*};
    /// #[derive(Clone, Copy, Record)]
    /// #[kiln(crate = kiln_lang)]
    /// struct Pixel {
    ///     red: u8,
    ///     green: u8,
    /// }
    ///
    /// let kernel = trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    ///     let image: RecordViewMut<Pixel, 1> = p.records_mut("image", &mut |_| Facts::default());
    ///     image.set_or_skip(thread_index(), Pixel { red: 255, green: 0 });
    /// })?;
    /// assert!(kernel.params.len() == 2 && kernel.params.iter().all(|param| param.mutable));
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    pub fn records_mut<B: Record, const R: usize>(
        &mut self,
        name: &str,
        facts: &mut dyn FnMut(usize) -> Facts,
    ) -> RecordViewMut<B, R> {
        RecordViewMut::from_cores(|field| self.field_core(name, (B::FIELDS[field], R), true, facts(field)))
    }

    fn field_core(
        &mut self,
        name: &str,
        (field, rank): (Field, usize),
        mutable: bool,
        facts: Facts,
    ) -> ViewCore {
        self.view_core(&format!("{name}_{}", field.name), (field.elem, rank), mutable, facts)
    }

    fn view_core(
        &mut self,
        name: &str,
        (elem, rank): (Scalar, usize),
        mutable: bool,
        facts: Facts,
    ) -> ViewCore {
        if let Some((message, help)) = ViewCore::refusal(rank) {
            with(|r| r.error_at(r.place, format!("parameter `{name}` is {message}"), help));
            return ViewCore::poison();
        }
        let ty = Type::view(elem, rank as u32, Space::Global);
        self.declare(name, ty, mutable, facts).map_or_else(ViewCore::poison, |id| ViewCore::new(id, rank))
    }

    /// A number that is known at the launch.
    pub fn scalar<T: Elem>(&mut self, name: &str, fact: IntFact) -> Val<T> {
        let facts = Facts { value: fact, ..Facts::default() };
        let id = self.declare(name, Type::scalar(T::SCALAR), false, facts);
        Val::from_raw(id.map_or(Raw::Poison, Raw::Value))
    }
}

/// A number that is passed at each launch; the kernel is not specialized to its value.
impl<T: Elem> KernelParam for Val<T> {
    type Arg = T;
    type Traced = Val<T>;

    fn key(_: &T, _: &mut SpecKey) {}

    fn declare(_: &T, name: &'static str, decl: &mut ParamDecl) -> Val<T> {
        decl.scalar(name, IntFact::default())
    }

    fn pack(arg: &T, sink: &mut dyn ArgSink) {
        sink.scalar(arg.literal());
    }
}

macro_rules! constants {
    ($($t:ty: |$v:ident| $word:expr;)*) => {$(
        /// A host constant: the kernel is specialized to its value.
        impl KernelParam for $t {
            type Arg = $t;
            type Traced = $t;

            fn key($v: &$t, key: &mut SpecKey) {
                key.word($word);
            }

            fn declare(arg: &$t, _: &'static str, _: &mut ParamDecl) -> $t {
                *arg
            }

            fn pack(_: &$t, _: &mut dyn ArgSink) {}
        }
    )*};
}

constants! {
    Precision: |v| *v as u64;
    bool: |v| u64::from(*v);
    char: |v| u64::from(*v);
    u8: |v| u64::from(*v);
    u16: |v| u64::from(*v);
    u32: |v| u64::from(*v);
    u64: |v| *v;
    usize: |v| *v as u64;
    i8: |v| *v as u64;
    i16: |v| *v as u64;
    i32: |v| *v as u64;
    i64: |v| *v as u64;
    isize: |v| *v as u64;
    f32: |v| u64::from(v.to_bits());
    f64: |v| v.to_bits();
}

/// An array of host constants.
impl<T: KernelParam<Arg = T, Traced = T> + Copy, const N: usize> KernelParam for [T; N] {
    type Arg = [T; N];
    type Traced = [T; N];

    fn key(arg: &[T; N], key: &mut SpecKey) {
        arg.iter().for_each(|a| T::key(a, key));
    }

    fn declare(arg: &[T; N], _: &'static str, _: &mut ParamDecl) -> [T; N] {
        *arg
    }

    fn pack(_: &[T; N], _: &mut dyn ArgSink) {}
}

/// A kernel function's place in the source. Its address is the kernel's identity in this process.
#[derive(Debug)]
pub struct KernelSite {
    /// The function's name.
    pub name: &'static str,
    /// The names of the parameters, with spaces between: a list would be as many addresses, each of
    /// which a program relocates when it starts.
    pub params: &'static str,
    /// The source file.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// Whether products and sums may become multiply-adds: `#[kernel(contract)]`.
    pub contract: bool,
}

impl KernelSite {
    /// A kernel function's place.
    pub const fn new(
        name: &'static str,
        params: &'static str,
        file: &'static str,
        line: u32,
        column: u32,
    ) -> KernelSite {
        KernelSite { name, params, file, line, column, contract: false }
    }

    /// The same kernel, whose products and sums may become multiply-adds.
    ///
    /// ```
    /// use kiln_lang::param::KernelSite;
    /// let site = KernelSite::new("k", "", "a.rs", 3, 1);
    /// assert!(!site.contract && site.contracted().contract);
    /// ```
    pub const fn contracted(self) -> KernelSite {
        KernelSite { contract: true, ..self }
    }
}

/// A kernel function with its generic arguments, which differs from any other in this process.
///
/// ```
/// use kiln_lang::param::{FunctionId, KernelFn, KernelSite, SpecKey};
/// use std::any::TypeId;
/// static SITE: KernelSite = KernelSite::new("k", "block", "a.rs", 3, 1);
/// let of = |types| KernelFn::<(usize,)>::new(&SITE, types, |_| ()).id();
/// let (floats, doubles): (FunctionId, FunctionId) = (of(TypeId::of::<f32>()), of(TypeId::of::<f64>()));
/// assert_eq!((floats.site.name, floats.site.params), ("k", "block"));
/// assert_ne!(SpecKey::of_function(floats), SpecKey::of_function(doubles)); // generic arguments differ
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FunctionId {
    /// Where the function stands in the source.
    pub site: &'static KernelSite,
    types: TypeId,
}

/// A kernel function with its generic arguments: what to trace.
///
/// ```
/// use kiln_lang::param::{KernelFn, KernelSite, trace_function};
/// use kiln_lang::prelude::*;
/// use std::any::TypeId;
///
/// static SITE: KernelSite = KernelSite::new("counted", "n block", "a.rs", 3, 1);
/// let body: fn((Val<i32>, usize)) = |(n, block)| device_assert!(n.lt(block));
/// let function = KernelFn::<(Val<i32>, usize)>::new(&SITE, TypeId::of::<()>(), body);
/// let record = &mut || function.record(&(7, 64));
/// let kernel = trace_function(function.id().site, Level::Tile { warps: None }, record)?;
/// assert_eq!((&kernel.name[..], &kernel.params[0].name[..]), ("counted", "n"));
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub struct KernelFn<P: KernelParams> {
    id: FunctionId,
    body: fn(P::Traced),
}

impl<P: KernelParams> Clone for KernelFn<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: KernelParams> Copy for KernelFn<P> {}

impl<P: KernelParams> KernelFn<P> {
    /// A kernel function. `types` identifies its generic arguments.
    pub fn new(site: &'static KernelSite, types: TypeId, body: fn(P::Traced)) -> KernelFn<P> {
        KernelFn { id: FunctionId { site, types }, body }
    }

    /// Which function it is.
    pub fn id(&self) -> FunctionId {
        self.id
    }

    /// Declares the parameters and runs the body, for [`trace_function`].
    #[inline]
    pub fn record(&self, args: &P::Args) {
        let traced = P::declare(args, &mut ParamDecl { names: self.id.site.params });
        (self.body)(traced);
    }
}

/// Records the specialization of a kernel function that `record` runs once, by
/// [`KernelFn::record`]. Not generic, as every kernel of a program would have a copy.
///
/// ```
/// use kiln_lang::param::{KernelSite, trace_function};
/// use kiln_lang::{Level, iota};
/// let site = KernelSite::new("sums", "", "a.rs", 3, 1);
/// let kernel = trace_function(&site, Level::Tile { warps: None }, &mut || _ = iota::<i32>(8).sum())?;
/// assert_eq!(kernel.name, "sums");
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
///
/// # Errors
///
/// Every mistake the kernel makes, with its source location.
pub fn trace_function(
    site: &KernelSite,
    level: Level,
    record: &mut dyn FnMut(),
) -> Result<Kernel, TraceErrors> {
    let KernelSite { name, file, line, column, contract, .. } = *site;
    trace_at(name, SourceLocation { file, line, column }, level, &mut || {
        with(|r| r.contract = contract);
        record();
    })
}
