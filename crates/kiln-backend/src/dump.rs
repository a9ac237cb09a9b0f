//! `KILN_DUMP`: a running program writes the stages of each kernel that it compiles as files.

use crate::{Error, Result};
use kiln_ir::Kernel;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The environment variable with the stages to write, such as `ir,ptx`.
pub const DUMP_VARIABLE: &str = "KILN_DUMP";
/// The environment variable with the folder to write them to; `kiln-dump` without it.
pub const DUMP_FOLDER_VARIABLE: &str = "KILN_DUMP_DIR";

/// A stage of compiling, as [`DUMP_VARIABLE`] names it. The names are the endings of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DumpStage {
    /// The kernel as it was recorded and specialized.
    Ir,
    /// The IR of threads that the code of a GPU is written from.
    Tir,
    /// PTX, of an NVIDIA GPU.
    Ptx,
    /// Machine code of an NVIDIA GPU, where a disassembler is found.
    Sass,
    /// Cranelift's IR, of the CPU.
    Clif,
    /// WebGPU's language.
    Wgsl,
    /// SPIR-V.
    Spv,
}

impl DumpStage {
    /// All of them.
    pub const ALL: [DumpStage; 7] = [
        DumpStage::Ir,
        DumpStage::Tir,
        DumpStage::Ptx,
        DumpStage::Sass,
        DumpStage::Clif,
        DumpStage::Wgsl,
        DumpStage::Spv,
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            DumpStage::Ir => "ir",
            DumpStage::Tir => "tir",
            DumpStage::Ptx => "ptx",
            DumpStage::Sass => "sass",
            DumpStage::Clif => "clif",
            DumpStage::Wgsl => "wgsl",
            DumpStage::Spv => "spv",
        }
    }
}

/// Which stages are written, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    stages: Vec<DumpStage>,
    folder: PathBuf,
}

impl Dump {
    /// What the environment asks for: nothing, most often.
    ///
    /// # Errors
    /// [`Error::Unavailable`] for a stage that there is none of, with the list of those there are.
    pub fn of_environment() -> Result<Option<&'static Dump>> {
        static DUMP: LazyLock<Result<Option<Dump>>> = LazyLock::new(|| {
            let Some(stages) = std::env::var_os(DUMP_VARIABLE) else { return Ok(None) };
            let folder = std::env::var_os(DUMP_FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
            Dump::parse(&stages.to_string_lossy(), folder.map_or_else(|| "kiln-dump".into(), PathBuf::from))
        });
        DUMP.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    /// A list of stages with commas between them; `None` for an empty one.
    ///
    /// ```
    /// use kiln_backend::{Dump, DumpStage};
    /// let dump = Dump::parse("ir, ptx", "/tmp".into())?.unwrap();
    /// assert!(dump.has(DumpStage::Ptx) && !dump.has(DumpStage::Clif));
    /// assert!(Dump::parse(" ", "/tmp".into())?.is_none());
    /// let error = Dump::parse("ir,asm", "/tmp".into()).unwrap_err().to_string();
    /// assert!(error.contains("`asm`") && error.contains("ir, tir, ptx, sass, clif, wgsl, spv"));
    /// # Ok::<(), kiln_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`of_environment`](Self::of_environment).
    pub fn parse(stages: &str, folder: PathBuf) -> Result<Option<Dump>> {
        let mut found = Vec::new();
        for name in stages.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let stage = DumpStage::ALL.into_iter().find(|stage| stage.name() == name);
            found.push(stage.ok_or_else(|| unknown(name))?);
        }
        Ok((!found.is_empty()).then_some(Dump { stages: found, folder }))
    }

    /// Whether a stage is written.
    pub fn has(&self, stage: DumpStage) -> bool {
        self.stages.contains(&stage)
    }

    /// Where the files are written.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a stage of a kernel, of which `contents` makes the file, for a device of this name:
    /// as `KERNEL-DIGEST.DEVICE.STAGE`, and as `KERNEL-DIGEST.ir` the IR, which is of no device.
    /// The digest is that of the kernel as it was specialized, in all of its files.
    ///
    /// What cannot be written, or made, is a line on the standard error; the program goes on.
    pub fn write(
        &self,
        stage: DumpStage,
        (kernel, device): (&Kernel, &str),
        contents: impl FnOnce() -> std::result::Result<Vec<u8>, String>,
    ) {
        if !self.has(stage) {
            return;
        }
        let path = self.folder.join(file_name(stage, kernel, device));
        let written = contents().and_then(|contents| {
            std::fs::create_dir_all(&self.folder)
                .and_then(|()| std::fs::write(&path, contents))
                .map_err(|e| e.to_string())
        });
        if let Err(error) = written {
            warn(&format!("{DUMP_VARIABLE}: no `{}`: {error}", path.display()));
        }
    }
}

/// Writes a stage, if the environment asks for it: see [`Dump::write`].
pub fn dump(
    stage: DumpStage,
    of: (&Kernel, &str),
    contents: impl FnOnce() -> std::result::Result<Vec<u8>, String>,
) {
    // A name that there is none of was an error before anything was compiled.
    if let Ok(Some(dump)) = Dump::of_environment() {
        dump.write(stage, of, contents);
    }
}

fn unknown(name: &str) -> Error {
    let names: Vec<&str> = DumpStage::ALL.iter().map(|stage| stage.name()).collect();
    Error::Unavailable {
        device: format!("a dump of `{name}`"),
        reason: format!("{DUMP_VARIABLE} names stages of compiling, and none has that name"),
        hint: format!("Write some of {}, with commas between them, or unset it.", names.join(", ")),
    }
}

fn file_name(stage: DumpStage, kernel: &Kernel, device: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
    };
    let (name, digest, stage_name) = (plain(&kernel.name), digest(kernel), stage.name());
    match stage {
        DumpStage::Ir => format!("{name}-{digest:016x}.{stage_name}"),
        _ => format!("{name}-{digest:016x}.{}.{stage_name}", plain(device)),
    }
}

/// A digest of a kernel's text, with the places of its operations: FNV-1a in 64 bits.
fn digest(kernel: &Kernel) -> u64 {
    struct Fnv(u64);
    impl std::fmt::Write for Fnv {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            for byte in text.bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            Ok(())
        }
    }
    let mut digest = Fnv(0xcbf2_9ce4_8422_2325);
    // Writing to it does not fail.
    let _ = write!(digest, "{kernel:#}");
    digest.0
}

/// Prints a line once.
fn warn(line: &str) {
    static WARNED: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    // Changed by insertions only.
    if WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(line.to_owned()) {
        eprintln!("kiln: {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(text: &str) -> Kernel {
        kiln_ir::parse(text).unwrap()
    }

    #[test]
    fn files_are_named_by_kernel_digest_device_and_stage() {
        let folder = std::env::temp_dir().join(format!("kiln-dump-{}", std::process::id()));
        let dump = Dump::parse("ir,clif", folder.clone()).unwrap().unwrap();
        let [a, b] = ["kernel @k() tile {\n}\n", "kernel @k(%n: i64) tile {\n}\n"].map(kernel);
        for kernel in [&a, &b] {
            dump.write(DumpStage::Ir, (kernel, "cpu"), || Ok(b"ir".to_vec()));
            dump.write(DumpStage::Clif, (kernel, "cuda:0"), || Ok(b"code".to_vec()));
            dump.write(DumpStage::Clif, (kernel, "none"), || Err("for the test".to_owned()));
            dump.write(DumpStage::Ptx, (kernel, "cpu"), || panic!("it is not asked for"));
        }
        let mut names: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        std::fs::remove_dir_all(&folder).unwrap();
        names.sort_unstable();
        let mut expected: Vec<String> = [digest(&a), digest(&b)]
            .iter()
            .flat_map(|digest| [format!("k-{digest:016x}.cuda-0.clif"), format!("k-{digest:016x}.ir")])
            .collect();
        expected.sort();
        assert_ne!(digest(&a), digest(&b));
        assert_eq!(names, expected);
    }

    #[test]
    fn the_digest_is_fnv_1a() {
        let text = format!("{:#}", kernel("kernel @k() tile {\n}\n"));
        let by_hand = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(1_099_511_628_211));
        assert_eq!(digest(&kernel("kernel @k() tile {\n}\n")), by_hand);
    }
}
