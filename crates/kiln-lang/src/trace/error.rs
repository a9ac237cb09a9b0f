//! What a kernel can do wrong while it is traced.

use std::fmt;

/// One mistake, at its place in the user's source.
///
/// ```
/// use kiln_lang::{trace, val};
/// let failed = trace("k", kiln_ir::Level::Tile { warps: None }, |_| {
///     let _ = val::<i32>(3_000_000_000i64);
/// });
/// let error = failed.unwrap_err();
/// assert!(error.errors()[0].message.contains("3000000000 does not fit i32"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The source file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub help: String,
}

impl TraceError {
    /// `file:line:column`.
    ///
    /// ```
    /// use kiln_lang::TraceError;
    /// let error = TraceError { file: "a.rs".into(), line: 3, column: 9, message: "no".into(), help: "yes".into() };
    /// assert_eq!((error.location(), error.to_string()), ("a.rs:3:9".into(), "a.rs:3:9: no; yes".into()));
    /// ```
    pub fn location(&self) -> String {
        format!("{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location(), self.message)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for TraceError {}

/// The mistakes found while a kernel was traced, in the order they were made: at least one.
///
/// ```
/// use kiln_lang::{Level, TraceErrors, iota, trace};
/// let errors: TraceErrors = trace("sums", Level::Tile { warps: None }, |_| {
///     let _ = iota::<i32>(4).sum_axis(1);
/// })
/// .unwrap_err();
/// let error = &errors.errors()[0];
/// assert_eq!((errors.kernel(), errors.errors().len()), ("sums", 1));
/// assert_eq!(error.message, "shape [4] has no axis 1");
/// assert_eq!(error.location(), format!("{}:{}:{}", error.file, error.line, error.column));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceErrors {
    kernel: String,
    errors: Vec<TraceError>,
}

impl TraceErrors {
    pub(super) fn new(kernel: String, errors: Vec<TraceError>) -> TraceErrors {
        TraceErrors { kernel, errors }
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The mistakes; later ones may follow from earlier ones.
    pub fn errors(&self) -> &[TraceError] {
        &self.errors
    }
}

impl fmt::Display for TraceErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` cannot be traced", self.kernel)?;
        for error in &self.errors {
            write!(f, "\n  {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TraceErrors {}
