//! This machine, as Cranelift generates code for it.

use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use kiln_cpu_primitives::Isa;
use std::sync::{LazyLock, OnceLock};

/// This machine, for Cranelift.
pub(crate) fn target() -> &'static Result<OwnedTargetIsa, String> {
    static TARGET: OnceLock<Result<OwnedTargetIsa, String>> = OnceLock::new();
    TARGET.get_or_init(|| {
        let mut flags = settings::builder();
        let verify = if cfg!(debug_assertions) { "true" } else { "false" };
        for (name, value) in [
            ("use_colocated_libcalls", "false"),
            ("is_pic", "false"),
            ("opt_level", "speed"),
            ("enable_verifier", verify),
            ("unwind_info", "false"),
        ] {
            flags.set(name, value).map_err(|e| format!("Cranelift has no setting {name}: {e}"))?;
        }
        let isa =
            cranelift_native::builder().map_err(|e| format!("Cranelift does not know this machine: {e}"))?;
        isa.finish(settings::Flags::new(flags))
            .map_err(|e| format!("Cranelift cannot target this machine: {e}"))
    })
}

/// What code for this machine needs of another: the system's conventions, the instruction sets that
/// Cranelift uses and the one that vectors of lanes are made for.
pub(crate) fn needs() -> &'static str {
    static NEEDS: LazyLock<String> = LazyLock::new(|| {
        let Ok(isa) = target() else { return "nothing that there is".to_owned() };
        let sets = isa.isa_flags().into_iter().filter(|flag| flag.as_bool() == Some(true));
        let sets: Vec<&str> = sets.map(|flag| flag.name).collect();
        format!("{}, {}, {:?}", isa.triple(), sets.join(" "), Isa::best()).to_lowercase()
    });
    &NEEDS
}

/// The version of what generates code and of what it calls: a digest of their sources (`build.rs`).
pub(crate) fn maker() -> String {
    let (version, cranelift) = (env!("CARGO_PKG_VERSION"), cranelift_codegen::VERSION);
    format!("kiln-cpu {version} {}, Cranelift {cranelift}", env!("KILN_SOURCE_DIGEST"))
}
