//! Machine code as text, by a disassembler of NVIDIA's toolkit, where one is installed.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// The disassemblers, in the order in which they are tried, with what is said before the file.
const DISASSEMBLERS: [(&str, &[&str]); 2] =
    [("nvdisasm", &["--print-code"]), ("cuobjdump", &["--dump-sass"])];

/// The text of a cubin's code, or why there is none.
pub(super) fn disassemble(cubin: &[u8]) -> Result<Vec<u8>, String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("kiln-{}-{number}.cubin", std::process::id()));
    std::fs::write(&path, cubin).map_err(|error| format!("`{}`: {error}", path.display()))?;
    let text = by_any(&path);
    // What is left of it there is the system's to clean up.
    let _ = std::fs::remove_file(&path);
    text
}

fn by_any(path: &Path) -> Result<Vec<u8>, String> {
    for (program, options) in DISASSEMBLERS {
        match Command::new(program).args(options).arg(path).output() {
            Ok(output) if output.status.success() => return Ok(output.stdout),
            Ok(output) => {
                return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{program}: {error}")),
        }
    }
    Err("there is neither `nvdisasm` nor `cuobjdump` in PATH, of NVIDIA's toolkit".to_owned())
}
