//! What is done to the sums of a product on their way to the result, without a trip to memory in
//! between.
//!
//! An [`Epilogue`] is written in the kernel language and gets a tile of sums where they were
//! computed, in registers. [`Matmul`](super::Matmul) has methods for the usual ones and chains
//! them; [`Matmul::then`](super::Matmul::then) takes yours.
//!
//! ```
//! use kiln_kernels::matmul::Matmul;
//! use kiln_kernels::matmul::epilogue::{Along, Combined, Identity, Map, Residual, Scale, Then, Vector};
//! use kiln_lang::prelude::*;
//!
//! let device = kiln_runtime::Device::open("interp")?;
//! let (a, b) = (device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1.0f32, 0.0, 0.0, 1.0], [2, 2])?);
//! let mut c = device.uninit::<f32, 2>([2, 2])?;
//! let rows = Vector {
//!     values: device.tensor(&[1.0f32, -1.0], [2])?,
//!     along: Along::Rows,
//!     combined: Combined::Factor,
//! };
//! let residual = Residual { values: device.tensor(&[4.0f32; 4], [1, 2, 2])?, beta: 0.5 };
//! let layer = Then(Then(Scale(2.0), rows), Then(residual, Map::new(|x: Val<f32>| x.maximum(0.0))));
//! // 2 · sums, the second row negated, 2 more, and nothing below 0.
//! Matmul::new(&a, &b).then(layer).run(&mut c)?;
//! assert_eq!(c.to_vec()?, [4.0, 6.0, 0.0, 0.0]);
//! Matmul::new(&a, &b).then(Identity).run(&mut c)?;
//! assert_eq!(c.to_vec()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), kiln_runtime::Error>(())
//! ```
//!
//! One of your own may wrap those that are there:
//!
//! ```
//! use kiln_kernels::matmul::epilogue::{Along, Combined, InF32, TracedVector, Vector};
//! use kiln_kernels::matmul::{Epilogue, Matmul, TilePosition};
//! use kiln_lang::param::{ArgSink, KernelParam, ParamDecl, SpecKey};
//! use kiln_lang::prelude::*;
//! use kiln_runtime::Result;
//!
//! /// The square of what a vector does.
//! #[derive(Clone)]
//! struct Squared(Vector<f32>);
//!
//! impl KernelParam for Squared {
//!     type Arg = Squared;
//!     type Traced = TracedVector<f32>;
//!     fn key(arg: &Squared, key: &mut SpecKey) {
//!         Vector::key(&arg.0, key);
//!     }
//!     fn declare(arg: &Squared, name: &'static str, decl: &mut ParamDecl) -> TracedVector<f32> {
//!         Vector::declare(&arg.0, name, decl)
//!     }
//!     fn pack<'a>(arg: &'a Squared, sink: &mut dyn ArgSink<'a>) {
//!         Vector::pack(&arg.0, sink);
//!     }
//! }
//!
//! impl<S: InF32> Epilogue<S> for Squared {
//!     type Out = f32;
//!     fn apply(traced: &TracedVector<f32>, sums: Val<S>, place: &TilePosition) -> Val<f32> {
//!         let y = Vector::apply(traced, sums, place);
//!         y * y
//!     }
//!     fn transposed(self) -> Squared {
//!         Squared(Epilogue::<S>::transposed(self.0))
//!     }
//!     fn check(&self, result: [usize; 3]) -> Result<()> {
//!         Epilogue::<S>::check(&self.0, result)
//!     }
//! }
//!
//! let device = kiln_runtime::Device::open("interp")?;
//! let terms = |values: &[f32]| -> Result<Squared> {
//!     let values = device.tensor(values, [values.len()])?;
//!     Ok(Squared(Vector { values, along: Along::Columns, combined: Combined::Term }))
//! };
//! // Sums of f32, and of 8-bit integers in i32.
//! let (mut c, a) = (device.uninit::<f32, 2>([1, 2])?, device.tensor(&[3.0f32], [1, 1])?);
//! Matmul::new(&a, &device.tensor(&[1.0f32, 2.0], [1, 2])?).then(terms(&[1.0, -1.0])?).run(&mut c)?;
//! assert_eq!(c.to_vec()?, [16.0, 25.0]);
//! let (a, b) = (device.tensor(&[3i8], [1, 1])?, device.tensor(&[1i8, 2], [1, 2])?);
//! Matmul::new(&a, &b).then(terms(&[1.0, -1.0])?).run(&mut c)?;
//! assert_eq!(c.to_vec()?, [16.0, 25.0]);
//! // There is a term for each column.
//! assert!(Matmul::new(&a, &b).then(terms(&[1.0])?).run(&mut c).is_err());
//! # Ok::<(), kiln_runtime::Error>(())
//! ```

use kiln_lang::param::{ArgSink, IntFact, KernelParam, ParamDecl, SpecKey};
use kiln_lang::prelude::*;
use kiln_runtime::{Error, Result, Tensor};

/// Where a tile of sums stands in the result.
///
/// ```
/// use kiln_kernels::matmul::epilogue::{Residual, TracedResidual};
/// use kiln_kernels::matmul::{Epilogue, Matmul, TilePosition};
/// use kiln_lang::param::{ArgSink, KernelParam, ParamDecl, SpecKey};
/// use kiln_lang::prelude::*;
/// use kiln_runtime::Tensor;
///
/// /// x\[row\] · y\[column\] · (sum - z) + residual.
/// struct Centered {
///     x: Tensor<f32, 1>,
///     y: Tensor<f32, 1>,
///     z: Tensor<f32, 3>,
///     residual: Residual<f32>,
/// }
///
/// impl Clone for Centered {
///     fn clone(&self) -> Centered {
///         let (x, y, z) = (self.x.alias(), self.y.alias(), self.z.alias());
///         Centered { x, y, z, residual: self.residual.clone() }
///     }
/// }
///
/// impl KernelParam for Centered {
///     type Arg = Centered;
///     type Traced = ((View<f32, 1>, View<f32, 1>), View<f32, 3>, TracedResidual<f32>);
///     fn key(arg: &Centered, key: &mut SpecKey) {
///         <&Tensor<f32, 1>>::key(&&arg.x, key);
///         <&Tensor<f32, 1>>::key(&&arg.y, key);
///         <&Tensor<f32, 3>>::key(&&arg.z, key);
///         Residual::key(&arg.residual, key);
///     }
///     fn declare(arg: &Centered, name: &'static str, decl: &mut ParamDecl) -> Self::Traced {
///         let x = <&Tensor<f32, 1>>::declare(&&arg.x, "x", decl);
///         let y = <&Tensor<f32, 1>>::declare(&&arg.y, "y", decl);
///         let z = <&Tensor<f32, 3>>::declare(&&arg.z, "z", decl);
///         ((x, y), z, Residual::declare(&arg.residual, name, decl))
///     }
///     fn pack<'a>(arg: &'a Centered, sink: &mut dyn ArgSink<'a>) {
///         arg.x.pack(sink);
///         arg.y.pack(sink);
///         arg.z.pack(sink);
///         Residual::pack(&arg.residual, sink);
///     }
/// }
///
/// impl Epilogue<f32> for Centered {
///     type Out = f32;
///     fn apply(((x, y), z, residual): &Self::Traced, sums: Val<f32>, place: &TilePosition) -> Val<f32> {
///         let scales = place.per_row(x) * place.per_column(y);
///         Residual::apply(residual, scales * (sums - place.elements(z)), place)
///     }
///     fn transposed(self) -> Centered {
///         let z = self.z.swap_axes(1, 2).unwrap_or(self.z);
///         Centered { x: self.y, y: self.x, z, residual: Epilogue::<f32>::transposed(self.residual) }
///     }
/// }
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let a = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// let identity = device.tensor(&[1.0f32, 0.0, 0.0, 1.0], [2, 2])?;
/// let centered = Centered {
///     x: device.tensor(&[1.0f32, 10.0], [2])?,
///     y: device.tensor(&[2.0f32, 3.0], [2])?,
///     z: device.tensor(&[1.0f32, 1.0, 1.0, 2.0], [1, 2, 2])?,
///     residual: Residual { values: device.tensor(&[0.5f32; 4], [1, 2, 2])?, beta: 1.0 },
/// };
/// let mut c = device.uninit::<f32, 2>([2, 2])?;
/// Matmul::new(&a, &identity).then(centered).run(&mut c)?;
/// assert_eq!(c.to_vec()?, [0.5, 3.5, 40.5, 60.5]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TilePosition {
    /// Which product of the batch.
    pub batch: Idx,
    /// The first row.
    pub row: Idx,
    /// The first column.
    pub column: Idx,
    /// The tile's extents.
    pub shape: [usize; 2],
}

impl TilePosition {
    /// The elements of a vector that belong to the rows of the tile, each repeated along its row;
    /// zeros beyond the end.
    pub fn per_row<T: Numeric>(&self, vector: &View<T, 1>) -> Val<T> {
        vector.tile(self.row, self.shape[0]).load(0).expand(1).broadcast_to((self.shape[0], self.shape[1]))
    }

    /// The elements of a vector that belong to the columns of the tile, each repeated down its
    /// column; zeros beyond the end.
    pub fn per_column<T: Numeric>(&self, vector: &View<T, 1>) -> Val<T> {
        vector.tile(self.column, self.shape[1]).load(0).expand(0).broadcast_to((self.shape[0], self.shape[1]))
    }

    /// The elements of a stack of matrices that belong to those of the tile; zeros beyond the end.
    pub fn elements<T: Numeric>(&self, matrices: &View<T, 3>) -> Val<T> {
        matrices.row(self.batch).tile((self.row, self.column), (self.shape[0], self.shape[1])).load(0)
    }
}

/// What is done to sums of type `S`. A clone stands for the same tensors. The value is a parameter
/// of the kernel: [`KernelParam::key`] must add whatever `apply` decides on, tensors and numbers
/// are packed.
///
/// ```
/// use kiln_kernels::matmul::{Epilogue, Matmul, TilePosition};
/// use kiln_lang::param::{ArgSink, KernelParam, ParamDecl, SpecKey};
/// use kiln_lang::prelude::*;
///
/// /// Sums are cut off at a limit that is passed at each launch.
/// #[derive(Clone)]
/// struct Limit(f32);
///
/// impl KernelParam for Limit {
///     type Arg = Limit;
///     type Traced = Val<f32>;
///     fn key(_: &Limit, _: &mut SpecKey) {}
///     fn declare(_: &Limit, _: &'static str, decl: &mut ParamDecl) -> Val<f32> {
///         decl.scalar("limit", Default::default())
///     }
///     fn pack(limit: &Limit, sink: &mut dyn ArgSink) {
///         sink.scalar(limit.0.literal());
///     }
/// }
///
/// impl Epilogue<f32> for Limit {
///     type Out = f32;
///     fn apply(limit: &Val<f32>, sums: Val<f32>, _: &TilePosition) -> Val<f32> {
///         sums.minimum(*limit)
///     }
///     fn transposed(self) -> Limit {
///         self
///     }
/// }
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let (a, b) = (device.tensor(&[1.0f32, 2.0], [1, 2])?, device.tensor(&[3.0f32, 4.0, 1.0, 1.0], [2, 2])?);
/// let mut c = device.uninit::<f32, 2>([1, 2])?;
/// Matmul::new(&a, &b).then(Limit(5.5)).run(&mut c)?;
/// assert_eq!(c.to_vec()?, [5.0, 5.5]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub trait Epilogue<S: Num>: KernelParam<Arg = Self> + Clone + 'static {
    /// What sums become. The result's own type comes after, by a cast.
    type Out: Num;

    /// What becomes of a tile of sums. Every element must depend on those in its place alone.
    ///
    /// A check that fails in it (`device_assert!`, an index outside its view, an integer divided by
    /// zero) is the fault of the launch, with its line. The result means nothing then; the next
    /// launch is as any other.
    fn apply(traced: &Self::Traced, sums: Val<S>, place: &TilePosition) -> Val<Self::Out>;

    /// The same for the transposed product, whose rows are the columns of this one.
    fn transposed(self) -> Self;

    /// Refuses a result of these extents: products, rows, columns.
    ///
    /// # Errors
    /// [`Error::Shape`] for a tensor that does not fit.
    fn check(&self, _result: [usize; 3]) -> Result<()> {
        Ok(())
    }
}

/// Sums as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl KernelParam for Identity {
    type Arg = Identity;
    type Traced = ();

    fn key(_: &Identity, _: &mut SpecKey) {}

    fn declare(_: &Identity, _: &'static str, _: &mut ParamDecl) {}

    fn pack(_: &Identity, _: &mut dyn ArgSink) {}
}

impl<S: Num> Epilogue<S> for Identity {
    type Out = S;

    fn apply((): &(), sums: Val<S>, _: &TilePosition) -> Val<S> {
        sums
    }

    fn transposed(self) -> Identity {
        self
    }
}

/// One epilogue after another.
#[derive(Clone, Debug)]
pub struct Then<E, F>(pub E, pub F);

impl<E: KernelParam<Arg = E>, F: KernelParam<Arg = F>> KernelParam for Then<E, F> {
    type Arg = Then<E, F>;
    type Traced = (E::Traced, F::Traced);

    fn key(arg: &Self, key: &mut SpecKey) {
        E::key(&arg.0, key);
        F::key(&arg.1, key);
    }

    fn declare(arg: &Self, name: &'static str, decl: &mut ParamDecl) -> Self::Traced {
        let first = E::declare(&arg.0, name, decl);
        (first, F::declare(&arg.1, name, decl))
    }

    fn pack<'a>(arg: &'a Self, sink: &mut dyn ArgSink<'a>) {
        E::pack(&arg.0, sink);
        F::pack(&arg.1, sink);
    }
}

impl<S: Num, E: Epilogue<S>, F: Epilogue<E::Out>> Epilogue<S> for Then<E, F> {
    type Out = F::Out;

    fn apply(traced: &Self::Traced, sums: Val<S>, place: &TilePosition) -> Val<F::Out> {
        F::apply(&traced.1, E::apply(&traced.0, sums, place), place)
    }

    fn transposed(self) -> Self {
        Then(self.0.transposed(), self.1.transposed())
    }

    fn check(&self, result: [usize; 3]) -> Result<()> {
        self.0.check(result)?;
        self.1.check(result)
    }
}

/// Sums that the epilogues in f32 take: those of floats, and of 8-bit integers.
pub trait InF32: Num {}

impl InF32 for f32 {}
impl InF32 for i32 {}

/// Multiplies by a number that is passed at each launch.
#[derive(Clone, Copy, Debug)]
pub struct Scale(pub f32);

impl KernelParam for Scale {
    type Arg = Scale;
    type Traced = Val<f32>;

    fn key(_: &Scale, _: &mut SpecKey) {}

    fn declare(_: &Scale, _: &'static str, decl: &mut ParamDecl) -> Val<f32> {
        decl.scalar("scale", IntFact::default())
    }

    fn pack(scale: &Scale, sink: &mut dyn ArgSink) {
        sink.scalar(scale.0.literal());
    }
}

impl<S: InF32> Epilogue<S> for Scale {
    type Out = f32;

    fn apply(scale: &Val<f32>, sums: Val<S>, _: &TilePosition) -> Val<f32> {
        sums.cast::<f32>() * *scale
    }

    fn transposed(self) -> Scale {
        self
    }
}

/// Which elements of the result an element of a vector concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// Those of its row.
    Rows,
    /// Those of its column.
    Columns,
    /// All: the vector has one element.
    All,
}

/// What is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combined {
    /// Multiplies.
    Factor,
    /// Adds.
    Term,
}

/// Multiplies by, or adds, the elements of a vector.
#[derive(Debug)]
pub struct Vector<T: Elem> {
    /// The vector.
    pub values: Tensor<T, 1>,
    /// What its elements concern.
    pub along: Along,
    /// What is done with them.
    pub combined: Combined,
}

impl<T: Elem> Clone for Vector<T> {
    fn clone(&self) -> Self {
        Vector { values: self.values.alias(), ..*self }
    }
}

/// A vector in a kernel.
pub struct TracedVector<T> {
    view: View<T, 1>,
    along: Along,
    combined: Combined,
}

impl<T: Elem> KernelParam for Vector<T> {
    type Arg = Vector<T>;
    type Traced = TracedVector<T>;

    fn key(arg: &Self, key: &mut SpecKey) {
        <&Tensor<T, 1>>::key(&&arg.values, key);
        key.word(arg.along as u64);
        key.word(arg.combined as u64);
    }

    fn declare(arg: &Self, _: &'static str, decl: &mut ParamDecl) -> TracedVector<T> {
        let view = <&Tensor<T, 1>>::declare(&&arg.values, "vector", decl);
        TracedVector { view, along: arg.along, combined: arg.combined }
    }

    fn pack<'a>(arg: &'a Self, sink: &mut dyn ArgSink<'a>) {
        arg.values.pack(sink);
    }
}

impl<S: InF32, T: Numeric> Epilogue<S> for Vector<T> {
    type Out = f32;

    fn apply(traced: &TracedVector<T>, sums: Val<S>, place: &TilePosition) -> Val<f32> {
        let values = match traced.along {
            Along::Rows => place.per_row(&traced.view),
            Along::Columns => place.per_column(&traced.view),
            Along::All => traced.view.tile(0, 1).load(0).broadcast_to((place.shape[0], place.shape[1])),
        };
        let (sums, values) = (sums.cast::<f32>(), values.cast::<f32>());
        match traced.combined {
            Combined::Factor => sums * values,
            Combined::Term => sums + values,
        }
    }

    fn transposed(self) -> Self {
        let along = match self.along {
            Along::Rows => Along::Columns,
            Along::Columns => Along::Rows,
            Along::All => Along::All,
        };
        Vector { along, ..self }
    }

    fn check(&self, [_, rows, columns]: [usize; 3]) -> Result<()> {
        let expected = match self.along {
            Along::Rows => rows,
            Along::Columns => columns,
            Along::All => 1,
        };
        if self.values.shape() == [expected] {
            return Ok(());
        }
        let (what, given) = ("matmul, a vector of its epilogue".into(), self.values.shape().to_vec());
        Err(Error::Shape { what, expected: vec![expected], given })
    }
}

/// Adds a multiple of the elements of a matrix, or of a stack of them.
#[derive(Debug)]
pub struct Residual<T: Elem> {
    /// The matrices: as many as there are products, or one for all.
    pub values: Tensor<T, 3>,
    /// What they are multiplied by.
    pub beta: f32,
}

impl<T: Elem> Clone for Residual<T> {
    fn clone(&self) -> Self {
        Residual { values: self.values.alias(), ..*self }
    }
}

/// A [`Residual`] in a kernel: the stack of matrices and the factor, as an epilogue that wraps a
/// residual gets them. [`TilePosition`] shows such an epilogue whole.
///
/// ```
/// use kiln_kernels::matmul::epilogue::{Residual, TracedResidual};
/// use kiln_kernels::matmul::{Epilogue, TilePosition};
/// use kiln_lang::prelude::*;
///
/// /// What `Epilogue::apply` of one's own may do with it: the residual, and then no negative sums.
/// fn positive(residual: &TracedResidual<f32>, sums: Val<f32>, place: &TilePosition) -> Val<f32> {
///     Residual::apply(residual, sums, place).maximum(0.0)
/// }
/// # let _ = positive;
/// ```
pub struct TracedResidual<T> {
    view: View<T, 3>,
    shared: bool,
    beta: Val<f32>,
}

impl<T: Elem> KernelParam for Residual<T> {
    type Arg = Residual<T>;
    type Traced = TracedResidual<T>;

    fn key(arg: &Self, key: &mut SpecKey) {
        <&Tensor<T, 3>>::key(&&arg.values, key);
        key.word(u64::from(arg.values.shape()[0] == 1));
    }

    fn declare(arg: &Self, _: &'static str, decl: &mut ParamDecl) -> TracedResidual<T> {
        let view = <&Tensor<T, 3>>::declare(&&arg.values, "residual", decl);
        let beta = decl.scalar("beta", IntFact::default());
        TracedResidual { view, shared: arg.values.shape()[0] == 1, beta }
    }

    fn pack<'a>(arg: &'a Self, sink: &mut dyn ArgSink<'a>) {
        arg.values.pack(sink);
        sink.scalar(arg.beta.literal());
    }
}

impl<S: InF32, T: Numeric> Epilogue<S> for Residual<T> {
    type Out = f32;

    fn apply(traced: &TracedResidual<T>, sums: Val<S>, place: &TilePosition) -> Val<f32> {
        let place = if traced.shared { TilePosition { batch: val(0), ..*place } } else { *place };
        sums.cast::<f32>() + place.elements(&traced.view).cast::<f32>() * traced.beta
    }

    fn transposed(self) -> Self {
        // Axes 1 and 2 are there.
        let values = self.values.swap_axes(1, 2).unwrap_or(self.values);
        Residual { values, ..self }
    }

    fn check(&self, [products, rows, columns]: [usize; 3]) -> Result<()> {
        let given = self.values.shape();
        if given[1..] == [rows, columns] && (given[0] == 1 || given[0] == products) {
            return Ok(());
        }
        let expected = vec![products, rows, columns];
        Err(Error::Shape { what: "matmul, the residual".into(), expected, given: given.to_vec() })
    }
}

/// A function of each element, in the kernel language.
#[derive(Clone)]
pub struct Map<F>(F);

impl<F> Map<F> {
    /// The function is identified by its type alone, so it must not capture anything: that is an
    /// error when it is compiled.
    pub fn new(function: F) -> Map<F> {
        const { assert!(size_of::<F>() == 0, "the function of an epilogue must not capture anything") };
        Map(function)
    }
}

impl<F: Copy + 'static> KernelParam for Map<F> {
    type Arg = Map<F>;
    type Traced = F;

    fn key(_: &Self, _: &mut SpecKey) {}

    fn declare(arg: &Self, _: &'static str, _: &mut ParamDecl) -> F {
        arg.0
    }

    fn pack(_: &Self, _: &mut dyn ArgSink) {}
}

impl<S: InF32, F: Fn(Val<f32>) -> Val<f32> + Copy + 'static> Epilogue<S> for Map<F> {
    type Out = f32;

    fn apply(function: &F, sums: Val<S>, _: &TilePosition) -> Val<f32> {
        function(sums.cast::<f32>())
    }

    fn transposed(self) -> Self {
        self
    }
}
