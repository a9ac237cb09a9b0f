//! The conformance suite on the code that GPUs get, without a GPU: every kernel is compiled as for
//! an H100, written as PTX for three generations, and its last stage before PTX that the
//! interpreter supports is run by it: over threads, or with tasks. With `KILN_PTXAS` the PTX is
//! assembled too. `shaders.rs` writes the kernels in the languages of other APIs, and `rows.rs`
//! looks at what vectors of rows become.

mod rows;
mod shaders;
#[path = "../suite/mod.rs"]
mod suite;

use kiln_backend::{Error, Result};
use kiln_cuda::{compile_to_ptx, ptx, threads_to_ptx};
use kiln_fuzz::GpuCode;
use kiln_interp::Options;
use kiln_ir::{Kernel, OpKind};
use kiln_runtime::{Device, DiskCache};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};

fn main() -> ExitCode {
    let open = || {
        let backend = GpuCode::new(Options::fast()).with_check(assembles);
        Ok(Device::with_backend(Box::new(backend), DiskCache::none()))
    };
    let code = suite::run(
        open,
        suite::Threads::Cores,
        |_| true,
        vec![assembled(), validated(), compiled_as_browser(), rows::trial()],
    );
    println!("{} shaders were written", shaders::written());
    code
}

/// Stands for the validation of all shaders: ignored where there is no `spirv-val`.
fn validated() -> libtest_mimic::Trial {
    let missing = !shaders::has_validator();
    libtest_mimic::Trial::test("every_shader_is_accepted_by_spirv_val", || Ok(())).with_ignored_flag(missing)
}

/// Stands for the WGSL for browsers: ignored where there is no `tint`.
fn compiled_as_browser() -> libtest_mimic::Trial {
    let missing = !shaders::has_tint();
    libtest_mimic::Trial::test("every_shader_is_accepted_by_tint", || Ok(())).with_ignored_flag(missing)
}

/// Stands for the assembling of all cases: ignored where no assembler is named, and nothing is
/// assembled.
fn assembled() -> libtest_mimic::Trial {
    let ptxas = std::env::var_os("KILN_PTXAS");
    let missing = ptxas.is_none();
    let starts = move || {
        let ptxas = ptxas.ok_or("no KILN_PTXAS to assemble with")?;
        match Command::new(ptxas).arg("--version").output() {
            Ok(output) if output.status.success() => Ok(()),
            other => Err(format!("the assembler does not start: {other:?}").into()),
        }
    };
    libtest_mimic::Trial::test("every_case_is_assembled_by_ptxas", starts).with_ignored_flag(missing)
}

/// Compute capabilities besides that of an H100.
const OTHER_GENERATIONS: [(u32, u32); 3] = [TURING, (8, 0), (10, 0)];
/// One without instructions for bf16, so that what has bf16 is assembled for it too.
const TURING: (u32, u32) = (7, 5);

/// Assembles PTX, where an assembler is known.
fn assemble(kernel: &str, text: &str) -> Result<()> {
    let Some(ptxas) = std::env::var_os("KILN_PTXAS") else { return Ok(()) };
    let failed =
        |message: String| Error::Compile { kernel: kernel.into(), location: "ptxas".into(), message };
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(format!("kiln-gpu-code-{process}-{thread:?}.ptx"));
    let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(ptxas);
    let target = text.lines().find_map(|line| line.strip_prefix(".target "));
    let arch = format!("-arch={}", target.unwrap_or_default().trim_end());
    command.args([&arch, "-O1", "-o", "/dev/null"]).arg(&path).stdout(Stdio::piped());
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // Of products of warpgroups that wait for each other it only informs.
    if output.status.success() && !said.contains("serialized") {
        return Ok(());
    }
    Err(failed(format!("{said}\n{text}")))
}

/// Runs a check of what the kernel becomes, unless one of an equal kernel has passed: ring kernels
/// are compiled again for every grid.
fn once(kernel: &Kernel, check: impl FnOnce() -> Result<()>) -> Result<()> {
    static PASSED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    let passed = || PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut hasher = DefaultHasher::new();
    kernel.to_string().hash(&mut hasher);
    let own = hasher.finish();
    if !passed().contains(&own) {
        check()?;
        passed().insert(own);
    }
    Ok(())
}

/// Compiles a kernel for every generation that has what it needs, and assembles it for an H100.
fn assembles(kernel: &Kernel, threads: Option<&Kernel>) -> Result<()> {
    let of = |compute| ptx::Target { compute, ptx: (9, 0) };
    let hopper = of((9, 0));
    once(kernel, || {
        // The operations of the explicit level are those of one generation.
        let Some(threads) = threads else {
            return assemble(&kernel.name, &compile_to_ptx(kernel, hopper)?.text);
        };
        shaders::check(kernel)?;
        // There are no clusters and no atomics of 128 bits before compute capability 9.0.
        let mut since_hopper = kernel.cluster != 1;
        kernel.walk(|_, data| since_hopper |= matches!(data.kind, OpKind::Atomic128 { .. }));
        let has_bf16 = kernel.to_string().contains("bf16");
        for compute in OTHER_GENERATIONS.into_iter().filter(|&g| g >= (9, 0) || !since_hopper) {
            match compile_to_ptx(kernel, of(compute)) {
                Ok(module) if compute == TURING && has_bf16 => assemble(&kernel.name, &module.text)?,
                Ok(_) => {}
                // Made for a GPU with more shared memory.
                Err(Error::LaunchLimit { .. }) if compute == TURING => {}
                Err(error) => return Err(error),
            }
        }
        assemble(&kernel.name, &threads_to_ptx(threads, hopper)?.text)
    })
}
