//! How a command ends that did not succeed.

use std::path::PathBuf;
use std::process::ExitCode;

/// Why a command failed. The text goes to standard error.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command was asked for something that does not exist or does not fit together.
    #[error("{0}")]
    Usage(String),
    /// Kiln refused or failed.
    #[error(transparent)]
    Kiln(#[from] kiln_runtime::Error),
    /// A measurement failed.
    #[error(transparent)]
    Measurement(kiln_bench::Failure),
    /// A device computed something wrong.
    #[error("{0}")]
    Wrong(String),
    /// A file that was named could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Standard output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
    /// A kernel given as text is wrong; every line names its place.
    #[error("{0}")]
    Source(String),
    /// A program of the user's ended with this status, and has said why.
    #[error("")]
    Program(u8),
    /// Something failed that the output already reports.
    #[error("")]
    Reported,
}

impl Failure {
    /// 2 for a wrong command line, as for those that the argument parser refuses, a program's own
    /// status, else 1.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Usage(_) => 2,
            Failure::Program(status) => *status,
            _ => 1,
        })
    }
}

impl From<kiln_bench::Failure> for Failure {
    fn from(error: kiln_bench::Failure) -> Failure {
        match error {
            kiln_bench::Failure::Output(error) => Failure::Output(error),
            error => Failure::Measurement(error),
        }
    }
}

impl From<kiln_backend::Error> for Failure {
    fn from(error: kiln_backend::Error) -> Failure {
        Failure::Kiln(error.into())
    }
}
