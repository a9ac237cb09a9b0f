//! Test programs whose tests assemble PTX: what was not assembled is counted as skipped, by name.
//!
//! With the assembler that `KILN_PTXAS` names (`tools/ptxas.sh --path`) a test runs as `name`.
//! Without one it runs as `name::text`, which looks at no more than the text, and `name` is
//! ignored.

use libtest_mimic::{Arguments, Failed, Trial};
use std::ffi::OsString;
use std::process::ExitCode;

/// The assembler, if one is named.
pub fn path() -> Option<OsString> {
    std::env::var_os("KILN_PTXAS").filter(|path| !path.is_empty())
}

/// How a test ends: with nothing, or with a result.
pub trait Ending {
    fn ending(self) -> Result<(), Failed>;
}

impl Ending for () {
    fn ending(self) -> Result<(), Failed> {
        Ok(())
    }
}

impl<E: std::fmt::Display> Ending for Result<(), E> {
    fn ending(self) -> Result<(), Failed> {
        self.map_err(Failed::from)
    }
}

/// A test, and whether it assembles anything.
pub struct Test {
    pub name: &'static str,
    pub assembles: bool,
    pub run: fn() -> Result<(), Failed>,
}

/// Runs the tests; `text` says whether a test that assembles looks at the text too.
pub fn run(text: bool, tests: Vec<Test>) -> ExitCode {
    let missing = path().is_none();
    let trials = tests.into_iter().flat_map(|Test { name, assembles, run }| {
        let skipped = assembles && missing;
        let rest = (skipped && text).then(|| Trial::test(format!("{name}::text"), run));
        let whole = move || if skipped { Err(Failed::from("no KILN_PTXAS to assemble with")) } else { run() };
        [Some(Trial::test(name, whole).with_ignored_flag(skipped)), rest]
    });
    libtest_mimic::run(&Arguments::from_args(), trials.flatten().collect()).exit_code()
}

/// The `main` of a test program: the tests that assemble, and after `plain` those that do not.
macro_rules! tests {
    (text: $text:literal; $($name:ident)*; plain: $($plain:ident)*) => {
        fn main() -> std::process::ExitCode {
            use assembler::{Ending as _, Test};
            assembler::run($text, vec![
                $(Test { name: stringify!($name), assembles: true, run: || $name().ending() },)*
                $(Test { name: stringify!($plain), assembles: false, run: || $plain().ending() },)*
            ])
        }
    };
}
pub(crate) use tests;
