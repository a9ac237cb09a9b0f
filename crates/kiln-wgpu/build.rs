//! A digest of the sources that decide what code is generated, for the key of programs kept on
//! disk: after a change of the compiler no program of the old one may be loaded. Outside of this
//! repository the sibling crates are not there, and their versions do the same.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() {
    let mut hasher = DefaultHasher::new();
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    for folder in ["src", "../kiln-compiler/src", "../kiln-ir/src", "../kiln-backend/src"] {
        let folder = here.join(folder);
        if folder.is_dir() {
            println!("cargo::rerun-if-changed={}", folder.display());
            digest(&folder, &mut hasher)
                .unwrap_or_else(|e| println!("cargo::error={}: {e}", folder.display()));
        }
    }
    println!("cargo::rustc-env=KILN_SOURCE_DIGEST={:016x}", hasher.finish());
}

fn digest(folder: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            digest(&path, hasher)?;
        } else {
            path.file_name().hash(hasher);
            fs::read(&path)?.hash(hasher);
        }
    }
    Ok(())
}
