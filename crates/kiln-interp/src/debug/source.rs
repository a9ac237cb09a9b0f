//! Source files: locations name them as the compiler was given them, relative to the folder of the
//! workspace.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a file's path is, or ends in, the path that a user wrote.
pub fn same_file(name: &str, written: &str) -> bool {
    Path::new(name).ends_with(written.trim_start_matches("./"))
}

/// Source files that were read, and where to look for others.
#[derive(Default)]
pub struct Sources {
    folders: Vec<PathBuf>,
    read: HashMap<String, Option<Arc<Vec<String>>>>,
}

impl Sources {
    /// Looks in a folder too.
    pub fn add_folder(&mut self, folder: &str) {
        self.folders.insert(0, folder.into());
        self.read.retain(|_, lines| lines.is_some());
    }

    /// The lines of a file; `None` if it is found neither where it says, nor below a folder around
    /// the working directory or the program.
    pub fn lines(&mut self, file: &str) -> Option<Arc<Vec<String>>> {
        if let Some(known) = self.read.get(file) {
            return known.clone();
        }
        let program = std::env::current_exe().ok();
        let here = std::env::current_dir().ok();
        let around = [here.as_deref(), program.as_deref()].into_iter().flatten().flat_map(Path::ancestors);
        let mut folders = self.folders.iter().map(PathBuf::as_path).chain(around);
        let text = folders.find_map(|folder| std::fs::read_to_string(folder.join(file)).ok());
        let lines = text.map(|text| Arc::new(text.lines().map(str::to_owned).collect::<Vec<_>>()));
        self.read.insert(file.to_owned(), lines.clone());
        lines
    }

    /// A line of a file with its number.
    pub fn line(&mut self, file: &str, line: u32) -> Option<String> {
        let lines = self.lines(file)?;
        Some(format!("{line:<5} {}", lines.get(line.checked_sub(1)? as usize)?))
    }
}
