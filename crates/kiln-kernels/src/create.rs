//! Tensors with contents to begin with, which the device writes itself, and one number in the place
//! of the contents of others.

use crate::sizes::elements_per_program;
use kiln_ir::Scalar;
use kiln_lang::prelude::*;
use kiln_lang::{rand, randn};
use kiln_runtime::{Device, Result, Tensor};

/// Kernels, for launches of one's own.
///
/// ```
/// use kiln_kernels::Create;
/// use kiln_kernels::create::kernels::{count, fill, identity, interpolate, normal, uniform};
/// let device = kiln_runtime::Device::open("interp")?;
/// let (mut n, mut x) = (device.uninit::<i32, 1>([5])?, device.uninit::<f32, 1>([5])?);
/// // 4 elements a program: two programs have 5.
/// count(&mut n, 10, -2, 4).launch(&device)?;
/// assert_eq!(n.to_vec()?, [10, 8, 6, 4, 2]);
/// fill(&mut n, 7, 4).launch(&device)?;
/// assert_eq!(n.to_vec()?, [7; 5]);
/// interpolate::<f32, f32>(&mut x, 0.0, 1.0, 0.25, 4).launch(&device)?;
/// assert_eq!(x.to_vec()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
/// uniform(&mut x, 42, f32::EPSILON / 2.0, 4).launch(&device)?;
/// assert_eq!(x.to_vec()?, device.rand::<f32, 1>([5], 42)?.to_vec()?);
/// normal(&mut x, 42, 4).launch(&device)?;
/// assert_eq!(x.to_vec()?, device.randn::<f32, 1>([5], 42)?.to_vec()?);
/// let mut matrix = device.uninit::<u8, 2>([2, 2])?;
/// identity(&mut matrix, 4).launch(&device)?;
/// assert_eq!(matrix.to_vec()?, [1, 0, 0, 1]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub mod kernels {
    use super::*;

    /// One number everywhere, in `block` elements a program.
    #[kernel(crate = kiln_runtime)]
    pub fn fill<T: Num>(y: &mut Tensor<T, 1>, value: Val<T>, block: usize) {
        y.tile(program_id(0) * block, block).store(full(block, value));
    }

    /// `start + i * step` at index `i`, `block` elements a program.
    #[kernel(crate = kiln_runtime)]
    pub fn count<T: Int>(y: &mut Tensor<T, 1>, start: Val<T>, step: Val<T>, block: usize) {
        let at = program_id(0) * block;
        let index = (iota::<i64>(block) + at).cast::<T>();
        y.tile(at, block).store(index * step + start);
    }

    /// Numbers from `start` to `end`, `step` apart, counted from the nearer end: both ends are
    /// exact, and the numbers between are rounded alike from both sides. `C` is what is computed
    /// in. `block` elements a program.
    #[kernel(crate = kiln_runtime)]
    pub fn interpolate<T: Float, C: Float>(
        y: &mut Tensor<T, 1>,
        start: Val<C>,
        end: Val<C>,
        step: Val<C>,
        block: usize,
    ) {
        let at = program_id(0) * block;
        let index = iota::<i64>(block) + at;
        let left = y.extent(0) - 1 - index;
        let from_start = start + index.cast::<C>() * step;
        let from_end = end - left.cast::<C>() * step;
        y.tile(at, block).store(select(index.le(left), from_start, from_end).cast::<T>());
    }

    /// Random numbers of at least 0 and less than 1, that of offset `i` at index `i`, all multiples
    /// of a distance that `T` holds exactly. `block` elements a program.
    #[kernel(crate = kiln_runtime)]
    pub fn uniform<T: Float>(y: &mut Tensor<T, 1>, seed: Val<u64>, distance: f32, block: usize) {
        let at = program_id(0) * block;
        let number = super::rand(seed, iota::<i64>(block) + at);
        let steps = (number * (1.0 / distance)).floor();
        y.tile(at, block).store((steps * distance).cast::<T>());
    }

    /// Random numbers of the standard normal distribution, that of offset `i` at index `i`. `block`
    /// elements a program.
    #[kernel(crate = kiln_runtime)]
    pub fn normal<T: Float>(y: &mut Tensor<T, 1>, seed: Val<u64>, block: usize) {
        let at = program_id(0) * block;
        y.tile(at, block).store(super::randn(seed, iota::<i64>(block) + at).cast::<T>());
    }

    /// 1 where row and column are the same, 0 elsewhere; `block` columns of a row a program.
    #[kernel(crate = kiln_runtime)]
    pub fn identity<T: Num>(y: &mut Tensor<T, 2>, block: usize) {
        let (row, column) = (program_id(0), program_id(1) * block);
        let diagonal = (iota::<i64>(block) + column).eq(row);
        y.tile((row, column), (1, block)).store(diagonal.cast::<T>().expand(0));
    }
}

/// Makes tensors whose contents follow from a few numbers. The device writes them: nothing is
/// copied to it.
///
/// ```
/// use kiln_kernels::Create;
/// use kiln_runtime::Device;
///
/// let device = Device::open("interp")?;
/// assert_eq!(device.full([2, 3], 0.5f32)?.to_vec()?, [0.5; 6]);
/// assert_eq!(device.arange(10, -3, 4)?.to_vec()?, [10, 7, 4, 1]);
/// assert_eq!(device.linspace::<f32>(0.0, 1.0, 5)?.to_vec()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
/// assert_eq!(device.eye::<f64>(2)?.to_vec()?, [1.0, 0.0, 0.0, 1.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub trait Create {
    /// A tensor of one number.
    ///
    /// ```
    /// # use kiln_kernels::Create;
    /// let y = kiln_runtime::Device::open("interp")?.full([2, 2], 7)?;
    /// assert_eq!(y.to_vec()?, [7, 7, 7, 7]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// Out of memory; a shape that cannot be addressed.
    fn full<T: Num, const R: usize>(&self, shape: [usize; R], value: T) -> Result<Tensor<T, R>>;

    /// `count` integers, `step` apart: `start`, `start + step`, …, modulo what the type holds.
    /// [`linspace`](Self::linspace) makes floats.
    ///
    /// ```
    /// # use kiln_kernels::Create;
    /// let y = kiln_runtime::Device::open("interp")?.arange(0u32, 1, 4)?;
    /// assert_eq!(y.to_vec()?, [0, 1, 2, 3]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`full`](Self::full).
    fn arange<T: Int>(&self, start: T, step: T, count: usize) -> Result<Tensor<T, 1>>;

    /// `count` numbers at equal distances, the first `start` and the last `end`; of one, `start`.
    /// They are computed in f32, of f64 in f64, so that each is within three roundings of the exact
    /// one.
    ///
    /// ```
    /// # use kiln_kernels::Create;
    /// let y = kiln_runtime::Device::open("interp")?.linspace::<f64>(1.0, -1.0, 3)?;
    /// assert_eq!(y.to_vec()?, [1.0, 0.0, -1.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`full`](Self::full).
    fn linspace<T: Float>(&self, start: f64, end: f64, count: usize) -> Result<Tensor<T, 1>>;

    /// The identity matrix of `n` rows.
    ///
    /// ```
    /// # use kiln_kernels::Create;
    /// let y = kiln_runtime::Device::open("interp")?.eye::<i32>(2)?;
    /// assert_eq!(y.to_vec()?, [1, 0, 0, 1]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`full`](Self::full).
    fn eye<T: Num>(&self, n: usize) -> Result<Tensor<T, 2>>;

    /// Random numbers of at least 0 and less than 1: element `i`, in row-major order, is what
    /// [`rand`] gives for the seed and offset `i`, with as many bits as the type holds exactly. The
    /// same seed gives the same numbers on every device.
    ///
    /// ```
    /// # use kiln_kernels::Create;
    /// let y = kiln_runtime::Device::open("interp")?.rand::<f32, 2>([100, 100], 42)?.to_vec()?;
    /// let mean = y.iter().sum::<f32>() / 10_000.0;
    /// assert!((mean - 0.5).abs() < 0.02 && y.iter().all(|x| (0.0..1.0).contains(x)));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`full`](Self::full).
    fn rand<T: Float, const R: usize>(&self, shape: [usize; R], seed: u64) -> Result<Tensor<T, R>>;

    /// Random numbers of the standard normal distribution: element `i`, in row-major order, is what
    /// [`randn`] gives for the seed and offset `i`, rounded to the type. The same seed gives the
    /// same numbers on every device but for a few units in the last place.
    ///
    /// ```
    /// # use kiln_kernels::Create;
    /// let y = kiln_runtime::Device::open("interp")?.randn::<f32, 1>([10_000], 42)?.to_vec()?;
    /// let variance = y.iter().map(|x| x * x).sum::<f32>() / 10_000.0;
    /// assert!((variance - 1.0).abs() < 0.1);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`full`](Self::full).
    fn randn<T: Float, const R: usize>(&self, shape: [usize; R], seed: u64) -> Result<Tensor<T, R>>;
}

impl Create for Device {
    #[track_caller]
    fn full<T: Num, const R: usize>(&self, shape: [usize; R], value: T) -> Result<Tensor<T, R>> {
        let y = self.uninit(shape)?;
        let block = elements_per_program(self, size_of::<T>());
        kernels::fill(&mut y.reshape([y.len()])?, value, block).launch(self)?;
        Ok(y)
    }

    #[track_caller]
    fn arange<T: Int>(&self, start: T, step: T, count: usize) -> Result<Tensor<T, 1>> {
        let mut y = self.uninit([count])?;
        kernels::count(&mut y, start, step, elements_per_program(self, size_of::<T>())).launch(self)?;
        Ok(y)
    }

    #[track_caller]
    fn linspace<T: Float>(&self, start: f64, end: f64, count: usize) -> Result<Tensor<T, 1>> {
        let mut y = self.uninit([count])?;
        let step = if count > 1 { (end - start) / (count - 1) as f64 } else { 0.0 };
        let block = elements_per_program(self, size_of::<T>());
        match T::SCALAR {
            Scalar::F64 => kernels::interpolate::<T, f64>(&mut y, start, end, step, block).launch(self)?,
            _ => kernels::interpolate::<T, f32>(&mut y, start as f32, end as f32, step as f32, block)
                .launch(self)?,
        }
        Ok(y)
    }

    #[track_caller]
    fn eye<T: Num>(&self, n: usize) -> Result<Tensor<T, 2>> {
        let mut y = self.uninit([n, n])?;
        kernels::identity(&mut y, elements_per_program(self, size_of::<T>())).launch(self)?;
        Ok(y)
    }

    #[track_caller]
    fn rand<T: Float, const R: usize>(&self, shape: [usize; R], seed: u64) -> Result<Tensor<T, R>> {
        let y = self.uninit(shape)?;
        // Bits of the significand, of which `rand` has 24 at most.
        let bits = match T::SCALAR {
            Scalar::F16 => 11,
            Scalar::BF16 => 8,
            _ => 24,
        };
        let block = elements_per_program(self, size_of::<T>());
        let distance = 1.0 / (1u32 << bits) as f32;
        kernels::uniform(&mut y.reshape([y.len()])?, seed, distance, block).launch(self)?;
        Ok(y)
    }

    #[track_caller]
    fn randn<T: Float, const R: usize>(&self, shape: [usize; R], seed: u64) -> Result<Tensor<T, R>> {
        let y = self.uninit(shape)?;
        let block = elements_per_program(self, size_of::<T>());
        kernels::normal(&mut y.reshape([y.len()])?, seed, block).launch(self)?;
        Ok(y)
    }
}

/// Overwrites a tensor's elements by one number, as `cudaMemset` does with bytes: the memory of a
/// counter, a histogram or a sum, which kernels add to, before another round.
///
/// ```
/// use kiln_kernels::{Create, Fill};
/// use kiln_runtime::Device;
///
/// let device = Device::open("interp")?;
/// let mut y = device.arange(0, 1, 6)?.reshape([2, 3])?;
/// y.slice(1, 0..2)?.fill(7)?;
/// assert_eq!(y.to_vec()?, [7, 7, 2, 7, 7, 5]);
/// y.fill(0)?;
/// assert_eq!(y.to_vec()?, [0; 6]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub trait Fill<T> {
    /// One number in the place of every element. The device does it in the order of its other work,
    /// and the host does not wait. The tensor may be a view with gaps, which keep what they have;
    /// for those it takes as much memory again for a moment.
    ///
    /// ```
    /// # use kiln_kernels::Fill;
    /// let mut y = kiln_runtime::Device::open("interp")?.tensor(&[1.0f32, 2.0], [2])?;
    /// y.fill(f32::NEG_INFINITY)?;
    /// assert_eq!(y.to_vec()?, [f32::NEG_INFINITY; 2]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of a launch with the tensor as an output; out of memory.
    fn fill(&mut self, value: T) -> Result<()>;
}

impl<T: Num, const R: usize> Fill<T> for Tensor<T, R> {
    #[track_caller]
    fn fill(&mut self, value: T) -> Result<()> {
        let device = self.device().clone();
        if self.as_dyn().is_contiguous() {
            let block = elements_per_program(&device, size_of::<T>());
            return kernels::fill(&mut self.reshape([self.len()])?, value, block).launch(&device);
        }
        self.copy_from(&device.full(self.shape(), value)?)
    }
}
