//! Random kernels through NVIDIA's assembler, as the driver compiles them: it must neither refuse
//! one nor crash. `KILN_PTXAS` names the assembler; without it the tests are ignored, a mode each.

use kiln_cuda::{compile_to_ptx, ptx};
use kiln_fuzz::compare::seeds;
use kiln_fuzz::generate::generate;
use kiln_fuzz::{Case, Mode};
use libtest_mimic::{Arguments, Failed, Trial};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let assembler = std::env::var_os("KILN_PTXAS").filter(|path| !path.is_empty());
    let tests = Mode::ALL.map(|mode| {
        let assembler = assembler.clone();
        let missing = assembler.is_none();
        let run = move || assemble_mode(mode, assembler.ok_or("no KILN_PTXAS to assemble with")?);
        Trial::test(format!("{}_by_ptxas", mode.name()), run).with_ignored_flag(missing)
    });
    libtest_mimic::run(&Arguments::from_args(), tests.into()).exit_code()
}

fn assemble_mode(mode: Mode, assembler: OsString) -> Result<(), Failed> {
    let mut failed = Vec::new();
    let mut first = None;
    for seed in seeds(0..12) {
        let case = generate(seed, &mode.options(seed, true));
        if let Err(message) = assemble(&case, &assembler) {
            failed.push(format!("seed {seed}: {message}"));
            first.get_or_insert(case);
        }
    }
    match first {
        None => Ok(()),
        Some(case) => Err(format!("{}\nthe first:\n{case}", failed.join("\n")).into()),
    }
}

fn assemble(case: &Case, assembler: &OsStr) -> Result<(), String> {
    let hopper = ptx::Target { compute: (9, 0), ptx: (9, 0) };
    let compiled = compile_to_ptx(&case.kernel, hopper).map_err(|e| e.to_string())?;
    let mut file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    file.write_all(compiled.text.as_bytes()).map_err(|e| e.to_string())?;
    let output = Command::new(assembler).args(["-arch=sm_90a", "-o", "/dev/null"]).arg(file.path()).output();
    let output = output.map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = [output.stdout, output.stderr].concat();
            Err(format!("{}: {}", output.status, String::from_utf8_lossy(&said).trim()))
        }
    }
}
