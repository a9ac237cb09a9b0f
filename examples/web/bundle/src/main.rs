//! Builds the page: compiles it to WebAssembly, writes the JavaScript that loads it, and copies the
//! files beside it. From the root of the repository:
//!
//! ```text
//! cargo run --manifest-path examples/web/Cargo.toml -p bundle      # into target/web
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};
use wasm_bindgen_cli_support::Bindgen;

const TARGET: &str = "wasm32-unknown-unknown";

fn main() -> ExitCode {
    match bundle() {
        Ok(folder) => {
            println!("{}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the folder of the page.
fn bundle() -> Result<PathBuf, Box<dyn Error>> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| web.join("../../target"), PathBuf::from);
    let built = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--release", "--locked", "--package", "kiln-web", "--target", TARGET])
        .arg("--manifest-path")
        .arg(web.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()?;
    if !built.success() {
        return Err(format!("the page does not compile; `rustup target add {TARGET}` may be missing").into());
    }
    let folder = target.join("web");
    let wasm = target.join(TARGET).join("release/kiln_web.wasm");
    Bindgen::new()
        .input_path(wasm)
        .web(true)?
        .typescript(false)
        .remove_name_section(true)
        .generate(&folder)?;
    for entry in fs::read_dir(web.join("page"))? {
        let path = entry?.path();
        if let Some(name) = path.file_name() {
            fs::copy(&path, folder.join(name))?;
        }
    }
    Ok(folder.canonicalize()?)
}
