//! Writing a file in place of one that may be there.

use crate::error::{Named, Result};
use std::ffi::OsString;
use std::fs::{self, File};

/// Lets `write` fill a file beside the one that is named, then gives it that name. If anything
/// fails, what was there before is there still.
pub(crate) fn replace(file: Named<'_>, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let mut name = OsString::from(".");
    name.push(file.0.file_name().ok_or_else(|| file.format("this path names no file"))?);
    name.push(format!(".{}.partial", std::process::id()));
    let beside = file.0.with_file_name(name);
    let written = File::create(&beside)
        .map_err(|e| file.io(e))
        .and_then(|mut target| write(&mut target))
        .and_then(|()| fs::rename(&beside, file.0).map_err(|e| file.io(e)));
    if written.is_err() {
        // It may not even be there; the first error is the one to report.
        let _ = fs::remove_file(&beside);
    }
    written
}
