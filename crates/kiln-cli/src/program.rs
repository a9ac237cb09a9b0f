//! A program of the user's, which a command runs.

use crate::failure::Failure;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Runs a program of the user's to its end.
///
/// A name without a folder is looked for in `PATH`, as in a shell: where it is a file of this
/// folder, the error says how to name it.
pub fn run(command: &mut Command, program: &Path) -> Result<ExitStatus, Failure> {
    command.status().map_err(|source| {
        let is_here = source.kind() == ErrorKind::NotFound
            && program.components().count() == 1
            && Path::new(".").join(program).is_file();
        if is_here {
            let name = program.display();
            return Failure::Wrong(format!(
                "there is no `{name}` in PATH; the one in this folder is ./{name}"
            ));
        }
        Failure::File { path: program.to_owned(), source }
    })
}

/// The signal that a program was killed by.
pub fn signal(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    {
        let _ = status;
        None
    }
}
