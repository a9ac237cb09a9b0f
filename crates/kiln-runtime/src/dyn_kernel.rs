//! Kernels that are given as IR, and their launches on arguments whose types are known at run time.

use crate::compiled::CompiledKernel;
use crate::error::{Error, Result};
use crate::extent::{Extent, three};
use crate::facts;
use crate::launch::Settings;
use crate::params::{Given, ParamInfo};
use crate::request::{GivenIr, Origin, Request};
use crate::stream::Stream;
use crate::tensor::{DynTensor, Tensor};
use crate::tensor_params::pack;
use crate::{CallSite, Device};
use half::{bf16, f16};
use kiln_backend::BufferBinding;
use kiln_compiler::make_safe;
use kiln_ir::{E4M3, E5M2, Kernel, Literal, Param, parse, verify};
use kiln_lang::Elem;
use kiln_lang::param::{ArgSink, SpecKey};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A kernel that is given as IR instead of a traced function.
///
/// It is launched as other kernels are: specialized to what is known of its arguments, kept in the
/// device's caches, ordered by the tensors that it uses, with the same errors. Two kernels of the
/// same text share their programs. It belongs to no device.
///
/// ```
/// use kiln_ir::Scalar;
/// use kiln_runtime::{Device, DynKernel, DynTensor};
///
/// let scale = DynKernel::parse(
///     "kernel @scale(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>, %by: f32) tile {
///        %p = program_id x : i64
///        %n = const 4 : i64
///        %at = mul %p, %n : i64
///        %zero = const 0.0 : f32
///        %tile = load %x[%at] pad %zero : f32[4]
///        %all = broadcast %by : f32[4]
///        %product = mul %tile, %all : f32[4]
///        store %y[%at] = %product
///      }",
/// )?;
/// let device = Device::open("interp")?;
/// let x = DynTensor::new(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0], &[5])?;
/// let mut y = DynTensor::uninit(&device, Scalar::F32, &[5])?;
/// // The grid follows from what is stored to `%y`.
/// scale.with([(&x).into(), (&mut y).into(), 3.0f32.into()]).launch(&device)?;
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 6.0, 9.0, 12.0, 15.0]);
///
/// let wrong = scale.with([(&x).into(), (&y).into(), 3.0f32.into()]).launch(&device).unwrap_err();
/// assert!(wrong.to_string().ends_with(
///     "`scale` must be a mutable tensor of f32 and rank 1, got a read-only tensor of f32 and rank 1"
/// ));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct DynKernel(Arc<Inner>);

struct Inner {
    /// As it was given; verified.
    kernel: Kernel,
    /// With every access checked, or why there is no such kernel.
    safe: std::result::Result<Kernel, Vec<String>>,
    params: Vec<ParamInfo>,
    /// Whether arguments must be compared with facts that the kernel declares.
    declares_facts: bool,
    /// The digest of the kernel's text.
    identity: [u64; 4],
}

impl DynKernel {
    /// A kernel from its text, which is that of [`kiln_ir::parse`] and what `Launch::ir` prints.
    ///
    /// # Errors
    /// [`Error::IrText`] where the text is none of a kernel; as of [`new`](Self::new).
    pub fn parse(text: &str) -> Result<DynKernel> {
        let kernel = parse(text).map_err(|error| Error::IrText { message: error.to_string() })?;
        DynKernel::new(kernel)
    }

    /// A kernel from its IR.
    ///
    /// # Errors
    /// [`Error::Kernel`] with every rule of the IR that it breaks.
    pub fn new(kernel: Kernel) -> Result<DynKernel> {
        verified(&kernel)?;
        let problem = |u: &kiln_compiler::UnsafeOp| format!("{}: {}, in `{}`", u.location, u.reason, u.op);
        let safe = make_safe(&kernel).map_err(|unsafe_ops| unsafe_ops.iter().map(problem).collect());
        let digest: [u8; 32] = Sha256::digest(format!("{kernel:#}")).into();
        let (words, _) = digest.as_chunks::<8>();
        let mut identity = [0; 4];
        identity.iter_mut().zip(words).for_each(|(to, word)| *to = u64::from_le_bytes(*word));
        let params = ParamInfo::list(&kernel.params);
        let declares_facts = kernel.params.iter().any(|param| param.facts != kiln_ir::Facts::default());
        Ok(DynKernel(Arc::new(Inner { kernel, safe, params, declares_facts, identity })))
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.0.kernel.name
    }

    /// The parameters: their names, types, whether they are written, and what the kernel relies on.
    ///
    /// ```
    /// use kiln_ir::{Scalar, Space, Type};
    /// use kiln_runtime::DynKernel;
    /// let text = "kernel @k(%x: mut view<f16, 2, global>, %n: i64) tile {\n}\n";
    /// let kernel = DynKernel::parse(text)?;
    /// let [x, n] = kernel.params() else { panic!("two parameters") };
    /// assert_eq!((&*x.name, x.mutable), ("x", true));
    /// assert_eq!(x.ty, Type::view(Scalar::F16, 2, Space::Global));
    /// assert_eq!((&*n.name, &n.ty), ("n", &Type::scalar(Scalar::I64)));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn params(&self) -> &[Param] {
        &self.0.kernel.params
    }

    /// The IR, as it was given.
    ///
    /// ```
    /// use kiln_runtime::DynKernel;
    /// let kernel = DynKernel::parse("kernel @nothing(%n: i64) tile {\n}\n")?;
    /// assert_eq!(kernel.ir().name, "nothing");
    /// let again = DynKernel::parse(&kernel.ir().to_string())?;
    /// assert_eq!(again.ir().to_string(), kernel.ir().to_string());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn ir(&self) -> &Kernel {
        &self.0.kernel
    }

    /// What keeps the kernel from being launched safely: a line for each operation, none if it can
    /// be.
    ///
    /// Accesses that trust their index are no reason: [`DynLaunch::launch`] checks them.
    ///
    /// ```
    /// use kiln_runtime::DynKernel;
    /// let kernel = DynKernel::parse(
    ///     "kernel @k(%y: mut view<f32, 1, global>) thread [32, 1, 1] {
    ///        %i = program_id x : i64
    ///        %one = const 1.0 : f32
    ///        scatter.check %y[%i] = %one
    ///      }",
    /// )?;
    /// assert!(kernel.unsafe_operations()[0].contains("two threads may store to one element"));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn unsafe_operations(&self) -> &[String] {
        self.0.safe.as_ref().err().map_or(&[][..], Vec::as_slice)
    }

    /// The kernel with arguments for all of its parameters, in order.
    pub fn with<'a>(&self, arguments: impl IntoIterator<Item = DynArg<'a>>) -> DynLaunch<'a> {
        let settings = Settings::new(self.0.kernel.level);
        DynLaunch { kernel: self.clone(), args: arguments.into_iter().collect(), settings }
    }
}

impl fmt::Debug for DynKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynKernel({})", self.name())
    }
}

/// An argument of a [`DynKernel`]: a tensor to read (`&`), one to write (`&mut`), or a number. It
/// is made by `into`.
///
/// ```
/// use kiln_ir::Scalar;
/// use kiln_runtime::{Device, DynArg, DynKernel, DynTensor};
///
/// let double = DynKernel::parse(
///     "kernel @double(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) tile {
///        %p = program_id x : i64
///        %n = const 4 : i64
///        %at = mul %p, %n : i64
///        %zero = const 0.0 : f32
///        %tile = load %x[%at] pad %zero : f32[4]
///        %sum = add %tile, %tile : f32[4]
///        store %y[%at] = %sum
///      }",
/// )?;
/// let device = Device::open("interp")?;
/// let x = DynTensor::new(&device, &[1.0f32, 2.0, 3.0], &[3])?;
/// let mut y = DynTensor::uninit(&device, Scalar::F32, &[3])?;
///
/// // One tensor to read, one to write.
/// let arguments: Vec<DynArg<'_>> = vec![(&x).into(), (&mut y).into()];
/// double.with(arguments).launch(&device)?;
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// // A number is no tensor.
/// let error = double.with([(&x).into(), 1.0f32.into()]).launch(&device).unwrap_err();
/// assert!(error.to_string().contains("`double`"));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub struct DynArg<'a>(pub(crate) Arg<'a>);

#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// A tensor. `mutable` says that it is borrowed as `&mut` for `'a`.
    View {
        tensor: &'a DynTensor,
        mutable: bool,
    },
    Number(Literal),
}

impl<'a> From<&'a DynTensor> for DynArg<'a> {
    fn from(tensor: &'a DynTensor) -> DynArg<'a> {
        DynArg(Arg::View { tensor, mutable: false })
    }
}

impl<'a> From<&'a mut DynTensor> for DynArg<'a> {
    fn from(tensor: &'a mut DynTensor) -> DynArg<'a> {
        DynArg(Arg::View { tensor, mutable: true })
    }
}

impl<'a, T: Elem, const R: usize> From<&'a Tensor<T, R>> for DynArg<'a> {
    fn from(tensor: &'a Tensor<T, R>) -> DynArg<'a> {
        tensor.as_dyn().into()
    }
}

impl<'a, T: Elem, const R: usize> From<&'a mut Tensor<T, R>> for DynArg<'a> {
    fn from(tensor: &'a mut Tensor<T, R>) -> DynArg<'a> {
        DynArg(Arg::View { tensor: tensor.as_dyn(), mutable: true })
    }
}

impl From<Literal> for DynArg<'_> {
    fn from(number: Literal) -> Self {
        DynArg(Arg::Number(number))
    }
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl From<$t> for DynArg<'_> {
            fn from(number: $t) -> Self {
                number.literal().into()
            }
        }
    )*};
}
numbers!(bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 E4M3 E5M2);

impl Arg<'_> {
    /// What it is for a parameter: a tensor that may be written can be read alone.
    pub(crate) fn given(&self, param: &ParamInfo) -> Given {
        match *self {
            Arg::View { tensor, mutable } => {
                let mutable = mutable && param.given.is_mutable();
                Given::View { elem: tensor.dtype(), rank: tensor.rank(), mutable }
            }
            Arg::Number(literal) => Given::Scalar(literal.elem()),
        }
    }

    /// Its numbers at a launch.
    pub(crate) fn numbers(&self) -> SmallVec<[u64; 12]> {
        match *self {
            Arg::View { tensor, .. } => {
                tensor.shape().iter().chain(tensor.strides()).map(|&n| n as u64).collect()
            }
            Arg::Number(literal) => SmallVec::from_slice(&[literal.bits()]),
        }
    }

    /// Where it is as the argument of a parameter, if it is a tensor.
    pub(crate) fn view(&self, param: &ParamInfo) -> Option<BufferBinding> {
        let Arg::View { tensor, .. } = *self else { return None };
        Some(tensor.binding(param.given.is_mutable()))
    }
}

/// A [`DynKernel`] with its arguments, ready to launch.
///
/// ```
/// use kiln_ir::Scalar;
/// use kiln_runtime::{Device, DynKernel, DynLaunch, DynTensor};
///
/// let double = DynKernel::parse(
///     "kernel @double(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) tile {
///        %p = program_id x : i64
///        %n = const 4 : i64
///        %at = mul %p, %n : i64
///        %zero = const 0.0 : f32
///        %tile = load %x[%at] pad %zero : f32[4]
///        %sum = add %tile, %tile : f32[4]
///        store %y[%at] = %sum
///      }",
/// )?;
/// let device = Device::open("interp")?;
/// let x = DynTensor::new(&device, &[1.0f32, 2.0, 3.0], &[3])?;
/// let mut y = DynTensor::uninit(&device, Scalar::F32, &[3])?;
///
/// // The kernel as it is compiled for these arguments, what compiling it says, and a launch in a
/// // stream.
/// assert_eq!(double.ir().name, "double");
/// let launch: DynLaunch<'_> = double.with([(&x).into(), (&mut y).into()]);
/// assert_eq!(launch.ir()?.params.len(), double.ir().params.len());
/// launch.compile(&device)?;
/// let stream = device.stream()?;
/// launch.grid([1]).on(&stream).launch(&device)?;
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[must_use = "a kernel runs when it is launched: call `.launch(&device)`"]
pub struct DynLaunch<'a> {
    kernel: DynKernel,
    args: SmallVec<[DynArg<'a>; 8]>,
    settings: Settings,
}

impl DynLaunch<'_> {
    /// The number of programs (blocks) on x, y and z. Without it the grid follows from the tensors
    /// that the programs write, if their stores determine which part each writes. Axes that are
    /// left out have one program. A zero launches nothing.
    pub fn grid<E: Extent, const N: usize>(mut self, grid: [E; N]) -> Self {
        self.settings.grid = Some(three(grid));
        self
    }

    /// The stream to launch in, instead of the device's default one.
    pub fn on(mut self, stream: &Stream) -> Self {
        self.settings.queue = stream.queue().clone();
        self
    }

    /// Compiles the kernel if it is new, and enqueues it. Work that uses the arguments is ordered
    /// before and after it.
    ///
    /// Whatever the IR says, it reaches its arguments alone and writes only what was passed as
    /// `&mut`. Accesses that trust their index are checked: outside of its view the kernel ends
    /// with a fault. Stores of tiles must be proved to be disjoint, as those of the kernel language
    /// are.
    ///
    /// # Errors
    /// [`Error::UnsafeKernel`] if it has [operations](DynKernel::unsafe_operations) that nothing
    /// makes safe; [`Error::ArgumentCount`] and [`Error::Argument`] for arguments that its
    /// parameters do not take; else as of [`Launch::launch`](crate::Launch::launch). On an error
    /// nothing was launched and no argument changed.
    #[track_caller]
    pub fn launch(self, device: &Device) -> Result<()> {
        let site = Location::caller();
        self.checked(true, site, |request| self.settings.launch(request, device, site))
    }

    /// Launches the kernel as it is: what it trusts is not checked, and what
    /// [`launch`](Self::launch) refuses is launched.
    ///
    /// ```
    /// use kiln_runtime::{Device, DynKernel, DynTensor};
    /// // Each thread stores its number to shared memory and reads its neighbor's.
    /// let kernel = DynKernel::parse(
    ///     "kernel @turn(%y: mut view<i64, 1, global>) thread [4, 1, 1] {
    ///        %s = alloc shared i64[4] : view<i64, 1, shared>
    ///        %t = thread_id x : i64
    ///        scatter.trust %s[%t] = %t
    ///        barrier
    ///        %one = const 1 : i64
    ///        %four = const 4 : i64
    ///        %next = add %t, %one : i64
    ///        %from = rem %next, %four : i64
    ///        %zero = const 0 : i64
    ///        %v = gather.trust %s[%from] pad %zero : i64
    ///        scatter.trust %y[%t] = %v
    ///      }",
    /// )?;
    /// let device = Device::open("interp")?;
    /// let mut y = DynTensor::zeros(&device, kiln_ir::Scalar::I64, &[4])?;
    /// let turn = kernel.with([(&mut y).into()]).grid([1]);
    /// // SAFETY: all indices are below 4, and a barrier stands between the stores to shared memory
    /// // and the loads from it.
    /// unsafe { turn.launch_unchecked(&device)? };
    /// assert_eq!(y.to_vec::<i64>()?, [1, 2, 3, 0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Safety
    /// On these arguments and this grid, all that the kernel trusts is so, its addresses lie in
    /// memory that it was given, and no two of its threads access one place at the same time if one
    /// of them writes it, unless by atomics. Recorded into a [`Graph`](crate::Graph) or a
    /// [`CommandList`](crate::CommandList), that holds for each replay or run, with the arguments
    /// and contents that it has then.
    ///
    /// # Errors
    /// As of [`launch`](Self::launch), but for [`Error::UnsafeKernel`].
    #[track_caller]
    pub unsafe fn launch_unchecked(self, device: &Device) -> Result<()> {
        let site = Location::caller();
        self.checked(false, site, |request| self.settings.launch(request, device, site))
    }

    /// Compiles the kernel for [`launch`](Self::launch) if it is new, and says what became of it.
    ///
    /// # Errors
    /// As of [`launch`](Self::launch).
    #[track_caller]
    pub fn compile(&self, device: &Device) -> Result<CompiledKernel> {
        let site = Location::caller();
        self.checked(true, site, |request| self.settings.compile(request, device, site))
    }

    /// The IR that [`launch`](Self::launch) compiles: checked, and specialized to these arguments.
    ///
    /// # Errors
    /// As of [`launch`](Self::launch).
    #[track_caller]
    pub fn ir(&self) -> Result<Kernel> {
        self.checked(true, Location::caller(), |request| request.specialize())
    }

    /// Compares the arguments with the parameters, and hands them on with the kernel.
    fn checked<R>(
        &self,
        safe: bool,
        site: CallSite,
        then: impl FnOnce(&Checked<'_, '_>) -> Result<R>,
    ) -> Result<R> {
        let inner = &*self.kernel.0;
        let kernel = match &inner.safe {
            _ if !safe => &inner.kernel,
            Ok(kernel) => kernel,
            Err(problems) => {
                let (kernel, problems) = (inner.kernel.name.clone(), problems.clone());
                return Err(Error::UnsafeKernel { kernel, problems, location: site });
            }
        };
        self.check_arguments(inner, site)?;
        then(&Checked { inner, kernel, safe, args: &self.args })
    }

    fn check_arguments(&self, inner: &Inner, site: CallSite) -> Result<()> {
        let (given, expected) = (self.args.len(), inner.params.len());
        if given != expected {
            let kernel = inner.kernel.name.clone();
            let names = inner.params.iter().map(|param| param.name.clone()).collect();
            return Err(Error::ArgumentCount { kernel, given, names, location: site });
        }
        for (DynArg(arg), param) in self.args.iter().zip(&inner.params) {
            let refuse = |given: String| Error::Argument {
                kernel: inner.kernel.name.clone(),
                argument: param.name.clone(),
                expected: param.given.to_string(),
                given,
                location: site,
            };
            let given = arg.given(param);
            if given != param.given {
                return Err(refuse(given.to_string()));
            }
            if inner.declares_facts
                && let Some(fact) = param.violated(arg.view(param).map(|view| view.address()), &arg.numbers())
            {
                return Err(refuse(format!("one of which it is not true that {fact}")));
            }
        }
        Ok(())
    }
}

/// A kernel with arguments that its parameters take.
struct Checked<'a, 'k> {
    inner: &'k Inner,
    /// As it is compiled, but for the facts of the arguments.
    kernel: &'k Kernel,
    /// Whether that is the checked one.
    safe: bool,
    args: &'k [DynArg<'a>],
}

impl Request for Checked<'_, '_> {
    fn origin(&self) -> Origin<'_> {
        Origin::Ir(self)
    }

    fn add_to_key(&self, key: &mut SpecKey) {
        key.word(self.safe.into());
        for DynArg(arg) in self.args {
            if let Arg::View { tensor, .. } = arg {
                key.word(tensor.fact_bits());
            }
        }
    }

    fn record(&self) {}

    fn pack<'a>(&'a self, sink: &mut dyn ArgSink<'a>) {
        for (DynArg(arg), param) in self.args.iter().zip(&self.inner.params) {
            match *arg {
                Arg::View { tensor, mutable } => pack(tensor, mutable && param.given.is_mutable(), sink),
                Arg::Number(literal) => sink.scalar(literal),
            }
        }
    }
}

impl GivenIr for Checked<'_, '_> {
    fn name(&self) -> &str {
        &self.inner.kernel.name
    }

    fn key(&self) -> SpecKey {
        SpecKey::of_ir(self.inner.identity)
    }

    fn specialize(&self) -> Result<Kernel> {
        let mut kernel = self.kernel.clone();
        for (param, DynArg(arg)) in kernel.params.iter_mut().zip(self.args) {
            if let Arg::View { tensor, .. } = arg {
                param.facts = facts::both(&param.facts, tensor.facts());
            }
        }
        verified(&kernel)?;
        Ok(kernel)
    }
}

fn verified(kernel: &Kernel) -> Result<()> {
    verify(kernel).map_err(|errors| Error::Kernel {
        kernel: kernel.name.clone(),
        problems: errors.iter().map(ToString::to_string).collect(),
    })
}
