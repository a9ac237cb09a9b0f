//! What a program of the user's writes down for the command that runs it: a record for each device
//! it opens and each fault.

use crate::failure::Failure;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// A file between a command and the program that it runs, removed with this.
pub struct Temporary(PathBuf);

impl Temporary {
    /// A file of a command, with this content.
    ///
    /// It is made at once, so that a temporary folder that cannot be written to is the command's
    /// error; the program says nothing where its records cannot be written.
    pub fn new(command: &str, content: &str) -> Result<Temporary, Failure> {
        let path = std::env::temp_dir().join(format!("kiln-{command}-{}", std::process::id()));
        // One of a process that had this number before.
        let _ = std::fs::remove_file(&path);
        let made = File::create_new(&path).and_then(|mut file| file.write_all(content.as_bytes()));
        match made {
            Ok(()) => Ok(Temporary(path)),
            Err(source) => Err(Failure::File { path, source }),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The records in it, each with a zero byte at its end.
    pub fn records(&self) -> Result<Vec<String>, Failure> {
        let bytes =
            std::fs::read(&self.0).map_err(|source| Failure::File { path: self.0.clone(), source })?;
        let records = bytes.split(|&byte| byte == 0).filter(|record| !record.is_empty());
        Ok(records.map(|record| String::from_utf8_lossy(record).into_owned()).collect())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
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
