//! A case of the suite, and how it ends.

use crate::trial::{Trial, Verdict, Why};
use kiln_runtime::{Device, Error};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a launch lacks that needs more shared memory than a block can have.
const SHARED_MEMORY: &str = "bytes of shared memory per block";

/// Bytes of shared memory that the suite's kernels may ask for, which NVIDIA's GPUs have from
/// compute capability 8.0 on. On a device with less, cases that need more are skipped.
const LEAST_SHARED_MEMORY: u64 = 99 << 10;

/// Bytes of a tensor that the suite's cases may ask for. On a device whose kernels reach fewer of
/// one at once, cases that need more are skipped.
const LEAST_SPAN: u64 = 1 << 30;

/// Whether a limit that was exceeded is one that devices of less size have.
fn is_small_device(what: &str, limit: u64) -> bool {
    let is_span = what.starts_with("the bytes that ");
    (what == SHARED_MEMORY && limit < LEAST_SHARED_MEMORY) || (is_span && limit < LEAST_SPAN)
}

/// Something that every device must do.
#[derive(Clone, Copy)]
pub struct Case {
    /// The group, the case and where there are several the element type, such as
    /// `casts::from::f32`.
    pub name: &'static str,
    pub(crate) body: fn(&mut Trial<'_>) -> Verdict,
    /// Whether it is about ring kernels, which need resident launches.
    pub(crate) is_resident: bool,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All values were as expected.
    Passed,
    /// Something was not; the text says what, and how to repeat it.
    Failed(String),
    /// The device lacks a capability, which the text names.
    Skipped(String),
}

impl Case {
    /// The case as one about ring kernels.
    pub(crate) fn resident(self) -> Case {
        Case { is_resident: true, ..self }
    }

    /// Runs the case on a device with random input that follows from the seed.
    ///
    /// A panic is a failure of the case, not of the suite.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let case = kiln_conformance::suite().into_iter().find(|c| c.name == "tensors::round_trip::f32");
    /// assert_eq!(case.map(|c| c.run(&device, 1)), Some(kiln_conformance::Outcome::Passed));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn run(&self, device: &Device, seed: u64) -> Outcome {
        if self.is_resident && device.backend().residents().is_none() {
            return Outcome::Skipped("resident launches".to_owned());
        }
        let mut trial = Trial::new(device, seed, self.name);
        let verdict = catch_unwind(AssertUnwindSafe(|| (self.body)(&mut trial)));
        // A fault that a failing case left behind must not fall on the next one.
        let after = device.synchronize();
        let failed = |why: String| Outcome::Failed(format!("{why} (seed {seed})"));
        match verdict {
            Ok(Ok(())) => match after {
                Ok(()) => Outcome::Passed,
                Err(error) => failed(format!("the device reported an error after the case: {error}")),
            },
            Ok(Err(stop)) => {
                match stop.why() {
                    Why::Kiln(Error::Device(kiln_backend::Error::Unsupported { what, .. })) => {
                        Outcome::Skipped(what.clone())
                    }
                    Why::Kiln(Error::Device(kiln_backend::Error::LaunchLimit {
                        what, given, limit, ..
                    })) if is_small_device(what, *limit) => Outcome::Skipped(format!("{given} {what}")),
                    Why::Missing(what) => Outcome::Skipped((*what).to_owned()),
                    _ => match stop.loop_limit() {
                        Some(rounds) => Outcome::Skipped(format!("loops of more than {rounds} rounds")),
                        None => failed(stop.to_string()),
                    },
                }
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                failed(format!("panicked: {}", text.unwrap_or("with no message")))
            }
        }
    }
}

/// A list of cases: `name;`, or `name for types;` where `name` is generic.
macro_rules! cases {
    ($group:literal: $($name:ident $(for $($t:ty)+)?;)*) => {
        [$($crate::case::cases!(@list $group $name $($($t)+)?)),*].concat()
    };
    (@list $group:literal $name:ident) => {
        vec![$crate::case::Case { name: concat!($group, "::", stringify!($name)), body: $name, is_resident: false }]
    };
    (@list $group:literal $name:ident $($t:ty)+) => {
        vec![$($crate::case::Case {
            name: concat!($group, "::", stringify!($name), "::", stringify!($t)),
            body: $name::<$t>,
            is_resident: false,
        }),+]
    };
}
pub(crate) use cases;
