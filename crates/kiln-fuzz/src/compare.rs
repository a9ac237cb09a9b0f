//! Comparing what two ways of running a random kernel leave behind.

use crate::case::Case;
use crate::generate::{Options, generate};
use crate::reduce::reduce;
use crate::run::{Outcome, difference};
use kiln_backend::FaultKind;
use std::ops::Range;

/// The seeds to try: those of the environment variable `KILN_FUZZ_SEEDS`, such as `1000..5000`, or
/// these.
pub fn seeds(default: Range<u64>) -> Range<u64> {
    let set = std::env::var("KILN_FUZZ_SEEDS").ok();
    let range = set.as_deref().and_then(|text| text.split_once(".."));
    match range.map(|(from, to)| (from.trim().parse(), to.trim().parse())) {
        Some((Ok(from), Ok(to))) => from..to,
        _ => default,
    }
}

/// One way of running a kernel; an error is a sentence.
pub type Way<'a> = dyn Fn(&Case) -> Result<Outcome, String> + 'a;

/// Runs the kernels of some seeds both ways. The first that differ are made smaller and described.
///
/// # Errors
/// The seed, the difference and the reduced kernel.
pub fn compare(
    seeds: Range<u64>,
    options: impl Fn(u64) -> Options,
    reference: &Way<'_>,
    tested: &Way<'_>,
) -> Result<(), String> {
    for seed in seeds {
        let case = generate(seed, &options(seed));
        let broken = match reference(&case) {
            Ok(Outcome { fault: Some(fault @ FaultKind::Sanitizer { .. }), .. }) => {
                Some(format!("{fault:?}"))
            }
            Ok(_) => None,
            Err(message) => Some(message),
        };
        if let Some(message) = broken {
            return Err(format!("seed {seed}: the reference says {message}\n{}", case.kernel));
        }
        let Some(found) = disagreement(&case, reference, tested) else { continue };
        let smaller = |kernel: &kiln_ir::Kernel| Case { kernel: kernel.clone(), ..case.clone() };
        let kernel = reduce(&case.kernel, |k| disagreement(&smaller(k), reference, tested).is_some());
        let case = smaller(&kernel);
        let reduced = disagreement(&case, reference, tested).unwrap_or_default();
        return Err(format!(
            "seed {seed}: {found}; reduced: {reduced}\ngrid {:?}, arguments {:?}\n{kernel}",
            case.grid, case.arguments
        ));
    }
    Ok(())
}

/// What is different; `None` also where the reference does not run or finds that the kernel breaks
/// a promise, which happens to reduced kernels.
fn disagreement(case: &Case, reference: &Way<'_>, tested: &Way<'_>) -> Option<String> {
    let expected = reference(case).ok()?;
    if matches!(expected.fault, Some(FaultKind::Sanitizer { .. })) {
        return None;
    }
    match tested(case) {
        Ok(outcome) => difference(&expected, &outcome, 0.0),
        Err(message) => Some(message),
    }
}
