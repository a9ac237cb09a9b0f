//! What a launch carries: a grid, the buffers behind the views of the kernel, and numbers.

use crate::{DevicePtr, Error, Result, StreamId};
use kiln_ir::Kernel;

/// Where a view of a launch is.
///
/// Each backend makes of it what its code takes: an address, or a binding of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferBinding {
    /// The buffer: memory that [`Backend::allocate`](crate::Backend::allocate) gave, or mapped
    /// memory.
    pub buffer: DevicePtr,
    /// Bytes from the start of the buffer to the first element of the view.
    pub byte_offset: u64,
    /// Whether the kernel may write to the view.
    pub written: bool,
}

impl BufferBinding {
    /// A view that the kernel only reads, from the start of a buffer on.
    ///
    /// ```
    /// use kiln_backend::{BufferBinding, DevicePtr};
    /// let x = BufferBinding::read(DevicePtr(0x100));
    /// assert!(!x.written && x.byte_offset == 0);
    /// ```
    pub const fn read(buffer: DevicePtr) -> BufferBinding {
        BufferBinding { buffer, byte_offset: 0, written: false }
    }

    /// A view that the kernel may write, from the start of a buffer on.
    ///
    /// ```
    /// use kiln_backend::{BufferBinding, DevicePtr};
    /// assert!(BufferBinding::write(DevicePtr(0x100)).written);
    /// ```
    pub const fn write(buffer: DevicePtr) -> BufferBinding {
        BufferBinding { buffer, byte_offset: 0, written: true }
    }

    /// The same, so many bytes from the start of the buffer.
    ///
    /// ```
    /// use kiln_backend::{BufferBinding, DevicePtr};
    /// let row = BufferBinding::read(DevicePtr(0x100)).at(64);
    /// assert_eq!(row.address(), DevicePtr(0x140));
    /// ```
    pub const fn at(self, byte_offset: u64) -> BufferBinding {
        BufferBinding { byte_offset, ..self }
    }

    /// The first element of the view, where pointers of the device are addresses.
    #[inline]
    pub const fn address(&self) -> DevicePtr {
        DevicePtr(self.buffer.0.wrapping_add(self.byte_offset))
    }
}

/// One launch.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Blocks (programs) on x, y and z. A zero extent launches nothing.
    pub grid: [u32; 3],
    /// Where each view is, in the order of the parameters.
    pub buffers: &'a [BufferBinding],
    /// The numbers of each parameter, in the order of the parameters: the bits of a scalar,
    /// zero-extended; the extents and then the strides of a view, in elements.
    /// [`Param::numbers`](kiln_ir::Param::numbers) says how many.
    pub numbers: &'a [u64],
    /// The stream.
    pub stream: StreamId,
}

/// How many buffers and numbers the launches of a kernel carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgumentCount {
    /// One for each view.
    pub buffers: usize,
    /// As [`Launch::numbers`] says.
    pub numbers: usize,
}

impl ArgumentCount {
    /// Those of a kernel.
    ///
    /// ```
    /// use kiln_backend::ArgumentCount;
    /// let text = "kernel @k(%x: view<f32, 2, global>, %n: i64) tile {\n}";
    /// let kernel = kiln_ir::parse(text).unwrap();
    /// assert_eq!(ArgumentCount::of(&kernel), ArgumentCount { buffers: 1, numbers: 5 });
    /// ```
    pub fn of(kernel: &Kernel) -> ArgumentCount {
        ArgumentCount {
            buffers: kernel.params.iter().filter(|param| param.ty.as_view().is_some()).count(),
            numbers: kernel.params.iter().map(|param| param.numbers()).sum(),
        }
    }

    /// Refuses a launch of other counts, for a backend of this name.
    ///
    /// # Errors
    /// [`Error::Internal`]: the caller has compared the arguments with the parameters.
    #[inline]
    pub fn check(
        self,
        place: &'static str,
        kernel: &str,
        buffers: &[BufferBinding],
        numbers: &[u64],
    ) -> Result<()> {
        let given = ArgumentCount { buffers: buffers.len(), numbers: numbers.len() };
        if given == self { Ok(()) } else { Err(self.refuse(place, kernel, given)) }
    }

    #[cold]
    fn refuse(self, place: &'static str, kernel: &str, given: ArgumentCount) -> Error {
        let message = format!(
            "`{kernel}` takes {} buffers and {} numbers, not {} and {}",
            self.buffers, self.numbers, given.buffers, given.numbers
        );
        Error::Internal { place, message }
    }
}

/// The arguments of a launch, put together one by one, for callers whose speed does not matter.
///
/// ```
/// use kiln_backend::{BufferBinding, DevicePtr, LaunchArguments, StreamId};
/// let (x, y) = (DevicePtr(0x100), DevicePtr(0x200));
/// let arguments = LaunchArguments::new()
///     .view(BufferBinding::read(x), &[2, 3])
///     .view(BufferBinding::write(y), &[6])
///     .scalar(5);
/// let launch = arguments.launch([1, 1, 1], StreamId::default());
/// assert_eq!(launch.numbers, [2, 3, 3, 1, 6, 1, 5]);
/// assert!(!launch.buffers[0].written && launch.buffers[1].written);
/// ```
#[derive(Debug, Clone, Default)]
pub struct LaunchArguments {
    buffers: Vec<BufferBinding>,
    numbers: Vec<u64>,
}

impl LaunchArguments {
    /// No arguments.
    pub fn new() -> LaunchArguments {
        LaunchArguments::default()
    }

    /// Adds a view of these extents whose elements are adjacent, in row-major order.
    #[must_use]
    pub fn view(self, buffer: BufferBinding, extents: &[u64]) -> LaunchArguments {
        let strides = (1..=extents.len()).map(|axis| extents[axis..].iter().product());
        let strides: Vec<u64> = strides.collect();
        self.strided(buffer, extents, &strides)
    }

    /// Adds a view of these extents and strides, in elements.
    ///
    /// ```
    /// use kiln_backend::{BufferBinding, DevicePtr, LaunchArguments, StreamId};
    /// let column = BufferBinding::read(DevicePtr(0x100)).at(8);
    /// let arguments = LaunchArguments::new().strided(column, &[3], &[4]);
    /// assert_eq!(arguments.launch([1, 1, 1], StreamId::default()).numbers, [3, 4]);
    /// ```
    #[must_use]
    pub fn strided(mut self, buffer: BufferBinding, extents: &[u64], strides: &[u64]) -> LaunchArguments {
        self.buffers.push(buffer);
        self.numbers.extend(extents);
        self.numbers.extend(strides);
        self
    }

    /// Adds the bits of a scalar.
    #[must_use]
    pub fn scalar(mut self, bits: u64) -> LaunchArguments {
        self.numbers.push(bits);
        self
    }

    /// A launch with these arguments.
    pub fn launch(&self, grid: [u32; 3], stream: StreamId) -> Launch<'_> {
        Launch { grid, buffers: &self.buffers, numbers: &self.numbers, stream }
    }
}
