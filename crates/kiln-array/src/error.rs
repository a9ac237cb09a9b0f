//! What can be wrong with a program over arrays.

use kiln_ir::Scalar;
use std::fmt;
use std::panic::Location;
#[cfg(feature = "files")]
use std::path::PathBuf;

/// A place in the user's source.
///
/// ```
/// use kiln_array::{Array, Error, Site};
/// let device = kiln_runtime::Device::open("interp")?;
/// let wrong = Array::arange(&device, 3).reshape(&[2, 2]); // this line is in the error
/// let line = line!() - 1;
/// let Err(Error::Shape { location, .. }) = wrong.eval() else { panic!("3 elements are no 2 x 2") };
/// let site: Site = location;
/// assert_eq!(site.line(), line);
/// # Ok::<(), kiln_array::Error>(())
/// ```
pub type Site = &'static Location<'static>;

/// What is returned by functions that read arrays.
///
/// ```
/// use kiln_array::{Array, Result};
///
/// fn norm(x: &Array) -> Result<f32> {
///     x.square().sum().sqrt().item()
/// }
///
/// let device = kiln_runtime::Device::open("interp")?;
/// assert_eq!(norm(&Array::new(&device, &[3.0f32, 4.0], &[2]))?, 5.0);
/// # Ok::<(), kiln_array::Error>(())
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// Why an array has no elements.
///
/// Operations do not fail while they are recorded. One that cannot be gives an array that holds the
/// error, and so does everything that is made of it. The next `eval`, `item` or `to_vec` returns
/// it.
///
/// ```
/// use kiln_array::Array;
/// let device = kiln_runtime::Device::open("interp")?;
/// let (a, b) = (Array::new(&device, &[1.0f32, 2.0], &[2]), Array::new(&device, &[1.0f32; 3], &[3]));
/// let error = (a + b).exp().sum().eval().unwrap_err().to_string();
/// assert!(error.ends_with("`add`: shapes [2] and [3] do not broadcast: axes must be equal, or 1"));
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Shapes do not fit each other.
    #[error("{location}: `{op}`: {problem}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// What is wrong, with the shapes.
        problem: String,
        /// The line that recorded it.
        location: Site,
    },
    /// An operation is not there for an element type.
    #[error("{location}: `{op}` of {dtype}: {hint}")]
    Type {
        /// The operation.
        op: &'static str,
        /// The element type.
        dtype: Scalar,
        /// What to write instead.
        hint: &'static str,
        /// The line that recorded it.
        location: Site,
    },
    /// Arrays of two devices meet.
    #[error(
        "{location}: `{op}`: one array is on {left} and the other on {right}; `to_device` copies an array"
    )]
    Devices {
        /// The operation.
        op: &'static str,
        /// The device of the first array.
        left: String,
        /// The device of the other one.
        right: String,
        /// The line that recorded it.
        location: Site,
    },
    /// An index lies outside of its axis. The device finds that, so that it is the error of arrays
    /// from the first wait for it on.
    #[error("{location}: `{op}`: an index lies outside of its axis, which has {extent} elements")]
    Index {
        /// The operation.
        op: &'static str,
        /// The elements of the axis.
        extent: usize,
        /// The line that recorded it.
        location: Site,
    },
    /// A gradient was asked for of something that has none.
    #[error("{location}: {problem}")]
    Gradient {
        /// What is wrong.
        problem: String,
        /// The line that asked for it.
        location: Site,
    },
    /// An element was asked for inside of a function that `vmap` applies to many arrays at once.
    #[error(
        "{location}: a function that `vmap` applies to many arrays at once cannot read elements of one; \
         write a choice by elements as `where_`"
    )]
    Mapped {
        /// The line of the `vmap`.
        location: Site,
    },
    /// An array that was computed in [`detect_non_finite`](crate::detect_non_finite) has NaN or an
    /// infinity.
    #[error("{found}")]
    NotFinite {
        /// Where the first one was made.
        found: Box<NonFinite>,
    },
    /// A tensor could not be made or read, or a kernel failed.
    #[error("{location}: {error}")]
    Run {
        /// What the runtime says.
        error: Box<kiln_runtime::Error>,
        /// The line that recorded the operation, or that read the array.
        location: Site,
    },
    /// The runtime failed outside of arrays, where a program opens a device for example.
    #[error(transparent)]
    Runtime(Box<kiln_runtime::Error>),
    /// A file of parameters or tensors could not be written or read.
    #[cfg(feature = "files")]
    #[error(transparent)]
    File(Box<FileError>),
}

/// Why parameters could not be saved or loaded. In a function that returns
/// [`Result`] a `?` makes an [`Error`] of it.
///
/// ```
/// use kiln_array::nn::{FileError, Key, Linear, load, save};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("layer.safetensors");
/// let device = kiln_runtime::Device::open("interp")?;
/// save(&Linear::new(&device, Key::new(1), 3, 2), &path)?;
/// let mut wider = Linear::new(&device, Key::new(1), 4, 2);
/// let Err(FileError::Mismatch { problems, .. }) = load(&mut wider, &path) else { panic!() };
/// assert_eq!(problems.len(), 1);
/// assert!(problems[0].contains("weight"), "{problems:?}");
///
/// fn restored(mut layer: Linear) -> kiln_array::Result<Linear> {
///     load(&mut layer, "no such file.safetensors")?;
///     Ok(layer)
/// }
/// assert!(matches!(restored(wider), Err(kiln_array::Error::File(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "files")]
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] kiln_files::Error),
    /// The file's tensors are not the module's parameters.
    #[error("{}: {}", path.display(), problems.join("; "))]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// What is missing, of another shape or type, in excess, or there twice, each by its name.
        problems: Vec<String>,
    },
    /// A parameter has an error or cannot be computed.
    #[error(transparent)]
    Array(#[from] Error),
}

/// Where the first NaN or infinity of arrays was made, as
/// [`first_non_finite`](crate::first_non_finite) finds it.
///
/// ```
/// use kiln_array::{Array, NonFinite, first_non_finite};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[90.0f32, 3.0], &[2]);
/// let found: Option<NonFinite> = first_non_finite(&[&(x.exp() - x.exp())])?;
/// let text = found.unwrap().to_string();
/// let expected = ": `exp` made 1 infinity and 0 NaN in an array of f32 and shape [2], first at [0], of \
///                 finite inputs";
/// assert!(text.ends_with(expected));
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NonFinite {
    /// The operation: of a function that is made of several, such as `softmax`, the one of these.
    /// `None` of an array whose elements were in memory before.
    pub op: Option<&'static str>,
    /// The line that recorded it, or that made the array.
    pub location: Site,
    /// The element type of its result.
    pub dtype: Scalar,
    /// The shape of its result.
    pub shape: Vec<usize>,
    /// How many elements of the result are NaN.
    pub nans: usize,
    /// How many are infinite.
    pub infinities: usize,
    /// The index of the first of both, on each axis.
    pub first: Vec<usize>,
    /// The line of an array in memory, or of a constant, that the inputs have infinities or NaN of;
    /// `None` where they are finite.
    pub source: Option<Site>,
}

impl fmt::Display for NonFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NonFinite { location, dtype, shape, nans, first, .. } = self;
        let infinities = match self.infinities {
            1 => "1 infinity".to_owned(),
            count => format!("{count} infinities"),
        };
        let Some(op) = self.op else {
            let has = format!("has {infinities} and {nans} NaN, first at {first:?}");
            return write!(
                f,
                "{location}: an array of {dtype} and shape {shape:?} that was in memory before {has}"
            );
        };
        write!(f, "{location}: `{op}` made {infinities} and {nans} NaN in an array of {dtype} and shape ")?;
        write!(f, "{shape:?}, first at {first:?}, of ")?;
        match self.source {
            Some(source) => write!(f, "inputs that are not finite, from {source}"),
            None => f.write_str("finite inputs"),
        }
    }
}

impl Error {
    /// What the runtime says of what a line has recorded or read.
    pub(crate) fn run(error: kiln_runtime::Error, location: Site) -> Error {
        Error::Run { error: Box::new(error), location }
    }
}

impl From<kiln_runtime::Error> for Error {
    fn from(error: kiln_runtime::Error) -> Error {
        Error::Runtime(Box::new(error))
    }
}

#[cfg(feature = "files")]
impl From<FileError> for Error {
    fn from(error: FileError) -> Error {
        match error {
            FileError::Array(error) => error,
            error => Error::File(Box::new(error)),
        }
    }
}

#[cfg(feature = "files")]
impl From<kiln_files::Error> for Error {
    fn from(error: kiln_files::Error) -> Error {
        Error::File(Box::new(error.into()))
    }
}
