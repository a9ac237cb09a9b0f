//! Kernels as shaders: WGSL, SPIR-V, MSL and HLSL are written of every one that an adapter could
//! run. Where they are there, `spirv-val` accepts the SPIR-V, and `tint` the WGSL for browsers: the
//! compiler of Chromium's, which shares no code with naga and refuses what naga lets pass.

use kiln_backend::{Error, Result};
use kiln_ir::Kernel;
use kiln_wgpu::{Features, FloatModes, Language, MatrixSize, ShaderTarget, Written, shader};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What GPUs with Apple's name have: no f64. Their shaders are MSL.
const APPLE: Features = Features {
    int64: true,
    float64: false,
    float16: true,
    float_modes: None,
    exact_floats: true,
    exact_multiply_adds: true,
    exact_doubles: true,
    exact_quotients: true,
    exact_roots: true,
    exact_powers: true,
    contracts: false,
    contracts_halves: false,
    loses_nan: false,
    loses_signs: false,
    exact_extrema: false,
    asks_for_proof: false,
    subgroup: Some(32),
    subgroup_barriers: true,
    loop_rounds: None,
    matrices: None,
    warp: 32,
    immediate_bytes: 0,
};

/// Mesa's driver for processors: everything, but for floats that are kept as they are written.
const MESA: Features = Features {
    float64: true,
    exact_floats: false,
    exact_multiply_adds: false,
    exact_powers: false,
    subgroup: Some(8),
    warp: 8,
    immediate_bytes: 256,
    ..APPLE
};

/// A GPU whose driver takes SPIR-V with all modes of floats, computes quotients and roots to a few
/// units of the last place, and contracts products of f16.
const MODES: Features = Features {
    float_modes: Some(FloatModes::ALL),
    float64: true,
    exact_quotients: false,
    exact_roots: false,
    contracts_halves: true,
    immediate_bytes: 256,
    ..APPLE
};

/// What every browser has.
const BROWSER: Features =
    Features { int64: false, float16: false, asks_for_proof: true, subgroup: None, ..APPLE };

/// Shared memory of a block in bytes, which Apple's GPUs have.
const SHARED_MEMORY: u32 = 32 << 10;

/// How many kernels became shaders.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// How many kernels became shaders so far.
pub fn written() -> usize {
    WRITTEN.load(Ordering::Relaxed)
}

/// Whether `spirv-val` is there.
pub fn has_validator() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| {
        let version = Command::new("spirv-val").arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    })
}

/// Whether `tint` is there.
pub fn has_tint() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| {
        let help = Command::new("tint").arg("--help").output();
        // There is a game of that name too.
        help.is_ok_and(|help| String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).contains("wgsl"))
    })
}

/// Whether it knows cooperative matrices, as that of 2024 and later ones do.
fn validates_matrices() -> bool {
    static KNOWS: OnceLock<bool> = OnceLock::new();
    *KNOWS.get_or_init(|| {
        let printed = Command::new("spirv-val").arg("--version").output().map(|output| output.stdout);
        let text = String::from_utf8_lossy(&printed.unwrap_or_default()).into_owned();
        let year = text.split(['v', '.']).find_map(|part| part.parse::<u32>().ok());
        year.is_some_and(|year| year >= 2024)
    })
}

/// Writes a kernel in every language. What no adapter has is refused by name, which is right; any
/// other error is not.
pub fn check(kernel: &Kernel) -> Result<()> {
    let targets: [(Features, &[Language]); 6] = [
        (APPLE, &[Language::Msl, Language::Wgsl]),
        (Features { matrices: Some(MatrixSize::Eight), ..APPLE }, &[Language::Msl]),
        (MESA, &[Language::Spirv, Language::Hlsl]),
        (MODES, &[Language::Spirv]),
        (Features { matrices: Some(MatrixSize::Sixteen), ..MODES }, &[Language::Spirv]),
        (BROWSER, &[Language::Wgsl]),
    ];
    for (features, languages) in targets {
        match written_in(kernel, features, languages) {
            Ok(()) => WRITTEN.fetch_add(1, Ordering::Relaxed),
            Err(Error::Unsupported { .. } | Error::LaunchLimit { .. }) => continue,
            Err(error) => return Err(error),
        };
    }
    Ok(())
}

fn written_in(kernel: &Kernel, features: Features, languages: &[Language]) -> Result<()> {
    let target =
        ShaderTarget { device: "an adapter", features, max_threads: 1024, shared_memory: SHARED_MEMORY };
    let module = shader(kernel, &target)?;
    for &language in languages {
        match module.write(language)? {
            Written::Words(words) if features.matrices.is_none() || validates_matrices() => {
                let environment = if features.float_modes.is_some() { "vulkan1.2" } else { "vulkan1.1" };
                validate(&kernel.name, environment, &words)?;
            }
            Written::Text(text) if features == BROWSER => compile_as_browser(&kernel.name, &text)?,
            Written::Words(_) | Written::Text(_) => {}
        }
    }
    Ok(())
}

/// Compiles WGSL by `tint`, which takes files alone.
fn compile_as_browser(kernel: &str, text: &str) -> Result<()> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    if !has_tint() {
        return Ok(());
    }
    let failed = |message: String| Error::Compile { kernel: kernel.into(), location: "tint".into(), message };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("kiln-{}-{number}.wgsl", std::process::id()));
    std::fs::write(&path, text).map_err(|e| failed(e.to_string()))?;
    let output = Command::new("tint").args(["--format", "wgsl"]).arg(&path).output();
    // A file that is left in the system's folder for such does no harm.
    let _ = std::fs::remove_file(&path);
    let output = output.map_err(|e| failed(e.to_string()))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(()) } else { Err(failed(said)) }
}

fn validate(kernel: &str, environment: &str, words: &[u32]) -> Result<()> {
    if !has_validator() {
        return Ok(());
    }
    let failed =
        |message: String| Error::Compile { kernel: kernel.into(), location: "spirv-val".into(), message };
    let mut command = Command::new("spirv-val");
    command.args(["--target-env", environment, "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().map_err(|e| failed(e.to_string()))?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    if let Some(mut input) = process.stdin.take() {
        input.write_all(&bytes).map_err(|e| failed(e.to_string()))?;
    }
    let output = process.wait_with_output().map_err(|e| failed(e.to_string()))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(()) } else { Err(failed(said)) }
}
