//! What a program of the user's writes down for the command that runs it: a record for each device
//! it opens and each fault.

use crate::failure::Failure;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// The file of the records, removed with this.
pub struct Records {
    file: PathBuf,
}

impl Records {
    /// A file that is not there yet, for a command.
    pub fn new(command: &str) -> Records {
        let file = std::env::temp_dir().join(format!("kiln-{command}-{}", std::process::id()));
        // One of a process that had this number before.
        let _ = std::fs::remove_file(&file);
        Records { file }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// The records so far; none if nothing was written.
    pub fn read(&self) -> Result<Vec<String>, Failure> {
        let bytes = match std::fs::read(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            other => other.map_err(|source| Failure::File { path: self.file.clone(), source })?,
        };
        let records = bytes.split(|&byte| byte == 0).filter(|record| !record.is_empty());
        Ok(records.map(|record| String::from_utf8_lossy(record).into_owned()).collect())
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// The failure of a program that has opened no device.
pub fn no_device(program: &Path, status: ExitStatus) -> Failure {
    Failure::Wrong(format!(
        "`{}` has opened no device ({status}); is it a program that uses this version of Kiln, with the feature \
         `interp`?",
        program.display()
    ))
}
