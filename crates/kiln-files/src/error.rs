//! What can be wrong with a file of tensors.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of reading or writing a file.
///
/// ```
/// use kiln_files::{Gguf, Result};
///
/// fn layers(path: &str) -> Result<u64> {
///     let model = Gguf::open(path)?;
///     model.unsigned(&format!("{}.block_count", model.text("general.architecture")?))
/// }
///
/// let error = layers("no such model.gguf").unwrap_err();
/// assert!(error.to_string().starts_with("no such model.gguf: "));
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be read or written. No tensor is lost, and the device stays usable.
///
/// ```
/// use kiln_files::{Error, read_npy};
/// let device = kiln_runtime::Device::open("interp")?;
/// let error = read_npy(&device, "no such file.npy").unwrap_err();
/// assert!(matches!(error, Error::Io { .. }));
/// assert!(error.to_string().starts_with("no such file.npy: "));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system could not read or write the file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// The file is not of its format, or is damaged.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file has elements that Kiln has no type for, or the tensor has elements that the format
    /// has no type for.
    #[error("{}: elements of type {elem} {problem}", path.display())]
    ElementType {
        /// The file.
        path: PathBuf,
        /// The type, in the file's words or in Kiln's.
        elem: String,
        /// What there is instead.
        problem: String,
    },
    /// The file has no tensor of this name.
    #[error("{}: there is no tensor `{name}`; there are {}", path.display(), listed(names))]
    NoTensor {
        /// The file.
        path: PathBuf,
        /// The name that was asked for.
        name: String,
        /// The names of the file's tensors.
        names: Vec<String>,
    },
    /// The file's metadata lack a key, or have a value of another kind.
    #[error("{}: the metadata `{key}` {problem}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The tensor could not be made, or not be read from its device.
    #[error("{}: {source}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<kiln_runtime::Error>,
    },
}

/// Names as a sentence has them, the first few of many.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => "none".into(),
        n if n > SHOWN => format!("{} and {} more", shown.join(", "), n - SHOWN),
        _ => shown.join(", "),
    }
}

/// A path, to name in errors.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a>(pub(crate) &'a Path);

impl Named<'_> {
    pub(crate) fn io(self, source: io::Error) -> Error {
        Error::Io { path: self.0.into(), source: Arc::new(source) }
    }

    pub(crate) fn format(self, problem: impl Into<String>) -> Error {
        Error::Format { path: self.0.into(), problem: problem.into() }
    }

    pub(crate) fn element_type(self, elem: impl Into<String>, problem: impl Into<String>) -> Error {
        Error::ElementType { path: self.0.into(), elem: elem.into(), problem: problem.into() }
    }

    pub(crate) fn tensor(self, source: kiln_runtime::Error) -> Error {
        Error::Tensor { path: self.0.into(), source: Box::new(source) }
    }
}
